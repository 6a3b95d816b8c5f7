"""The ends of a copy: what Python calls a file, as a descriptor that stands at the right place."""

from __future__ import annotations

import errno
import fcntl
import io
import os
import select
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import partial
from time import monotonic, sleep
from typing import IO, Any, Union

from bytepath import _bytepath
from bytepath._errors import CopyError, make, unclosed

#: What may be the source or the sink of a copy.
End = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]", int, IO[bytes], socket.socket]

#: Taken from a file object at once.
_PIECE_BYTES = 64 << 10

#: Between two looks whether somebody reads a FIFO.
_LOOK_S = 0.01
_POLL_MS_MAX = (1 << 31) - 1

_BUFFERED = (io.BufferedReader, io.BufferedWriter, io.BufferedRandom)

#: Files of Python's whose bytes are those of their descriptor, and with what they read and write them.
_RAW = (io.FileIO, socket.SocketIO)
_MOVE_BYTES = ("read", "read1", "readall", "readinto", "readinto1", "write")

#: What is no file of Python's, and has one of these, may have bytes that its descriptor does not give any more.
_METHODS_OF_FILES = ("read", "readline", "write")


class Opened:
    """One end, open. `descriptor` is what the bytes go through."""

    descriptor: int
    #: Seconds after which a peer that does not move is given up.
    timeout: float | None = None
    #: What a sink took.
    taken_bytes = 0

    def __init__(self, end: Any, role: str) -> None:
        self.role = role
        self._file: Any = None
        self._stood: int | None = None
        self._owned = False
        self._held: _bytepath.Held | None = None
        self._taken: list[bytes] = []
        if isinstance(end, (str, bytes, os.PathLike)):
            self._owned = True
            self.name = os.fspath(end)
            return
        self.name = getattr(end, "name", None)
        if isinstance(end, bool) or end is None:
            raise self._wrong_type(end, "a path, a file, a socket or a descriptor is wanted")
        if isinstance(end, int):
            if not -(1 << 31) <= end < 1 << 31:
                raise ValueError(f"the {role} cannot be {end}: no descriptor has such a number")
            self.descriptor = end
            return
        # tempfile's wrapper: the file itself is inside.
        if type(end).__module__ == "tempfile" and hasattr(end, "file"):
            end = end.file
        if isinstance(end, io.TextIOBase):
            raise self._wrong_type(
                end, "it is open in text mode, which has other bytes than the file: open it with 'b'"
            )
        self._from_object(end)

    def _from_object(self, end: Any) -> None:
        connection = _socket_of(end)
        if connection is not None:
            # Another thread may be in the middle of importing it.
            enciphered = getattr(sys.modules.get("ssl"), "SSLSocket", ())
            if isinstance(connection, enciphered):
                raise self._wrong_type(end, "its bytes are enciphered in Python: use its own methods")
            self.timeout = connection.gettimeout() or None
        if isinstance(end, _BUFFERED):
            for part in (end.raw, end):
                if not _is_as_its_descriptor(part):
                    raise self._made_in_python(part)
            self._file = end
        elif isinstance(end, io.BufferedRWPair):
            why = "it is two buffers over one thing: give that, a socket for instance, or a file that goes one way"
            raise self._wrong_type(end, why)
        elif isinstance(end, io.IOBase) and not _is_as_its_descriptor(end):
            raise self._made_in_python(end)
        fileno = getattr(end, "fileno", None)
        if fileno is None:
            raise self._wrong_type(end, "a path, a file, a socket or a descriptor is wanted")
        if not isinstance(end, (io.IOBase, socket.socket)) and any(hasattr(end, name) for name in _METHODS_OF_FILES):
            # os.popen, urllib and codecs have a file inside, which may have read ahead, or be a text.
            why = "it is no file itself, and may hold bytes of one: give the file inside, or what its fileno() says"
            raise self._wrong_type(end, why)
        self.descriptor = fileno()
        if not isinstance(self.descriptor, int):
            raise self._wrong_type(end, "its fileno() is no number")

    def _wrong_type(self, end: Any, why: str) -> TypeError:
        return TypeError(f"the {self.role} cannot be {type(end).__name__}: {why}")

    def _made_in_python(self, end: Any) -> TypeError:
        why = "its bytes are made in Python, not read from a descriptor: use shutil.copyfileobj"
        return self._wrong_type(end, why)

    def open(self, flags: int, patience: float | None = None) -> None:
        """Opens a path; anything else is open. A FIFO takes somebody at its other end, for whom it waits so many
        seconds."""
        if not self._owned:
            return
        flags |= os.O_CLOEXEC | os.O_NOCTTY
        try:
            if patience is not None and self.is_fifo():
                self._held = self._open_fifo(flags, patience)
            else:
                self._held = _bytepath.Held(os.open, self.name, flags, 0o666)
        except CopyError:
            raise
        except OSError as error:
            raise self.unopened(error.errno or errno.EIO) from None
        self.descriptor = self._held.fileno()
        if stat.S_ISDIR(os.fstat(self.descriptor).st_mode):
            self.close()
            raise self.unopened(errno.EISDIR)

    def is_fifo(self) -> bool:
        """Whether a path names a FIFO."""
        try:
            return self._owned and stat.S_ISFIFO(os.stat(self.name).st_mode)
        except OSError:
            return False

    def _open_fifo(self, flags: int, patience: float) -> _bytepath.Held:
        until = monotonic() + patience
        while (held := self._opened_if_read(flags)) is None:
            if monotonic() >= until:
                raise self._alone(patience)
            sleep(min(_LOOK_S, patience))
        # Whoever leaves this end closes it, also where what is raised here is kept.
        self._held = held
        if self.role == "source" and not _is_readable(held.fileno(), until - monotonic()):
            raise self._alone(patience)
        os.set_blocking(held.fileno(), True)
        return held

    def _opened_if_read(self, flags: int) -> _bytepath.Held | None:
        """A FIFO's descriptor: to write, only where somebody reads."""
        try:
            return _bytepath.Held(os.open, self.name, flags | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            return None

    def _alone(self, patience: float) -> CopyError:
        does = "writes" if self.role == "source" else "reads"
        text = f"nobody {does} at the other end of the {self.role} for {patience:g} s"
        return make(errno.ETIMEDOUT, text, side=self.role, filename=self.name)

    def unopened(self, number: int) -> CopyError:
        """The exception for a path that cannot be opened."""
        hint = "; bytepath.copytree copies trees" if number == errno.EISDIR else ""
        text = f"cannot open the {self.role}: {os.strerror(number)}{hint}"
        return make(number, text, side=self.role, filename=self.name)

    def check_open(self) -> None:
        """Refuses what was closed before it came here."""
        if self._owned:
            return
        try:
            os.fstat(self.descriptor)
        except OSError:
            text = f"the {self.role} is closed (descriptor {self.descriptor})"
            raise make(errno.EBADF, text, side=self.role) from None

    def may_be_read(self) -> bool:
        """Whether a path names a regular file, or nothing yet."""
        try:
            return self._owned and stat.S_ISREG(os.stat(self.name).st_mode)
        except OSError:
            return True

    def close(self) -> None:
        """Closes what `open` opened, where nothing was written."""
        if self._held is not None:
            with suppress(OSError):
                self._held.close()

    @property
    def is_path(self) -> bool:
        """Whether it was given by name."""
        return self._owned

    def is_there(self) -> bool:
        """Whether there is something to open, or it is open."""
        return not self._owned or os.path.exists(self.name)

    def regular(self) -> bool:
        """Whether it is a regular file or a block device."""
        mode = os.fstat(self.descriptor).st_mode
        return stat.S_ISREG(mode) or stat.S_ISBLK(mode)

    def position(self) -> int:
        """Where the descriptor stands."""
        return os.lseek(self.descriptor, 0, os.SEEK_CUR)

    def go_to(self, offset: int) -> None:
        """Sets the descriptor to an offset."""
        try:
            os.lseek(self.descriptor, offset, os.SEEK_SET)
        except OSError as error:
            if error.errno == errno.EINVAL and offset >= 0:
                text = f"offset {offset} is beyond what the file system of the {self.role} takes"
            else:
                text = f"the {self.role} has no offsets to begin at: {error.strerror}"
            raise make(error.errno or errno.ESPIPE, text, side=self.role) from None

    def begin(self, offset: int | None, patience: float | None) -> None:
        """Brings the descriptor to where the file object stands, or to the offset.

        What the object has still to write is written first, unless nobody takes any for so many seconds.
        """
        file = self._file
        if offset is not None and self.role == "sink" and self.appends():
            raise ValueError("sink_offset says where to begin, and the sink is open to append: it is written at its end")
        if file is not None and file.writable():
            self._flush(patience)
        if file is not None and file.seekable():
            # The object keeps account of where the descriptor stands, so it is put back afterwards.
            self._stood = self.position()
            self.go_to(file.tell() if offset is None else offset)
        elif offset is not None:
            self.go_to(offset)

    def _flush(self, patience: float | None) -> None:
        try:
            _flush_within(self._file, self.descriptor, patience)
        except OSError as error:
            text = f"cannot write what the file object of the {self.role} holds: {error.strerror or error}"
            # A socket's own time being over has no number.
            unnumbered = errno.ETIMEDOUT if isinstance(error, TimeoutError) else errno.EIO
            raise make(error.errno or unnumbered, text, side=self.role) from None

    def appends(self) -> bool:
        """Whether it is written at its end, wherever it stands."""
        return bool(fcntl.fcntl(self.descriptor, fcntl.F_GETFL) & os.O_APPEND)

    def read_ahead(self, most: int | None) -> None:
        """What a file object holds of a pipe or socket comes before what the descriptor gives: takes it."""
        file = self._file
        if file is None or self._stood is not None or not file.readable():
            return
        left = sys.maxsize if most is None else most
        with _nothing_to_read(file.raw):
            while True:
                # All by one call, in the middle of which no handler of a signal can lose what was taken.
                self._taken.extend(map(file.read1, (min(left, _PIECE_BYTES),)))
                if not self._taken[-1]:
                    return
                left -= len(self._taken[-1])

    @property
    def ahead(self) -> bytes:
        """What `read_ahead` has taken."""
        return b"".join(self._taken)

    def __enter__(self) -> Opened:
        return self

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        """Closes what `open` opened; an object of the caller's stands where the descriptor does."""
        try:
            self._end()
            if self.role == "sink":
                self._close_written()
        except (OSError, ValueError):
            # What ended the copy says how far it came, and nothing takes its place.
            if error is None:
                raise
        finally:
            self.close()

    def _close_written(self) -> None:
        try:
            if self._held is not None:
                self._held.close()
        except OSError as error:
            raise unclosed(error.errno or errno.EIO, self.name, self.taken_bytes) from None

    def _end(self) -> None:
        if self._file is None or self._stood is None:
            return
        stands = self.position()
        os.lseek(self.descriptor, self._stood, os.SEEK_SET)
        self._file.seek(stands)


def _is_as_its_descriptor(file: io.IOBase) -> bool:
    """Whether a file reads and writes as Python's own do, and not with something done to the bytes between."""
    for own in (*_RAW, *_BUFFERED):
        if isinstance(file, own):
            return all(getattr(type(file), name, None) is getattr(own, name, None) for name in _MOVE_BYTES)
    return False


def _socket_of(end: Any) -> socket.socket | None:
    """The socket that an object is, or is a file of (`socket.makefile`)."""
    if isinstance(end, _BUFFERED):
        end = end.raw
    if isinstance(end, socket.SocketIO):
        end = end._sock  # type: ignore[attr-defined]
    return end if isinstance(end, socket.socket) else None


def _is_readable(descriptor: int, seconds: float) -> bool:
    """Whether a FIFO is, within so many seconds: that nobody has it open to write is no end before somebody had."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(min(max(seconds, 0.0) * 1000, _POLL_MS_MAX)))


@contextmanager
def _nothing_to_read(raw: Any) -> Iterator[None]:
    """Has a file object's descriptor, or socket, give nothing for a moment.

    How much the object holds cannot be asked: where that is nothing, every method of it reads, and may wait for
    ever. So what it reads with says meanwhile what a descriptor says that would have to wait.
    """
    with _replaced(raw, "readinto", lambda *_: None):
        yield


def _flush_within(file: Any, descriptor: int, patience: float | None) -> None:
    """Has a file object write what it holds. It waits so many seconds at most for whoever reads, and waits also where
    its descriptor does not."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT)
    limit = None if patience is None else min(patience * 1000, _POLL_MS_MAX)

    def wait() -> None:
        if not poll.poll(limit):
            raise TimeoutError(errno.ETIMEDOUT, f"nobody took any of it for {patience:g} s")

    # More than that a pipe that takes some may not take at once. Messages and records stay as long as they are.
    most = select.PIPE_BUF if patience is not None and _bytepath.is_stream(descriptor) else None

    def write(original: Callable[[memoryview], int | None], view: memoryview) -> int:
        while True:
            wait()
            # None: somebody else has filled it meanwhile.
            if (count := original(view[:most])) is not None:
                return count

    with nullcontext() if patience is None else _replaced(file.raw, "write", write):
        while True:
            try:
                file.flush()
                return
            except BlockingIOError:
                wait()


@contextmanager
def _replaced(raw: Any, name: str, method: Callable[..., Any]) -> Iterator[None]:
    """Has a raw file object do something else for one of its methods, which is given that one: for one thread at a
    time, others wait."""
    attributes = raw.__dict__
    with attributes.setdefault("_bytepath_lock", threading.RLock()):
        before = {name: attributes[name]} if name in attributes else {}
        attributes[name] = partial(method, getattr(raw, name))
        try:
            yield
        finally:
            del attributes[name]
            attributes.update(before)
