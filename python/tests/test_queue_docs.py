"""The examples of docs/queues.md run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

COUNT = 5


@pytest.fixture
def examples(document):
    return re.findall(r"```python\n(.*?)```", document("docs/queues.md"), re.DOTALL)


@pytest.mark.parametrize("index", range(COUNT))
def test_the_example_runs(index, examples, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(examples[index])
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stderr) == (0, "")


def test_there_are_examples(examples):
    assert len(examples) == COUNT
