"""The examples of the documentation do what it says."""

from __future__ import annotations

import doctest
import importlib.util
import re
import sys
from pathlib import Path

import pytest

import bytepath

REPOSITORY = Path(__file__).resolve().parents[2]
HOW = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_the_examples_do_what_the_page_says(command, document, page, tmp_path, monkeypatch):
    pytest.importorskip("pandas")
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"^```pycon\n(.*?)^```$", document(page), re.MULTILINE | re.DOTALL)
    assert examples, f"{page} has no example"
    names: dict[str, object] = {}
    said: list[str] = []
    for number, example in enumerate(examples, 1):
        test = doctest.DocTestParser().get_doctest(example, names, f"{page} {number}", None, 0)
        doctest.DocTestRunner(optionflags=HOW).run(test, out=said.append, clear_globs=False)
        names = test.globs
    assert not said, "".join(said)


def test_the_example_of_the_package_does_what_it_says():
    failed, tried = doctest.testmod(bytepath, optionflags=HOW)
    assert tried > 0 and failed == 0


def test_the_benchmark_runs(command, tmp_path, monkeypatch, capsys):
    path = REPOSITORY / "python" / "benches" / "copies.py"
    spec = importlib.util.spec_from_file_location("copies", path)
    copies = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(copies)
    figures = tmp_path / "figures.json"
    arguments = ["--quick", "--pairs", "1", "--folder", str(tmp_path), "--json", str(figures)]
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    copies.main()
    assert len(capsys.readouterr().out.splitlines()) == 1 + len(copies.works(True))
    assert '"name": "tree 2000 x 4K"' in figures.read_text()
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["figures.json"]
