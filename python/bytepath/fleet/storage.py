"""What tells a directory from any other, wherever it is looked at: one on another storage may have its inode."""

import contextlib
import ctypes
import heapq
import itertools
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

NAMES = 16
"""So many of its entries are looked at, the first by their names."""

NAMES_MAX = 10_000
"""Of a directory of more, none are: to find the first takes all."""

DIRECTORIES = 16
"""On FUSE, directories are told apart by the first files in them: so many directories are looked into for these, at most."""

_AT_EMPTY_PATH = 0x1000
_AT_STATX_FORCE_SYNC = 0x2000
"""What a client of a file server kept from earlier is asked for again."""
_LOOK = 0x0100 | 0x0800 | _AT_STATX_FORCE_SYNC
"""No link is followed, and nothing is mounted for it."""
_BASIC_AND_BIRTH = 0x0FFF
_BIRTH = 0x0800
_IS_DIRECTORY, _IS_FILE = 0o040000, 0o100000
_MOUNT_ROOT_OR_AUTOMOUNT = 0x2000 | 0x1000
"""What is mounted there, or is once somebody goes in, is each machine's own."""

_FUSE = 0x65735546
"""Its clients may make up the inodes of all, and the times of directories, on each machine, as for object stores."""

_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class Status:
    """What statx(2) says, times in nanoseconds; Python's os.stat knows no time of birth."""

    attributes: int
    mode: int
    inode: int
    size: int
    born: int | None
    """None where the file system does not tell, or kept nothing then."""
    changed: int
    modified: int


def status(folder: int, name: bytes, flags: int) -> Status:
    """The status of an entry of an open directory."""
    found = ctypes.create_string_buffer(256)
    if _libc.statx(folder, name, flags, _BASIC_AND_BIRTH, found) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), os.fsdecode(name) or None)
    mask, attributes, mode = struct.unpack_from("=I4xQ12xH", found)
    inode, size = struct.unpack_from("=QQ", found, 32)
    times = (struct.unpack_from("=qI", found, at) for at in (80, 96, 112))
    born, changed, modified = (seconds * 10**9 + ns for seconds, ns in times)
    return Status(attributes, mode, inode, size, (born or None) if mask & _BIRTH else None, changed, modified)


def root(path: str) -> str:
    """What a directory is on this machine, as long as nothing else is mounted there."""
    # Unlike stat, it has mounted what is mounted once somebody goes in.
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        found = os.fstat(folder)
        return f"{found.st_dev}:{found.st_ino}"
    finally:
        os.close(folder)


def look(path: str) -> dict[str, Any]:
    """How a directory looks now."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        itself, is_fuse = status(folder, b"", _AT_EMPTY_PATH | _AT_STATX_FORCE_SYNC), _is_fuse(folder)
        entries = _entries(folder)
        if is_fuse and not any(_is(_IS_FILE, entry) for entry in entries.values()):
            left = iter(range(DIRECTORIES))
            entries = {name: _first_file(folder, name, entry, left) for name, entry in entries.items()}
        return _told(itself, _volume(folder), entries, is_fuse)
    finally:
        os.close(folder)


def _told(
    itself: Status, volume: tuple[str, int] | None, entries: dict[bytes, Status | None], is_fuse: bool
) -> dict[str, Any]:
    """What there is to compare, None where a machine may have its own."""
    return {
        "inode": None if is_fuse else itself.inode,
        "born": None if is_fuse else itself.born,
        "volume": volume,
        "times": (None, None) if is_fuse else (itself.changed, itself.modified),
        "entries": {name: _facts(entry, is_fuse) for name, entry in entries.items()},
    }


def _facts(entry: Status | None, is_fuse: bool) -> tuple[int | None, ...]:
    if entry is None or entry.attributes & _MOUNT_ROOT_OR_AUTOMOUNT:
        return (None,) * 4
    if is_fuse:
        return (None, entry.size, None, entry.modified) if _is(_IS_FILE, entry) else (None,) * 4
    # The size of a directory means something else on each file system.
    return entry.inode, None if _is(_IS_DIRECTORY, entry) else entry.size, entry.changed, entry.modified


def _is(kind: int, entry: Status | None) -> bool:
    return entry is not None and entry.mode & 0o170000 == kind and not entry.attributes & _MOUNT_ROOT_OR_AUTOMOUNT


def _entries(folder: int) -> dict[bytes, Status | None]:
    """The first entries of an open directory, by their names."""
    with os.scandir(folder) as listed:
        names = [os.fsencode(entry.name) for entry in itertools.islice(listed, NAMES_MAX + 1)]
    found: dict[bytes, Status | None] = {}
    for name in heapq.nsmallest(NAMES, names) if len(names) <= NAMES_MAX else []:
        # What nobody can look at tells nothing but its name.
        found[name] = None
        with contextlib.suppress(OSError):
            found[name] = status(folder, name, _LOOK)
    return found


def _first_file(folder: int, name: bytes, entry: Status | None, left: Iterator[int]) -> Status | None:
    """In the place of a directory, the first file in it, as long as directories are left to be looked into; else itself."""
    if not _is(_IS_DIRECTORY, entry) or next(left, None) is None:
        return entry
    with contextlib.suppress(OSError):
        inside = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            entries = _entries(inside).items()
            for its_name, its in sorted(entries, key=lambda entry: _is(_IS_DIRECTORY, entry[1])):
                found = _first_file(inside, its_name, its, left)
                if _is(_IS_FILE, found):
                    return found
        finally:
            os.close(inside)
    return entry


def _is_fuse(folder: int) -> bool:
    """Whether it is on FUSE, which Python's os.fstatvfs does not tell."""
    found = ctypes.create_string_buffer(256)
    answered = _libc.fstatfs(folder, found) == 0
    return bool(answered and ctypes.c_long.from_buffer(found).value == _FUSE)


def _volume(folder: int) -> tuple[str, int] | None:
    """The number of a file system. Many have only that of their device on this machine there, or none, and kernels do
    not all make it from the same."""
    number, device = os.fstatvfs(folder).f_fsid, os.fstat(folder).st_dev
    major, minor = os.major(device), os.minor(device)
    if number in (0, minor & 0xFF | major << 8 | (minor & ~0xFF) << 12):
        return None
    return os.uname().release, number


def is_another(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether it is another directory, whatever was done in it between these looks."""
    if not all(_same((one["inode"], one["born"]), (other["inode"], other["born"]))):
        return True
    (kernel, number), (its_kernel, its_number) = (look["volume"] or (None, 0) for look in (one, other))
    return kernel is not None and kernel == its_kernel and number != its_number


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether it looks the same."""
    return not is_another(one, other) and one["entries"].keys() == other["entries"].keys() and all(
        itertools.chain(*_compared(one, other))
    )


def may_be_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether it is the same, as far as can be seen, if somebody changed it between these looks."""
    if is_another(one, other):
        return False
    return is_same(one, other) or any(known and all(known) for known in _compared(one, other))


def _compared(one: dict[str, Any], other: dict[str, Any]) -> Iterator[list[bool]]:
    """Whether birth, times and each entry that both have are the same."""
    yield _same((one["born"],), (other["born"],))
    yield _same(one["times"], other["times"])
    for name in one["entries"].keys() & other["entries"].keys():
        yield _same(one["entries"][name], other["entries"][name])


def _same(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> list[bool]:
    """Whether each of these is the same, of those that are known of both."""
    return [fact == its for fact, its in zip(one, other, strict=True) if None not in (fact, its)]
