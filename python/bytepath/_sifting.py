"""What an `ignore` leaves of a tree, in as few parts as there can be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

#: Called with a directory and the names in it; gives those that are left out.
Ignore = Callable[[str, list[str]], Iterable[str]]


@dataclass
class Sifted:
    """A tree as it is to be copied; names are relative to its top."""

    #: Directories that something somewhere within is left out of, or that the destination is in, or that are in the
    #: destination, each before those within it; none where the tree is copied whole.
    folders: list[str] = field(default_factory=list)
    #: What of them is copied, whole: files, links, and directories that nothing is left out of. In each list
    #: no two are the same, as they are where links lead to one directory: `cp` takes only the first of these.
    parts: list[list[str]] = field(default_factory=list)


def sift(source: str, destination: str, ignore: Ignore | None, symlinks: bool, ignore_dangling: bool) -> Sifted:
    """Asks `ignore` about every directory of a tree, before the destination is made, which may be within it.

    With `ignore_dangling`, links to nothing are left out as well, unless `symlinks` are kept as such.
    What cannot be listed is a part: copying it will say why.
    """
    walk = _Walk(ignore, symlinks, ignore_dangling and not symlinks)
    walk.take_apart(Path(os.path.realpath(destination)))
    walk.is_whole(source, "", frozenset())
    # A name is shorter than those that begin with it, and so comes first.
    walk.sifted.folders.sort()
    return walk.sifted


class _Walk:
    def __init__(self, ignore: Ignore | None, symlinks: bool, ignore_dangling: bool) -> None:
        self._ignore, self._symlinks, self._ignore_dangling = ignore, symlinks, ignore_dangling
        self.sifted = Sifted()
        self._met: dict[tuple[int, int], int] = {}
        # The directories above the destination, and that itself, if it is there.
        self._apart: set[tuple[int, int]] = set()
        self._destination: tuple[int, int] | None = None

    def take_apart(self, destination: Path) -> None:
        """Has no directory be copied whole that this is in, or that is in this: what is made there meanwhile is none of the
        tree."""
        for folder in destination.parents:
            with suppress(OSError):
                here = os.stat(folder)
                self._apart.add((here.st_dev, here.st_ino))
        with suppress(OSError):
            here = os.stat(destination)
            self._destination = (here.st_dev, here.st_ino)

    def is_whole(self, folder: str, below: str, above: frozenset[tuple[int, int]]) -> bool:
        """Whether nothing is left out of this directory; else its parts have been taken note of."""
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
            here = os.stat(folder)
        except OSError:
            return True
        # Where a link leads back to a directory above it, copying it will say so.
        if (here.st_dev, here.st_ino) in above:
            return True
        above |= {(here.st_dev, here.st_ino)}
        left_out: set[str] = set()
        if self._ignore is not None:
            left_out.update(self._ignore(folder, [entry.name for entry in entries]))
        kept = [e for e in entries if e.name not in left_out and not self._dangles(e)]
        is_apart = (here.st_dev, here.st_ino) in self._apart or self._destination in above
        whole = len(kept) == len(entries) and not is_apart
        parts = []
        for entry in kept:
            inside = os.path.join(below, entry.name)
            if not self._is_folder(entry) or self.is_whole(entry.path, inside, above):
                parts.append(inside)
            else:
                whole = False
        if not whole:
            self.sifted.folders.append(below)
            times = self._met.get((here.st_dev, here.st_ino), 0)
            self._met[here.st_dev, here.st_ino] = times + 1
            if times == len(self.sifted.parts):
                self.sifted.parts.append([])
            self.sifted.parts[times] += parts
        return whole

    def _dangles(self, entry: os.DirEntry[str]) -> bool:
        return self._ignore_dangling and entry.is_symlink() and not os.path.exists(entry.path)

    def _is_folder(self, entry: os.DirEntry[str]) -> bool:
        try:
            return entry.is_dir(follow_symlinks=not self._symlinks)
        except OSError:
            return False
