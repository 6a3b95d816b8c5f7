"""Signals that end a command."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

_ALL = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)
ENDING = tuple(number for number in _ALL if signal.getsignal(number) is not signal.SIG_IGN)
"""But those that whoever started this has it ignore, as nohup does."""


class Interrupted(BaseException):
    """Such a signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Has the first of them raise, for what may wait for long. An event loop hears of each all the same, when that is
    over: so none is lost that comes before they raise, or when they do no more."""
    before = {number: signal.getsignal(number) for number in ENDING}

    def put_back() -> None:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)

    def interrupt(number: int, _: FrameType | None) -> None:
        # What is raised may come anywhere, and end what would have put them back.
        put_back()
        raise Interrupted(number)

    try:
        for number in ENDING:
            signal.signal(number, interrupt)
        yield
    finally:
        put_back()
