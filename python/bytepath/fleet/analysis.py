"""What a run of an experiment on many machines shows: who is far from the rest, and what is set otherwise there."""

import math
import statistics
from typing import Any

RATIO_MIN = 1.3
"""Who differs by less is never called an outlier."""

SPREADS = 4.0
"""An outlier is so many times further from the rest than these are from each other."""

MACHINES_MIN = 3
"""Of fewer, nobody can tell who is the odd one."""

REASONS_MAX = 3

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
    """What is set otherwise there than on most: the first of each kind."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in differing:
        if row["usual"] is not None and row["by"].get(name, row["usual"]) != row["usual"]:
            kinds.setdefault(row["family"], []).append(row)
    if not kinds:
        return (
            "none of the settings that most machines share is another one there; look at what else it does, and at its "
            "hardware"
        )
    return ", ".join(_another(name, rows) for rows in list(kinds.values())[:REASONS_MAX])


def _another(name: str, rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    alone = all(value == first["usual"] for who, value in first["by"].items() if who != name)
    more = f" and {len(rows) - 1} more such" if rows[1:] else ""
    return f"another {first['name']} ({first['by'][name]}, {'elsewhere' if alone else 'on most'} {first['usual']}){more}"
