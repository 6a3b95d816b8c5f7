"""Copies of whole trees, by `bytepath cp`."""

from __future__ import annotations

import errno
import json
import os
from dataclasses import dataclass, field
from typing import Any

from bytepath._errors import ProgramError, TreeError
from bytepath._program import run


@dataclass(frozen=True)
class TreeCopied:
    """What a copy of a tree did."""

    files: int
    directories: int
    links: int
    #: Bytes copied or shared; holes are none.
    bytes: int
    seconds: float
    #: Bytes by the route that moved them.
    routes: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.files} files in {self.directories} directories, {self.bytes} bytes"


def copytree(
    source: str | os.PathLike[str],
    destination: str | os.PathLike[str],
    *,
    symlinks: bool = False,
    dirs_exist_ok: bool = False,
    route: str | None = None,
    profile: str | os.PathLike[str] | None = None,
) -> TreeCopied:
    """Copies a tree, as shutil.copytree does: modes, times and extended attributes too.

    `destination` becomes the copy, and must not be there yet unless `dirs_exist_ok`; directories above
    it are made. `symlinks`: copy links as links; else what they point to. `route`, `profile`: see `copy`.

    Several threads copy where that is faster. Raises TreeError, an OSError whose `errors` name each
    entry that was not copied; all others were.
    """
    source, destination = os.fspath(source), os.fspath(destination)
    if not os.path.isdir(source):
        # As listing it would say.
        os.scandir(source).close()
    if not dirs_exist_ok and os.path.lexists(destination):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), destination)
    os.makedirs(os.path.dirname(os.path.abspath(destination)), exist_ok=True)
    arguments: list[Any] = ["cp", "--recursive", "--no-target-directory", "--json", "-"]
    arguments += ["--no-dereference" if symlinks else "--dereference"]
    arguments += ["--preserve=mode,timestamps,xattr"]
    if route is not None:
        arguments += ["--route", route]
    if profile is not None:
        arguments += ["--profile", os.fspath(profile)]
    done = run([*arguments, "--", source, destination])
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise ProgramError(f"bytepath cp failed: {done.stderr.strip()}") from None
    if done.returncode != 0:
        raise _error(told)
    names = ("files", "directories", "links", "bytes", "seconds", "routes")
    return TreeCopied(**{name: told[name] for name in names})


def _error(told: dict[str, Any]) -> TreeError:
    errors = [
        {
            "message": error["message"],
            "source": _name(error["source"]),
            "destination": _name(error["destination"]),
            "errno": error["errno"],
            "offset": error["offset"],
        }
        for error in told["errors"]
    ]
    more = max(len(errors) - 1, 0) + told["errors_left_out"]
    text = told["errors"][0]["message"] if errors else "bytepath cp failed"
    if more:
        text += f"; and {more} more"
    numbers = (error["errno"] for error in errors)
    return TreeError(next((n for n in numbers if n is not None), errno.EIO), text, errors)


def _name(name: dict[str, str] | None) -> str | None:
    """A name as Python writes names that are no UTF-8."""
    if name is None:
        return None
    return os.fsdecode(bytes.fromhex(name["hex"])) if "hex" in name else name["name"]
