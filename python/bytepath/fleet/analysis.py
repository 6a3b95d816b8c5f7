"""What a run of an experiment on many machines shows: who is far from the rest, and what is set otherwise there."""

import math
import statistics
import sys
from collections import Counter
from typing import Any

from . import settings, words

RATIO_MIN = 1.3
"""Who differs by less is never called an outlier."""

SPREADS = 4.0
"""An outlier is so many times further from the rest than these are from each other."""

MACHINES_MIN = 3
"""Of fewer, nobody can tell who is the odd one."""

GROUP_SHARE_MIN = 1 / 3
"""Where fewer of the machines are apart from the others, these are no two groups."""

FLAGGED_SHARE_MAX = 0.1
"""Where a larger share of the samples was disturbed, that is told of, as by `bytepath report`."""

SPLIT_WRONG_MAX = 0.1
"""A setting that has more machines on the wrong side splits no groups."""

REASONS_MAX = 3
"""So many settings are given as reasons."""

FAR = 1e6
"""Nobody reads by how many times more than this something differs."""

LOG_MAX = 700.0
"""Factors up to its power are numbers."""


def measured(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Those that left a record."""
    return [machine for machine in machines if machine.get("record")]


def arms(machines: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Every arm that some machine has run: its figures by machine, its median over machines, who is far from it."""
    names: dict[str, dict[str, Any]] = {}
    for machine in measured(machines):
        for arm in machine["record"]["arms"]:
            row = names.setdefault(arm["name"], {"name": arm["name"], "unit": arm["unit"], "better": arm["better"],
                                                 "by": {}, "samples": {}, "disturbed": {}, "why": {}})
            if arm["status"] == "ok" and arm.get("median") is not None:
                row["by"][machine["name"]] = (arm["median"], *(arm.get("ci95") or [arm["median"]] * 2))
                counted = [sample for sample in _samples(arm) if not sample.get("superseded")]
                row["samples"][machine["name"]] = [float(sample["value"]) for sample in counted]
                row["disturbed"][machine["name"]] = _disturbance(counted)
            else:
                without = "no sample" if arm["status"] == "ok" else arm["status"]
                row["why"][machine["name"]] = arm.get("why") or without
    for row in names.values():
        absent = {machine["name"]: "its run has no such arm" for machine in measured(machines)
                  if machine["name"] not in row["by"] | row["why"]}
        row["why"].update(absent)
        row["median"] = statistics.median(value[0] for value in row["by"].values()) if row["by"] else None
        row["speed"] = {name: _speed(row, value[0], row["median"]) for name, value in row["by"].items()
                        if value[0] > 0 and row["median"] > 0}
        row["outliers"] = outliers(row, list(row["by"]))
        row["groups"] = groups(row)
        for group in row["groups"] or ():
            row["outliers"] |= outliers(row, group)
    return list(names.values())


def unable(rows: list[dict[str, Any]]) -> list[tuple[list[str], list[str], str]]:
    """Which arms were not measured on which machines, and why."""
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        whys: dict[str, list[str]] = {}
        for name, why in row["why"].items():
            whys.setdefault(why, []).append(name)
        for why, names in whys.items():
            found.setdefault((why, *names), []).append(row["name"])
    return [(arms, names, why) for (why, *names), arms in found.items()]


def _samples(arm: dict[str, Any]) -> list[dict[str, Any]]:
    return [sample if isinstance(sample, dict) else {"value": sample} for sample in arm.get("samples", [])]


def _disturbance(samples: list[dict[str, Any]]) -> tuple[int, int, list[str]]:
    """How many samples were disturbed, of how many, and by what."""
    flagged = [sample for sample in samples if sample.get("flagged")]
    return len(flagged), len(samples), [sample["flag_why"] for sample in flagged if sample.get("flag_why")]


def disturbed(machines: list[dict[str, Any]]) -> dict[str, str]:
    """The machines that were disturbed so much that `bytepath report` calls their run noisy, and by what."""
    found = {}
    for machine in measured(machines):
        samples = [sample for arm in machine["record"]["arms"] for sample in _samples(arm)]
        if told := _much(_disturbance(samples)):
            found[machine["name"]] = told
    return found


def _much(*found: tuple[int, int, list[str]]) -> str:
    """How much was disturbed, with an example, where it is a large part."""
    flagged, of = sum(flagged for flagged, _, _ in found), sum(of for _, of, _ in found)
    if flagged <= FLAGGED_SHARE_MAX * of:
        return ""
    whys = [why for _, _, whys in found for why in whys]
    example = f": {whys[len(whys) // 2]}" if whys else ""
    return f"{flagged} of {of} samples{example}"


def _speed(row: dict[str, Any], value: float, against: float) -> float:
    """How many times as fast: above 1 is better, whatever the unit."""
    return value / against if row["better"] == "higher" else against / value


def outliers(row: dict[str, Any], among: list[str]) -> dict[str, float]:
    """The machines that are far from the rest of these, and how many times as fast as the rest they are. The rest are more
    than half of all that agree: where there is no such, nobody is odd."""
    found: dict[str, float] = {}
    logs = _logs(row, among)
    if len(logs) < MACHINES_MIN:
        return found
    for name, own in logs.items():
        rest = [log for other, log in logs.items() if other != name]
        middle, spread = _middle(rest)
        near = max(math.log(RATIO_MIN), SPREADS * spread)
        agree = sum(abs(log - middle) <= near for log in rest)
        if abs(own - middle) > near and 2 * agree > len(logs) and not _may_be(row, name, middle):
            faster = own - middle if row["better"] == "higher" else middle - own
            found[name] = math.exp(max(-LOG_MAX, min(LOG_MAX, faster)))
    return found


def _logs(row: dict[str, Any], among: list[str]) -> dict[str, float]:
    """Logarithms of what was measured. That of 0 is further from all others than anything is that is measured."""
    least, most = sys.float_info.min, sys.float_info.max
    return {name: math.log(min(most, max(least, row["by"][name][0]))) for name in among}


def _middle(logs: list[float]) -> tuple[float, float]:
    """Where they are, and how far from each other."""
    middle = statistics.median(logs)
    return middle, 1.4826 * statistics.median(abs(log - middle) for log in logs)


def _may_be(row: dict[str, Any], name: str, log: float) -> bool:
    """Whether a machine's interval holds it."""
    _, low, high = row["by"][name]
    return bool(low <= math.exp(log) <= high)


def groups(row: dict[str, Any]) -> tuple[list[str], list[str]] | None:
    """The fast and the slow machines, where they are two groups, neither of which is the odd one."""
    logs = _logs(row, list(row["by"]))
    names = sorted(logs, key=lambda name: logs[name])
    least = max(2, math.ceil(len(names) * GROUP_SHARE_MIN))
    if row["outliers"] or len(names) < 2 * least:
        return None
    cut = max(range(least, len(names) - least + 1), key=lambda at: logs[names[at]] - logs[names[at - 1]])
    low, high = names[:cut], names[cut:]
    (below, under), (above, over) = (_middle([logs[name] for name in group]) for group in (low, high))
    unsure = sum(_may_be(row, name, other) for group, other in ((low, above), (high, below)) for name in group)
    if above - below <= max(math.log(RATIO_MIN), SPREADS * under, SPREADS * over) or 2 * unsure >= len(names):
        return None
    return (high, low) if row["better"] == "higher" else (low, high)


def sentences(rows: list[dict[str, Any]], differing: list[dict[str, Any]]) -> list[str]:
    """Who is far from the rest, and where there are two groups, in words, with what is set otherwise there."""
    by: dict[tuple[str, frozenset[str], bool], list[tuple[float, dict[str, Any]]]] = {}
    halves: dict[frozenset[str], list[tuple[dict[str, Any], list[str], list[str]]]] = {}
    for row in rows:
        for name, speed in row["outliers"].items():
            # Those among which it is odd: how others are set has nothing to do with it.
            among = name, frozenset(_compared(row, name)), row["groups"] is not None
            by.setdefault(among, []).append((speed, row))
        if found := row["groups"]:
            fast, slow = ([name for name in group if name not in row["outliers"]] for group in found)
            halves.setdefault(frozenset(slow), []).append((row, fast, slow))
    told = [_two_groups(arms, differing) for arms in halves.values()]
    for (name, compared, in_group), far in sorted(by.items(), key=lambda entry: entry[0][0]):
        slow = sorted((1 / speed, row["name"]) for speed, row in far if speed < 1)[::-1]
        fast = sorted((speed, row["name"]) for speed, row in far if speed >= 1)[::-1]
        whose = " of its group" if in_group else ""
        parts = [f"{_times(group[0][0])} {word} than the rest{whose} at {_arms([arm for _, arm in group])}"
                 for group, word in ((slow, "slower"), (fast, "faster")) if group]
        noise = _much(*(row["disturbed"][name] for _, row in far))
        told.append(f"{name} is {' and '.join(parts)}: {_reasons(name, settings.among(differing, compared), noise)}")
    return told


def _compared(row: dict[str, Any], name: str) -> list[str]:
    """The machines among which one is odd at an arm."""
    return next((group for group in row["groups"] or () if name in group), list(row["by"]))


def _two_groups(arms: list[tuple[dict[str, Any], list[str], list[str]]], differing: list[dict[str, Any]]) -> str:
    """The same two groups at some arms, with the settings that split them."""
    row, fast, slow = arms[0]
    slow = [name for name in row["by"] if name in slow]
    medians = [statistics.median(row["by"][name][0] for name in group) for group in (fast, slow)]
    at = [words.measured(median, row["unit"]) for median in medians]
    splits = [split for setting in differing if (split := _split(setting, fast, slow))]
    # Those that split them exactly come first.
    splits.sort(key=lambda split: split[0])
    why = ", ".join(text for _, text in splits[:REASONS_MAX])
    where = _arms([row["name"] for row, *_ in arms])
    return (
        f"two groups at {where}: {len(fast)} machines at {at[0]}, {len(slow)} at {at[1]} ({words.some(slow)}): "
        + (why or "none of the settings that are recorded splits them so; look at their hardware")
    )


def _split(setting: dict[str, Any], fast: list[str], slow: list[str]) -> tuple[int, str] | None:
    """How many machines a setting has on the wrong side, where it splits the groups all the same, and what to say."""
    by = setting["by"]
    (one, ones), (other, others) = (Counter(map(by.get, group)).most_common(1)[0] for group in (fast, slow))
    wrong = len(fast) - ones + len(slow) - others
    if one == other or wrong > SPLIT_WRONG_MAX * (len(fast) + len(slow)):
        return None
    but = f", but for {wrong} of them" if wrong else ""
    return wrong, f"another {setting['name']} ({other}, on the fast ones {one}{but})"


def _times(factor: float) -> str:
    if factor > FAR:
        return "far"
    return f"{factor:.1f}x" if factor < 10 else f"{factor:.0f}x"


def _arms(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more arm{'s' if len(names) > 2 else ''}"


def _reasons(name: str, differing: list[dict[str, Any]], noise: str) -> str:
    """What may be why: what disturbed it, and what is set otherwise there than on most, the first of each kind."""
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in differing:
        if row["usual"] is not None and row["by"].get(name, row["usual"]) != row["usual"]:
            kinds.setdefault(row["family"], []).append(row)
    reasons = [f"it was disturbed there ({noise})"] if noise else []
    reasons += [_another(name, rows) for rows in list(kinds.values())[:REASONS_MAX]]
    return ", ".join(reasons) or (
        "none of the settings that most machines share is another one there; look at what else it does, and at its "
        "hardware"
    )


def _another(name: str, rows: list[dict[str, Any]]) -> str:
    first = rows[0]
    alone = all(value == first["usual"] for who, value in first["by"].items() if who != name)
    more = f" and {len(rows) - 1} more such" if rows[1:] else ""
    where = "elsewhere" if alone else "on most"
    return f"another {first['name']} ({first['by'][name]}, {where} {first['usual']}){more}"
