"""Copies between files, pipes, sockets and descriptors."""

from __future__ import annotations

import dataclasses
import io
import errno
import fcntl
import os
import pickle
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

import bytepath


def test_a_file_is_copied_by_name(tmp_path, some_bytes):
    for count in (0, 1, 70_000, 9 << 20):
        (tmp_path / "a").write_bytes(some_bytes(count))
        copied = bytepath.copy(tmp_path / "a", str(tmp_path / "b"))
        assert copied.bytes == count
        assert (tmp_path / "b").read_bytes() == some_bytes(count)
        assert copied.route in bytepath.routes()


def test_names_may_be_bytes(tmp_path):
    source, sink = os.fsencode(tmp_path) + b"/\xff", os.fsencode(tmp_path) + b"/\xfe"
    with open(source, "wb") as file:
        file.write(b"bytes")
    bytepath.copy(source, sink)
    with open(sink, "rb") as file:
        assert file.read() == b"bytes"


def test_what_the_sink_held_before_is_gone(tmp_path):
    (tmp_path / "a").write_bytes(b"short")
    (tmp_path / "b").write_bytes(b"much longer than that")
    bytepath.copy(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"short"


def test_a_file_copied_to_itself_stays_whole(tmp_path):
    (tmp_path / "a").write_bytes(b"precious")
    os.link(tmp_path / "a", tmp_path / "b")
    for sink in ("a", "b"):
        with pytest.raises(bytepath.CopyError, match="the source is the sink") as raised:
            bytepath.copy(tmp_path / "a", tmp_path / sink)
        assert isinstance(pickle.loads(pickle.dumps(raised.value)), shutil.SameFileError)
    with open(tmp_path / "a", "rb") as source, open(tmp_path / "b", "ab") as sink:
        with pytest.raises(shutil.SameFileError, match="the source is the sink"):
            bytepath.copy(source, sink)
    assert (tmp_path / "a").read_bytes() == b"precious"


def test_a_range_goes_into_the_same_range(tmp_path, some_bytes):
    whole = some_bytes(6 << 20)
    (tmp_path / "a").write_bytes(whole)
    (tmp_path / "b").write_bytes(bytes(len(whole)))
    at, length = 1_000_003, 5 << 19
    copied = bytepath.copy(
        tmp_path / "a", tmp_path / "b", source_offset=at, sink_offset=at, length=length, verify=True
    )
    assert copied.bytes == length
    wanted = bytes(at) + whole[at : at + length] + bytes(len(whole) - at - length)
    assert (tmp_path / "b").read_bytes() == wanted


def test_a_range_beyond_the_end_is_what_there_is(tmp_path):
    (tmp_path / "a").write_bytes(b"0123456789")
    assert bytepath.copy(tmp_path / "a", tmp_path / "b", source_offset=7, length=100).bytes == 3
    assert (tmp_path / "b").read_bytes() == b"789"
    assert bytepath.copy(tmp_path / "a", tmp_path / "b", source_offset=99).bytes == 0


def test_many_threads_copy_at_once(tmp_path, some_bytes):
    (tmp_path / "a").write_bytes(some_bytes(5 << 20))
    sinks = [tmp_path / f"b{n}" for n in range(8)]
    threads = [threading.Thread(target=bytepath.copy, args=(tmp_path / "a", s)) for s in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {sink.read_bytes() for sink in sinks} == {some_bytes(5 << 20)}


def test_other_threads_run_while_bytes_move():
    reader, writer = os.pipe()
    copying = threading.Thread(target=bytepath.copy, args=(reader, os.devnull))
    copying.start()
    # This thread could do none of this if the copy, which waits for it, held the interpreter.
    os.write(writer, b"bytes")
    os.close(writer)
    copying.join(30)
    assert not copying.is_alive()
    os.close(reader)


@pytest.mark.parametrize("mode", ["rb", "r+b"])
@pytest.mark.parametrize("read_before", [0, 1, 8192, 100_000])
def test_file_objects_go_on_where_the_copy_ended(tmp_path, some_bytes, mode, read_before):
    whole = some_bytes(200_000)
    (tmp_path / "a").write_bytes(whole)
    with open(tmp_path / "a", mode) as source, open(tmp_path / "b", "w+b") as sink:
        assert source.read(read_before) == whole[:read_before]
        sink.write(b"before ")
        copied = bytepath.copy(source, sink, length=100)
        assert copied.bytes == 100
        assert source.tell() == read_before + 100
        assert source.read() == whole[read_before + 100 :]
        assert sink.tell() == 107
        sink.write(b" after")
    assert (tmp_path / "b").read_bytes() == b"before " + whole[read_before:][:100] + b" after"


def test_unbuffered_and_temporary_files_are_taken(tmp_path, some_bytes):
    with tempfile.TemporaryFile() as source, tempfile.NamedTemporaryFile() as sink:
        source.write(some_bytes(100_000))
        source.seek(10)
        assert bytepath.copy(source, sink).bytes == 99_990
        with open(sink.name, "rb", buffering=0) as again, open(tmp_path / "b", "wb", 0) as raw:
            bytepath.copy(again, raw)
    assert (tmp_path / "b").read_bytes() == some_bytes(100_000)[10:]


def test_a_file_that_appends_is_appended_to(tmp_path):
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"old ")
    with open(tmp_path / "b", "ab") as sink:
        bytepath.copy(tmp_path / "a", sink, verify=True)
        sink.write(b"er")
    assert (tmp_path / "b").read_bytes() == b"old newer"


def test_what_a_reader_took_from_a_pipe_comes_first(tmp_path):
    with subprocess.Popen(["seq", "100000"], stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"1\n"
        copied = bytepath.copy(process.stdout, tmp_path / "b")
    wanted = subprocess.run(["seq", "2", "100000"], capture_output=True, check=True).stdout
    assert (tmp_path / "b").read_bytes() == wanted
    assert copied.bytes == len(wanted)


def test_a_length_leaves_the_rest_in_the_pipe():
    reader, writer = os.pipe()
    os.write(writer, b"0123456789")
    assert bytepath.copy(reader, os.devnull, length=4).bytes == 4
    assert os.read(reader, 100) == b"456789"
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("timeout", [None, 20.0])
def test_sockets_are_taken_blocking_or_not(tmp_path, some_bytes, timeout):
    (tmp_path / "a").write_bytes(some_bytes(3 << 20))
    near, far = socket.socketpair()
    with near, far:
        near.settimeout(timeout)
        far.settimeout(timeout)

        def send() -> None:
            bytepath.copy(tmp_path / "a", near)
            near.shutdown(socket.SHUT_WR)

        sending = threading.Thread(target=send)
        sending.start()
        copied = bytepath.copy(far, tmp_path / "b")
        sending.join()
    assert copied.bytes == 3 << 20
    assert (tmp_path / "b").read_bytes() == some_bytes(3 << 20)


def test_a_socket_as_a_file_gives_what_it_read_ahead(tmp_path):
    near, far = socket.socketpair()
    with near, far, far.makefile("rb") as file:
        near.sendall(b"a line\nand the rest")
        near.shutdown(socket.SHUT_WR)
        assert file.readline() == b"a line\n"
        bytepath.copy(file, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"and the rest"


def test_fifos_are_copied(tmp_path, some_bytes):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "a").write_bytes(some_bytes(300_000))
    sending = threading.Thread(target=bytepath.copy, args=(tmp_path / "a", tmp_path / "fifo"))
    sending.start()
    with open(tmp_path / "fifo", "rb") as source:
        assert bytepath.copy(source, tmp_path / "b").bytes == 300_000
    sending.join()
    assert (tmp_path / "b").read_bytes() == some_bytes(300_000)


def test_a_fifo_is_written_to_when_somebody_reads(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "a").write_bytes(b"bytes")
    sending = threading.Thread(target=bytepath.copy, args=(tmp_path / "a", tmp_path / "fifo"))
    sending.start()
    # Nobody reads yet: were it written to now, the bytes would be gone when it is closed.
    sending.join(0.2)
    assert sending.is_alive()
    assert (tmp_path / "fifo").read_bytes() == b"bytes"
    sending.join()


def test_a_route_alone_is_the_one_that_moves(tmp_path, some_bytes):
    (tmp_path / "a").write_bytes(some_bytes(100_000))
    for route in ("read-write", "sendfile", "mmap-write", "parallel"):
        copied = bytepath.copy(tmp_path / "a", tmp_path / "b", route=route)
        assert copied.route == route
        assert (tmp_path / "b").read_bytes() == some_bytes(100_000)


def test_several_threads_copy_a_large_file_that_nobody_else_has_open(some_bytes):
    if not os.access("/dev/shm", os.W_OK) or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("no file system in memory, or one CPU")
    bytes = some_bytes(64 << 20)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        source, sink = Path(folder, "source"), Path(folder, "sink")
        source.write_bytes(bytes)
        plan = bytepath.plan(source, sink)
        assert plan.routes[0].name == "parallel", plan
        assert bytepath.copy(source, sink).route == "parallel"
        assert sink.read_bytes() == bytes
        told = lambda done, total: None  # noqa: E731
        assert bytepath.copy(source, sink, verify=True, progress=told).route == "parallel"
        # Who gave an open file may look at it meanwhile.
        with open(sink, "r+b") as opened:
            assert bytepath.copy(source, opened).route != "parallel"
        assert bytepath.copy(source, sink, sink_offset=0).route != "parallel"
        assert sink.read_bytes() == bytes


def test_what_a_copy_did_is_explained_whenever_that_is_asked(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    copied = bytepath.copy(tmp_path / "a", tmp_path / "b")
    sent = pickle.loads(pickle.dumps(copied))
    (tmp_path / "a").unlink()
    assert f"came: 5 bytes by {copied.route}" in copied.explained
    assert copied.explained == copied.explained == sent.explained and sent == copied


@pytest.mark.parametrize(
    ("bytes", "told"),
    [
        (12.34 * 2**30, "12.3 GiB/s"),
        (9.8 * 2**30, "9.80 GiB/s"),
        (0.9997 * 2**30, "1.00 GiB/s"),
        (0.9994 * 2**30, "1023 MiB/s"),
        (4 << 20, "4.00 MiB/s"),
        (200 << 10, "200 KiB/s"),
        (1023.6, "1.00 KiB/s"),
        (512, "512 B/s"),
        (0, "0 B/s"),
    ],
)
def test_how_fast_a_copy_was_is_told_in_a_unit_that_fits(bytes, told):
    copied = bytepath.Copied(bytes=int(bytes + 0.5), route="splice", calls=1, seconds=1.0)
    assert str(copied).endswith(f" bytes by splice, {told}")


def test_what_a_copy_did_may_be_a_row_of_a_table(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    copied = bytepath.copy(tmp_path / "a", tmp_path / "b")
    row = dataclasses.asdict(copied)
    assert list(row) == ["bytes", "route", "calls", "seconds", "declined"]
    assert dataclasses.astuple(copied) == tuple(row.values())
    pandas = pytest.importorskip("pandas")
    assert pandas.DataFrame([copied])["bytes"].tolist() == [5]


def test_what_was_done_and_what_is_planned_may_be_a_key(tmp_path):
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "a").write_bytes(b"bytes")
    file = tmp_path / "tree" / "a"
    told = [bytepath.copy(file, tmp_path / "b"), bytepath.plan(file, tmp_path / "b")]
    told.append(bytepath.copytree(tmp_path / "tree", tmp_path / "copy"))
    assert {key: None for key in told}.keys() == set(told)


def test_a_route_that_no_copy_may_take_is_not_offered(tmp_path):
    assert "splice" in bytepath.routes() and "tee" not in bytepath.routes()
    (tmp_path / "a").write_bytes(b"bytes")
    with pytest.raises(ValueError, match="there are: .*splice") as raised:
        bytepath.copy(tmp_path / "a", tmp_path / "b", route="nope")
    assert "tee" not in str(raised.value)


def test_a_plan_is_told_and_nothing_moves(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    plan = bytepath.plan(tmp_path / "a", tmp_path / "not-there")
    assert not (tmp_path / "not-there").exists()
    assert plan.routes[0].name in bytepath.routes()
    assert "tee" in plan.refused
    assert plan.routes[0].name in str(plan).splitlines()[1]
    (tmp_path / "b").write_bytes(b"stays")
    bytepath.plan(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"stays"


def test_a_plan_for_where_nothing_can_be_made_names_what_was_given(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    for ask in (bytepath.plan, bytepath.copy):
        for route in (None, "read-write"):
            with pytest.raises(FileNotFoundError, match="cannot open the sink") as raised:
                ask(tmp_path / "a", tmp_path / "no-folder" / "x", route=route)
            assert raised.value.filename == str(tmp_path / "no-folder" / "x")


def test_progress_is_told_to_functions_and_bars(tmp_path, some_bytes):
    (tmp_path / "a").write_bytes(some_bytes(20 << 20))
    told = []
    bytepath.copy(
        tmp_path / "a",
        tmp_path / "b",
        progress=lambda done, total: told.append((done, total)),
        progress_seconds=0.0001,
        route="read-write",
    )
    assert told[-1] == (20 << 20, 20 << 20)
    assert told == sorted(told)
    tqdm = pytest.importorskip("tqdm")
    with tqdm.tqdm(file=io.StringIO(), unit="B") as bar:
        bytepath.copy(tmp_path / "a", tmp_path / "b", progress=bar)
        assert (bar.n, bar.total) == (20 << 20, 20 << 20)


def test_progress_true_draws_a_bar(tmp_path, capsys):
    pytest.importorskip("tqdm")
    (tmp_path / "a").write_bytes(b"bytes")
    bytepath.copy(tmp_path / "a", tmp_path / "b", progress=True)
    assert "5.00/5.00" in capsys.readouterr().err


def test_verify_tells_when_the_sink_is_another(tmp_path, some_bytes):
    (tmp_path / "a").write_bytes(some_bytes(5 << 20))

    def spoil(done: int, total: int | None) -> None:
        with open(tmp_path / "b", "r+b") as file:
            file.seek(1_234_567)
            file.write(bytes([some_bytes(5 << 20)[1_234_567] ^ 1]))

    with pytest.raises(bytepath.CopyError, match="byte 1234567 ") as raised:
        bytepath.copy(tmp_path / "a", tmp_path / "b", verify=True, progress=spoil)
    assert raised.value.offset == 1_234_567
    bytepath.copy(tmp_path / "a", tmp_path / "b", verify=True)


def test_errors_can_be_sent_to_another_process(tmp_path):
    with pytest.raises(FileNotFoundError) as raised:
        bytepath.copy(tmp_path / "not-there", tmp_path / "b")
    again = pickle.loads(pickle.dumps(raised.value))
    assert isinstance(again, FileNotFoundError) and isinstance(again, bytepath.CopyError)
    assert (again.errno, again.side, str(again)) == (2, "source", str(raised.value))


def test_the_machine_tells_of_itself():
    machine = bytepath.machine()
    assert machine["kernel"] == os.uname().release
    assert f"kernel: {os.uname().release}" in str(machine)
    assert "<td" in machine._repr_html_()


@pytest.mark.parametrize(
    "asked",
    [
        {"route": "bogus"},
        {"route": "tee"},
        {"profile": "/nonexistent"},
        {"profile": "/etc/hostname"},
        {"progress": 5},
        {"route": "bogus", "verify": True},
        {"profile": "/nonexistent", "sink_offset": None, "progress": print},
    ],
)
def test_what_cannot_be_asked_for_leaves_the_sink_as_it_was(tmp_path, asked):
    source, sink = tmp_path / "source", tmp_path / "sink"
    source.write_bytes(b"new")
    sink.write_bytes(b"precious")
    with pytest.raises((ValueError, TypeError, OSError)):
        bytepath.copy(source, sink, **asked)
    assert sink.read_bytes() == b"precious"
    with pytest.raises((ValueError, TypeError, OSError)):
        bytepath.copy(source, tmp_path / "new", **asked)
    assert sorted(os.listdir(tmp_path)) == ["sink", "source"]


@pytest.mark.parametrize(
    ("source", "asked", "error"),
    [
        ("pipe", {"verify": True}, ValueError),
        ("pipe", {"source_offset": 2}, OSError),
        ("directory", {}, IsADirectoryError),
        ("sink's own kind", {}, OSError),
        ("file", {"progress": True}, ImportError),
    ],
)
def test_a_source_that_cannot_be_one_leaves_the_sink_as_it_was(tmp_path, monkeypatch, source, asked, error):
    # As where it is not installed.
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    folder = tmp_path / "sinks"
    folder.mkdir()
    (folder / "sink").write_bytes(b"precious")
    (tmp_path / "file").write_bytes(b"new")
    reader, writer = os.pipe()
    ends = {
        "pipe": reader,
        "directory": os.open(tmp_path, os.O_RDONLY),
        "sink's own kind": os.open(tmp_path / "written", os.O_WRONLY | os.O_CREAT),
        "file": os.open(tmp_path / "file", os.O_RDONLY),
    }
    try:
        for name in ("sink", "new"):
            with pytest.raises(error):
                bytepath.copy(ends[source], folder / name, **asked)
    finally:
        for descriptor in (*ends.values(), writer):
            os.close(descriptor)
    assert (folder / "sink").read_bytes() == b"precious"
    assert os.listdir(folder) == ["sink"]


def test_pages_of_a_file_are_handed_to_a_pipe_only_where_that_is_allowed(tmp_path, some_bytes):
    file, data = tmp_path / "file", some_bytes(20_000)
    file.write_bytes(data)
    reader, writer = os.pipe()
    with open(reader, "rb", buffering=0) as reader, open(writer, "wb", buffering=0) as writer:
        assert "aliasing" in bytepath.plan(file, writer).refused["sendfile"]
        for source in (file, file.open("rb")):
            with pytest.raises(bytepath.CopyError, match="allow aliasing"):
                bytepath.copy(source, writer, route="sendfile")
            assert bytepath.copy(source, writer, route="sendfile", allow_aliasing=True).route == "sendfile"
            assert reader.read(100_000) == data
        source.close()
        plan = bytepath.plan(file, writer, allow_aliasing=True)
    assert "sendfile" in [route.name for route in plan.routes] and "sendfile" not in plan.refused


def test_the_page_cache_is_left_as_it_was_only_where_that_is_asked_for(tmp_path, some_bytes):
    source, sink, data = tmp_path / "source", tmp_path / "sink", some_bytes(200_000)
    source.write_bytes(data)
    leaves = {route.name for route in bytepath.plan(source, sink, leave_cache=True).routes}
    keeps = bytepath.plan(source, sink)
    assert leaves and leaves < {route.name for route in keeps.routes} and keeps.routes[0].name not in leaves
    with open(source, "rb") as file, open(sink, "wb") as into:
        for ends in ((source, sink), (file, into)):
            with pytest.raises(bytepath.CopyError, match="stays in the page cache"):
                bytepath.copy(*ends, route="read-write", leave_cache=True)
            assert bytepath.copy(*ends, leave_cache=True).route in leaves
            assert sink.read_bytes() == data
            sink.write_bytes(b"")


def _asked_by_nobody(ask):
    """What a process says that may write a sink, and not read it, and what the sink holds then."""
    if os.geteuid() != 0:
        pytest.skip("takes root, to become somebody who may not read all")
    # pytest's own folders are for nobody else.
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        source, sink = Path(folder, "source"), Path(folder, "sink")
        source.write_bytes(b"new")
        sink.write_bytes(b"precious")
        sink.chmod(0o222)
        ask = f"import os, bytepath; os.setuid(65534); {ask.format(f'{str(source)!r}, {str(sink)!r}')}"
        done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, timeout=60)
        return done, sink.read_bytes()


def test_a_sink_that_may_not_be_read_again_is_refused_before_it_is_emptied():
    done, held = _asked_by_nobody("bytepath.copy({}, verify=True)")
    assert "may not be read: nothing was copied" in done.stderr, done.stderr
    assert held == b"precious"


def test_a_sink_that_may_only_be_written_is_planned_as_it_is_copied():
    done, held = _asked_by_nobody("print(bytepath.plan({}))")
    assert done.returncode == 0 and done.stdout, done.stderr
    assert held == b"precious"


def test_parts_of_one_file_are_moved_only_where_nothing_is_read_that_was_written(tmp_path, some_bytes):
    file, data = tmp_path / "file", some_bytes(3_000_000)
    for source, sink in ((0, 5), (0, 300_000), (300_000, 0), (0, 1_500_000)):
        file.write_bytes(data)
        if source < sink < 1_000_000:
            with pytest.raises(OSError, match="read again") as raised:
                bytepath.copy(file, file, source_offset=source, sink_offset=sink, length=1_000_000)
            assert raised.value.errno == errno.EINVAL and file.read_bytes() == data
            continue
        bytepath.copy(file, file, source_offset=source, sink_offset=sink, length=1_000_000)
        assert file.read_bytes()[sink : sink + 1_000_000] == data[source : source + 1_000_000]


def test_a_file_is_not_copied_onto_its_own_end_and_read_on_there(tmp_path):
    file, digits = tmp_path / "file", b"0123456789"
    file.write_bytes(digits)
    for source, sink, length in ((0, 10, 100), (0, 20, 100), (5, None, 100), (5, None, 1 << 20)):
        with open(file, "rb") as whence, open(file, "ab" if sink is None else "r+b") as whither:
            whence.seek(source)
            whither.seek(sink or 0)
            with pytest.raises(OSError, match="read again"):
                bytepath.copy(whence, whither, length=length)
        assert file.read_bytes() == digits, (source, sink, length)
    bytepath.copy(file, file, source_offset=0, sink_offset=10, length=10)
    assert file.read_bytes() == digits * 2


@pytest.mark.parametrize("buffering", [-1, 0])
@pytest.mark.parametrize(
    "ends",
    [
        lambda file, again: (file, file),
        lambda file, again: (file, file.fileno()),
        lambda file, again: (file.fileno(), file),
        lambda file, again: (file.fileno(), file.fileno()),
        lambda file, again: (file.fileno(), again),
    ],
)
def test_one_open_file_is_not_both_ends(tmp_path, buffering, ends, some_bytes):
    name, data = tmp_path / "file", some_bytes(100)
    name.write_bytes(data)
    with open(name, "r+b", buffering) as file:
        again = os.dup(file.fileno())
        try:
            assert file.read(3) == data[:3]
            stood = os.lseek(file.fileno(), 0, os.SEEK_CUR)
            for asked in (
                {},
                {"length": 10},
                {"source_offset": 0, "sink_offset": 50, "length": 10},
                {"source_offset": 50, "sink_offset": 0, "verify": True},
            ):
                with pytest.raises(ValueError, match="open the file once more"):
                    bytepath.copy(*ends(file, again), **asked)
            with pytest.raises(ValueError, match="open the file once more"):
                bytepath.plan(*ends(file, again))
            assert os.lseek(file.fileno(), 0, os.SEEK_CUR) == stood
            assert file.read(3) == data[3:6]
        finally:
            os.close(again)
    assert name.read_bytes() == data
    with open(name, "r+b", buffering) as file:
        bytepath.copy(name, file, source_offset=0, sink_offset=50, length=10)
    assert name.read_bytes() == data[:50] + data[:10] + data[60:]


def test_a_socket_gives_itself_what_its_peer_sent():
    near, far = socket.socketpair()
    with near, far:
        far.sendall(b"bytes")
        assert bytepath.copy(near, near, length=5).bytes == 5
        assert far.recv(10) == b"bytes"


@pytest.mark.parametrize("size", [100, 1_000_000])
def test_bytes_move_down_within_one_file(tmp_path, size, some_bytes):
    name, data = tmp_path / "file", some_bytes(size)
    for down in (5, size // 2 + 1):
        name.write_bytes(data)
        with open(name, "r+b") as source, open(name, "r+b") as sink:
            source.seek(down)
            assert bytepath.copy(source, sink).bytes == size - down
            assert (source.tell(), sink.tell()) == (size, size - down)
            with pytest.raises(shutil.SameFileError, match="copied onto itself"):
                sink.seek(size)
                bytepath.copy(source, sink)
        assert name.read_bytes() == data[down:] + data[size - down :]


@pytest.mark.parametrize("down, length, is_refused", [(10, None, True), (50, None, False), (10, 10, False), (10, 11, True)])
def test_verify_within_one_file_is_refused_where_the_source_would_be_written_over(tmp_path, down, length, is_refused):
    name, data = tmp_path / "file", bytes(range(100))
    name.write_bytes(data)
    asked = {"source_offset": down, "sink_offset": 0, "length": length, "verify": True}
    if is_refused:
        with pytest.raises(ValueError, match="written over: nothing was copied"):
            bytepath.copy(name, name, **asked)
        assert name.read_bytes() == data
        return
    count = bytepath.copy(name, name, **asked).bytes
    assert count == (length or 100 - down)
    assert name.read_bytes() == data[down : down + count] + data[count:]
    # What is open to append stands elsewhere than it is written.
    sink = os.open(name, os.O_WRONLY | os.O_APPEND)
    assert bytepath.copy(name, sink, source_offset=5, length=20, verify=True).bytes == 20
    os.close(sink)


def is_locked(file):
    """Whether another process is refused a lock on it."""
    asks = "import fcntl, sys\nfcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    done = subprocess.run([sys.executable, "-c", asks, file], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 or "BlockingIOError" in done.stderr, done.stderr
    return done.returncode != 0


@pytest.mark.parametrize(
    "uses",
    [
        lambda locked, other: bytepath.copy(other, locked),
        lambda locked, other: bytepath.copy(locked, other),
        lambda locked, other: bytepath.copy(other, locked.fileno(), verify=True, progress=lambda *_: None),
        lambda locked, other: bytepath.copy(locked, other, verify=True, route="read-write"),
        lambda locked, other: bytepath.plan(locked, other),
        lambda locked, other: bytepath.plan(other, locked),
    ],
)
def test_a_file_that_is_locked_stays_locked(tmp_path, uses, some_bytes):
    (tmp_path / "locked").write_bytes(some_bytes(5 << 20))
    (tmp_path / "other").write_bytes(some_bytes(5 << 20))
    with open(tmp_path / "locked", "r+b") as locked:
        fcntl.lockf(locked, fcntl.LOCK_EX)
        uses(locked, tmp_path / "other")
        assert is_locked(tmp_path / "locked")
    assert not is_locked(tmp_path / "locked")


@pytest.mark.parametrize("route", bytepath.routes())
def test_a_route_that_takes_locks_away_is_named_in_the_document(document, tmp_path, route, some_bytes):
    (tmp_path / "other").write_bytes(some_bytes(5 << 20))
    with open(tmp_path / "other", "rb") as other, open(tmp_path / "locked", "wb") as locked:
        fcntl.lockf(locked, fcntl.LOCK_EX)
        try:
            bytepath.copy(other, locked, route=route)
        except bytepath.CopyError as error:
            # Not every route goes from file to file; also one that is refused may have opened it.
            if error.errno != errno.EOPNOTSUPP:
                raise
        kept = is_locked(tmp_path / "locked")
    locks = next(part for part in document("docs/python.md").split("\n\n") if part.startswith("Locks on files"))
    assert kept or f"`{route}`" in locks


def test_a_sink_that_is_open_for_writing_alone_is_verified(tmp_path, some_bytes):
    (tmp_path / "a").write_bytes(some_bytes(100_000))
    with open(tmp_path / "b", "wb") as sink:
        assert bytepath.copy(tmp_path / "a", sink, verify=True).bytes == 100_000
    assert (tmp_path / "b").read_bytes() == some_bytes(100_000)


@pytest.mark.parametrize("role", ["source", "sink"])
def test_a_plan_leaves_who_waits_at_a_fifo_waiting(tmp_path, role):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    (tmp_path / "a").write_bytes(b"bytes")
    source, sink, waits = {
        "source": (fifo, tmp_path / "b", 'printf bytes >"$0"'),
        "sink": (tmp_path / "a", fifo, 'test "$(cat "$0")" = bytes'),
    }[role]
    with subprocess.Popen(["sh", "-c", waits, fifo]) as peer:
        # Among so many there is one that it waits beside, whenever it begins to.
        for _ in range(500):
            bytepath.plan(source, sink)
            time.sleep(0.001)
        if peer.poll() is None:
            assert bytepath.copy(source, sink, timeout=30).bytes == 5
    assert peer.returncode == 0
