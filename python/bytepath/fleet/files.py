"""Files for what was found: that they can be written is seen before hours of work, and what keeps them from it is said."""

import contextlib
import errno
import io
import itertools
import os
import stat
import sys
import tempfile
import unicodedata
from pathlib import Path
from typing import TextIO

from . import signals
from .errors import FleetError, WrongUsage


_made: list[tuple[str | Path, os.stat_result]] = []


def check(*paths: str | Path | None) -> None:
    """Refuses a file that cannot be written; what is in it stays. One that is made for it is for `remove_unused`. None
    and `-` are none."""
    for path in paths:
        if path is not None and str(path) != "-":
            try:
                refuse_planted(path)
                if _is_fifo(path) and os.access(path, os.W_OK):
                    # Whoever reads there would take it for the end if it was opened, and closed again.
                    continue
                there = os.path.exists(path)
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
                if not there:
                    _made.append((path, os.fstat(file)))
                os.close(file)
            except OSError as error:
                raise _said(path, error) from error


def _is_fifo(path: str | Path) -> bool:
    with contextlib.suppress(OSError):
        return stat.S_ISFIFO(os.stat(path).st_mode)
    return False


def name_of(machine: str) -> str:
    """What a machine is called where its name is that of a file; no two are called the same."""
    return machine.replace("%", "%25").replace("/", "%2F")


def check_folder(path: Path) -> None:
    """Makes a folder for files, and refuses one in which none can be made."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        what = error.strerror if os.path.isdir(path) else f"it is no folder, and none can be made ({error.strerror})"
        raise FleetError(f"cannot write into {path}: {what}") from error


def remove_unused() -> None:
    """Removes the files that were made to see that they can be, and in which nothing is."""
    for path, made in _made:
        with contextlib.suppress(OSError):
            found = os.stat(path)
            if os.path.samestat(found, made) and found.st_size == 0:
                # A link to it was there before.
                os.unlink(os.path.realpath(path))
    _made.clear()


def refuse_one_twice(**results: str | Path | None) -> None:
    """Refuses two results, by their options' names, that go to one file, whatever it is called; None is none."""
    named = [(name, str(path)) for name, path in results.items() if path is not None]
    for (one, path), (other, again) in itertools.combinations(named, 2):
        if path == again or ("-" not in (path, again) and _are_one(path, again)):
            raise WrongUsage(f"--{one} and --{other} name the same file, {path}")


def _are_one(path: str, other: str) -> bool:
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


@signals.raised()
def write(path: str | Path, text: str) -> None:
    """Writes a file, which a signal ends: it may be a FIFO that nobody reads."""
    left = memoryview(text.encode(errors="replace"))
    try:
        refuse_planted(path)
        # Closing it waits for nobody, as there is no buffer.
        with open(path, "wb", buffering=0) as file:
            while left:
                left = left[file.write(left) :]
    except OSError as error:
        raise _said(path, error) from error


def refuse_planted(path: str | Path) -> None:
    """Refuses a link of somebody else's in a folder where everybody makes them, as /tmp is, which the kernel itself follows
    for nobody else (fs.protected_symlinks)."""
    try:
        link, folder = os.lstat(path), os.stat(os.path.dirname(path) or ".")
    except OSError:
        return
    for_all = stat.S_ISVTX | stat.S_IWOTH
    owns = (os.geteuid(), folder.st_uid)
    if stat.S_ISLNK(link.st_mode) and folder.st_mode & for_all == for_all and link.st_uid not in owns:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def tell(text: str | None, *kept: tuple[str | Path, str]) -> None:
    """Writes files, and then shows a text, if any: where one of these cannot be done, the others are all the same."""
    with contextlib.ExitStack() as stack:
        if text is not None:
            stack.callback(show, text)
        for path, content in reversed(kept):
            stack.callback(write, path, content)


@signals.raised()
def show(text: str) -> None:
    """Writes to standard output, which a signal ends. That its reader had enough of it is no error, nor that it has no sign
    for what is told."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _discard(sys.stdout)
    except signals.Interrupted:
        _discard(sys.stdout)
        raise
    except OSError as error:
        _discard(sys.stdout)
        raise _said("standard output", error) from error


def say(line: str) -> None:
    """Says a line on standard error, of whose reader the work does not depend."""
    write_error(f"bytepath fleet: {printable(line)}\n")


def printable(text: str) -> str:
    """A text that commands no terminal, whatever a machine told; its lines stay."""
    return "".join("\ufffd" if sign != "\n" and unicodedata.category(sign) == "Cc" else sign for sign in text)


def write_error(text: str) -> None:
    """Writes to standard error, as far as somebody reads it."""
    if sys.stderr is None:
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except OSError:
        _discard(sys.stderr)


def umask() -> int:
    """What new files of this process are not permitted."""
    # It can only be had by setting another.
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _discard(stream: TextIO) -> None:
    """Lets what is left to be written there go nowhere: Python would try it once more at its end."""
    with contextlib.suppress(OSError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _said(path: str | Path, error: OSError) -> FleetError:
    return FleetError(f"cannot write {path}: {error.strerror}")
