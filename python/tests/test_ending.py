"""How tests end that end their interpreter, or do not end: tools/python looks for what is noted of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def ended(folder: Path, test: str, *options: str) -> tuple[bool, str]:
    """Runs a test as tools/python does; whether it was noted that an interpreter broke off, and what was said."""
    pytest.importorskip("xdist")
    (folder / "test_it.py").write_text(test)
    config = HERE.parent / "pyproject.toml"
    words = ["--rootdir", folder, "--config-file", config, "-o", f"cache_dir={folder}/cache", "-p", "conftest", *options]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--numprocesses", "1", *words, folder / "test_it.py"],
        env={**os.environ, "PYTHONPATH": str(HERE)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return (folder / "cache/v/bytepath/broke-off").exists(), done.stdout


def test_an_interpreter_that_breaks_off_is_noted_and_a_test_that_fails_is_none(tmp_path: Path) -> None:
    noted, said = ended(tmp_path, "def test_it(): assert False")
    assert not noted and "1 failed" in said, said
    noted, said = ended(tmp_path, "import os\ndef test_it(): os._exit(1)")
    assert noted and "1 failed" in said, said


def test_what_hangs_is_ended_and_where_it_was_is_shown(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    assert float(pytestconfig.getini("faulthandler_timeout")) > 0
    hangs = "import threading\ndef test_it(): threading.Event().wait()"
    noted, said = ended(tmp_path, hangs, "-o", "faulthandler_timeout=1")
    assert noted and "in test_it" in said, said
