"""Waiting for so long, and no longer for what nobody wants any more.

One who is cancelled stays so, even in the very moment in which what is waited for is done: asyncio.wait_for forgets it
then before Python 3.12 (CPython issue 86296), and whoever waits would never end."""

import argparse
import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

Found = TypeVar("Found")

AGAIN_S = 1.0
"""So often work that forgets that it was cancelled is cancelled again."""


def seconds_of(text: str) -> float:
    """A time to wait, as options take it."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of seconds")
    return value


async def within(seconds: float, work: Awaitable[Found]) -> Found:
    """What the work comes to; asyncio.TimeoutError where that takes longer, and then it is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise asyncio.TimeoutError
        return task.result()
    finally:
        await ended(task)


async def ended(task: asyncio.Future[Any]) -> None:
    """Sees that a task is over, whatever it comes to."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=AGAIN_S)
    if not task.cancelled():
        # Asked for, so that asyncio does not tell of it.
        task.exception()
