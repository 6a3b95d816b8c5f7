"""One report of many machines: a table for the terminal, and a page with a heat map and distributions."""

import math
import shutil
import unicodedata
from pathlib import Path
from typing import Any

from . import analysis, settings, words
from .files import printable

NAME_MAX = 18
"""Longer names of machines are cut in the middle, as far as they stay apart."""

WIDTH = 100
"""Lines are as long where there is no terminal."""

ARMS_ACROSS = 8
"""So many arms fit beside each other on paper."""

VALUES_MAX = 4
"""So many values of a setting are told of."""


def view(found: dict[str, Any]) -> dict[str, Any]:
    """What is shown, whichever way."""
    machines = found["machines"]
    rows = analysis.arms(machines)
    measured = [machine["name"] for machine in analysis.measured(machines)]
    every = "every machine" if len(measured) == len(machines) else "every machine that answered"
    differing = settings.differing({m["name"]: m["record"] for m in analysis.measured(machines)})
    return {
        "arms": rows,
        "settings": differing,
        "sentences": analysis.sentences(rows, differing),
        "names": [machine["name"] for machine in machines],
        "measured": measured,
        "unable": [
            f"not measured: {', '.join(arms)} on {every if names == measured else words.some(names)}: {why}"
            for arms, names, why in analysis.unable(rows)
        ],
        "missing": [(m["name"], m["status"], m["why"]) for m in machines if m["status"] != "ok" or not m.get("record")],
        "disturbed": analysis.disturbed(machines),
        "untrusted": [m["name"] for m in analysis.measured(machines) if m["record"].get("trusted") is False],
    }


def terminal(found: dict[str, Any], shown: dict[str, Any], width: int | None = None) -> str:
    """Arms against machines, each machine's speed as a part of the median of all; what there is to say below."""
    lines = []
    if shown["measured"] and shown["arms"]:
        # Who reads it otherwise than at a terminal has some room too.
        width = width or shutil.get_terminal_size((WIDTH, 24)).columns
        lines += _table(shown["arms"], shown["measured"], width)
        lines.append("times as fast as the median of all machines; ! is far from the rest, – was not measured")
    lines += shown["unable"]
    lines += [f"{name}: {status}{': ' + why if why else ''}" for name, status, why in shown["missing"]]
    lines += shown["sentences"]
    lines += [_differs(row) for row in shown["settings"]]
    lines += [f"{name} was disturbed by others on the machine: {told}" for name, told in shown["disturbed"].items()]
    if shown["untrusted"]:
        lines.append(f"not to be trusted, as their control differed from itself: {', '.join(shown['untrusted'])}")
    return "\n".join(map(printable, lines))


def _table(rows: list[dict[str, Any]], names: list[str], width: int) -> list[str]:
    """Arms in lines; where machines do not fit beside each other, these in lines, in as many tables as it takes."""
    machines = [printable(name) for name in names]
    arms = [[printable(row["name"]), words.measured(row["median"], row["unit"]), *(_cell(row, name) for name in names)]
            for row in rows]  # fmt: skip
    lines = _aligned([["arm", "median", *_cut(machines)], *arms])
    if max(map(_columns, lines)) <= width:
        return lines
    # The figures want most of the room.
    first = ["machine", "median", *(_cut(machines) if max(map(_columns, machines)) > width // 3 else machines)]
    parts: list[list[list[str]]] = [[]]
    for arm in arms:
        if parts[-1] and max(map(_columns, _aligned(_turned([first, *parts[-1], arm])))) > width:
            parts.append([])
        parts[-1].append(arm)
    tables = ["\n".join(_aligned(_turned([first, *part]))) for part in parts]
    return "\n\n".join(tables).splitlines()


def _turned(lines: list[list[str]]) -> list[list[str]]:
    return [list(line) for line in zip(*lines, strict=True)]


def _aligned(lines: list[list[str]]) -> list[str]:
    """The cells of each column under each other, the first ones to the left."""
    widths = [max(map(_columns, column)) for column in _turned(lines)]
    aligned = []
    for line in lines:
        gaps = [" " * (width - _columns(text)) for text, width in zip(line, widths, strict=True)]
        cells = [text + gap if at == 0 else gap + text for at, (text, gap) in enumerate(zip(line, gaps, strict=True))]
        aligned.append("  ".join(cells).rstrip())
    return aligned


def _cut(names: list[str]) -> list[str]:
    for most in range(NAME_MAX, max(map(len, names), default=0)):
        cut = [name if len(name) <= most else f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}" for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return names


def _columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    return sum(0 if unicodedata.combining(sign) else 1 + (unicodedata.east_asian_width(sign) in "WF") for sign in text)


def _differs(row: dict[str, Any]) -> str:
    """What most have, if there is such, and who has what else."""
    kinds = _values(row)
    if len(kinds) == len(row["by"]) > VALUES_MAX:
        return f"{row['name']} differs: it is another one on each machine"
    usual, but = f"{row['usual']}, but ", row["usual"] is not None
    others = [f"{value} on {words.some(names)}" for value, names in kinds if value != row["usual"]]
    more = f"; {len(others) - VALUES_MAX} more elsewhere" if len(others) > VALUES_MAX else ""
    return f"{row['name']} differs: {usual if but else ''}{'; '.join(others[:VALUES_MAX])}{more}"


def _values(row: dict[str, Any]) -> list[tuple[str, list[str]]]:
    """The values of a setting, that of most first, and the machines that have each."""
    kinds: dict[str, list[str]] = {}
    for name, value in row["by"].items():
        kinds.setdefault(value, []).append(name)
    return sorted(kinds.items(), key=lambda kind: kind[0] != row["usual"])


def _cell(row: dict[str, Any], name: str) -> str:
    if name not in row["by"]:
        return "–"
    far = "!" if name in row["outliers"] else ""
    if name not in row["speed"]:
        # Of 0, or against it, nothing is a multiple.
        return words.measured(row["by"][name][0], row["unit"]) + far
    return words.figure(row["speed"][name]) + far


def page(found: dict[str, Any], shown: dict[str, Any]) -> str:
    """The report as a page that needs nothing else."""
    from jinja2 import Environment

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(colour=_colour, figure=words.figure, measured=words.measured, values=_values)
    template, style = (Path(__file__).with_name(name).read_text(encoding="utf-8") for name in ("report.html", "page.css"))
    strips = [_strip(row, shown["names"]) for row in shown["arms"]]
    parts = _parts(shown["arms"])
    return environment.from_string(template).render(found=found, shown=shown, strips=strips, parts=parts, style=style)


def _parts(rows: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The arms in parts of about one size, each of a table that fits on paper."""
    count = math.ceil(len(rows) / ARMS_ACROSS)
    return [rows[len(rows) * at // count : len(rows) * (at + 1) // count] for at in range(count)]


def _colour(speed: float) -> str:
    """As elsewhere in pages for slower and faster; twofold is the full colour, on which figures can be read, and alike has none."""
    at = max(-1.0, min(1.0, math.log2(speed))) if speed > 0 else -1.0
    return f"color-mix(in oklab, var(--{'slower' if at < 0 else 'faster'}) {45 * abs(at):.0f}%, var(--back))"


def _strip(row: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """An arm's samples that count as points on a logarithmic line for each machine."""
    values = [value for samples in row["samples"].values() for value in samples if value > 0]
    values += [value[0] for value in row["by"].values() if value[0] > 0]
    if not values:
        return {"row": row, "lines": [], "ticks": []}
    low, high = math.log(min(values)), math.log(max(values))
    span = max(high - low, 0.05)

    def place(value: float) -> float:
        return round(100 * (math.log(value) - low) / span, 2)

    lines = [{"name": name, "far": name in row["outliers"], "words": _told(row, name),
              "points": [place(value) for value in row["samples"].get(name, []) if value > 0],
              "median": place(row["by"][name][0])}
             for name in names if name in row["by"] and row["by"][name][0] > 0]
    return {"row": row, "lines": lines, "ticks": [(0, math.exp(low)), (100, math.exp(low + span))]}


def _told(row: dict[str, Any], name: str) -> str:
    """A machine's line, for those who listen."""
    median, samples = words.measured(row["by"][name][0], row["unit"]), row["samples"].get(name, [])
    ends = [words.figure(end(samples)) for end in (min, max) if samples]
    within = f", {len(samples)} samples from {ends[0]} to {ends[1]}" if ends else ""
    return f"{name} at {row['name']}: median {median}{within}"
