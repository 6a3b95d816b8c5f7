"""The examples of docs/queues.md run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "queues.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.DOTALL)


@pytest.mark.parametrize("index", range(len(EXAMPLES)))
def test_the_example_runs(index, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(EXAMPLES[index])
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_there_are_examples():
    assert len(EXAMPLES) == 5
