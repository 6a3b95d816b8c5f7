"""Signals that end a command."""

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Such a signal came."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def raised() -> Iterator[None]:
    """Has them raise, for what may wait for long: an event loop would hear of them when that is over."""

    def interrupt(number: int, _: FrameType | None) -> None:
        raise Interrupted(number)

    loop = signal.set_wakeup_fd(-1)
    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler or signal.SIG_DFL)
        signal.set_wakeup_fd(loop)
