"""Moves bytes on Linux by the fastest route that this machine offers.

    >>> import bytepath
    >>> copied = bytepath.copy("/etc/hostname", "/dev/null")
    >>> copied.bytes > 0
    True
"""

from bytepath._bench import Arm, Record, bench
from bytepath._bytepath import __version__
from bytepath._copy import Copied, Plan, PlannedRoute, copy, plan, routes
from bytepath._errors import CopyError, ProgramError, TreeError
from bytepath._machine import Machine, machine
from bytepath._tree import TreeCopied, copytree
from bytepath._tune import Profile, tune
from bytepath.channel import Channel, ChannelError, ChannelListener, PeerGone
from bytepath.queue import JoinableQueue, Queue

__all__ = [
    "Arm",
    "Channel",
    "ChannelError",
    "ChannelListener",
    "Copied",
    "CopyError",
    "JoinableQueue",
    "Machine",
    "PeerGone",
    "Plan",
    "PlannedRoute",
    "Profile",
    "ProgramError",
    "Queue",
    "Record",
    "TreeCopied",
    "TreeError",
    "__version__",
    "bench",
    "copy",
    "copytree",
    "machine",
    "plan",
    "routes",
    "tune",
]
