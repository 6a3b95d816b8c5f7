"""Moves bytes on Linux by the fastest route that this machine offers.

    >>> import bytepath
    >>> copied = bytepath.copy("/etc/hostname", "/dev/null")
    >>> copied.bytes > 0
    True
"""

from importlib import import_module
from typing import TYPE_CHECKING

from bytepath._bytepath import __version__
from bytepath._copy import Copied, Plan, PlannedRoute, copy, plan, routes
from bytepath._errors import CopyError, ProgramError, TreeError
from bytepath._machine import Machine, machine
from bytepath.channel import Channel, ChannelError, ChannelListener, PeerGone
from bytepath.queue import JoinableQueue, Queue

if TYPE_CHECKING:
    from bytepath._bench import Arm, Record, bench
    from bytepath._tree import TreeCopied, copytree
    from bytepath._tune import Profile, tune

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

# What runs the command `bytepath` is loaded when it is first asked for, so that a worker that is given a queue does
# not pay for the benchmark lab. All else is loaded at once: a process that has given up its rights or its root may
# find no module any more.
# Type checkers are not shown this, or they would take any name for one that is there.
if not TYPE_CHECKING:
    _LATER = {
        **dict.fromkeys(("Arm", "Record", "bench"), "_bench"),
        **dict.fromkeys(("TreeCopied", "copytree"), "_tree"),
        **dict.fromkeys(("Profile", "tune"), "_tune"),
    }

    def __getattr__(name):
        if name not in _LATER:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        # From now on it is found without asking.
        found = globals()[name] = getattr(import_module(f"bytepath.{_LATER[name]}"), name)
        return found

    def __dir__():
        return sorted({*globals(), *__all__})
