"""What a file object has read of a pipe or socket before the copy begins, and what goes wrong meanwhile."""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import resource
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import bytepath
from bytepath import _bytepath
from interrupts import interrupted_at
from with_little import spare_descriptors

# Longer than any pause here, so that a copy that waits for nothing is told from one that does not end.
LONG_S = 30.0


@contextmanager
def pipe_with_file(given: bytes, buffering: int = -1) -> Iterator[tuple]:
    """A file object that has read all that was given, of which a line was taken; and what writes to it."""
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb", buffering) as file, os.fdopen(writer, "wb", 0) as source:
        source.write(b"a line\n" + given)
        assert file.readline() == b"a line\n"
        yield file, source


@contextmanager
def full_pipe() -> Iterator[tuple[int, int]]:
    """A pipe that takes nothing any more until somebody reads."""
    reader, writer = os.pipe()
    flags = fcntl.fcntl(writer, fcntl.F_GETFL)
    fcntl.fcntl(writer, fcntl.F_SETFL, flags | os.O_NONBLOCK)
    with pytest.raises(BlockingIOError):
        while True:
            os.write(writer, bytes(4096))
    try:
        yield reader, writer
    finally:
        os.close(reader)
        os.close(writer)


def test_a_buffered_pipe_that_gives_nothing_is_given_up(tmp_path):
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file:
        with pytest.raises(TimeoutError, match="nothing moved") as raised:
            bytepath.copy(file, tmp_path / "b", timeout=0.2)
        os.close(writer)
        assert raised.value.offset == 0
        # It is as it was.
        assert file.read() == b""


def test_a_socket_as_a_file_that_gives_nothing_is_given_up(tmp_path):
    near, far = socket.socketpair()
    with near, far, far.makefile("rb") as file:
        with pytest.raises(TimeoutError, match="nothing moved"):
            bytepath.copy(file, tmp_path / "b", timeout=0.2)
        near.sendall(b"later")
        near.shutdown(socket.SHUT_WR)
        assert file.read() == b"later"


def test_what_was_read_ahead_goes_first_however_much_it_is(tmp_path):
    given = os.urandom(50_000) * 6
    fits = 1 << 20
    with pipe_with_file(b"", fits) as (file, source):
        fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, fits)
        source.write(given)
        assert file.peek() == given
        source.write(b"and the rest")
        copied = bytepath.copy(file, tmp_path / "a", length=200_000)
        assert copied.bytes == 200_000
        source.close()
        assert bytepath.copy(file, tmp_path / "b").bytes == 100_012
    assert (tmp_path / "a").read_bytes() + (tmp_path / "b").read_bytes() == given + b"and the rest"


def test_a_full_pipe_takes_nothing_of_it_in_time():
    with full_pipe() as (_, sink), pipe_with_file(b"read ahead") as (file, _source):
        with pytest.raises(TimeoutError) as raised:
            bytepath.copy(file, sink, timeout=0.2)
        assert (raised.value.offset, raised.value.stranded) == (0, b"read ahead")


def test_nothing_of_it_is_taken_for_a_sink_that_cannot_be_one(tmp_path):
    (tmp_path / "a").write_bytes(b"small")
    with socket.create_server(("127.0.0.1", 0)) as listens, open(tmp_path / "a", "rb") as read_only:
        for sink, why in [(read_only, "not open for writing"), (listens, "listens for connections")]:
            with pipe_with_file(b"read ahead") as (file, source):
                with pytest.raises(bytepath.CopyError, match=why) as raised:
                    bytepath.copy(file, sink)
                assert (raised.value.side, raised.value.stranded) == ("sink", b"")
                source.close()
                assert file.read() == b"read ahead"


def test_a_sink_of_whatever_number_takes_what_was_read_ahead():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = 2000
    if hard != resource.RLIM_INFINITY and hard <= highest:
        pytest.skip("this process may not have so many descriptors")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, highest + 100), hard))
    try:
        with full_pipe() as (reader, writer), pipe_with_file(b"read ahead") as (file, source):
            sink = fcntl.fcntl(writer, fcntl.F_DUPFD, highest)
            source.close()
            drain = threading.Timer(0.1, os.read, (reader, 1 << 20))
            drain.start()
            assert bytepath.copy(file, sink, timeout=LONG_S).bytes == 10
            drain.join()
            assert os.read(reader, 100) == b"read ahead"
            os.close(sink)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_sink_that_fails_leaves_what_was_read_ahead_in_the_error():
    with pipe_with_file(b"read ahead") as (file, _):
        with pytest.raises(bytepath.CopyError) as raised:
            bytepath.copy(file, "/dev/full")
    error = raised.value
    assert (error.errno, error.offset, error.side) == (errno.ENOSPC, 0, "sink")
    assert error.stranded == b"read ahead"


def test_what_was_read_ahead_is_in_the_error_where_descriptors_run_out():
    with pipe_with_file(b"read ahead") as (file, _), open(os.devnull, "wb") as sink, spare_descriptors():
        with pytest.raises(bytepath.CopyError, match="Too many open files") as raised:
            bytepath.copy(file, sink)
    assert (raised.value.offset, raised.value.stranded) == (0, b"read ahead")


def test_offsets_count_what_was_read_ahead(tmp_path):
    def enough(done: int, total: int | None) -> None:
        if done == 14:
            raise KeyError(done)

    with pipe_with_file(b"read ahead") as (file, source):
        source.write(b"more")
        with pytest.raises(KeyError) as raised:
            bytepath.copy(file, tmp_path / "b", progress=enough, progress_seconds=0.01)
    cause = raised.value.__cause__
    assert (tmp_path / "b").read_bytes() == b"read aheadmore"
    assert cause.offset == 14 and "at byte 14" in str(cause)


@pytest.mark.parametrize("called", [1, 2])
def test_an_end_after_what_was_read_ahead_or_at_the_end_tells_how_far_it_came(tmp_path, called):
    calls = []

    def enough(done: int, total: int | None) -> None:
        calls.append(done)
        if len(calls) == called:
            raise KeyError(done)

    with pipe_with_file(b"read ahead") as (file, source):
        source.write(b"more")
        source.close()
        with pytest.raises(KeyError) as raised:
            bytepath.copy(file, tmp_path / "b", progress=enough, progress_seconds=1000)
    cause, given = raised.value.__cause__, b"read aheadmore"[: 10 if called == 1 else 14]
    assert (tmp_path / "b").read_bytes() == given
    assert isinstance(cause, bytepath.CopyError)
    assert (cause.errno, cause.offset, cause.stranded) == (errno.ECANCELED, len(given), b"")


def test_an_interrupt_beside_the_moving_of_what_was_read_ahead_tells_how_far_it_came(tmp_path, monkeypatch):
    def interrupted(*arguments):
        moved(*arguments)
        raise KeyboardInterrupt

    moved = _bytepath.move_bytes
    monkeypatch.setattr(_bytepath, "move_bytes", interrupted)
    with pipe_with_file(b"read ahead") as (file, _source):
        with pytest.raises(KeyboardInterrupt) as raised:
            bytepath.copy(file, tmp_path / "b", length=10)
    cause = raised.value.__cause__
    assert isinstance(cause, bytepath.CopyError) and (cause.offset, cause.stranded) == (10, b"")


def test_a_copy_that_is_given_up_tells_of_what_was_read_ahead(tmp_path):
    with pipe_with_file(b"read ahead") as (file, source):
        source.write(b"more")
        with pytest.raises(TimeoutError, match="nothing moved for 0.2 s: cancelled at byte 14") as raised:
            bytepath.copy(file, tmp_path / "b", timeout=0.2)
    assert raised.value.offset == 14


def test_a_bar_that_cannot_be_drawn_takes_nothing_from_a_pipe(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    with pipe_with_file(b"the rest") as (file, source):
        source.close()
        with pytest.raises(ImportError, match="tqdm"):
            bytepath.copy(file, tmp_path / "b", progress=True)
        bytepath.copy(file, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"the rest"


@pytest.mark.parametrize("asked", [{"route": "nope"}, {"route": "copy-file-range"}, {"profile": "/nonexistent"}])
def test_what_cannot_be_asked_for_takes_nothing_from_a_pipe(asked):
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as taken, os.fdopen(writer, "wb") as sink:
        with pipe_with_file(b"read ahead") as (file, source):
            with pytest.raises((ValueError, OSError)):
                bytepath.copy(file, sink, **asked)
            source.close()
            assert file.read() == b"read ahead"
        sink.close()
        assert taken.read() == b""


def test_what_was_read_ahead_is_counted_by_what_moved_it(tmp_path):
    with pipe_with_file(b"read ahead") as (file, source):
        source.close()
        copied = bytepath.copy(file, tmp_path / "b")
    assert copied.bytes == 10
    assert f"came: 10 bytes by {copied.route}" in copied.explained


def test_what_was_read_ahead_is_in_the_sink_or_in_the_error_wherever_an_interrupt_comes(tmp_path):
    sink = tmp_path / "b"
    for number in itertools.count():
        sink.unlink(missing_ok=True)
        with pipe_with_file(b"read ahead") as (file, source):
            source.close()
            error = interrupted_at(number, lambda file=file: bytepath.copy(file, sink, length=10))
            if error is None:
                break
            stranded = getattr(error.__cause__, "stranded", b"")
            there = sink.read_bytes() if sink.exists() else b""
            assert there + stranded + (file.read() or b"") == b"read ahead", number
    assert number > 100 and sink.read_bytes() == b"read ahead"
