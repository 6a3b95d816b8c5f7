"""Moves bytes on Linux by the fastest route that this machine offers."""

from bytepath._bytepath import __version__
from bytepath.channel import Channel, ChannelError, ChannelListener, PeerGone
from bytepath.queue import JoinableQueue, Queue

__all__ = [
    "Channel",
    "ChannelError",
    "ChannelListener",
    "JoinableQueue",
    "PeerGone",
    "Queue",
    "__version__",
]
