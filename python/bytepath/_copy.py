"""Copies of single files and streams, and the plans for them."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO, Any, ClassVar

from bytepath import _bytepath
from bytepath._ends import End, Opened
from bytepath._errors import CopyError, SameFileError, make
from bytepath._progress import Progress, check, teller
from bytepath._words import rate


@dataclass(frozen=True)
class Copied:
    """What a copy did."""

    #: Bytes that the sink took.
    bytes: int
    #: The route that brought it to the end.
    route: str
    #: System calls that moved them.
    calls: int
    #: Seconds that the moving took.
    seconds: float
    #: Routes that gave up before: name, byte reached, why.
    declined: list[tuple[str, int, str]] = field(default_factory=list, hash=False)

    #: No field: what the engine told, or that in words.
    _told: ClassVar[Any] = ""

    @property
    def explained(self) -> str:
        """The plan and what came of it, in words, which are found when they are asked for."""
        return self._told if isinstance(self._told, str) else str(self._told.explained)

    @property
    def gib_per_s(self) -> float:
        """How fast it was."""
        return self.bytes / (1 << 30) / max(self.seconds, 1e-9)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_told": self.explained}

    def __str__(self) -> str:
        return f"{self.bytes} bytes by {self.route}, {rate(self.gib_per_s)}"


@dataclass(frozen=True)
class Plan:
    """The routes between two ends, best first, and why the others are refused."""

    #: What the order goes by, in words.
    reason: str
    #: The routes in the order in which they are tried: name, measured GiB/s or None, in words.
    routes: list[PlannedRoute] = field(hash=False)
    #: The routes that are not tried, and why.
    refused: dict[str, str] = field(hash=False)
    _text: str = field(repr=False, default="")

    def __str__(self) -> str:
        return f"{self.reason}\n{self._text}".rstrip()


@dataclass(frozen=True)
class PlannedRoute:
    """One route of a plan."""

    name: str
    #: What it gave when this machine was measured, on the file system of these files; None where it was not.
    expected_gib_per_s: float | None
    #: Its standing and its knobs, in words.
    why: str

    def __str__(self) -> str:
        return self.why


def copy(
    source: End,
    sink: End,
    *,
    source_offset: int | None = None,
    sink_offset: int | None = None,
    length: int | None = None,
    route: str | None = None,
    profile: str | os.PathLike[str] | None = None,
    progress: Progress = None,
    progress_seconds: float = 0.1,
    timeout: float | None = None,
    verify: bool = False,
    enlarge_pipes: bool = True,
    allow_aliasing: bool = False,
    leave_cache: bool = False,
) -> Copied:
    """Copies bytes from `source` to `sink` by the fastest route that this machine offers.

    Each end is a path, a file that is open in binary mode, a socket, or a descriptor. A path as the
    sink is made, or emptied, unless `sink_offset` is given. Files, sockets and descriptors are used
    from where they stand, and stand right after the bytes afterwards. Attributes of files are not
    copied.

    `source_offset`, `sink_offset`: where to begin in a file, in bytes. With `sink_offset` a path keeps
    what it holds around the bytes.
    `length`: bytes at most; all that there are unless given.
    `route`: this route alone, or fail (`bytepath.routes()` names them).
    `profile`: a profile of this machine, instead of that in its usual place.
    `progress`: a function of (bytes so far, bytes in all or None), a bar of tqdm's, or True for one;
    called every `progress_seconds`, and at the end. What it raises ends the copy.
    `timeout`: TimeoutError where nothing moves for so many seconds, or nobody opens the other end of a FIFO; a
    socket's own unless given.
    `verify`: read both files again, and compare.
    `enlarge_pipes`: make pipes at either end larger where that is faster.
    `allow_aliasing`: later writes to the source may show in a pipe or socket whose reader has not
    read yet, which allows routes that hand over pages instead of copying.
    `leave_cache`: leave the page cache as it was.

    The interpreter is free for other threads meanwhile, and Ctrl-C ends the copy.

    Raises CopyError, which is an OSError with the byte reached (`offset`) and the `route`; ValueError
    or TypeError for arguments that make no sense.
    """
    check(progress)
    given = None if length is None else _count("length", length)
    asked = {
        "limit": given,
        "before": 0,
        "route": _route(route),
        "profile": _profile(profile, route),
        "enlarge_pipes": bool(enlarge_pipes),
        "allow_aliasing": bool(allow_aliasing),
        "leave_cache": bool(leave_cache),
        # A file that is made or emptied here shows gaps until all is there, as one that cp writes.
        "any_order": _path(sink) is not None and sink_offset is None,
        "every": _seconds("progress_seconds", progress_seconds),
        "stall": None if timeout is None else _seconds("timeout", timeout),
    }
    if not verify and progress is None and source_offset is None and sink_offset is None:
        # A small file would notice what else is looked at below.
        names = _path(source), _path(sink)
        if names[0] is not None and names[1] is not None:
            moved = _bytepath.copy_file(names[0], names[1], asked)
            if moved is not None:
                return _copied([moved])
    opened_source, opened_sink = Opened(source, "source"), Opened(sink, "sink")
    if timeout is None:
        own = [t for t in (opened_source.timeout, opened_sink.timeout) if t is not None]
        asked["stall"] = min(own) if own else None
    begin_at = (_count("source_offset", source_offset), _count("sink_offset", sink_offset))
    with _open_both(opened_source, opened_sink, begin_at, asked, verify) as ends:
        with teller(progress, lambda: ends.total(given)) as tell:
            # After all that may be refused: what is taken from a pipe here cannot be put back, nor into a sink
            # what it held.
            ends.empty_sink()
            parts = _deliver_ahead(opened_source, ends.sink, asked, tell)
            asked["before"] = before = sum(part.bytes for part in parts)
            if given is not None:
                asked["limit"] = given - before
            parts.append(_bytepath.move_bytes(ends.source, ends.sink, asked, tell))
            opened_sink.taken_bytes = before + parts[-1].bytes
        if verify:
            ends.verify(parts[-1].bytes)
    return _copied(parts)


def _deliver_ahead(
    source: Opened, sink: int, asked: dict[str, Any], tell: Callable[[int], None] | None
) -> list[_bytepath.Moved]:
    """Brings what was read ahead to the sink, if anything was, as all else is: from a file, by whatever route."""
    file = None
    try:
        source.read_ahead(asked["limit"])
        if not (ahead := source.ahead):
            return []
        file = _file_of(ahead)
        by_any = {**asked, "limit": None, "route": None, "profile": None, "any_order": False}
        return [_bytepath.move_bytes(file.fileno(), sink, by_any, tell)]
    except BaseException as error:
        if not isinstance(error, CopyError) and error.__cause__ is None:
            # A handler of a signal, before or after the call.
            at = 0 if file is None else os.lseek(file.fileno(), 0, os.SEEK_CUR)
            error.__cause__ = make(errno.ECANCELED, f"cancelled at byte {at}", at)
        for told in (error, error.__cause__):
            if isinstance(told, CopyError):
                # The file could be read again, but what its bytes were read from cannot.
                told.stranded = source.ahead[told.offset :]
        raise
    finally:
        if file is not None:
            file.close()


def _file_of(ahead: bytes) -> _bytepath.Held:
    """A file in memory of these bytes, at its beginning."""
    try:
        file = _bytepath.Held(os.memfd_create, "bytepath-read-ahead")
        try:
            with open(file.fileno(), "wb", closefd=False) as writes:
                writes.write(ahead)
            os.lseek(file.fileno(), 0, os.SEEK_SET)
        except BaseException:
            file.close()
            raise
    except OSError as error:
        text = f"there is no memory to be had for what was read ahead: {error.strerror}"
        raise make(error.errno or errno.EIO, text, stranded=ahead) from None
    return file


def _path(end: Any) -> str | None:
    """The end as a path, if it is one."""
    if isinstance(end, str):
        return end
    if isinstance(end, bytes) or hasattr(type(end), "__fspath__"):
        return os.fsdecode(end)
    return None


def _copied(parts: list[_bytepath.Moved]) -> Copied:
    """What was moved: what was read ahead, if anything was, comes first, and may be all."""
    copied = object.__new__(Copied)
    first, last = parts[0], parts[-1]
    declined = first.declined
    if last is not first:
        declined = declined + [(name, first.bytes + at, why) for name, at, why in last.declined]
    main = last if last.bytes else first
    # As its own initialiser does it, which takes four times as long because it is frozen.
    copied.__dict__.update(
        bytes=sum(part.bytes for part in parts),
        route=main.route,
        calls=sum(part.calls for part in parts),
        seconds=sum(part.seconds for part in parts),
        declined=declined,
        _told=main,
    )
    return copied


def plan(
    source: End,
    sink: End,
    *,
    length: int | None = None,
    route: str | None = None,
    profile: str | os.PathLike[str] | None = None,
    enlarge_pipes: bool = True,
    allow_aliasing: bool = False,
    leave_cache: bool = False,
) -> Plan:
    """The plan that `copy` would begin with, without moving anything. `print` shows it.

    The ends and options are those of `copy`. A path that is not there yet stands for a file in its
    directory.
    """
    asked = {
        "limit": _count("length", length),
        "before": 0,
        "route": _route(route),
        "profile": _profile(profile, route),
        "enlarge_pipes": bool(enlarge_pipes),
        "allow_aliasing": bool(allow_aliasing),
        "leave_cache": bool(leave_cache),
        "any_order": _path(sink) is not None,
        "every": 1.0,
        "stall": None,
    }
    opened_source, opened_sink = Opened(source, "source"), Opened(sink, "sink")
    opened_source.check_open()
    opened_sink.check_open()
    with _looked_at(opened_source) as one, _looked_at(opened_sink) as other:
        planned = _bytepath.plan_for(one, other, asked)
    routes = [PlannedRoute(r.name, r.expected_gib_per_s, r.why) for r in planned.routes]
    return Plan(planned.reason, routes, dict(planned.refused), planned.text)


@contextmanager
def _looked_at(end: Opened) -> Iterator[int]:
    """A descriptor of an end that nothing is to be read from or written to."""
    is_sink = end.role == "sink"
    if end.is_fifo():
        # Whoever waits at its other end would take this for the peer, which leaves at once.
        reader, writer = _bytepath.Held.pipe()
        with closing(reader), closing(writer):
            yield (writer if is_sink else reader).fileno()
        return
    if is_sink and not end.is_there():
        with closing(_stand_in_for(end)) as stand_in:
            yield stand_in.fileno()
        return
    with closing(end):
        try:
            end.open((os.O_RDWR if is_sink else os.O_RDONLY) | os.O_NONBLOCK)
        except PermissionError:
            if not is_sink:
                raise
            end.open(os.O_WRONLY | os.O_NONBLOCK)
        yield end.descriptor


def _stand_in_for(sink: Opened) -> _bytepath.Held | IO[bytes]:
    """A file without a name, where a sink that is not there yet would be made."""
    directory = os.path.dirname(os.fsdecode(sink.name)) or os.curdir
    with suppress(OSError):
        return _bytepath.Held(os.open, directory, os.O_RDWR | os.O_TMPFILE, 0o600)
    try:
        # Not every file system makes one that never had a name.
        return tempfile.TemporaryFile(buffering=0, dir=directory)
    except OSError as error:
        raise sink.unopened(error.errno or errno.EIO) from None


def check_route_and_profile(route: str | None, profile: str | os.PathLike[str] | None) -> None:
    """Refuses a route that there is not, and a profile that cannot be used, as `copy` does."""
    if _route(route) is not None and route not in routes():
        raise ValueError(f"there is no route {route}; there are: {', '.join(routes())}")
    _profile(profile, route)


def _route(name: str | None) -> str | None:
    if name is not None and not isinstance(name, str):
        raise TypeError(f"route has to be the name of a route, not {type(name).__name__}")
    return name


def _profile(profile: str | os.PathLike[str] | None, route: str | None) -> _bytepath.NamedProfile | None:
    """The profile, read once for all that a copy does; a route that is named needs none."""
    name = None if profile is None else os.fsdecode(profile)
    return None if name is None or route is not None else _bytepath.named_profile(name)


def _count(name: str, value: int | None) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{name} has to be a whole number of bytes, not {type(value).__name__}")
    number = value.__index__()
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{name} has to be between 0 and 2**63 - 1, not {number}")
    return number


def _seconds(name: str, value: Any) -> float:
    # Numbers of other kinds (numpy, decimal, fractions) say what they are as a float.
    if isinstance(value, bool) or not hasattr(value, "__float__") and not hasattr(value, "__index__"):
        raise TypeError(f"{name} has to be a number of seconds, not {type(value).__name__}")
    seconds = float(value)
    if not seconds > 0:
        raise ValueError(f"{name} has to be more than 0 seconds, not {value}")
    return seconds


@contextmanager
def _open_both(
    source: Opened, sink: Opened, offsets: tuple[int | None, int | None], asked: dict[str, Any], verify: bool
) -> Iterator[_Both]:
    """Opens both ends, and leaves them, also where a handler of a signal raises at whatever moment."""
    ends = _Both(source, sink, offsets, asked, verify)
    with source, sink:
        ends.begin()
        yield ends


class _Both:
    """Both ends, standing where the copy begins."""

    def __init__(
        self,
        source: Opened,
        sink: Opened,
        offsets: tuple[int | None, int | None],
        asked: dict[str, Any],
        verify: bool,
    ) -> None:
        self._source, self._sink, self._offsets = source, sink, offsets
        self._asked, self._verify = asked, verify
        self._start = 0

    def begin(self) -> None:
        """Opens them. Whoever calls leaves them, whatever comes of it."""
        # Before anything is opened, which would get the number of what was closed.
        self._source.check_open()
        self._sink.check_open()
        if not self._source.is_path and not self._sink.is_path and self._source.regular() and self._sink.regular():
            _bytepath.check_apart(self.source, self.sink)
        self._source.open(os.O_RDONLY, self._asked["stall"])
        self._source.begin(self._offsets[0], self._asked["stall"])
        self._check_source()
        self._open_sink()
        self._sink.begin(self._offsets[1], self._asked["stall"])
        self._check_sink()

    @property
    def source(self) -> int:
        return self._source.descriptor

    @property
    def sink(self) -> int:
        return self._sink.descriptor

    def _check_source(self) -> None:
        """Refuses it before a sink is made, or emptied."""
        if self._sink.is_path and not self._source.is_path:
            _bytepath.check_source(self.source)
        if self._verify:
            self._check_verifiable(self._source)
            self._start = self._source.position()

    def _open_sink(self) -> None:
        """Makes it only once what is asked for is known to be had."""
        if self._is_chosen and not self._sink.is_there():
            with closing(_stand_in_for(self._sink)) as stand_in:
                _bytepath.plan_for(self.source, stand_in.fileno(), self._asked)
        # Some routes map the sink, which takes one that can be read. A FIFO that is open for reading here
        # would have a reader that never reads.
        both = os.O_RDWR if self._sink.may_be_read() else os.O_WRONLY
        try:
            self._sink.open(both | os.O_CREAT, self._asked["stall"])
        except PermissionError:
            self._sink.open(os.O_WRONLY | os.O_CREAT, self._asked["stall"])

    def _check_sink(self) -> None:
        """Refuses it before it is emptied, and before anything is taken from the source."""
        if not self._sink.is_path:
            _bytepath.check_sink(self.sink)
        if self._verify:
            self._check_verifiable(self._sink)
            self._check_readable()
        if self._is_emptied and os.path.sameopenfile(self.source, self.sink):
            text = "the source is the sink: nothing was copied"
            raise SameFileError(errno.EINVAL, text, self._source.name, self._sink.name)
        if self._verify and self._is_written_over():
            raise ValueError("verify reads the source again, of which a part would be written over: nothing was copied")
        if self._is_chosen:
            _bytepath.plan_for(self.source, self.sink, self._asked)

    def _is_written_over(self) -> bool:
        """Whether bytes move down within one file by less than there are; those that would move up so are refused."""
        if not os.path.sameopenfile(self.source, self.sink) or self._sink.appends():
            return False
        down, count = self._start - self._sink.position(), self.total(self._asked["limit"])
        return down > 0 and (count is None or down < count)

    def empty_sink(self) -> None:
        """Empties it, if it is a file that a path names, and nothing of it is to stay."""
        if not self._is_emptied:
            return
        try:
            os.ftruncate(self.sink, 0)
        except OSError as error:
            text = f"cannot empty the sink: {error.strerror}"
            raise make(error.errno or errno.EIO, text, side="sink", filename=self._sink.name) from None

    @property
    def _is_emptied(self) -> bool:
        is_path = self._sink.is_path and self._offsets[1] is None
        return is_path and stat.S_ISREG(os.fstat(self.sink).st_mode)

    @property
    def _is_chosen(self) -> bool:
        return self._asked["route"] is not None or self._asked["profile"] is not None

    def _check_readable(self) -> None:
        if not stat.S_ISREG(os.fstat(self.sink).st_mode):
            return
        try:
            with _to_read_again(self._sink, 0):
                pass
        except PermissionError:
            text = f"verify reads the sink again, and {self._sink.name!r} may not be read: nothing was copied"
            raise make(errno.EACCES, text, 0, None, "sink") from None

    def total(self, length: int | None) -> int | None:
        """The bytes in all, where they are known."""
        status = os.fstat(self.source)
        if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
            return length
        left = max(0, status.st_size - self._source.position())
        return left if length is None else min(left, length)

    def _check_verifiable(self, end: Opened) -> None:
        if not end.regular():
            raise ValueError("verify reads both ends again, so both have to be files")

    def verify(self, count: int) -> None:
        """Reads both again, and compares."""
        starts = (self._start, self._sink.position() - count)
        with _to_read_again(self._source, count) as one, _to_read_again(self._sink, count) as other:
            different = _bytepath.first_difference(one, other, starts, count)
        if different is not None:
            text = f"byte {different} is not what was read: it was written since, or the device lies"
            raise make(errno.EIO, text, different, None, "sink")


@contextmanager
def _to_read_again(end: Opened, taken_bytes: int) -> Iterator[int]:
    """The end's descriptor, or another on its file where it may not be read, or only in whole blocks. Closing one takes
    the locks on the file (fcntl.lockf) from the process, so none is opened that need not be."""
    flags = fcntl.fcntl(end.descriptor, fcntl.F_GETFL)
    if flags & os.O_ACCMODE != os.O_WRONLY and not flags & os.O_DIRECT:
        yield end.descriptor
        return
    try:
        again = _bytepath.Held(os.open, f"/proc/self/fd/{end.descriptor}", os.O_RDONLY)
    except OSError as error:
        text = f"cannot open the {end.role} again to verify it: {error.strerror}"
        raise make(error.errno or errno.EIO, text, taken_bytes, None, end.role) from None
    try:
        yield again.fileno()
    finally:
        # Nothing was written by it.
        with suppress(OSError):
            again.close()


def routes() -> dict[str, str]:
    """The routes that a copy may take, and what each does."""
    return dict(_bytepath.routes())
