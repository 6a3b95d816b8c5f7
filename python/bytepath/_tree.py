"""Copies of whole trees, by `bytepath cp`."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from bytepath._copy import Copied, check_route_and_profile
from bytepath._errors import TreeError
from bytepath._program import failed, program, run
from bytepath._sifting import Ignore, Sifted, sift

#: What copies one file: called with the names of source and destination.
CopyFunction = Callable[[str, str], object]

#: Names of one call of the command, in bytes: half of what a stack of 2 MiB leaves for arguments.
_NAMES_BYTES_MAX = 256 << 10

#: Attributes that are refused with these, shutil goes on without.
_NO_ATTRIBUTES = (errno.EPERM, errno.ENOTSUP, errno.ENODATA, errno.EINVAL, errno.EACCES)


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
    routes: dict[str, int] = field(default_factory=dict, hash=False)

    def _add(self, told: dict[str, Any]) -> TreeCopied:
        routes = dict(self.routes)
        for route, count in told["routes"].items():
            routes[route] = routes.get(route, 0) + count
        names = ("files", "directories", "links", "bytes", "seconds")
        return TreeCopied(**{name: getattr(self, name) + told[name] for name in names}, routes=routes)

    def __str__(self) -> str:
        return f"{self.files} files in {self.directories} directories, {self.bytes} bytes"


def copytree(
    source: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    destination: str | bytes | os.PathLike[str] | os.PathLike[bytes],
    symlinks: bool = False,
    ignore: Ignore | None = None,
    copy_function: CopyFunction = shutil.copy2,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
    *,
    route: str | None = None,
    profile: str | os.PathLike[str] | None = None,
) -> TreeCopied:
    """Copies a tree, as shutil.copytree does: modes, times and extended attributes too.

    `destination` becomes the copy, and must not be there yet unless `dirs_exist_ok`; directories above
    it are made. `symlinks`: copy links as links; else what they point to, or nothing where that is not
    there and `ignore_dangling_symlinks` says so.
    `ignore`: called with each directory and the names in it, it gives the names that are left out
    (shutil.ignore_patterns makes such). What comes into the tree after that is not asked about.
    `copy_function`: copies each file, instead of the engine, which takes the place of shutil.copy2. Both are
    called with names that are text, also where the ends are bytes.
    `route`, `profile`: see `copy`.

    Several threads copy where that is faster, but for a `copy_function`. Raises TreeError, an OSError
    whose `errors` name each entry that was not copied; all others were. Where there is no directory, and none
    can be made, it raises what os.makedirs does.
    """
    source, destination = os.fsdecode(source), os.fsdecode(destination)
    if not os.path.isdir(source):
        # As listing it would say.
        os.scandir(source).close()
    if not dirs_exist_ok and os.path.lexists(destination):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), destination)
    by_function = copy_function is not shutil.copy2
    if by_function and (route is not None or profile is not None):
        raise ValueError("route and profile are for the engine: copy_function would not see them")
    check_route_and_profile(route, profile)
    if by_function:
        each = _Each(copy_function, ignore, symlinks)
        return each.copytree(source, destination, ignore_dangling_symlinks, dirs_exist_ok)
    # Where it is missing, that is said before anything is made.
    program()
    asked = ignore is not None or ignore_dangling_symlinks
    if not asked and _is_within(destination, source):
        text = f"cannot copy a directory, {source!r}, into itself, {destination!r}"
        raise _error([_as_told(OSError(errno.EINVAL, text), source, destination)])
    sifted = Sifted()
    if asked:
        sifted = sift(source, destination, ignore, symlinks, ignore_dangling_symlinks)
    # Here, so that what it raises is what shutil's raises. The command gives it the mode of the source at the end.
    os.makedirs(destination, 0o700, exist_ok=dirs_exist_ok)
    arguments: list[Any] = ["cp", "--recursive", "--json", "-", "--json-errors", str(sys.maxsize)]
    arguments += ["--no-dereference" if symlinks else "--dereference"]
    # As shutil does it: where a file system keeps no extended attributes, all else is copied.
    arguments += ["--preserve=all", "--no-preserve=ownership,links,context"]
    if route is not None:
        arguments += ["--route", route]
    elif profile is not None:
        arguments += ["--profile", os.path.abspath(profile)]
    if sifted.folders:
        return _copy_sifted(arguments, source, destination, sifted)
    # Links as the ends themselves are followed in any case.
    ends = [os.path.join(end, "") if os.path.islink(end) else end for end in (source, destination)]
    told = _told([*arguments, "--no-target-directory", "--", *ends])
    if told["errors"]:
        raise _error(told["errors"])
    return TreeCopied(0, 0, 0, 0, 0.0)._add(told)


def _is_within(name: str, folder: str) -> bool:
    return os.path.realpath(name).startswith(os.path.join(os.path.realpath(folder), ""))


def _copy_sifted(
    arguments: list[Any], source: str, destination: str, sifted: Sifted
) -> TreeCopied:
    """Copies what was left: directories that lost something here, all else by the command."""
    began = time.perf_counter()
    errors: list[dict[str, Any]] = []
    made = _made(sifted.folders, source, destination, errors)
    copied = TreeCopied(0, len(made), 0, 0, 0.0)
    command = [*arguments, "--parents", "--target-directory", os.path.abspath(destination), "--"]
    each = ([name for name in parts if os.path.dirname(name) in made] for parts in sifted.parts)
    for names in (bundle for parts in each for bundle in _bundles(parts)):
        told = _told([*command, *names], folder=source)
        errors += (_as_given(error, source, destination) for error in told["errors"])
        copied = copied._add(told)
    # Last, and those within others first: what is made in a directory changes its times.
    for folder in reversed(made):
        one, other = os.path.join(source, folder), os.path.join(destination, folder)
        try:
            shutil.copystat(one, other)
        except OSError as error:
            errors.append(_as_told(error, one, other))
    if errors:
        raise _error(errors)
    seconds = time.perf_counter() - began
    return TreeCopied(
        copied.files, copied.directories, copied.links, copied.bytes, seconds, copied.routes
    )


def _made(
    folders: list[str], source: str, destination: str, errors: list[dict[str, Any]]
) -> dict[str, None]:
    """Makes the directories, each before those within it; those that are there then, in their order. Nothing is
    made within one that could not be."""
    made: dict[str, None] = {}
    for folder in folders:
        if folder and os.path.dirname(folder) not in made:
            continue
        one, other = os.path.join(source, folder), os.path.join(destination, folder)
        try:
            _make(one, other)
            made[folder] = None
        except OSError as error:
            errors.append(_as_told(error, one, other))
    return made


def _make(one: str, other: str) -> None:
    """Makes the directory that is to be one's copy, unless it is there; says of anything else that is there
    what the command says. Links are not followed, but for one that is the destination itself."""
    try:
        os.mkdir(other)
    except FileExistsError:
        if not stat.S_ISDIR(os.lstat(other).st_mode):
            text = f"cannot overwrite non-directory {other!r} with directory {one!r}"
            raise OSError(None, text) from None


def _as_given(error: dict[str, Any], source: str, destination: str) -> dict[str, Any]:
    """What the command tells, with the names that the caller knows: it was given names in the source, and
    the whole name of the destination."""
    whole = os.path.abspath(destination)
    for side in ("source", "destination"):
        name = _name(error[side])
        if name is None:
            continue
        known = os.path.join(source, name)
        if side == "destination":
            within = os.path.relpath(name, whole)
            known = destination if within == os.curdir else os.path.join(destination, within)
        error[side] = {"name": known}
        error["message"] = _renamed(error["message"], name, known)
    return error


def _renamed(message: str, name: str, known: str) -> str:
    """A message of the command's in which a name is another. It writes names for a shell, in one of two ways, or as the
    locale has it."""
    plain = f"'{name}'"
    if plain in message:
        return message.replace(plain, repr(known))
    if not any(sign in message for sign in ('"', "\\", "$'", "‘")):
        # It is not in it.
        return message

    def written(own: dict[str, str], between: str = "") -> str:
        ways = ((own.get(sign, sign), _escaped(sign)) for sign in name)
        return "".join(f"{between}(?:{re.escape(as_is)}|{re.escape(escaped)})" for as_is, escaped in ways)

    shell = "'" + written({"'": r"'\''"}, between=r"(?:'\$'|'')?") + "'"
    locale = "‘" + written({"\\": r"\\"}) + "’|'" + written({"\\": r"\\", "'": r"\'"}) + "'"
    return re.sub(f'{shell}|"{re.escape(name)}"|{locale}', lambda _: repr(known), message)


def _escaped(sign: str) -> str:
    """As the command escapes what cannot be printed."""
    if (at := "\a\b\t\n\v\f\r".find(sign)) >= 0:
        return "\\" + "abtnvfr"[at]
    return "".join(f"\\{byte:03o}" for byte in os.fsencode(sign))


def _bundles(names: Iterable[str]) -> Iterable[list[str]]:
    """The names in lists that fit into the arguments of one call."""
    bundle: list[str] = []
    room = _NAMES_BYTES_MAX
    for name in names:
        # The name, a zero, and where it is.
        takes = len(os.fsencode(name)) + 9
        if bundle and takes > room:
            yield bundle
            bundle, room = [], _NAMES_BYTES_MAX
        bundle.append(name)
        room -= takes
    if bundle:
        yield bundle


def _told(arguments: list[Any], folder: str | None = None) -> dict[str, Any]:
    """What the command tells of its work; it has `errors` where that failed."""
    # SIGXFSZ, which Python ignores, would end it without a word where a file may not be so large.
    done = run(arguments, folder=folder, restore_signals=False)
    try:
        told: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise failed(arguments, done) from None
    told["errors"] = [error for error in told["errors"] if not _is_shrugged_off(error)]
    if done.returncode != 0 and not told["errors"]:
        told["errors"].append(_as_told(OSError(None, str(failed(arguments, done))), None, None))
    return told


def _is_shrugged_off(error: dict[str, Any]) -> bool:
    """Whether the copy is as good as shutil's without what the command tells of."""
    return error["warning"] and (error["errno"] is None or error["errno"] in _NO_ATTRIBUTES)


class _Each:
    """A copy whose files are copied by a function, in shutil's own walk; it counts."""

    def __init__(self, function: CopyFunction, ignore: Ignore | None, symlinks: bool) -> None:
        self._function, self._ignore, self._symlinks = function, ignore, symlinks
        self._numbers: dict[tuple[str, str], int | None] = {}
        self._files = self._directories = self._links = self._bytes = 0
        self._routes: dict[str, int] = {}

    def copytree(self, source: str, destination: str, ignore_dangling: bool, exist_ok: bool) -> TreeCopied:
        began = time.perf_counter()
        try:
            shutil.copytree(source, destination, self._symlinks, self._look, self._copy, ignore_dangling, exist_ok)
        except shutil.Error as error:
            raise _error([self._as_told(*one) for one in error.args[0]]) from error
        seconds = time.perf_counter() - began
        numbers = (self._files, self._directories, self._links, self._bytes)
        return TreeCopied(*numbers, seconds, self._routes)

    def _look(self, folder: str, names: list[str]) -> set[str]:
        ignored = set() if self._ignore is None else set(self._ignore(folder, names))
        self._directories += 1
        if self._symlinks:
            kept = (name for name in names if name not in ignored)
            self._links += sum(os.path.islink(os.path.join(folder, name)) for name in kept)
        return ignored

    def _copy(self, source: Any, destination: str) -> None:
        # shutil hands over an entry of a listing where it asks for more of it.
        source = os.fspath(source)
        try:
            done = self._function(source, destination)
        except OSError as error:
            self._numbers[source, destination] = error.errno
            if isinstance(error, shutil.Error):
                # The walk takes it for one that lists what failed, which most do not.
                raise OSError(str(error)) from error
            raise
        self._files += 1
        if isinstance(done, Copied):
            self._bytes += done.bytes
            self._routes[done.route] = self._routes.get(done.route, 0) + done.bytes
        else:
            # It may have written the file under another name, or none.
            with contextlib.suppress(OSError):
                self._bytes += os.stat(destination).st_size

    def _as_told(self, source: Any, destination: str, why: str) -> dict[str, Any]:
        source = os.fspath(source)
        number = self._numbers.get((source, destination))
        # The error of the whole says the number, too.
        return _as_told(OSError(number, str(why).removeprefix(f"[Errno {number}] ")), source, destination)


def _as_told(error: OSError, source: str | None, destination: str | None) -> dict[str, Any]:
    """An error of Python's as the command tells its own."""
    names = [None if name is None else {"name": name} for name in (source, destination)]
    return {
        "message": str(error.strerror),
        "source": names[0],
        "destination": names[1],
        "errno": error.errno,
        "offset": None,
    }


def _error(told: list[dict[str, Any]]) -> TreeError:
    errors = [
        {
            "message": error["message"],
            "source": _name(error["source"]),
            "destination": _name(error["destination"]),
            "errno": error["errno"],
            "offset": error["offset"],
        }
        for error in told
    ]
    text = errors[0]["message"]
    if len(errors) > 1:
        text += f"; and {len(errors) - 1} more"
    numbers = (error["errno"] for error in errors)
    return TreeError(next((n for n in numbers if n is not None), None), text, errors)


def _name(name: dict[str, str] | None) -> str | None:
    """A name as Python writes names that are no UTF-8."""
    if name is None:
        return None
    return os.fsdecode(bytes.fromhex(name["hex"])) if "hex" in name else name["name"]
