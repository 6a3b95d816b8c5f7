"""What several test files use."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from bytepath import ProgramError
from bytepath._program import program


@pytest.fixture
def some_bytes() -> Callable[[int], bytes]:
    """Bytes that repeat nowhere, so that a piece in the wrong place shows."""
    return lambda count: random.Random(count).randbytes(count)


@pytest.fixture
def command() -> str:
    """The command `bytepath`; tests of what runs it are skipped where it is not."""
    try:
        return program()
    except ProgramError as error:
        pytest.skip(str(error))


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in an interpreter of its own, which has to end by itself."""

    def run(script: str, *arguments: str, prefix: tuple[str, ...] = ()):
        file = tmp_path / "script.py"
        file.write_text(script)
        return subprocess.run(
            [*prefix, sys.executable, str(file), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )

    return run
