"""Runs a command, and ends it with all its children once standard input is closed: as soon as whoever started
this is gone, however that ended. Run by its path, alone: it needs nothing of the package."""

import os
import select
import signal
import subprocess
import sys
import threading

GRACE_S = 10.0


def main() -> int:
    # What a terminal sends is the starter's to answer, which then closes standard input. Neither this nor whether
    # it is blocked here, as by workers on the submitter's machine, is for the command.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    child = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, start_new_session=True)

    def end_with_the_starter() -> None:
        while True:
            readable, _, _ = select.select([0], [], [])
            if readable and not os.read(0, 4096):
                break
        for number, patience in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, None)):
            try:
                os.killpg(child.pid, number)
                child.wait(timeout=patience)
            except (ProcessLookupError, subprocess.TimeoutExpired):
                continue

    threading.Thread(target=end_with_the_starter, daemon=True).start()
    code = child.wait()
    try:
        # Whom it left behind.
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
