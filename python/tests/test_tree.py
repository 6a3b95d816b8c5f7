"""Copies of trees."""

from __future__ import annotations

import filecmp
import os
import pickle
import shutil
import signal
import sys
import threading
import time
import traceback

import pytest

import bytepath


@pytest.fixture
def tree(tmp_path, some_bytes):
    top = tmp_path / "tree"
    (top / "deep" / "er").mkdir(parents=True)
    for number in range(50):
        (top / "deep" / f"file {number}").write_bytes(some_bytes(number * 1000))
    (top / "deep" / "er" / "run").write_bytes(b"#!/bin/sh\n")
    (top / "deep" / "er" / "run").chmod(0o750)
    os.utime(top / "deep" / "er" / "run", ns=(10**18, 10**18 + 7))
    (top / "link").symlink_to("deep/file 3")
    return top


def same(one, other):
    compared = filecmp.dircmp(one, other)
    if compared.left_only or compared.right_only or compared.funny_files:
        return False
    _, different, odd = filecmp.cmpfiles(one, other, compared.common_files, shallow=False)
    under = (same(os.path.join(one, d), os.path.join(other, d)) for d in compared.common_dirs)
    return not different and not odd and all(under)


@pytest.mark.parametrize("symlinks", [False, True])
def test_a_tree_is_copied_as_shutil_copies_it(command, tree, tmp_path, symlinks):
    shutil.copytree(tree, tmp_path / "theirs", symlinks=symlinks)
    copied = bytepath.copytree(tree, tmp_path / "new" / "ours", symlinks=symlinks)
    ours = tmp_path / "new" / "ours"
    assert same(tmp_path / "theirs", ours)
    assert copied.files == (51 if symlinks else 52)
    assert copied.directories == 3
    assert sum(copied.routes.values()) == copied.bytes
    assert (ours / "link").is_symlink() == symlinks
    for name in ("deep", "deep/er/run", "link"):
        one, other = os.stat(tmp_path / "theirs" / name), os.stat(ours / name)
        assert (one.st_mode, one.st_mtime_ns) == (other.st_mode, other.st_mtime_ns)


def test_a_destination_that_is_there_is_left_alone_unless_asked(command, tree, tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "own").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        bytepath.copytree(tree, tmp_path / "there")
    assert os.listdir(tmp_path / "there") == ["own"]
    bytepath.copytree(tree, tmp_path / "there", dirs_exist_ok=True)
    assert (tmp_path / "there" / "own").read_bytes() == b"mine"
    assert (tmp_path / "there" / "deep" / "file 7").stat().st_size == 7000


def test_a_source_that_is_no_tree_is_told(command, tree, tmp_path):
    with pytest.raises(FileNotFoundError):
        bytepath.copytree(tmp_path / "not-there", tmp_path / "new")
    with pytest.raises(NotADirectoryError):
        bytepath.copytree(tree / "link", tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_what_was_not_copied_is_named_and_the_rest_is_there(command, tree, tmp_path):
    (tree / "dangling").symlink_to("nowhere")
    with pytest.raises(bytepath.TreeError) as raised:
        bytepath.copytree(tree, tmp_path / "new")
    error = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(error, OSError) and error.errno == 2
    assert [e["source"] for e in error.errors] == [str(tree / "dangling")]
    assert (tmp_path / "new" / "deep" / "er" / "run").exists()


def test_an_interrupt_ends_the_command_that_copies(command, tmp_path, monkeypatch):
    # One that does nothing but wait, in its place.
    stand_in = tmp_path / "bytepath"
    stand_in.write_text(f"#!/bin/sh\necho $$ >{tmp_path}/pid\nexec sleep 1000\n")
    stand_in.chmod(0o755)
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(stand_in))
    (tmp_path / "tree").mkdir()

    main = threading.main_thread().ident

    def waits() -> bool:
        """Whether the command runs, and the copy waits for it."""
        stack = traceback.extract_stack(sys._current_frames()[main])
        started = (tmp_path / "pid").exists() and (tmp_path / "pid").read_text()
        return bool(started) and "communicate" in [frame.name for frame in stack]

    def interrupt() -> None:
        while not waits():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        bytepath.copytree(tmp_path / "tree", tmp_path / "new")
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
