"""What queues and channels have in common: ends that belong to one process, forks, exits, event loops."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from multiprocessing import util
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

RING_BYTES = 512 << 10
CAPACITY = 256 << 20

_live: weakref.WeakSet[Any] = weakref.WeakSet()
_exits_in = 0


def keep_account_of(owner: Any) -> None:
    """Has `owner._forked()` called in processes that are forked from this one, and `owner._let_go()` when
    this one exits, so that other ends learn that no more comes."""
    global _exits_in
    _live.add(owner)
    if _exits_in != os.getpid():
        _exits_in = os.getpid()
        # Not atexit: children of multiprocessing leave without that. Before it waits for the children of this
        # process, which may wait for it.
        util.Finalize(None, _let_all_go, exitpriority=10)


def _let_all_go() -> None:
    for owner in list(_live):
        owner._let_go()


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


class Readers:
    """Tasks of an event loop that wait until a descriptor is readable."""

    def __init__(self) -> None:
        self._futures: dict[int, list[asyncio.Future[None]]] = {}

    async def wait(self, fd: int) -> None:
        import asyncio  # where an event loop runs it is there, and elsewhere it takes long

        loop = asyncio.get_running_loop()
        future = loop.create_future()
        waiting = self._futures.setdefault(fd, [])
        if not waiting:
            loop.add_reader(fd, self._wake, fd)
        waiting.append(future)
        try:
            await future
        finally:
            if future in waiting:
                waiting.remove(future)
            if not waiting and self._futures.get(fd) is waiting:
                del self._futures[fd]
                loop.remove_reader(fd)

    def end(self) -> None:
        """Wakes all, before their descriptors are closed: each finds that, and says so."""
        futures, self._futures = self._futures, {}
        for fd, waiting in futures.items():
            for future in waiting:
                # Of a loop that is over, nobody waits any more.
                with contextlib.suppress(RuntimeError):
                    loop = future.get_loop()
                    loop.remove_reader(fd)
                    loop.call_soon_threadsafe(_wake, future)

    def _wake(self, fd: int) -> None:
        # Each looks for itself, and waits again where another was first.
        for future in self._futures.get(fd, []):
            _wake(future)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def until(look: Callable[[], Any], watch: Callable[[], bool], fd: int, readers: Readers) -> Any:
    """What `look` finds, once it is not None. Nothing is taken before it is returned, so that a task that
    is cancelled loses nothing."""
    while True:
        found = look()
        if found is not None:
            return found
        if not watch():
            await readers.wait(fd)
