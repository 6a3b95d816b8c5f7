"""What a run of an experiment on many machines shows: who is far from the rest, and what is set otherwise there."""

import math
import statistics
from collections import Counter
from typing import Any

RATIO_MIN = 1.3
"""Who differs by less is never called an outlier."""

SPREADS = 4.0
"""An outlier is so many times further from the rest than these are from each other."""

MACHINES_MIN = 3
"""Of fewer, nobody can tell who is the odd one."""

_SETTINGS = [
    "governor", "kernel", "cpu_model", "cpus_online", "cpus_allowed", "numa_nodes", "caches", "mitigations",
    "thp_enabled", "thp_defrag", "virtualisation", "vmsplice_aliases", "io_uring", "pipe_max_size",
    "pipe_user_pages_soft", "memlock_bytes", "memory_bytes", "page_bytes", "hugetlb_pages", "file_system", "psi",
    "user_is_root", "command_line",
]  # fmt: skip
"""What machines are compared by, the likeliest reason first."""

_WORDS = {
    "governor": "governor", "kernel": "kernel", "cpu_model": "CPU", "cpus_online": "number of CPUs",
    "cpus_allowed": "CPUs allowed", "numa_nodes": "number of NUMA nodes", "caches": "caches",
    "thp_enabled": "transparent huge pages", "thp_defrag": "defragmenting for huge pages",
    "virtualisation": "virtualisation", "vmsplice_aliases": "vmsplice", "io_uring": "io_uring",
    "pipe_max_size": "fs.pipe-max-size", "pipe_user_pages_soft": "fs.pipe-user-pages-soft",
    "memlock_bytes": "limit of locked memory", "memory_bytes": "memory", "page_bytes": "page size",
    "hugetlb_pages": "pool of huge pages", "file_system": "file system", "psi": "pressure",
    "user_is_root": "rights", "command_line": "kernel's command line", "mitigations": "mitigations",
}  # fmt: skip


def measured(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that left a record."""
    return [machine for machine in machines if machine.get("record")]


def arms(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every arm that some machine has run: its figures by machine, its median over machines, who is far from it."""
    names: dict[str, dict[str, Any]] = {}
    for machine in measured(machines):
        for arm in machine["record"]["arms"]:
            row = names.setdefault(arm["name"], {"name": arm["name"], "unit": arm["unit"], "better": arm["better"],
                                                 "by": {}, "samples": {}, "why": {}})
            if arm["status"] == "ok" and arm.get("median"):
                row["by"][machine["name"]] = (arm["median"], *(arm.get("ci95") or [arm["median"]] * 2))
                row["samples"][machine["name"]] = [_value(sample) for sample in arm.get("samples", [])]
            else:
                row["why"][machine["name"]] = arm.get("why") or arm["status"]
    for row in names.values():
        row["median"] = statistics.median(value[0] for value in row["by"].values()) if row["by"] else None
        row["speed"] = {name: _speed(row, value[0], row["median"]) for name, value in row["by"].items()}
        row["outliers"] = outliers(row)
    return list(names.values())


def _value(sample: Any) -> float:
    return float(sample["value"]) if isinstance(sample, dict) else float(sample)


def _speed(row: dict[str, Any], value: float, against: float) -> float:
    """How many times as fast: above 1 is better, whatever the unit."""
    return value / against if row["better"] == "higher" else against / value


def outliers(row: dict[str, Any]) -> dict[str, float]:
    """The machines that are far from the rest, and how many times as fast as the rest they are."""
    found: dict[str, float] = {}
    if len(row["by"]) < MACHINES_MIN:
        return found
    for name, (value, low, high) in row["by"].items():
        rest = [math.log(other[0]) for key, other in row["by"].items() if key != name and other[0] > 0]
        if value <= 0 or not rest:
            continue
        middle = statistics.median(rest)
        spread = 1.4826 * statistics.median(abs(log - middle) for log in rest)
        apart = math.log(value) - middle
        if abs(apart) <= max(math.log(RATIO_MIN), SPREADS * spread) or low <= math.exp(middle) <= high:
            continue
        found[name] = _speed(row, value, math.exp(middle))
    return found


def settings(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What is not the same on all machines, and where it is how."""
    rows = []
    for key in _SETTINGS:
        by = {machine["name"]: _said(machine["record"].get("machine", {}).get(key)) for machine in measured(machines)}
        if len(set(by.values())) > 1:
            usual = Counter(by.values()).most_common(1)[0][0]
            rows.append({"key": key, "name": _WORDS[key], "usual": usual, "by": by,
                         "others": sorted(name for name, value in by.items() if value != usual)})
    return rows


def _said(value: Any) -> str:
    if value is None:
        return "unknown"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | dict):
        text = ", ".join(map(_said, value)) if isinstance(value, list) else ", ".join(
            f"{key} {_said(inner)}" for key, inner in sorted(value.items()))
        return text or "none"
    return str(value)


def sentences(rows: list[dict[str, Any]], differing: list[dict[str, Any]]) -> list[str]:
    """Who is far from the rest, in words, with what is set otherwise there."""
    by: dict[str, list[tuple[float, str]]] = {}
    for row in rows:
        for name, speed in row["outliers"].items():
            by.setdefault(name, []).append((speed, row["name"]))
    told = []
    for name, far in sorted(by.items()):
        slow = sorted((1 / speed, arm) for speed, arm in far if speed < 1)[::-1]
        fast = sorted((speed, arm) for speed, arm in far if speed >= 1)[::-1]
        parts = [f"{_times(group[0][0])} {word} than the rest at {_arms(group)}"
                 for group, word in ((slow, "slower"), (fast, "faster")) if group]
        told.append(f"{name} is {' and '.join(parts)}: {_reasons(name, differing)}")
    return told


def _times(factor: float) -> str:
    return f"{factor:.1f}x" if factor < 10 else f"{factor:.0f}x"


def _arms(group: list[tuple[float, str]]) -> str:
    names = [name for _, name in group]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more arm{'s' if len(names) > 2 else ''}"


def _reasons(name: str, differing: list[dict[str, Any]]) -> str:
    found = [f"another {row['name']} ({row['by'][name]}, elsewhere {row['usual']})"
             for row in differing if row["by"].get(name, row["usual"]) != row["usual"]]
    if not found:
        return "none of the settings that are recorded is another one there; look at what else it does, and at its hardware"
    return ", ".join(found[:3])
