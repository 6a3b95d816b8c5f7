"""What a channel raises. Apart, because the compiled half raises it too."""

from __future__ import annotations

from typing import Any


class ChannelError(OSError):
    """A channel that is not made, or goes no further: the message says why."""

    def __reduce__(self) -> Any:
        # The classes made below have no place to be found in.
        if type(self) in _classes.values():
            return absent, (self.errno, self.strerror)
        return super().__reduce__()


_classes: dict[type[OSError], type[ChannelError]] = {}


def absent(errno: int, text: str) -> ChannelError:
    """The exception for an address that nobody listens at: also of the class that Python has for its errno."""
    python_class = type(OSError(errno, text))
    if python_class is OSError:
        return ChannelError(errno, text)
    kind = type("ChannelError", (ChannelError, python_class), {"__module__": "bytepath"})
    return _classes.setdefault(python_class, kind)(errno, text)


class PeerGone(ChannelError, EOFError):
    """The other end is gone, or wants no more: what it had sent until then has been received."""
