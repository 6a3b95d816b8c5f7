"""What is not set the same on all machines, and how it is set on most."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from . import words

NEARLY = 1.01
"""Memory that differs by less is the same: each boot keeps some for the kernel."""

UNLIMITED = (1 << 64) - 1

NAMES = {
    "bytepath": "build of bytepath",
    "governor": "governor", "kernel": "kernel", "cpu_model": "CPU", "cpus_online": "number of CPUs",
    "cpus_allowed": "CPUs allowed", "numa_nodes": "number of NUMA nodes", "caches": "caches",
    "mitigations": "mitigation of",
    "thp_enabled": "transparent huge pages", "thp_defrag": "defragmenting for huge pages",
    "virtualisation": "virtualisation", "vmsplice_aliases": "vmsplice", "io_uring": "io_uring",
    "pipe_max_size": "fs.pipe-max-size", "pipe_user_pages_soft": "fs.pipe-user-pages-soft",
    "memlock_bytes": "limit of locked memory", "memory_bytes": "memory", "page_bytes": "page size",
    "hugetlb_pages": "pool of huge pages", "file_system": "file system", "psi": "pressure",
    "user_is_root": "rights", "command_line": "boot option",
}  # fmt: skip
"""What machines are compared by, the likeliest reason first."""

_OWN = re.compile(
    r"(root|BOOT_IMAGE|BOOTIF|initrd|resume|resume_offset|ip|hostname|systemd\.(hostname|machine_id)"
    r"|rd\.(luks|lvm|md)\S*|cryptdevice)=|.*[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    re.IGNORECASE,
)
"""Words of a kernel's command line that say which machine it is."""


def differing(records: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """What is not the same on all machines: where it is how, and what more than half of them have, if there is such."""
    rows = []
    for family in NAMES:
        told = {who: _recorded(record, family) for who, record in records.items()}
        rows += [_row(family, name, by) for name, by in _compared(family, told) if len(set(by.values())) > 1]
    return rows


def among(rows: list[dict[str, Any]], machines: Iterable[str]) -> list[dict[str, Any]]:
    """The same, of these machines alone."""
    names = set(machines)
    return [_row(row["family"], row["name"], {who: value for who, value in row["by"].items() if who in names}) for row in rows]


def _row(family: str, name: str, by: dict[str, str]) -> dict[str, Any]:
    usual = [value for value, count in Counter(by.values()).most_common(1) if 2 * count > len(by)]
    return {"family": family, "name": name, "usual": usual[0] if usual else None, "by": by}


def _recorded(record: dict[str, Any], family: str) -> Any:
    if family != "bytepath":
        return record.get("machine", {}).get(family)
    build = record.get("bytepath")
    return f"{build.get('version')} {build.get('build')}" if isinstance(build, dict) else None


def _compared(family: str, told: dict[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """What there is to compare, by its name, and what each machine has there."""
    if family in _PARTS:
        apart, absent = _PARTS[family]
        parts = {who: apart(value) for who, value in told.items() if value is not None}
        for part in dict.fromkeys(part for found in parts.values() for part in found):
            name = part if family == "caches" else f"{NAMES[family]} {part}"
            yield name, {who: parts[who].get(part, absent) if who in parts else "unknown" for who in told}
    elif family in ("memory_bytes", "memlock_bytes"):
        yield NAMES[family], _memory(told)
    else:
        text = words.size if family in ("pipe_max_size", "page_bytes") else _said
        yield NAMES[family], {who: "unknown" if value is None else text(value) for who, value in told.items()}


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def _memory(told: dict[str, int | None]) -> dict[str, str]:
    """What is nearly the same is told in the same words."""
    first, by = 0, {}
    for who, bytes in sorted(told.items(), key=lambda entry: entry[1] or 0):
        if (bytes or 0) > first * NEARLY:
            first = bytes or 0
        by[who] = "unknown" if bytes is None else "no limit" if bytes == UNLIMITED else words.about(first)
    return by


def _caches(told: list[dict[str, Any]]) -> dict[str, str]:
    """The sizes of the caches of each kind, and how many there are."""
    kinds: dict[str, Counter[int]] = {}
    for cache in told:
        kinds.setdefault(f"L{cache.get('level')} cache ({cache.get('kind')})", Counter())[cache.get("bytes") or 0] += 1
    return {kind: ", ".join(f"{count} of {words.size(bytes)}" for bytes, count in sorted(sizes.items()))
            for kind, sizes in kinds.items()}  # fmt: skip


def _options(told: str) -> dict[str, str]:
    """The kernel's own words of its command line, but those that are each machine's own."""
    found: dict[str, list[str]] = {}
    for word in told.partition(" -- ")[0].split():
        if not _OWN.match(word):
            key, equals, value = word.partition("=")
            found.setdefault(key, []).append(value if equals else "given")
    return {key: ",".join(values) for key, values in found.items()}


_PARTS: dict[str, tuple[Callable[[Any], dict[str, str]], str]] = {
    "mitigations": (dict, "not told of"),
    "caches": (_caches, "none"),
    "command_line": (_options, "not given"),
}
"""What is compared part by part: how it is taken apart, and what is said where a part is missing."""
