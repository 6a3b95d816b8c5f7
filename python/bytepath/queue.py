"""A queue between processes: many put, and one gets, or many."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from multiprocessing.reduction import DupFd
from operator import index
from queue import Empty, Full
from threading import RLock
from time import monotonic, sleep
from typing import Any, Generic, Literal, TypeVar

from bytepath import _bytepath
from bytepath._channel_errors import ChannelError, PeerGone
from bytepath._sharing import (
    CAPACITY,
    MOMENT_S,
    RING_BYTES,
    Closing,
    Readers,
    check_ring_bytes,
    check_sizes,
    is_over,
    keep_account_of,
    until,
)
from bytepath._pickling import dumps, loads

__all__ = ["Empty", "Full", "JoinableQueue", "Queue"]

# What is put and got.
_T = TypeVar("_T")
# Python 3.10 has no Self.
_Kind = TypeVar("_Kind", bound="Queue[Any]")

# Connections that wait for a receiver to take them; the kernel allows fewer where somaxconn says so.
_BACKLOG = 1024
# What all of a queue that many get from have together; memory is taken as it fills.
_POOL_RING_BYTES = 64 << 20
# An attempt to be one of them lasts no longer: closing ends it.
_CONNECTS_S = 0.05
# As many objects as there is room for.
_NO_LIMIT = 2**63 - 1


class Queue(Closing, Generic[_T]):
    """A queue between processes, as `multiprocessing.Queue` is one: any number of them put, and one gets, or,
    with `receivers="many"`, any number of them.

    Each process that puts has a ring of its own, in memory that it shares with the one that gets, so that
    no lock is held between processes and a killed one leaves none behind. Arrays, data frames and tables
    (whatever offers its buffers to pickle protocol 5) are written once into shared memory, and received as
    views of it, read-only. Their memory is the sender's again when the last view is gone, in any order.

    Where many get, all put into one ring, by turns, and each object goes to the first who asks. Buffers above
    1 MiB are written once, too, into memory of their own that nobody changes any more; others are copied out of
    the ring. That takes longer: choose it where workers share tasks out among themselves.

    The queue itself may be given to processes as an argument, under every start method.

    `maxsize`: how many objects it holds; 0 for as many as the ring has room for, which also bounds a larger `maxsize`
    (512 KiB hold some 8,000 short strings, or 1,100 records of logging). `capacity`: bytes of memory
    for large buffers, for each process that puts, beyond which one object more goes to a receiver that has got
    all others (where many get, of all together, while nobody has got them; one object that is larger goes
    alone). `ring_bytes`: for everything else; 512 KiB for each process
    that puts, 64 MiB for all where many get, which count twice against a limit on addresses (`ulimit -v`).
    """

    def __init__(
        self,
        maxsize: int = 0,
        *,
        receivers: Literal["one", "many"] = "one",
        capacity: int = CAPACITY,
        ring_bytes: int | None = None,
    ) -> None:
        if receivers not in ("one", "many"):
            raise ValueError(f'receivers is "one" or "many", and not {receivers!r}')
        maxsize = index(maxsize)
        if ring_bytes is None:
            ring_bytes = RING_BYTES if receivers == "one" else _POOL_RING_BYTES
        check_sizes(capacity, ring_bytes)
        board = _bytepath.Board.create(int.from_bytes(os.urandom(16), "little"))
        if receivers == "many":
            pool = _bytepath.Pool.create(ring_bytes, capacity)
            self._begin("", None, board, maxsize, capacity, RING_BYTES, pool)
            keep_account_of(self)
            return
        name = "bytepath-queue-" + os.urandom(16).hex()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind("\0" + name)
            listener.listen(_BACKLOG)
            held = _bytepath.Held(os.dup, listener.fileno())
        self._begin("@" + name, held, board, maxsize, capacity, ring_bytes)

    @classmethod
    def listen(cls: type[_Kind], address: str | os.PathLike[str], *, ring_bytes: int = RING_BYTES) -> _Kind:
        """The receiving end of a queue for processes that are not related: those that `connect` to this
        address, a path, or `@` and a name. Whoever may write to the path may put; other users may not. `ring_bytes`:
        64 MiB at the most (ValueError)."""
        check_sizes(CAPACITY, ring_bytes)
        check_ring_bytes(ring_bytes)
        queue, address = cls.__new__(cls), os.fspath(address)
        queue._begin(address, None, None, 0, CAPACITY, ring_bytes)
        queue._inbox = _bytepath.Inbox.bind(address, ring_bytes)
        keep_account_of(queue)
        return queue

    @classmethod
    def connect(
        cls: type[_Kind],
        address: str | os.PathLike[str],
        *,
        timeout: float = 5.0,
        capacity: int = CAPACITY,
        ring_bytes: int = RING_BYTES,
    ) -> _Kind:
        """A putting end of a queue that listens at this address, or will before the time is over. `ring_bytes`: 64 MiB
        at the most (ValueError)."""
        check_sizes(capacity, ring_bytes)
        check_ring_bytes(ring_bytes)
        queue, address = cls.__new__(cls), os.fspath(address)
        queue._begin(address, None, None, 0, capacity, ring_bytes)
        queue._outbox = _bytepath.Outbox.connect(address, ring_bytes, capacity, timeout)
        keep_account_of(queue)
        return queue

    def _begin(
        self,
        address: str,
        listener: _bytepath.Held | None,
        board: _bytepath.Board | None,
        maxsize: int,
        capacity: int,
        ring_bytes: int,
        pool: _bytepath.Pool | None = None,
    ) -> None:
        self._address = address
        self._pool = pool
        # How many were in that when it was closed.
        self._left = 0
        self._listener = listener
        self._board = board
        self._maxsize = min(max(maxsize, 0), _NO_LIMIT)
        self._capacity = capacity
        self._ring_bytes = ring_bytes
        self._inbox: _bytepath.Inbox | None = None
        self._outbox: _bytepath.Outbox | None = None
        self._readers = Readers()
        # Held by the thread that makes an end: the others use the same one, and so do handlers of signals in the middle
        # of it.
        self._making = RLock()
        # Held for as long as the listener's descriptor is copied or closed, also by a handler of a signal.
        self._copying = RLock()
        # The process whose end at an address it is; a queue that is given away belongs to all.
        self._owner = os.getpid() if board is None else 0
        self._closed = False

    # ---- putting -------------------------------------------------------------------------------

    def put(self, obj: _T, block: bool = True, timeout: float | None = None) -> None:
        """Puts an object. Waits for room, at most so many seconds; `queue.Full` where there was none.

        When it returns, the object is in memory that outlives this process. `PeerGone` where the process that
        received is gone: what it had not received yet is lost."""
        # A number of whatever kind.
        left = 0.0 if not block else None if timeout is None else float(timeout)
        if (pool := self._pool) is not None:
            if not self._put_into_pool(pool, dumps(obj), left):
                raise Full
            return
        until = None if left is None else monotonic() + left
        outbox = self._outbox or self._put_first(until)
        if outbox is None:
            raise Full
        packed = dumps(obj)
        if until is not None:
            left = max(until - monotonic(), 0.0)
        while (sent := self._send(outbox, packed, left, self._readers.looked)) is None:
            if until is not None:
                left = max(until - monotonic(), 0.0)
                # Nor is it before a time that is no number.
                if not left > 0.0:
                    break
        if not sent:
            raise Full

    def _send(
        self, outbox: _bytepath.Outbox, packed: tuple[Any, list[Any]], timeout: float | None, looked: Callable[..., Any]
    ) -> bool | None:
        """Whether an object was sent, and did not lack room until the time was over; None where `maxsize` are inside, for
        fewer of which it waits but a moment. One call counts and sends it: what handlers of signals raise comes before
        or after both."""
        try:
            sent: bool | None = looked(outbox, outbox.send, *packed, timeout, self._board, self._maxsize or _NO_LIMIT)
            if sent is None:
                # Nothing tells who waits for that that the receiver, who would make room, is gone, or the queue closed.
                self._check_open()
                self._readers.looked(outbox, outbox.is_answered)
            return sent
        except PeerGone:
            if self._board is not None:
                self._lose_receiver(outbox, self._board)
            raise

    def put_nowait(self, obj: _T) -> None:
        """Puts an object if there is room now."""
        self.put(obj, False)

    async def put_async(self, obj: _T) -> None:
        """Puts an object, for event loops. A task that is cancelled meanwhile has put nothing."""
        import asyncio

        if monotonic() > self._readers.turn_ends:
            await self._readers.let_others_run()
        if (pool := self._pool) is not None:
            packed = dumps(obj)
            while not self._put_into_pool(pool, packed, 0.0):
                await asyncio.sleep(MOMENT_S)
            return
        while (outbox := self._outbox or self._put_first(0.0)) is None:
            await asyncio.sleep(_CONNECTS_S)
        packed = dumps(obj)
        in_vain = False
        while True:
            self._check_open()
            sent = self._send(outbox, packed, 0.0, self._readers.looked_to_wait)
            if sent:
                return
            if sent is None:
                # How many are inside, no descriptor tells.
                await asyncio.sleep(MOMENT_S)
            else:
                in_vain = await self._readers.wait(outbox, in_vain)

    def _put_into_pool(self, pool: _bytepath.Pool, packed: tuple[Any, list[Any]], timeout: float | None) -> bool:
        self._check_open()
        return pool.send(*packed, timeout, self._maxsize or _NO_LIMIT, self._counted_by())

    def _counted_by(self) -> _bytepath.Board | None:
        """What counts that an object is to be done."""
        return None

    def _put_first(self, until: float | None) -> _bytepath.Outbox | None:
        """What this process puts into; None where no more wait to be taken in by the receiver than do, until then."""
        self._check_open()
        if self._board is None:
            raise ValueError(f"this end of the queue at {self._address} receives; put at one that connects")
        keep_account_of(self)
        self._let_go_if_over()
        left = _CONNECTS_S
        while True:
            if until is not None:
                left = min(max(until - monotonic(), 0.0), _CONNECTS_S)
            with self._making:
                if self._outbox is None:
                    self._check_open()
                    sizes = (self._ring_bytes, self._capacity)
                    try:
                        _bytepath.make_once(
                            self, "_outbox", _bytepath.Outbox.connect, self._address, *sizes, left, self._board
                        )
                    finally:
                        # It may be that nobody listens any more because this was closed.
                        self._let_go_if_over()
                outbox = self._outbox
            if outbox is not None or not (until is None or monotonic() < until):
                return outbox
            sleep(MOMENT_S)

    def _lose_receiver(self, outbox: _bytepath.Outbox, board: _bytepath.Board) -> None:
        """The next put finds the next receiver, if one comes."""
        outbox.lose(board)
        self._readers.forget(outbox)
        # Unless another thread has found it, too.
        if self._outbox is outbox:
            self._outbox = None
            board.lose_receiver()

    # ---- getting -------------------------------------------------------------------------------

    def get(self, block: bool = True, timeout: float | None = None) -> _T:
        """Gets the next object. Waits for one, at most so many seconds; `queue.Empty` where none came.

        Objects of one process come in their order. `PeerGone`, once, for a process that put and is gone
        without having closed the queue (it was killed), after all that it had put; the queue goes on.
        RuntimeError where another process receives from the queue: one does at a time. Where many get,
        neither is raised: an object that a killed process had got is gone with it."""
        timeout = timeout if block else 0.0
        if (pool := self._pool) is not None:
            self._check_open()
            message = pool.receive(timeout, self._counted_by())
        else:
            inbox = self._inbox or self._get_first()
            message = self._readers.looked(inbox, inbox.receive, timeout, self._counted_by())
        if message is None:
            raise Empty
        obj: _T = loads(*message)
        return obj

    def get_nowait(self) -> _T:
        """Gets an object if one is there now."""
        return self.get(False)

    async def get_async(self) -> _T:
        """Gets the next object, for event loops. A task that is cancelled meanwhile has taken nothing."""
        if self._pool is not None:
            import asyncio

            if monotonic() > self._readers.turn_ends:
                await self._readers.let_others_run()
            while True:
                try:
                    return self.get(False)
                except Empty:
                    # No descriptor tells who is the first to take one.
                    await asyncio.sleep(MOMENT_S)
        inbox = self._inbox or self._get_first()
        readers, undone = self._readers, self._counted_by()
        if monotonic() > readers.turn_ends:
            await readers.let_others_run()
        # What is there already costs no other coroutine.
        message = readers.looked_to_wait(inbox, inbox.receive, 0.0, undone)
        if message is None:
            message = await until(inbox, readers, inbox.receive, 0.0, undone)
        obj: _T = loads(*message)
        return obj

    def _get_first(self) -> _bytepath.Inbox:
        self._check_open()
        if self._board is None:
            raise ValueError(f"this end of the queue at {self._address} puts; get at the one that listens")
        keep_account_of(self)
        with self._making:
            inbox = self._inbox
            if inbox is None:
                # First: whoever claims the queue and cannot have this keeps it from all others.
                made = _bytepath.Inbox.listening(self._listener_again(), self._ring_bytes, self._board)
                self._claim(self._board, made)
                # A handler of a signal may have made one meanwhile, and got from it.
                if (inbox := self._inbox) is None:
                    inbox = self._inbox = made
                else:
                    made.abandon()
                self._let_go_if_closed()
            return inbox

    def _listener_again(self) -> _bytepath.Held:
        with self._copying:
            self._check_open()
            assert self._listener is not None
            return self._listener.again()

    def _claim(self, board: _bytepath.Board, inbox: _bytepath.Inbox) -> None:
        other = board.claim()
        if other:
            # Without a word to those who have connected, who are the other's.
            inbox.abandon()
            raise RuntimeError(
                f"process {other} receives from this queue: one process does at a time. Make it with "
                'receivers="many", give each receiver a queue of its own, or have that process close this one first'
            )

    # ---- what is in it -------------------------------------------------------------------------

    def qsize(self) -> int:
        """About how many objects are in it, or, after it was closed where many get, were in it then. NotImplementedError
        for queues at an address."""
        if self._board is None:
            raise NotImplementedError("how much is in a queue at an address is not told")
        if (pool := self._pool) is not None:
            return pool.count()
        return self._board.inside() if self._address else self._left

    def empty(self) -> bool:
        """Whether nothing is in it now. That a process is gone, which `get` is to raise, is nothing."""
        inbox = self._inbox
        if inbox is None:
            return self.qsize() == 0
        return not self._readers.looked(inbox, inbox.holds_message)

    def full(self) -> bool:
        """Whether `maxsize` objects are in it now, or there is no room, in the ring or within `capacity`, for one more
        like the last that this process put, or would have."""
        if 0 < self._maxsize <= self.qsize():
            return True
        if (pool := self._pool) is not None:
            return pool.is_full()
        outbox = self._outbox
        if outbox is None:
            return False
        try:
            return not self._readers.looked(outbox, outbox.has_room)
        except PeerGone:
            # The next put is for the next receiver.
            return False

    def fileno(self) -> int:
        """A descriptor that becomes readable once there is something to get, if `watch` has said False since
        the last object was got. It may be readable for nothing: then ask `watch` again. NotImplementedError
        where many get."""
        return self._watched().fileno()

    def watch(self) -> bool:
        """Whether there is something to get now, be it that a process is gone; where there is not, has the
        descriptor (`fileno`) become readable once there is. NotImplementedError where many get."""
        inbox = self._watched()
        return bool(self._readers.looked_to_wait(inbox, inbox.watch))

    def _watched(self) -> _bytepath.Inbox:
        if self._pool is not None:
            raise NotImplementedError("no descriptor tells what is in a queue that many get from")
        return self._inbox or self._get_first()

    # ---- the end -------------------------------------------------------------------------------

    def close(self) -> None:
        """Closes the queue for this process. What was put stays there for the receiver; what the receiver
        has not got is lost when that one closes. Objects that were received stay as they are."""
        self._closed = True
        self._let_go()
        self._readers.end()
        if (pool := self._pool) is not None:
            self._left = pool.count()
        self._pool = None
        with self._copying:
            listener, self._listener = self._listener, None
            if listener is not None:
                listener.close()

    def join_thread(self) -> None:
        """Returns: no thread is needed. What was put is where it has to be when `put` returns."""

    def cancel_join_thread(self) -> None:
        """Does nothing, as `join_thread` does."""

    def _let_go_if_closed(self) -> None:
        """For who has just made an end: another thread may have closed the queue meanwhile, which does not wait for
        that, as it may last."""
        if self._closed:
            self._let_go()
            self._check_open()

    def _let_go_if_over(self) -> None:
        """For who puts: nor does the process, which ends, wait for a thread that is a daemon."""
        self._let_go_if_closed()
        if is_over():
            self._let_go(early=True)
            raise ValueError("this queue is closed, as its process ends")

    def _check_open(self) -> None:
        if self._closed:
            raise ValueError("this queue is closed")
        if self._owner and self._owner != os.getpid():
            raise RuntimeError(
                f"this end of the queue at {self._address} belongs to process {self._owner}; a process that was "
                "forked from it cannot use it, and connects to the address itself"
            )

    def _let_go(self, early: bool = False) -> None:
        pool = self._pool
        if pool is not None and not early:
            pool.close()
        outbox, self._outbox = self._outbox, None
        if outbox is not None:
            outbox.close()
        if early and self._is_waited_in():
            return
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.close()
            if self._board is not None:
                self._board.unclaim()

    def _is_waited_in(self) -> bool:
        inbox = self._inbox
        return inbox is not None and (inbox.is_waited_in() or self._readers.count() > 0)

    def _forked(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None:
            self._closed = True
            self._pool = pool.inherited()
            self._closed = False
        # The parent's ends are none of this process's: it makes its own where it puts or gets.
        outbox, self._outbox = self._outbox, None
        if outbox is not None:
            outbox.abandon()
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            inbox.abandon()
        self._readers = Readers()
        self._making = RLock()
        self._copying = RLock()

    def __reduce__(self) -> Any:
        self._check_open()
        pool = self._pool
        if self._board is not None and pool is not None:
            fds = (DupFd(fd) for fd in (self._board.fileno(), *pool.filenos()))
            return _shared, (type(self), *fds, self._maxsize, self._capacity)
        if self._board is None or self._listener is None:
            if self._inbox is not None:
                raise TypeError("the receiving end of a queue at an address cannot be given away")
            return _connected, (type(self), self._address, self._capacity, self._ring_bytes)
        given = (DupFd(self._listener.fileno()), DupFd(self._board.fileno()))
        return _received, (type(self), self._address, *given, self._maxsize, self._capacity, self._ring_bytes)


def _received(
    kind: type[Queue[Any]], address: str, listener: Any, board: Any, maxsize: int, capacity: int, ring_bytes: int
) -> Queue[Any]:
    queue = kind.__new__(kind)
    board = _bytepath.Board.from_fd(_bytepath.Held(board.detach))
    queue._begin(address, _bytepath.Held(listener.detach), board, maxsize, capacity, ring_bytes)
    return queue


def _shared(
    kind: type[Queue[Any]], board: Any, memory: Any, put: Any, take: Any, maxsize: int, capacity: int
) -> Queue[Any]:
    queue = kind.__new__(kind)
    memory, put, take = (_bytepath.Held(fd.detach) for fd in (memory, put, take))
    pool = _bytepath.Pool.from_fds(memory, put, take, capacity)
    board = _bytepath.Board.from_fd(_bytepath.Held(board.detach))
    queue._begin("", None, board, maxsize, capacity, RING_BYTES, pool)
    keep_account_of(queue)
    return queue


def _connected(kind: type[_Kind], address: str, capacity: int, ring_bytes: int) -> _Kind:
    return kind.connect(address, capacity=capacity, ring_bytes=ring_bytes)


class JoinableQueue(Queue[_T]):
    """A queue whose objects are told to be done, as `multiprocessing.JoinableQueue` is one."""

    def task_done(self) -> None:
        """Tells that the work on an object that was got is done."""
        if not self._counts().tell_done():
            raise ValueError("task_done() called too many times")

    def join(self, timeout: float | None = None) -> bool:
        """Waits until all objects that were put are told to be done; False where the time was over first."""
        board, pool, left = self._counts(), self._pool, timeout
        until = None if timeout is None else monotonic() + timeout
        while board.wait_until_done(left):
            # Somebody may have been killed between the putting of an object and the counting of it.
            if pool is None:
                return True
            if not pool.settle(None if until is None else 0.0, board):
                return False
            if board.wait_until_done(0.0):
                return True
            if until is not None:
                left = max(until - monotonic(), 0.0)
        return False

    def _counted_by(self) -> _bytepath.Board | None:
        return self._board

    def _counts(self) -> _bytepath.Board:
        if self._board is None:
            raise NotImplementedError("what is done of a queue at an address is not told")
        return self._board
