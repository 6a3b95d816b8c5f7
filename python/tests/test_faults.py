"""What goes wrong, and how it is told."""

from __future__ import annotations

import bz2
import codecs
import errno
import fcntl
import gc
import gzip
import io
import itertools
import multiprocessing
import os
import random
import resource
import select
import shutil
import signal
import socket
import ssl
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import bytepath


def test_what_is_no_file_is_refused_by_name(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    with open(tmp_path / "a") as text, gzip.open(tmp_path / "z", "wb") as packed:
        refused = [
            (text, "text mode"),
            (packed, "shutil.copyfileobj"),
            (io.BytesIO(), "shutil.copyfileobj"),
            (io.BufferedReader(io.BytesIO()), "shutil.copyfileobj"),
            (None, "NoneType"),
            (True, "bool"),
            (1.5, "float"),
            ([], "list"),
        ]
        for end, why in refused:
            with pytest.raises(TypeError, match=f"the sink cannot be .*{why}"):
                bytepath.copy(tmp_path / "a", end)
            with pytest.raises(TypeError, match="the source cannot be"):
                bytepath.copy(end, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_what_has_a_file_inside_is_not_taken_for_its_descriptor(tmp_path):
    (tmp_path / "a").write_bytes(b"a line\n" * 1000)
    with (
        os.popen("seq 10") as process,
        urllib.request.urlopen((tmp_path / "a").as_uri()) as page,
        codecs.open(tmp_path / "a", encoding="utf-8") as text,
    ):
        for end in (process, page, text):
            assert end.readline()
            with pytest.raises(TypeError, match="no file itself"):
                bytepath.copy(end, tmp_path / "b")
    with tempfile.NamedTemporaryFile("w") as text, pytest.raises(TypeError, match="text mode"):
        bytepath.copy(tmp_path / "a", text)
    near, far = socket.socketpair()
    with near, far, near.makefile("rwb") as both, pytest.raises(TypeError, match="two buffers over one"):
        bytepath.copy(both, tmp_path / "b")
    assert not (tmp_path / "b").exists()


def test_what_only_has_a_descriptor_is_taken(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    receives, sends = multiprocessing.Pipe(False)
    with receives, open(tmp_path / "a", "rb") as file:
        with sends:
            bytepath.copy(file, sends)
        bytepath.copy(receives, tmp_path / "b")
    assert (tmp_path / "b").read_bytes() == b"bytes"


def test_an_offset_of_a_sink_that_appends_is_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"new")
    (tmp_path / "b").write_bytes(b"0123456789")
    with open(tmp_path / "b", "ab") as sink:
        for end in (sink, sink.fileno()):
            with pytest.raises(ValueError, match="open to append"):
                bytepath.copy(tmp_path / "a", end, sink_offset=2, verify=True)
    assert (tmp_path / "b").read_bytes() == b"0123456789"


def test_a_compressed_file_is_not_taken_for_its_bytes(tmp_path):
    with bz2.open(tmp_path / "z", "wb") as packed:
        packed.write(b"bytes")
    with bz2.open(tmp_path / "z") as packed, pytest.raises(TypeError):
        bytepath.copy(packed, tmp_path / "b")


def test_an_enciphered_socket_is_not_taken_for_its_bytes(tmp_path):
    near, far = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with near, far, context.wrap_socket(near, do_handshake_on_connect=False) as wrapped:
        with wrapped.makefile("rb") as reads, wrapped.makefile("wb") as writes:
            raw = wrapped.makefile("rb", buffering=0)
            for source, sink in [(os.devnull, wrapped), (os.devnull, writes), (reads, os.devnull), (raw, os.devnull)]:
                with pytest.raises(TypeError, match="enciphered"):
                    bytepath.copy(source, sink)


def test_an_enciphered_socket_of_a_kind_of_its_own_is_one(tmp_path):
    class Kind(ssl.SSLSocket):
        pass

    near, far = socket.socketpair()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.sslsocket_class = Kind
    with near, far, context.wrap_socket(near, do_handshake_on_connect=False) as wrapped:
        with pytest.raises(TypeError, match="enciphered"):
            bytepath.copy(os.devnull, wrapped)


def test_arguments_that_make_no_sense_are_refused(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    for wrong, error in [
        ({"length": -1}, ValueError),
        ({"length": 1 << 63}, ValueError),
        ({"length": "5"}, TypeError),
        ({"source_offset": 1.5}, TypeError),
        ({"timeout": 0}, ValueError),
        ({"timeout": float("nan")}, ValueError),
        ({"timeout": Decimal("nan")}, ValueError),
        ({"timeout": True}, TypeError),
        ({"timeout": 1j}, TypeError),
        ({"progress": 7}, TypeError),
        ({"progress": {}}, TypeError),
        ({"progress_seconds": "often"}, TypeError),
        ({"route": "teleport"}, ValueError),
        ({"route": 5}, TypeError),
        ({"profile": 5}, TypeError),
        ({"profile": tmp_path / "not-there"}, ValueError),
    ]:
        with pytest.raises(error) as raised:
            bytepath.copy(tmp_path / "a", tmp_path / "b", **wrong)
        assert "Asked" not in str(raised.value)
    for number in (1 << 40, -(1 << 40)):
        with pytest.raises(ValueError, match="no descriptor has such a number"):
            bytepath.copy(number, tmp_path / "b")


@pytest.mark.parametrize("number", [5, 5.0, np.float32(5), np.int64(5), Decimal(5), Fraction(5)], ids=repr)
def test_seconds_are_numbers_of_whatever_kind(tmp_path, number):
    (tmp_path / "a").write_bytes(b"bytes")
    told = []
    asked = {"timeout": number, "progress_seconds": number, "progress": lambda done, _: told.append(done)}
    assert bytepath.copy(tmp_path / "a", tmp_path / "b", **asked).bytes == 5
    assert told[-1] == 5


def test_closed_ends_are_told(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    with open(tmp_path / "a", "rb") as file:
        number = file.fileno()
    with pytest.raises(ValueError, match="closed file"):
        bytepath.copy(file, tmp_path / "b")
    near, far = socket.socketpair()
    near.close()
    far.close()
    for closed in (number, near, -1):
        with pytest.raises(bytepath.CopyError, match="source is closed") as raised:
            bytepath.copy(closed, tmp_path / "b")
        assert raised.value.errno == errno.EBADF


def test_ends_the_wrong_way_round_are_told(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    reader, writer = os.pipe()
    with (
        open(tmp_path / "a", "rb") as reads,
        open(tmp_path / "b", "wb") as writes,
        os.fdopen(reader, "rb") as receives,
        os.fdopen(writer, "wb") as sends,
    ):
        for source, sink in ((tmp_path / "a", reads), (tmp_path / "a", receives), (writes, tmp_path / "c"), (sends, tmp_path / "c")):
            side, wrong = ("source", source) if sink == tmp_path / "c" else ("sink", sink)
            for ask in (bytepath.copy, bytepath.plan):
                with pytest.raises(bytepath.CopyError, match="not open for") as raised:
                    ask(source, sink)
                assert f"the {side} (descriptor {wrong.fileno()}) is not open for" in str(raised.value)
                assert raised.value.side == side
    assert not (tmp_path / "c").exists()


def test_a_socket_that_listens_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with pytest.raises(bytepath.CopyError, match="listens for connections") as raised:
            bytepath.copy(listener, tmp_path / "b", timeout=30)
    assert (raised.value.errno, raised.value.side) == (errno.ENOTCONN, "source")
    assert not (tmp_path / "b").exists()


def test_errors_are_of_pythons_own_classes(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    with pytest.raises(FileNotFoundError) as raised:
        bytepath.copy(tmp_path / "not-there", tmp_path / "b")
    assert raised.value.filename == str(tmp_path / "not-there")
    assert not (tmp_path / "b").exists()
    with pytest.raises(IsADirectoryError, match="copytree"):
        bytepath.copy(tmp_path, tmp_path / "b")
    with pytest.raises(IsADirectoryError):
        bytepath.copy(tmp_path / "a", tmp_path)
    with pytest.raises(OSError, match="has no offsets"):
        reader, writer = os.pipe()
        try:
            bytepath.copy(reader, tmp_path / "b", source_offset=5)
        finally:
            os.close(reader)
            os.close(writer)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    (tmp_path / "a").chmod(0)
    with pytest.raises(PermissionError):
        bytepath.copy(tmp_path / "a", tmp_path / "b")


def test_root_without_its_powers_is_told_that_it_may_not_read(tmp_path, python):
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("needs root, and setpriv")
    (tmp_path / "a").write_bytes(b"bytes")
    (tmp_path / "a").chmod(0)
    done = python(
        "import bytepath, sys\n"
        "try:\n    bytepath.copy(sys.argv[1], sys.argv[1] + 'b')\n"
        "except PermissionError as error:\n    print(error.errno, error.offset, error.side)\n",
        str(tmp_path / "a"),
        prefix=("setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"),
    )
    assert done.stdout == "13 0 source\n", done.stderr


def test_a_full_device_is_told_with_offset_and_route(tmp_path):
    (tmp_path / "a").write_bytes(bytes(100_000))
    with pytest.raises(bytepath.CopyError, match="No space left") as raised:
        bytepath.copy(tmp_path / "a", "/dev/full")
    error = raised.value
    assert (error.errno, error.offset, error.side) == (errno.ENOSPC, 0, "sink")
    assert error.route in bytepath.routes()


def test_a_full_file_system_is_told_with_what_it_took(tmp_path, python):
    script = (
        "import bytepath, os, subprocess, sys\n"
        "folder = sys.argv[1]\n"
        "subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=1m', 'none', folder], check=True)\n"
        "try:\n    bytepath.copy('/dev/zero', folder + '/b')\n"
        "except OSError as error:\n"
        "    print(error.errno, error.offset == os.path.getsize(folder + '/b') == 1 << 20)\n"
    )
    (tmp_path / "full").mkdir()
    # The mount goes with its namespace, however that ends.
    done = python(script, str(tmp_path / "full"), prefix=("unshare", "--mount", "--map-root-user"))
    if done.returncode != 0 and "unshare" in done.stderr:
        pytest.skip(f"no namespace for a mount: {done.stderr.strip()}")
    assert done.stdout == f"{errno.ENOSPC} True\n", done.stderr


@pytest.fixture
def closing_fails(traced: tuple[str, ...]) -> Callable[..., tuple[str, ...]]:
    """With what a program is run so that it cannot close these, as NFS and file systems with quotas tell it."""

    def before(*names: Path) -> tuple[str, ...]:
        paths = (word for name in names for word in ("-P", str(name)))
        return (*traced, "-o", os.devnull, *paths, "-e", "inject=close:error=EDQUOT")

    return before


def test_bytes_that_are_lost_when_the_sink_is_closed_are_told(tmp_path, python, closing_fails):
    (tmp_path / "a").write_bytes(bytes(100_000))
    (tmp_path / "b").touch()
    script = (
        "import bytepath, sys\n"
        "a, b = sys.argv[1:]\n"
        "for more in ({}, {'progress': lambda *told: None}, {'sink_offset': 0}, {'route': 'read-write'}):\n"
        "    try:\n        bytepath.copy(a, b, **more)\n"
        "    except bytepath.CopyError as error:\n"
        "        print(error.errno, error.offset, error.side, error.filename == b, error.strerror.split(';')[0])\n"
    )
    done = python(script, str(tmp_path / "a"), str(tmp_path / "b"), prefix=closing_fails(tmp_path / "b"))
    told = f"{errno.EDQUOT} 100000 sink True cannot close the sink: {os.strerror(errno.EDQUOT)}\n"
    assert done.stdout == told * 4, done.stderr


def test_a_sink_that_cannot_be_emptied_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    sealed = os.memfd_create("sealed", os.MFD_ALLOW_SEALING)
    os.write(sealed, b"precious")
    fcntl.fcntl(sealed, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
    sink = f"/proc/self/fd/{sealed}"
    for verify in (False, True):
        with pytest.raises(PermissionError, match="cannot empty the sink: ") as raised:
            bytepath.copy(tmp_path / "a", sink, verify=verify)
        error = raised.value
        assert isinstance(error, bytepath.CopyError)
        assert (error.errno, error.offset, error.side, error.filename) == (errno.EPERM, 0, "sink", sink)
    assert os.pread(sealed, 100, 0) == b"precious"
    os.close(sealed)


def test_a_sink_that_there_is_no_descriptor_to_read_again_is_told(tmp_path):
    (tmp_path / "a").write_bytes(b"bytes")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with open(tmp_path / "b", "wb") as sink:
        with open(tmp_path / "a", "rb") as source:
            free = os.dup(source.fileno())
            os.close(free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (free, limits[1]))
            try:
                with pytest.raises(OSError, match="cannot open the sink again to verify it: ") as raised:
                    bytepath.copy(source, sink, verify=True)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    error = raised.value
    assert isinstance(error, bytepath.CopyError)
    assert (error.errno, error.offset, error.side) == (errno.EMFILE, 0, "sink")
    assert (tmp_path / "b").read_bytes() == b""


def test_what_ended_a_copy_is_told_whatever_closing_its_sink_says(tmp_path, python, closing_fails):
    script = (
        "import bytepath, os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "reader, writer = os.pipe()\n"
        "os.write(writer, bytes(50_000))\n"
        "os.close(writer)\n"
        "try:\n    bytepath.copy(reader, sys.argv[1], route='read-write')\n"
        "except bytepath.CopyError as error:\n"
        "    print(error.errno, error.offset, error.route, len(error.stranded))\n"
    )
    (tmp_path / "b").touch()
    done = python(script, str(tmp_path / "b"), prefix=closing_fails(tmp_path / "b"))
    assert done.stdout == f"{errno.EFBIG} 4096 read-write 45904\n", done.stderr


def test_a_source_that_says_something_when_it_is_closed_is_copied(tmp_path, python, closing_fails):
    (tmp_path / "a").write_bytes(bytes(100_000))
    script = (
        "import bytepath, sys\n"
        "a, b = sys.argv[1:]\n"
        "for more in ({}, {'progress': lambda *told: None}, {'verify': True}):\n"
        "    print(bytepath.copy(a, b, **more).bytes)\n"
    )
    done = python(script, str(tmp_path / "a"), str(tmp_path / "b"), prefix=closing_fails(tmp_path / "a"))
    assert done.stdout == "100000\n" * 3, done.stderr


def test_a_reader_that_is_gone_is_a_broken_pipe(tmp_path):
    (tmp_path / "a").write_bytes(bytes(1 << 20))
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(BrokenPipeError) as raised:
        bytepath.copy(tmp_path / "a", writer)
    os.close(writer)
    assert isinstance(raised.value, bytepath.CopyError) and raised.value.offset == 0


def test_a_callback_that_raises_ends_the_copy():
    class Enough(Exception):
        pass

    def tell(done: int, total: int | None) -> None:
        raise Enough

    with pytest.raises(Enough) as raised:
        bytepath.copy("/dev/zero", os.devnull, progress=tell, progress_seconds=0.01)
    cause = raised.value.__cause__
    assert isinstance(cause, bytepath.CopyError) and cause.errno == errno.ECANCELED


def test_a_callback_that_raises_at_the_end_has_all_bytes_told(tmp_path):
    (tmp_path / "a").write_bytes(b"some")

    def tell(done: int, total: int | None) -> None:
        raise KeyError(done)

    with pytest.raises(KeyError) as raised:
        bytepath.copy(tmp_path / "a", tmp_path / "b", progress=tell)
    cause = raised.value.__cause__
    assert isinstance(cause, bytepath.CopyError)
    assert (cause.errno, cause.offset) == (errno.ECANCELED, 4)
    assert (tmp_path / "b").read_bytes() == b"some"


def test_nobody_at_the_other_end_of_a_fifo_is_given_up(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "a").write_bytes(b"bytes")
    for source, sink in (("fifo", "b"), ("a", "fifo")):
        with pytest.raises(TimeoutError, match="nobody (writes|reads) at the other end") as raised:
            bytepath.copy(tmp_path / source, tmp_path / sink, timeout=0.05)
        assert raised.value.filename == str(tmp_path / "fifo")
    assert not (tmp_path / "b").exists()


def test_a_fifo_that_is_waited_for_so_long_is_copied_to_and_from(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    # More than a pipe holds.
    (tmp_path / "a").write_bytes(bytes(200_000))
    writer = threading.Thread(target=bytepath.copy, args=(tmp_path / "a", tmp_path / "fifo"), kwargs={"timeout": 30})
    writer.start()
    assert bytepath.copy(tmp_path / "fifo", tmp_path / "b", timeout=30).bytes == 200_000
    writer.join()
    # Who comes and goes without a byte has written nothing.
    writer = threading.Thread(target=lambda: os.close(os.open(tmp_path / "fifo", os.O_WRONLY)))
    writer.start()
    assert bytepath.copy(tmp_path / "fifo", tmp_path / "b", timeout=30).bytes == 0
    writer.join()


def test_the_shorter_timeout_of_two_sockets_is_kept(tmp_path):
    (near, far), (other, end) = socket.socketpair(), socket.socketpair()
    with near, far, other, end:
        near.settimeout(30)
        other.settimeout(0.05)
        with pytest.raises(TimeoutError, match="nothing moved for 0.05 s"):
            bytepath.copy(near, other)
        other.settimeout(None)
        near.settimeout(0.05)
        with near.makefile("rb", buffering=0) as file, pytest.raises(TimeoutError, match="nothing moved for 0.05 s"):
            bytepath.copy(file, tmp_path / "b")


def test_a_peer_that_does_not_move_is_given_up(tmp_path):
    near, far = socket.socketpair()
    with near, far:
        far.settimeout(0.2)
        with pytest.raises(TimeoutError, match="nothing moved") as raised:
            bytepath.copy(far, tmp_path / "b")
        assert raised.value.offset == 0
    reader, writer = os.pipe()
    os.write(writer, b"some")
    with pytest.raises(TimeoutError) as raised:
        bytepath.copy(reader, tmp_path / "b", timeout=0.2)
    assert raised.value.offset == 4
    assert (tmp_path / "b").read_bytes() == b"some"
    os.close(reader)
    os.close(writer)


def test_a_peer_that_stops_taking_is_given_up_and_what_it_did_not_take_is_in_the_error():
    given = random.Random(1).randbytes(60_000)
    near, far = socket.socketpair()
    other, end = socket.socketpair()
    sink, taker = os.pipe()[::-1]
    held = fill(sink)
    os.read(taker, 8192)
    held -= 8192
    with near, far, other, end:
        far.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        far.sendall(given)
        other.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
        for to, taken, asked in (
            (other, lambda count: end.recv(count, socket.MSG_WAITALL), {}),
            (sink, lambda count: (os.read(taker, held), os.read(taker, count))[1], {"route": "read-write"}),
        ):
            with pytest.raises(TimeoutError, match="nothing moved for 2 s: .* were read and not written") as raised:
                bytepath.copy(near, to, timeout=2, enlarge_pipes=False, **asked)
            error = raised.value
            assert 0 < error.offset < len(given) and error.stranded
            assert error.route in bytepath.routes()
            near.setblocking(False)
            left = b""
            with suppress(BlockingIOError):
                while True:
                    left += near.recv(1 << 20)
            near.setblocking(True)
            assert taken(error.offset) + error.stranded + left == given
            far.sendall(given)
    for pipe in (sink, taker):
        os.close(pipe)


@contextmanager
def signalled(number: int) -> Iterator[None]:
    """Sends this process a signal once the thread that copies for it has begun."""
    over = threading.Event()

    def copies() -> bool:
        for comm in Path("/proc/self/task").glob("*/comm"):
            # A thread may end meanwhile.
            with suppress(OSError):
                if comm.read_text() == "bytepath\n":
                    return True
        return False

    def send() -> None:
        while not over.is_set():
            if copies():
                os.kill(os.getpid(), number)
                return

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()


def test_what_a_file_object_still_holds_is_written_under_the_same_rules(tmp_path):
    (tmp_path / "a").write_bytes(b"behind")
    full = open("/dev/full", "wb")
    full.write(b"held")
    with pytest.raises(bytepath.CopyError, match="what the file object of the sink holds: No space") as raised:
        bytepath.copy(tmp_path / "a", full)
    assert (raised.value.errno, raised.value.side, raised.value.offset) == (errno.ENOSPC, "sink", 0)
    with suppress(OSError):
        full.close()
    for reader, writer in [os.pipe(), os.pipe2(os.O_NONBLOCK)]:
        file = open(writer, "wb")
        file.write(b"held")
        holds = fill(writer)
        with pytest.raises(TimeoutError, match="nobody took any of it for 0.05 s") as raised:
            bytepath.copy(tmp_path / "a", file, timeout=0.05)
        assert raised.value.side == "sink"
        emptied = threading.Timer(0.1, lambda reader=reader, holds=holds: os.read(reader, holds))
        emptied.start()
        assert bytepath.copy(tmp_path / "a", file, timeout=30).bytes == 6
        emptied.join()
        assert os.read(reader, 100) == b"heldbehind"
        file.write(b"more")
        os.close(reader)
        with pytest.raises(BrokenPipeError) as raised:
            bytepath.copy(tmp_path / "a", file)
        assert isinstance(raised.value, bytepath.CopyError)
        with suppress(OSError):
            file.close()


def test_a_connection_that_the_kernel_gives_up_is_told_in_its_words(tmp_path):
    (tmp_path / "a").write_bytes(b"behind")
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 << 10)
        with far, near.makefile("wb", buffering=1 << 20) as file:
            while select.select([], [near], [], 0.1)[1]:
                fill(near.fileno())
            near.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 100)
            # More than there may be room for that select does not tell of.
            file.write(bytes(512 << 10))
            why = "what the file object of the sink holds: Connection timed out"
            with pytest.raises(TimeoutError, match=why) as raised:
                bytepath.copy(tmp_path / "a", file)
            assert isinstance(raised.value, bytepath.CopyError)
            with suppress(OSError):
                file.close()


@pytest.mark.parametrize("timeout", [None, 30])
@pytest.mark.parametrize("kind", [socket.SOCK_SEQPACKET, socket.SOCK_DGRAM])
def test_messages_that_a_file_object_holds_stay_whole(tmp_path, kind, timeout):
    (tmp_path / "a").write_bytes(b"")
    near, far = socket.socketpair(type=kind)
    with near, far, near.makefile("wb", buffering=65536) as file:
        file.write(bytes(8000))
        bytepath.copy(tmp_path / "a", file, timeout=timeout)
        assert len(far.recv(65536)) == 8000


@pytest.mark.parametrize("method", ["read", "readall", "readinto", "write"])
def test_a_file_with_a_way_of_its_own_to_read_or_write_is_not_passed_by(tmp_path, method):
    changed = type("Changed", (io.FileIO,), {method: lambda *_: None})
    (tmp_path / "a").write_bytes(b"bytes")
    with changed(tmp_path / "a", "r+") as raw, io.BufferedRandom(raw) as file:
        for end in (raw, file):
            with pytest.raises(TypeError, match="Changed: its bytes are made in Python"):
                bytepath.copy(end, tmp_path / "b")
            with pytest.raises(TypeError, match="Changed: its bytes are made in Python"):
                bytepath.copy(os.devnull, end)
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"bytes"


def test_a_buffer_or_socket_file_with_a_way_of_its_own_to_read_is_not_passed_by(tmp_path):
    buffered = type("Changed", (io.BufferedReader,), {"read1": lambda *_: b"other"})
    of_socket = type("Changed", (socket.SocketIO,), {"readinto": lambda *_: 0})
    (tmp_path / "a").write_bytes(b"bytes")
    near, far = socket.socketpair()
    with near, far, buffered(io.FileIO(tmp_path / "a")) as file, of_socket(near, "r") as raw:
        for end in (file, raw, io.BufferedReader(raw)):
            with pytest.raises(TypeError, match="Changed: its bytes are made in Python"):
                bytepath.copy(end, tmp_path / "b")


def test_a_file_that_only_adds_to_what_files_do_is_taken(tmp_path):
    class Named(io.FileIO):
        label = "mine"

        def close(self) -> None:
            super().close()

    (tmp_path / "a").write_bytes(b"bytes")
    with Named(tmp_path / "a") as file:
        assert bytepath.copy(file, tmp_path / "b").bytes == 5


@pytest.mark.parametrize("flags", [0, os.O_NONBLOCK])
@pytest.mark.parametrize("timeout", [None, 30])
def test_several_threads_copy_to_one_file_object_that_holds_something(tmp_path, flags, timeout):
    (tmp_path / "a").write_bytes(b"behind")
    reader, writer = os.pipe2(flags)
    raised = []

    def copy():
        try:
            bytepath.copy(tmp_path / "a", file, timeout=timeout)
        except BaseException as error:
            raised.append(error)

    with open(writer, "wb") as file:
        file.write(b"held")
        left = fill(writer) + len(b"held") + 4 * len(b"behind")
        threads = [threading.Thread(target=copy) for _ in range(4)]
        for thread in threads:
            thread.start()
        while left > 0 and select.select([reader], [], [], 30)[0]:
            left -= len(os.read(reader, 1 << 20))
        for thread in threads:
            thread.join()
        assert (raised, left) == ([], 0)
        assert "write" not in vars(file.raw)
    os.close(reader)


def fill(pipe):
    """Fills a pipe; how much it holds then."""
    blocks, count = os.get_blocking(pipe), 0
    os.set_blocking(pipe, False)
    with suppress(BlockingIOError):
        while True:
            count += os.write(pipe, bytes(4096))
    os.set_blocking(pipe, blocks)
    return count


@pytest.mark.parametrize("ends", ["endless", "pipe", "full socket"])
def test_an_interrupt_ends_a_copy(ends):
    reader, writer = os.pipe()
    near, far = socket.socketpair()
    source, sink = {
        "endless": ("/dev/zero", os.devnull),
        "pipe": (reader, os.devnull),
        "full socket": ("/dev/zero", near),
    }[ends]
    began = time.monotonic()
    with near, far, signalled(signal.SIGINT), pytest.raises(KeyboardInterrupt) as raised:
        bytepath.copy(source, sink)
    # Not a matter of speed: an uninterruptible copy would never end.
    assert time.monotonic() - began < 30
    cause = raised.value.__cause__
    assert isinstance(cause, bytepath.CopyError) and cause.errno == errno.ECANCELED
    os.close(reader)
    os.close(writer)


def test_an_interrupt_of_a_verification_tells_how_far_it_came(tmp_path):
    count = 1 << 40
    with open(tmp_path / "a", "w+b") as one, open(tmp_path / "b", "w+b") as other:
        one.truncate(count)
        other.truncate(count)
        with signalled(signal.SIGINT), pytest.raises(KeyboardInterrupt) as raised:
            bytepath._bytepath.first_difference(one.fileno(), other.fileno(), (0, 0), count)
    cause = raised.value.__cause__
    assert isinstance(cause, bytepath.CopyError) and cause.errno == errno.ECANCELED
    assert 0 <= cause.offset < count
    assert f"cancelled at byte {cause.offset} while verifying" in str(cause)


def test_handlers_of_signals_run_and_the_copy_goes_on():
    reader, writer = os.pipe()

    def feed(*_: object) -> None:
        os.write(writer, b"from the handler")
        os.close(writer)

    before = signal.signal(signal.SIGUSR1, feed)
    try:
        with signalled(signal.SIGUSR1):
            assert bytepath.copy(reader, os.devnull).bytes == 16
    finally:
        signal.signal(signal.SIGUSR1, before)
        os.close(reader)


@pytest.mark.parametrize("told", ["", ", progress=lambda *_: None, progress_seconds=0.0001"])
def test_an_interpreter_ends_while_threads_copy(python, told):
    done = python(
        "import bytepath, os, sys, threading, time\n"
        "reader, writer = os.pipe()\n"
        "for source in ('/dev/zero', reader, reader, '/dev/zero'):\n"
        f"    copy = lambda source=source: bytepath.copy(source, os.devnull{told})\n"
        "    threading.Thread(target=copy, daemon=True).start()\n"
        "time.sleep(0.1)\n"
        "sys.exit(7)\n"
    )
    assert (done.returncode, done.stdout, done.stderr) == (7, "", "")


def test_nothing_is_left_open(tmp_path):
    (tmp_path / "a").write_bytes(bytes(5 << 20))
    bytepath.copy(tmp_path / "a", tmp_path / "b", verify=True)
    before = sorted(os.listdir("/proc/self/fd"))
    for sink in (tmp_path / "b", "/dev/full", tmp_path, tmp_path / "a"):
        try:
            bytepath.copy(tmp_path / "a", sink, progress=lambda *_: None)
        except OSError:
            pass
        bytepath.plan(tmp_path / "a", tmp_path / "c")
    assert sorted(os.listdir("/proc/self/fd")) == before
    assert "bytepath" not in names_of_threads()


@pytest.mark.parametrize("way", ["copy", "verify", "plan", "plan to a file", "plan to a fifo", "read ahead"])
def test_what_is_raised_at_whatever_moment_leaves_nothing_open(tmp_path, way):
    (tmp_path / "a").write_bytes(bytes(5000))
    (tmp_path / "there").touch()
    os.mkfifo(tmp_path / "fifo")
    source, sink = tmp_path / "a", tmp_path / "b"
    work = {
        "copy": lambda: bytepath.copy(source, sink, source_offset=3),
        "verify": lambda: bytepath.copy(source, sink, verify=True),
        "plan": lambda: bytepath.plan(source, sink),
        "plan to a file": lambda: bytepath.plan(source, tmp_path / "there"),
        "plan to a fifo": lambda: bytepath.plan(source, tmp_path / "fifo"),
        "read ahead": lambda: bytepath.copy(ahead, sink, length=1),
    }[way]
    near, far = socket.socketpair()
    ahead = near.makefile("rb")
    far.send(bytes(8000))
    ahead.read(1)
    work()
    gc.collect()
    before = descriptors()
    left = 0

    class Raised(BaseException):
        pass

    # As what handlers of signals raise, which run after calls.
    def profile(*_: object) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Raised

    for most in itertools.count(1):
        left = most
        with suppress(Raised):
            sys.setprofile(profile)
            work()
            sys.setprofile(None)
        assert descriptors() == before, most
        if left > 0:
            break
    assert most > 20
    for end in (near, far, ahead):
        end.close()


def descriptors() -> dict[str, str]:
    """All that this process has open, but for the one that lists them."""
    links = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):
            links[name] = os.readlink(f"/proc/self/fd/{name}")
    return links


def names_of_threads() -> list[str]:
    """Of all threads, also those that Python knows nothing of."""
    return [name.read_text().rstrip() for name in Path("/proc/self/task").glob("*/comm")]


def test_a_thread_that_copies_is_found_by_its_name():
    reader, writer = os.pipe()
    named: list[str] = []

    def tell(done: int, total: int | None) -> None:
        if not named:
            named.extend(names_of_threads())
            os.write(writer, b"!")

    with os.fdopen(reader, "rb", 0) as source:
        os.write(writer, b"bytes")
        bytepath.copy(source, os.devnull, progress=tell, progress_seconds=0.01, length=6)
    os.close(writer)
    assert "bytepath" in named
