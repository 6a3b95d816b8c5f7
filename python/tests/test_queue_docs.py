"""The examples of docs/queues.md run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile

import pytest

COUNT = 5


@pytest.fixture
def examples(document):
    return re.findall(r"```python\n(.*?)```", document("docs/queues.md"), re.DOTALL)


@pytest.mark.parametrize("index", range(COUNT))
def test_the_example_runs(index, examples, tmp_path):
    script = tmp_path / "example.py"
    script.write_text(examples[index])
    # Paths of sockets have to be short.
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "TMPDIR": folder}
        ran = subprocess.run([sys.executable, script], env=environment, capture_output=True, text=True, timeout=60)
        left = os.listdir(folder)
    assert (ran.returncode, ran.stderr, left) == (0, "", [])


def test_there_are_examples(examples):
    assert len(examples) == COUNT
