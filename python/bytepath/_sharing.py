"""What queues and channels have in common: ends that belong to one process, forks, exits, event loops."""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Callable
from multiprocessing import parent_process, util
from operator import index
from threading import RLock, Thread, current_thread, main_thread
from threading import enumerate as enumerate_threads
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from bytepath import _bytepath
from bytepath._channel_errors import PeerGone

if TYPE_CHECKING:
    import asyncio

RING_BYTES = 512 << 10
# Who meets others at an address takes no larger ring of theirs, which could be there to use up its memory: the
# library's RING_BYTES_TAKEN.
RING_BYTES_MOST = 64 << 20
CAPACITY = 256 << 20
# Between two looks of an event loop at what no descriptor tells.
MOMENT_S = 0.002
# A task that finds something each time lets the others of its event loop run after so long, or twice as long.
_TURN_S = 0.005

_live: weakref.WeakSet[Any] = weakref.WeakSet()
_exits_in = 0
_ended_in = 0


# Python 3.10 has no Self.
_Kind = TypeVar("_Kind", bound="Closing")


class Closing:
    """What `with` closes, as does nobody having it any more."""

    # One that could not be made has nothing to close.
    _closed = True

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self: _Kind) -> _Kind:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # The function is kept here, as modules are emptied while the interpreter ends.
    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self._closed:
            return
        try:
            self.close()
        except Exception:
            # So may be what it needs. What there was to say was said before, and its descriptors go with it.
            if not is_finalizing():
                raise


def keep_account_of(owner: Any) -> None:
    """Has `owner._forked()` called in processes that are forked from this one, and `owner._let_go()` when
    this one exits, so that other ends learn that no more comes, and before that, where `early`, what other
    processes may wait for."""
    _live.add(owner)
    if _exits_in != os.getpid():
        _let_all_go_at_exit()


def _let_all_go_at_exit(_: object = None) -> None:
    global _exits_in
    _exits_in = os.getpid()
    # Not atexit: children of multiprocessing leave without that. Once before it waits for the children of this
    # process, which may wait for it, and once after that, as threads may wait for what those still send.
    util.Finalize(None, _let_all_go, kwargs={"early": True}, exitpriority=10)
    util.Finalize(None, _let_all_go, exitpriority=-10)


# A child of multiprocessing's forkserver forgets what was to be done at its exit after it has made the
# arguments that it was given, queues among them.
util.register_after_fork(_live, _let_all_go_at_exit)


def _let_all_go(early: bool = False) -> None:
    global _ended_in
    if not _threads():
        # First: who makes an end meanwhile looks at it afterwards.
        _ended_in = os.getpid()
        for owner in list(_live):
            owner._let_go(early)
    elif early:
        # multiprocessing waits for it, as for them.
        Thread(target=_let_all_go_after_threads, name="bytepath-exit").start()


def _let_all_go_after_threads() -> None:
    while threads := _threads():
        for thread in threads:
            thread.join()
    _let_all_go()


def is_over() -> bool:
    """Whether this process has ended what it puts, and does not wait for this thread."""
    return _ended_in == os.getpid() and current_thread().daemon


def _threads() -> list[Thread]:
    """Other threads that this process waits for before it ends. A child of multiprocessing does so only after all
    else; any other process has done so before."""
    if parent_process() is None:
        return []
    own = (current_thread(), main_thread())
    return [thread for thread in enumerate_threads() if thread not in own and not thread.daemon]


def _after_fork_in_child() -> None:
    failed = None
    for owner in list(_live):
        try:
            owner._forked()
        except OSError as error:
            # It is closed then; the others are not to be the parent's because of it.
            failed = error
    if failed is not None:
        raise failed


os.register_at_fork(after_in_child=_after_fork_in_child)
# What a forked process has inherited views of is its to read.
os.register_at_fork(
    before=_bytepath.about_to_fork,
    after_in_parent=_bytepath.forked_in_parent,
    after_in_child=_bytepath.forked_in_child,
)


def check_sizes(capacity: int, ring_bytes: int) -> None:
    """Refuses what are no numbers of bytes: an end would say so only where it is first used."""
    for name, given in (("capacity", capacity), ("ring_bytes", ring_bytes)):
        if not 0 <= index(given) < 1 << 64:
            raise ValueError(f"{name} has to be between 0 and 2**64 - 1 bytes, not {given}")


def check_ring_bytes(ring_bytes: int) -> None:
    """Refuses a ring that whoever is at an address would not take: it would learn that only after objects are in it."""
    if ring_bytes > RING_BYTES_MOST:
        raise ValueError(
            f"a ring of {ring_bytes} bytes is larger than the other end of an address takes: ring_bytes is "
            f"{RING_BYTES_MOST} (64 MiB) at the most; large buffers do not go through it, see capacity"
        )


class Readers:
    """Tasks of event loops that wait until an end's descriptor is readable. Each loop, of whatever thread, has a copy
    of it, which is in the loop's set of readers while a task waits: so all are told, and what the program itself has a
    loop do with the descriptor stays."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[asyncio.AbstractEventLoop, Any], set[asyncio.Future[None]]] = {}
        # Kept for the next wait, with their ends, until these or the loops are closed. Closed when nobody has them any
        # more, and so in a forked process.
        self._copies: dict[tuple[asyncio.AbstractEventLoop, Any], _bytepath.Held] = {}
        self._ended = False
        # What else there is to say where the other end is gone.
        self.why_gone = ""
        # A task that nobody knows of any more ends, and so is removed, wherever Python collects it: also in the
        # middle of what is below.
        self._lock = RLock()
        # When a task that looks is to `let_others_run` first, by `monotonic`, and whether its loop has not run since the
        # turn began that ends then.
        self.turn_ends = 0.0
        self._in_turn = False

    def count(self) -> int:
        """How many tasks wait."""
        with self._lock:
            return sum(map(len, list(self._waiting.values())))

    async def wait(self, end: Any, in_vain: bool) -> bool:
        """Waits until there may be something at an end. True where there was already, or nobody would tell: whoever
        looks in vain then says so the next time, and waits a moment."""
        import asyncio  # where an event loop runs it is there, and elsewhere it takes long

        if in_vain:
            await asyncio.sleep(MOMENT_S)
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        try:
            if not self._add(loop, end, future):
                return False
        except OSError:
            # Without a descriptor for the copy, or room in the loop's set.
            return True
        try:
            # Only now: a thread that looks after this has to know whom to wake.
            if end.watch():
                return True
            await future
            return False
        finally:
            self._remove(loop, end, future)

    async def let_others_run(self) -> None:
        """What is there is had without waiting: where there is always something, no other task would run, nor a timeout
        end this one. It may be cancelled here, and so has taken nothing yet. Where they have run it does not wait, for who
        looks for no time is to find what is there."""
        import asyncio

        if self._in_turn:
            self._in_turn = False
            await asyncio.sleep(0)
        self._in_turn = True
        self.turn_ends = monotonic() + _TURN_S
        asyncio.get_running_loop().call_soon(self._others_ran)

    def _others_ran(self) -> None:
        self._in_turn = False

    def looked(self, end: Any, look: Callable[..., Any], *arguments: Any) -> Any:
        """What a look at an end finds. Whoever looks may have taken the wake-up of those who wait, and takes back
        that they want one, so that nothing wakes them before they have looked: they do so then."""
        try:
            return look(*arguments)
        except PeerGone as error:
            self._add_reason(error)
            raise
        finally:
            if self._waiting:
                self._wake_at(end)

    def looked_to_wait(self, end: Any, look: Callable[..., Any], *arguments: Any) -> Any:
        """The same for those who ask to be woken where they find nothing, which is for all who wait. They wake
        the others only where they do not: two would wake each other for ever."""
        found = True
        try:
            found = look(*arguments)
            return found
        except PeerGone as error:
            self._add_reason(error)
            raise
        finally:
            if found and self._waiting:
                self._wake_at(end)

    def _add_reason(self, error: PeerGone) -> None:
        if self.why_gone:
            error.args = (f"{error}{self.why_gone}",)

    def forget(self, end: Any) -> None:
        """For an end that is used no more: its copies go, but for those of tasks that wait."""
        self._forget(lambda key: key[1] is end)

    def end(self) -> None:
        """Wakes all, after their ends are closed: each finds that, and says so."""
        with self._lock:
            self._ended = True
        self._forget(lambda _: True)
        self._wake_all(lambda _: True)

    def _forget(self, is_over: Callable[[tuple[asyncio.AbstractEventLoop, Any]], bool]) -> None:
        with self._lock:
            for key in list(self._copies):
                if key not in self._waiting and is_over(key):
                    self._copies.pop(key, None)

    def _add(self, loop: asyncio.AbstractEventLoop, end: Any, future: asyncio.Future[None]) -> bool:
        """Whether there is something to wait for."""
        key = (loop, end)
        with self._lock:
            if self._ended:
                return False
            for other in list(self._waiting):
                if other[0].is_closed():
                    self._waiting.pop(other, None)
            self._forget(lambda other: other[0].is_closed())
            copy = self._copies.get(key) or _bytepath.Held(os.dup, end.fileno())
            waiting = self._waiting.setdefault(key, set())
            waiting.add(future)
            self._waiting[key], self._copies[key] = waiting, copy
        try:
            loop.add_reader(copy.fileno(), self._wake, key)
        except BaseException:
            self._remove(loop, end, future)
            raise
        return True

    def _remove(self, loop: asyncio.AbstractEventLoop, end: Any, future: asyncio.Future[None]) -> None:
        key = (loop, end)
        with self._lock:
            waiting = self._waiting.get(key, set())
            waiting.discard(future)
            is_last = not waiting and self._waiting.pop(key, None) is not None
            copy = self._copies.get(key) if is_last else None
        # A task of a loop that was closed ends when nobody knows of it any more.
        if copy is not None and not loop.is_closed():
            loop.remove_reader(copy.fileno())
        if self._ended:
            self._forget(lambda _: True)

    def _wake(self, key: tuple[asyncio.AbstractEventLoop, Any]) -> None:
        # Each looks for itself, and waits again where another was first.
        with self._lock:
            futures = list(self._waiting.get(key, ()))
        for future in futures:
            _wake(future)

    def _wake_at(self, end: Any) -> None:
        self._wake_all(lambda waited: waited is end)

    def _wake_all(self, waits_for: Callable[[Any], bool]) -> None:
        with self._lock:
            keys = [key for key in list(self._waiting) if waits_for(key[1])]
            waiting = [(key[0], list(self._waiting.get(key, ()))) for key in keys]
        for loop, futures in waiting:
            for future in futures:
                # Of a loop that is over, nobody waits any more.
                with contextlib.suppress(RuntimeError):
                    loop.call_soon_threadsafe(_wake, future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def until(end: Any, readers: Readers, look: Callable[..., Any], *arguments: Any) -> Any:
    """What `look` finds at an end, once it is not None. Nothing is taken before it is returned, so that a
    task that is cancelled loses nothing."""
    if monotonic() > readers.turn_ends:
        await readers.let_others_run()
    in_vain = False
    while True:
        found = readers.looked_to_wait(end, look, *arguments)
        if found is not None:
            return found
        if not _bytepath.gives_back_later():
            in_vain = await readers.wait(end, in_vain)
        elif in_vain or not (in_vain := end.watch()):
            import asyncio

            in_vain = False
            # No descriptor tells that a forked process is gone, whose memory the sender may be waiting for.
            await asyncio.sleep(MOMENT_S)
