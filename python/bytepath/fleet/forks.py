"""Where workers of our own come from: they are forked off a process that has imported what they need, which is most of what
their start takes. It is begun before this process imports the same, so that both go on at once."""

import multiprocessing
import os
import signal
from multiprocessing import forkserver, resource_tracker

PRELOADED = ["distributed", f"{__package__}.worker"]


def begin() -> None:
    """Begins that process. Ctrl-C, which a terminal sends to all in the foreground, is for this one alone: workers end with
    it, and would tell of it at length."""
    here = os.open(".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Each is a Python that looks for its modules in the current directory first, which may be anybody's.
        os.chdir("/")
        _begin()
    finally:
        os.fchdir(here)
        os.close(here)


def _begin() -> None:
    # It unblocks this signal where it is begun.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        multiprocessing.set_forkserver_preload(PRELOADED)
        # It inherits what is blocked, and so do they.
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
