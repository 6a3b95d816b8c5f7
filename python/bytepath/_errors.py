"""The exceptions of the package."""

from __future__ import annotations

import os
import shutil
from typing import Any


class CopyError(OSError):
    """A copy that ended short, or could not begin.

    It is also of the class that Python has for its `errno`, so that `except BrokenPipeError` catches
    what it always caught.
    """

    #: Bytes that the sink had taken.
    offset: int = 0
    #: The route that was at work; None where none was.
    route: str | None = None
    #: "source" or "sink": the end that failed; None where the kernel's answer does not tell.
    side: str | None = None
    #: Bytes that were read from a source that cannot be set back, and were not written.
    stranded: bytes = b""

    def __reduce__(self) -> Any:
        # The classes made below have no place to be found in.
        told = (self.offset, self.route, self.side, self.stranded, self.filename)
        return make, (self.errno, self.strerror, *told)


_classes: dict[type[OSError], type[CopyError]] = {}


def make(
    errno: int,
    text: str,
    offset: int = 0,
    route: str | None = None,
    side: str | None = None,
    stranded: bytes = b"",
    filename: str | bytes | None = None,
) -> CopyError:
    """The exception for an errno, as OSError itself would choose its class."""
    python_class = type(OSError(errno, text))
    error_class = CopyError
    if python_class is not OSError:
        error_class = _classes.setdefault(
            python_class,
            type("CopyError", (CopyError, python_class), {"__module__": "bytepath"}),
        )
    error = error_class(errno, text) if filename is None else error_class(errno, text, filename)
    error.offset, error.route, error.side, error.stranded = offset, route, side, stranded
    return error


def unclosed(errno: int, name: str | bytes | None, offset: int) -> CopyError:
    """The exception for a sink that could not be closed: some file systems (NFS, those with quotas) tell only then."""
    text = f"cannot close the sink: {os.strerror(errno)}; what was written may be lost"
    return make(errno, text, offset, side="sink", filename=name)


class SameFileError(CopyError, shutil.SameFileError):
    """A copy of a file to itself, as shutil's own functions call it.

    shutil.copytree, which goes on after it, looks for a source, a destination and a reason in `args[0]`.
    """

    def __init__(self, errno: int, text: str, source: Any = None, destination: Any = None) -> None:
        super().__init__(errno, text)
        self.args = ([(source, destination, text)],)

    def __reduce__(self) -> Any:
        return make_same_file, (self.errno, self.strerror, self.offset), {"args": self.args}


def make_same_file(errno: int, text: str, offset: int = 0, *told: Any) -> CopyError:
    """The exception for a source that is the sink; the rest is as for `make`."""
    error = SameFileError(errno, text)
    error.offset = offset
    return error


class TreeError(CopyError, shutil.Error):
    """A tree that was not copied whole: what could be copied was.

    `errors` tells of each entry that was not: dictionaries with "message", "source", "destination",
    "errno" and "offset"; its own `errno` is the first of those, None where there is none. What
    catches shutil.Error catches it too, and finds a source, a destination and a reason of each in
    `args[0]`.
    """

    errors: list[dict[str, Any]]

    def __init__(self, errno: int | None, text: str, errors: list[dict[str, Any]] | None = None) -> None:
        super().__init__(errno, text)
        self.errors = errors or []
        names = ("source", "destination", "message")
        self.args = ([tuple(error[name] for name in names) for error in self.errors],)

    def __reduce__(self) -> Any:
        return TreeError, (self.errno, self.strerror, self.errors)

    def __str__(self) -> str:
        return str(self.strerror) if self.errno is None else super().__str__()


class ProgramError(RuntimeError):
    """The command `bytepath` is missing, or failed; the message ends with what it said."""
