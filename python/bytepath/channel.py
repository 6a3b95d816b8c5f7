"""A channel between two processes: each sends what the other receives."""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import weakref
from multiprocessing import current_process, parent_process
from multiprocessing.reduction import DupFd
from threading import RLock
from time import monotonic
from types import FrameType, FunctionType, ModuleType
from typing import Any

from bytepath import _bytepath
from bytepath._channel_errors import ChannelError, PeerGone
from bytepath._sharing import CAPACITY, RING_BYTES, Closing, Readers, check_ring_bytes, check_sizes, keep_account_of, until
from bytepath._pickling import dumps, loads

__all__ = ["AsyncChannel", "Channel", "ChannelError", "ChannelListener", "PeerGone"]

# What a channel says first where its ends meet at an address; the descriptors of its two directions come
# with it.
_HELLO = b"bytepath channel 1"

# The name of an end's socket in the kernel begins so, once a process has used it, whose number follows; the other end
# looks at it.
_CLAIM = _bytepath.CLAIM

# What is lacking for a while: descriptors, here or on their way to others, and memory.
_LACKS = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ETOOMANYREFS})

# How long whoever has connected may take to say it, at most and at least.
_PATIENCE_S = 5.0
_MOMENT_S = 0.05

# How deep an end is looked for in what a process was given, in how many objects, and in which not.
_GIVEN_DEPTH = 20
_GIVEN_MOST = 100_000
_KNOWN_TO_ALL = (type, ModuleType, FunctionType, FrameType)


class Channel(Closing):
    """One end of a channel, as `multiprocessing.Pipe` makes two: what one sends, the other receives.

    Large buffers of objects (arrays, data frames, tables) are written once into shared memory, and received
    as views of it, read-only, whose memory is the sender's again when the last one is gone.

    An end belongs to the process that uses it first (RuntimeError in any other), and may be given to another one
    as an argument until then. `with` closes it.
    """

    def __init__(self, receives: _bytepath.Held, sends: _bytepath.Held, *, capacity: int, ring_bytes: int) -> None:
        self._receives = receives
        self._sends = sends
        self._capacity = capacity
        self._ring_bytes = ring_bytes
        self._inbox: _bytepath.Inbox | None = None
        self._outbox: _bytepath.Outbox | None = None
        self._readers = Readers()
        # Held by the thread that makes an end, which the others use, too, and by one that closes it. A handler of a
        # signal may do that in the middle of what its thread makes.
        self._making = RLock()
        # Why it could not be made: the descriptor is gone, and so is any other chance.
        self._unmade: dict[str, Exception] = {}
        self._owner = 0
        # Tells this object from its copies, here and in other processes.
        self._mark = os.urandom(8).hex().encode()
        self._closed = False
        # What else there is to say to who uses it all the same.
        self._closed_why = ""
        # The process that made both ends, and the other one.
        self._pair: tuple[int, weakref.ref[Channel]] | None = None

    @classmethod
    def pair(cls, *, capacity: int = CAPACITY, ring_bytes: int = RING_BYTES) -> tuple[Channel, Channel]:
        """Both ends of a new channel. Give one to another process, and close it here: while it is open here,
        the death of that process goes unnoticed."""
        check_sizes(capacity, ring_bytes)
        there, back = _bytepath.Held.socket_pair(), _bytepath.Held.socket_pair()
        one = cls(back[1], there[0], capacity=capacity, ring_bytes=ring_bytes)
        other = cls(there[1], back[0], capacity=capacity, ring_bytes=ring_bytes)
        one._pair, other._pair = (os.getpid(), weakref.ref(other)), (os.getpid(), weakref.ref(one))
        return one, other

    @classmethod
    def connect(
        cls, address: str | os.PathLike[str], *, timeout: float = 5.0, capacity: int = CAPACITY, ring_bytes: int = RING_BYTES
    ) -> Channel:
        """An end of a channel to a process that is not related, and listens at this address
        (`ChannelListener`), or will before the time is over. ChannelError where it is another user's. `ring_bytes`:
        64 MiB at the most (ValueError)."""
        check_ring_bytes(ring_bytes)
        ours, theirs = cls.pair(capacity=capacity, ring_bytes=ring_bytes)
        with theirs:
            _bytepath.introduce(os.fspath(address), timeout, _HELLO, (theirs._receives, theirs._sends))
        return ours

    # ---- sending -------------------------------------------------------------------------------

    def send(self, obj: Any, timeout: float | None = None) -> None:
        """Sends an object. Waits for room, at most so many seconds (TimeoutError). When it returns, the
        object is in memory that outlives this process. `PeerGone` where nobody receives it any more."""
        outbox = self._outbox or self._send_first()
        if not self._readers.looked(outbox, outbox.send, *dumps(obj), timeout):
            raise TimeoutError("there was no room in time: the other end receives too slowly, or not at all")

    def _send_first(self) -> _bytepath.Outbox:
        self._belongs_here()
        with self._making:
            if self._outbox is None and not self._closed:
                self._make_first("_outbox", "_sends", _bytepath.Outbox.from_fd, self._ring_bytes, self._capacity)
            self._let_go_if_closed()
            return self._outbox  # type: ignore[return-value]

    # ---- receiving -----------------------------------------------------------------------------

    def recv(self, timeout: float | None = None) -> Any:
        """Receives the next object. Waits for one, at most so many seconds (TimeoutError). EOFError where
        the other end is closed, or nobody has used it before it went; `PeerGone`, which is one too, where the process
        that used it is gone without having closed it."""
        inbox = self._inbox or self._receive_first()
        message = self._readers.looked(inbox, inbox.receive, timeout)
        if message is None:
            raise TimeoutError("nothing came in time")
        return loads(*message)

    def poll(self, timeout: float | None = 0.0) -> bool:
        """Whether there is something to receive, be it the end; waits so many seconds for it."""
        inbox = self._inbox or self._receive_first()
        return bool(self._readers.looked(inbox, inbox.poll, timeout))

    def fileno(self) -> int:
        """A descriptor that becomes readable once there is something to receive, if `watch` has said False since
        the last object was received. It may be readable for nothing: then ask `watch` again."""
        return (self._inbox or self._receive_first()).fileno()

    def watch(self) -> bool:
        """Whether there is something to receive now, be it the end; where there is not, has the descriptor
        (`fileno`) become readable once there is."""
        inbox = self._inbox or self._receive_first()
        return bool(self._readers.looked_to_wait(inbox, inbox.watch))

    def _receive_first(self) -> _bytepath.Inbox:
        self._belongs_here()
        with self._making:
            if self._inbox is None and not self._closed:
                self._make_first("_inbox", "_receives", _bytepath.Inbox.from_fd, self._ring_bytes)
            self._let_go_if_closed()
            return self._inbox  # type: ignore[return-value]

    def _make_first(self, place: str, descriptor: str, make: Any, *sizes: int) -> None:
        """Makes an end of a descriptor, which stays where that lacked what may be there the next time."""
        if descriptor in self._unmade:
            raise self._unmade[descriptor].with_traceback(None)
        try:
            # One that a handler of a signal makes meanwhile, or has made, is the one.
            _bytepath.make_first(self, place, descriptor, make, *sizes)
        except Exception as error:
            if not isinstance(error, MemoryError) and getattr(error, "errno", None) not in _LACKS:
                self._unmade[descriptor] = error
                getattr(self, descriptor).close()
            raise

    @property
    def aio(self) -> AsyncChannel:
        """This end, for event loops."""
        return AsyncChannel(self)

    # ---- whose it is ---------------------------------------------------------------------------

    def _belongs_here(self) -> None:
        self._let_go_if_closed()
        if self._owner not in (0, os.getpid()):
            raise _of_another(self._owner)
        if self._owner == 0:
            # First: a process that is forked meanwhile has a lock of its own by that.
            keep_account_of(self)
            with self._making:
                if self._owner == 0:
                    self._claim()
                    self._owner = os.getpid()
                    self._close_the_makers()

    def _claim(self) -> None:
        """Has this object use the end, unless another process, or a copy of the object, was first. The kernel gives a
        socket, of which all of them have a descriptor, a name only once, which stays when the first one is gone."""
        ours = b"%s%d-%s" % (_CLAIM, os.getpid(), self._mark)
        named = self._sends.named(ours) or ours
        # What others send may have a name of their own.
        if named != ours and named.startswith(_CLAIM):
            raise _of_another(named[len(_CLAIM) :].split(b"-")[0].decode())

    def _let_go_if_closed(self) -> None:
        if self._closed:
            # What was made meanwhile, too.
            self.close()
            raise ValueError("this end of the channel is closed" + self._closed_why)

    def _close_the_makers(self) -> None:
        """Closes the other end here, where this one alone was given to a process that multiprocessing has forked: what
        it has inherited of that one is its parent's, of whose death it would learn nothing."""
        parent = parent_process()
        if self._pair is None or parent is None or parent.pid != self._pair[0]:
            return
        other = self._pair[1]()
        if other is not None and other._owner == 0 and not _was_given(other):
            other._closed_why = (
                ": this process was forked, has used the other one first, and was not given both as arguments"
            )
            other.close()
            self._readers.why_gone = (
                "; this process was forked with both ends, has used this one first, and has closed the other one, as "
                "it was not given both as arguments"
            )

    def close(self) -> None:
        """Closes this end. The other one receives what was sent, and then EOFError."""
        self._closed = True
        with self._making:
            self._let_go()
            # With the descriptors that they wait for.
            self._outbox = self._inbox = None
            self._receives.close()
            self._sends.close()
        self._readers.end()

    @property
    def closed(self) -> bool:
        """Whether this end is closed."""
        return self._closed

    def _let_go(self, early: bool = False) -> None:
        self._make_last_word()
        outbox, inbox = self._outbox, self._inbox
        if outbox is not None:
            outbox.close()
        if inbox is not None and not (early and (inbox.is_waited_in() or self._readers.count() > 0)):
            inbox.close()

    def _make_last_word(self) -> None:
        """Has something to say that no more comes with where this process has only received: that its descriptors are
        closed says only that it is gone."""
        if self._outbox is None and "_sends" not in self._unmade and self._owner == os.getpid():
            # Where even that cannot be made, the other end is told so much.
            with contextlib.suppress(OSError, MemoryError), self._making:
                try:
                    _bytepath.make_first(self, "_outbox", "_sends", _bytepath.Outbox.from_fd, 0, 0)
                except PeerGone as error:
                    # Nobody is there to be told, and it is not said again as this is closed after the exit.
                    self._unmade["_sends"] = error.with_traceback(None)

    def _forked(self) -> None:
        # What the parent has used is the parent's, whose ends are not to stay open here.
        for end in (self._outbox, self._inbox):
            if end is not None:
                end.abandon()
        self._outbox = self._inbox = None
        self._readers = Readers()
        self._making = RLock()
        self._receives.close()
        self._sends.close()

    def __reduce__(self) -> Any:
        if self._closed or self._owner:
            whose = "is closed" if self._closed else "was used by this process, and belongs to it"
            raise ValueError(f"this end of the channel {whose}: it cannot be given away")
        given = (DupFd(self._receives.fileno()), DupFd(self._sends.fileno()))
        return _received, (type(self), *given, self._capacity, self._ring_bytes)


def _was_given(channel: Channel) -> bool:
    """Whether it is in what this process was given: its arguments, the object whose method it runs, what a subclass of
    Process keeps, and what is inside these. What modules and functions know is in every process that was forked."""
    level: list[Any] = [current_process()]
    seen = set(map(id, level))
    for _ in range(_GIVEN_DEPTH):
        inner = (each for each in gc.get_referents(*level) if not isinstance(each, _KNOWN_TO_ALL))
        level = []
        for each in filter(gc.is_tracked, inner):
            if each is channel:
                return True
            if id(each) not in seen and len(seen) < _GIVEN_MOST:
                seen.add(id(each))
                level.append(each)
    return False


def _of_another(process: object) -> RuntimeError:
    return RuntimeError(
        f"this end of the channel belongs to process {process}, which has used it, or a copy of it: give each process "
        "an end of its own (Channel.pair), or have them put into one Queue"
    )


def _received(kind: type[Channel], receives: Any, sends: Any, capacity: int, ring_bytes: int) -> Channel:
    held = (_bytepath.Held(end.detach) for end in (receives, sends))
    return kind(*held, capacity=capacity, ring_bytes=ring_bytes)


class AsyncChannel:
    """One end of a channel, for event loops. Each loop keeps copies of the end's descriptors until the end or the loop
    is closed, which are in its set of readers while a task waits. A task that is cancelled has sent, or taken,
    nothing."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    async def send(self, obj: Any) -> None:
        """Sends an object, when there is room."""
        channel = self._channel
        outbox = channel._outbox or channel._send_first()
        pickle, buffers = dumps(obj)
        await until(outbox, channel._readers, lambda: outbox.send(pickle, buffers, 0.0) or None)

    async def recv(self) -> Any:
        """Receives the next object, when it comes."""
        channel = self._channel
        inbox = channel._inbox or channel._receive_first()
        message = await until(inbox, channel._readers, inbox.receive, 0.0)
        return loads(*message)

    def close(self) -> None:
        """Closes this end."""
        self._channel.close()


class ChannelListener(Closing):
    """Waits at an address, a path, or `@` and a name, for processes that are not related to connect."""

    def __init__(self, address: str | os.PathLike[str]) -> None:
        # In a process that was forked from this one there is none.
        self._listener: _bytepath.Meeting | None = _bytepath.Meeting(os.fspath(address))
        self._owner = os.getpid()
        keep_account_of(self)

    def accept(self, timeout: float | None = None, *, capacity: int = CAPACITY, ring_bytes: int = RING_BYTES) -> Channel:
        """A channel to the next process that connects: TimeoutError where none has in time. Processes of other
        users are refused, and it goes on waiting, as it does where one hangs up before it has said what it is.

        ChannelError where who has connected is no channel of this version, and TimeoutError, with no `timeout`
        as well, where it says nothing for 5 s. The listener goes on listening: call it again. `ring_bytes`: 64 MiB
        at the most (ValueError)."""
        check_sizes(capacity, ring_bytes)
        check_ring_bytes(ring_bytes)
        if self._listener is None:
            raise RuntimeError(f"this listener belongs to process {self._owner}, which a process forked from it cannot use")
        # A number of whatever kind.
        end = None if timeout is None else monotonic() + float(timeout)
        left = timeout
        while True:
            meeting = self._listener.accept(left)
            if meeting is not None:
                with contextlib.closing(meeting):
                    hello, ends = _told(meeting, end)
                if hello:
                    break
            # Once the time is over, no more are looked at, however many come and hang up.
            left = None if end is None else end - monotonic()
            if left is not None and not left > 0.0:
                raise TimeoutError("nobody has connected in time")
        if hello != _HELLO or len(ends) != 2:
            raise ChannelError("who has connected is no channel of this version: use the same bytepath at both ends")
        return Channel(*ends, capacity=capacity, ring_bytes=ring_bytes)

    def close(self) -> None:
        """Listens no more."""
        self._let_go()

    def _let_go(self, early: bool = False) -> None:
        if self._listener is not None and not early:
            self._listener.close()

    def _forked(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            listener.abandon()


def _told(meeting: _bytepath.Held, end: float | None) -> tuple[bytes, list[_bytepath.Held]]:
    """What who has connected says, nothing where it has hung up, and the descriptors that come with it."""
    patience = _PATIENCE_S if end is None else end - monotonic()
    told = _bytepath.hear(meeting, len(_HELLO) + 1, min(max(patience, _MOMENT_S), _PATIENCE_S))
    if told is None:
        raise TimeoutError("who has connected says nothing")
    return told
