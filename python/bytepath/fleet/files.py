"""Files for what was found: that they can be written is seen before hours of work, and what keeps them from it is said."""

import os
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


def _said(path: str | Path, error: OSError) -> FleetError:
    return FleetError(f"cannot write {path}: {error.strerror}")
