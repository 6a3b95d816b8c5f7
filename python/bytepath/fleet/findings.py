"""What `bytepath doctor` found on many machines: what is poor where, with the remedy, and what differs."""

import re
from collections.abc import Callable
from typing import Any

from . import words
from .files import printable

FIGURE = re.compile(r"(?<![\w./-])\d+(?:\.\d+)?(?![\w-]|\.\d)")
"""A number that stands alone: no part of a name, a path, a version or a list of CPUs."""

KINDS_MAX = 4
"""Of more findings, those that differ by their figures alone are told of as a range."""

SHOWN_MAX = 8
"""So many of what is not the same everywhere are told of."""

Findings = dict[str, dict[str, Any]]
"""The finding of each machine."""


def told(found: dict[str, Any]) -> str:
    """What is poor where, the most common first; then what is not the same everywhere."""
    machines = [machine for machine in found["machines"] if machine.get("record")]
    missing = [m for m in found["machines"] if m["status"] != "ok" or not m.get("record")]
    lines = [f"{m['name']}: {m['status']}: {m['why']}" for m in missing]
    every = "every machine that answered" if lines else "every machine"

    def who(names: list[str], named: Callable[[list[str]], str]) -> str:
        return every if len(names) == len(machines) else named(names)

    by: dict[str, Findings] = {}
    for machine in machines:
        for finding in machine["record"]["findings"]:
            by.setdefault(finding["name"], {})[machine["name"]] = finding
    poor = [(name, findings) for name, all in by.items() for findings in _by_remedy(all)]
    for name, findings in sorted(poor, key=lambda entry: -len(entry[1])):
        lines.append(_poor(name, findings, who))
    for name, findings in by.items():
        kinds = _kinds(findings)
        # What is poor on all of them has been told.
        if len({finding["found"] for finding in findings.values()}) > 1 and not _all_poor(findings):
            shown = "; ".join(f"{text} on {who(names, words.some)}" for text, names in kinds[:SHOWN_MAX])
            more = f"; {len(kinds) - SHOWN_MAX} more elsewhere" if len(kinds) > SHOWN_MAX else ""
            lines.append(f"differs: {name}: {shown}{more}")
    good = [machine["name"] for machine in machines if not any(machine["name"] in findings for _, findings in poor)]
    if good:
        lines.append(f"nothing poor on {', '.join(good)}")
    return "\n".join(map(printable, lines))


def _all_poor(findings: Findings) -> bool:
    return all(finding["verdict"] == "poor" for finding in findings.values())


def _by_remedy(findings: Findings) -> list[Findings]:
    """The poor ones, those together that one remedy helps."""
    groups: dict[tuple[str, str | None], Findings] = {}
    for who, finding in findings.items():
        if finding["verdict"] == "poor":
            remedy = (FIGURE.sub("0", finding["why"]), finding.get("setting"))
            groups.setdefault(remedy, {})[who] = finding
    return list(groups.values())


def _poor(name: str, findings: Findings, who: Callable[[list[str], Callable[[list[str]], str]], str]) -> str:
    kinds = [(text, who(names, ", ".join)) for text, names in _kinds(findings)]
    where = "; ".join(f"{text} on {names}" for text, names in kinds)
    shown = f"{name} on {kinds[0][1]}: {kinds[0][0]}" if len(kinds) == 1 else f"{name}: {where}"
    setting = next(iter(findings.values())).get("setting")
    why = _ranged([finding["why"] for finding in findings.values()])
    return f"poor: {shown}. {why}" + (f"; to change it: {setting}" if setting else "")


def _kinds(findings: Findings) -> list[tuple[str, list[str]]]:
    """What was found, and on which machines; figures as a range where they are many."""
    exact: dict[str, list[str]] = {}
    alike: dict[str, list[str]] = {}
    for who, finding in findings.items():
        exact.setdefault(finding["found"], []).append(who)
        alike.setdefault(FIGURE.sub("0", finding["found"]), []).append(who)
    if len(exact) <= KINDS_MAX:
        return list(exact.items())
    return [(_ranged([findings[who]["found"] for who in names]), names) for names in alike.values()]


def _ranged(texts: list[str]) -> str:
    """Texts that differ by their figures, as one."""
    figures = zip(*(FIGURE.findall(text) for text in texts), strict=True)
    ranges = [(min(each, key=float), max(each, key=float)) for each in figures]
    told = iter(least if float(least) == float(most) else f"{least} to {most}" for least, most in ranges)
    return FIGURE.sub(lambda _: next(told), texts[0])
