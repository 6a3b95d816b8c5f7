"""The profile of this machine, as `bytepath tune` measures it."""

from __future__ import annotations

import json
import os
import shlex
import unicodedata
import warnings
from collections.abc import Iterable
from typing import Any, Union

from bytepath import _bytepath
from bytepath._program import checked
from bytepath._words import rate

_Path = Union[str, "os.PathLike[str]"]


class Profile(dict[str, Any]):
    """A profile: the JSON that the planner reads. `print` shows what is in it."""

    # The file that `tune` was told to keep it in; none of the usual place.
    _kept: str | None = None

    def __str__(self) -> str:
        costs = [f"{cost['name']}: {cost['value']:.4g} {cost['unit']}" for cost in self["costs"]]
        pairs = [f"{pair['source']} to {pair['sink']}{_best(pair)}" for pair in self["pairs"]]
        lines = [f"measured {self['made']}", *doubt(self), *_doubts_of_earlier(self, self._kept), *costs, *pairs]
        # A file from somewhere else must not command the terminal.
        return "\n".join("".join("\ufffd" if unicodedata.category(c) == "Cc" else c for c in line) for line in lines)


def doubt(profile: dict[str, Any]) -> list[str]:
    """What to do about figures that others disturbed; nothing where nobody did."""
    why = profile.get("disturbed")
    return [f"while this was measured, {why}; measure again when the machine is idle"] if why else []


def _doubts_of_earlier(profile: dict[str, Any], kept: str | None) -> list[str]:
    """The same of each place that was measured earlier, with the command that measures it again."""
    tuning = "bytepath tune" if kept is None else f"bytepath tune --profile {shlex.quote(kept)}"
    doubts = []
    for place in (pair.get("place") for pair in profile["pairs"]):
        why = ((place or {}).get("earlier") or {}).get("disturbed")
        if why:
            again = f"run `{tuning} --dir {shlex.quote(place['directory'])}` when the machine is idle"
            doubts.append(f"while {place['file_system']} ({place['directory']}) was measured, {why}; {again}")
    return list(dict.fromkeys(doubts))


def _best(pair: dict[str, Any]) -> str:
    """Where the pair was measured, and the choice that is best there."""
    place = pair.get("place")
    where = f" on {place['file_system']}" if place else ""
    best = _bytepath.best_choice(pair["source"], pair["choices"])
    return where if best is None else f"{where}: {best[0]}, {rate(best[1])}"


def tune(
    *,
    quick: bool = False,
    directories: _Path | Iterable[_Path] = (),
    blocks: int | None = None,
    bytes: int | str | None = None,
    profile: _Path | None = None,
    show: bool = True,
) -> Profile:
    """Measures this machine once (30 s; 8 s if `quick`), so that every copy can choose by it.

    `directories`: measure files in these, and so on their file systems; the current one unless given.
    `blocks`: rounds in which every choice is measured once. `bytes`: moved by each sample.
    `profile`: where to keep it, instead of the usual place. `show`: how it goes on is told on standard
    error. Warns where other processes used so much that the figures may be far off.
    """
    arguments: list[Any] = ["tune", "--json", "-"]
    if quick:
        arguments.append("--quick")
    if isinstance(directories, (str, os.PathLike)):
        directories = [directories]
    for directory in directories:
        arguments += ["--dir", os.fspath(directory)]
    if blocks is not None:
        arguments += ["--blocks", str(blocks)]
    if bytes is not None:
        arguments += ["--bytes", str(bytes)]
    if profile is not None:
        arguments += ["--profile", os.fspath(profile)]
    made = Profile(json.loads(checked(arguments, show=show)))
    made._kept = None if profile is None else os.fspath(profile)
    for why in doubt(made):
        warnings.warn(why, stacklevel=2)
    return made
