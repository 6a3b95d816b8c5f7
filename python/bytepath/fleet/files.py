"""Files for what was found: that they can be written is seen before hours of work, and what keeps them from it is said."""

import contextlib
import os
import sys
from pathlib import Path

from .errors import FleetError


def check(*paths: str | Path | None) -> None:
    """Refuses a file that cannot be written; what is in it stays. None and `-` are none."""
    for path in paths:
        if path is not None and str(path) != "-":
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666))
            except OSError as error:
                raise _said(path, error) from error


def write(path: str | Path, text: str) -> None:
    """Writes a file."""
    try:
        Path(path).write_text(text)
    except OSError as error:
        raise _said(path, error) from error


def show(text: str) -> None:
    """Writes to standard output. That its reader is gone is left to the caller."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        discard_output()
        raise _said("standard output", error) from error


def discard_output() -> None:
    """Lets what is left to be written to standard output go nowhere: Python would try it once more at its end."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _said(path: str | Path, error: OSError) -> FleetError:
    return FleetError(f"cannot write {path}: {error.strerror}")
