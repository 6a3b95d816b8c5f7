"""`bytepath fleet compare`: two runs of `fleet bench`, machine by machine, each pair judged by `bytepath compare`."""

import argparse
import asyncio
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import files, signals, worker
from .errors import FleetError, WrongUsage

SCHEMA = "bytepath.record/1"

WRITES = "`bytepath fleet bench --json FILE` writes one"

VALUED = {
    "arms": ("GLOB", "only arms whose name matches"),
    "margin": ("PERCENT", "call differences up to so many percent the same"),
    "fail-if-slower": ("PERCENT", "end with 3 where an arm is surely slower by so many percent"),
}
"""Options of `bytepath compare` that take a value, which would else be taken for a file."""


def add_to(commands: Any) -> None:
    """Adds the command's arguments."""
    compare = commands.add_parser(
        "compare", allow_abbrev=False, help="compare two runs of bench, machine by machine",
        description="Compares two files that `fleet bench --json` wrote, machine by machine. Options that are not among these "
        "are handed on to `bytepath compare`, such as --force.",
    )  # fmt: skip
    compare.add_argument("base", metavar="BASE", type=Path)
    compare.add_argument("other", metavar="OTHER", type=Path)
    for name, what in (("json", "all comparisons as JSON"), ("markdown", "them as Markdown")):
        compare.add_argument(
            f"--{name}", metavar="FILE", help=f"write {what} to FILE, or to standard output (-), which then holds nothing else"
        )
    for name, (value, what) in VALUED.items():
        compare.add_argument(f"--{name}", metavar=value, action="append", default=[], help=what)
    compare.set_defaults(run=run, needs_scheduler=False, hands_on=True)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        with signals.raised():
            found = json.loads(path.read_text())
    except OSError as error:
        raise FleetError(f"cannot read {path}: {error.strerror}; {WRITES}") from error
    except (ValueError, RecursionError) as error:
        raise FleetError(f"{path} is no run of a fleet, or not the whole of one ({error}); {WRITES}") from error
    try:
        if found["schema"] != "bytepath.fleet/1":
            raise ValueError(f"its schema is {found['schema']}")
        command = found["words"][0]
        machines = {_whole(machine)["key"]: machine for machine in found["machines"]} if command == "bench" else {}
    except (ValueError, KeyError, TypeError, IndexError) as error:
        why = error if isinstance(error, ValueError) else "what belongs in one is missing"
        raise FleetError(f"{path} is no run of a fleet ({why}); {WRITES}") from error
    if command != "bench":
        raise FleetError(f"{path} is a run of fleet {command}, not of fleet bench; {WRITES}")
    return machines


def _whole(machine: dict[str, Any]) -> dict[str, Any]:
    """A machine of a run; ValueError where it is none, as in a file that was edited by hand."""
    if not isinstance(machine, dict):
        raise ValueError("a machine in it is damaged")
    record = machine.get("record")
    if record and not _is_record(record):
        raise ValueError("the record of a machine in it is damaged")
    if not all(isinstance(machine.get(key), str) for key in ("key", "name")):
        raise ValueError("a machine in it has no name")
    return machine


def _is_record(found: Any) -> bool:
    """Whether it is one, as far as it is looked into here; `bytepath compare` would call it by a file nobody knows."""
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return False
    arms = found.get("arms", [])
    return isinstance(arms, list) and all(isinstance(arm, dict) and isinstance(arm.get("name"), str) for arm in arms)


async def run(arguments: argparse.Namespace) -> int:
    """Compares, and says how each machine fared; the worst exit code of all."""
    base, other = _read(arguments.base), _read(arguments.other)
    program = worker.program()
    if program is None:
        raise FleetError("here is no program bytepath: install it, or set BYTEPATH_PROGRAM")
    # A machine that was started anew has another key, and its name still.
    names = {machine["name"]: machine for key, machine in other.items() if key not in base}
    matches = {key: other.get(key) or names.pop(machine["name"], None) for key, machine in base.items()}
    _refuse(arguments, [(machine, matches[key]) for key, machine in base.items()])
    alone = "-" in (arguments.json, arguments.markdown)
    found = []
    for key, machine in base.items():
        match = matches[key]
        one: dict[str, Any] = {"name": machine["name"], "code": 1, "why": _lacks(arguments, machine, match)}
        if not alone:
            files.show(files.printable(f"== {machine['name']}{': ' + one['why'] if one['why'] else ''}"))
        if match is not None and not one["why"]:
            one.update(await _compared(program, arguments, machine["record"], match["record"], alone))
        found.append(one)
    known = {match["key"] for match in matches.values() if match is not None}
    for key, machine in other.items():
        if key not in known:
            why = f"only in {arguments.other}"
            found.append({"name": machine["name"], "code": 0, "why": why})
            if not alone:
                files.show(files.printable(f"== {machine['name']}: {why}"))
    _write(arguments, found)
    return max((one["code"] for one in found), default=0)


def _lacks(arguments: argparse.Namespace, base: dict[str, Any], other: dict[str, Any] | None) -> str:
    """Why a machine cannot be compared, if so."""
    if other is None:
        return "not in both runs"
    runs = ((base, arguments.base), (other, arguments.other))
    return "; ".join(
        f"{run.get('status', 'failed')} in {file}: {run.get('why') or 'it left no record'}"
        for run, file in runs
        if not run.get("record")
    )


def _refuse(arguments: argparse.Namespace, pairs: list[tuple[dict[str, Any], dict[str, Any] | None]]) -> None:
    """Refuses a run that is to be compared with itself, and files that cannot be written, or are the runs."""
    for machine, match in pairs:
        # As `bytepath compare` sees it: an id may be given twice, and samples that are all the same are one run's.
        arms = (machine.get("record") or {}).get("arms") or []
        if match and any(arm.get("samples") for arm in arms) and (match.get("record") or {}).get("arms") == arms:
            raise WrongUsage(
                f"{arguments.base} and {arguments.other} are the same run on {machine['name']}; a run says nothing about how far "
                "runs lie apart"
            )
    files.refuse_one_twice(json=arguments.json, markdown=arguments.markdown)
    for name in ("json", "markdown"):
        path = getattr(arguments, name)
        if path not in (None, "-") and os.path.exists(path):
            if any(os.path.samefile(path, taken) for taken in (arguments.base, arguments.other)):
                raise WrongUsage(f"--{name} {path}: it is one of the runs; write the comparison to another file")
        files.check(path)


async def _compared(
    program: str, arguments: argparse.Namespace, base: dict[str, Any], other: dict[str, Any], alone: bool
) -> dict[str, Any]:
    """The exit code of a comparison, and what is to be written of it."""
    with tempfile.TemporaryDirectory(prefix="bytepath-") as folder:
        words = [program, "compare", *arguments.words]
        words += [f"--{name}={value}" for name in VALUED for value in getattr(arguments, name.replace("-", "_"))]
        for name, record, typed in (("base", base, arguments.base), ("other", other, arguments.other)):
            path = Path(folder, f"{name}.json")
            path.write_text(json.dumps(record))
            words += [str(path), f"--called={os.fsencode(typed).decode(errors='replace')}"]
        written = {name: Path(folder, f"comparison.{name}") for name in ("json", "markdown") if getattr(arguments, name)}
        words += [f"--{name}={path}" for name, path in written.items()]
        code = await _ended(await asyncio.create_subprocess_exec(*words, stdout=subprocess.DEVNULL if alone else None))
        # What failed has left an empty one.
        found = {name: path.read_text() for name, path in written.items() if path.exists()}
        return {
            "code": code if code >= 0 else 128 - code,
            "comparison": json.loads(found["json"]) if found.get("json") else None,
            "markdown": found.get("markdown") or None,
        }


async def _ended(process: asyncio.subprocess.Process) -> int:
    """The exit code of a process, which ends with who waits for it."""
    try:
        return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _write(arguments: argparse.Namespace, found: list[dict[str, Any]]) -> None:
    """Writes what is asked for, in one document for all machines."""
    machines = [{key: one.get(key) for key in ("name", "code", "why", "comparison")} for one in found]
    whole = {"schema": "bytepath.fleet-compare/1", "base": str(arguments.base), "other": str(arguments.other)}
    parts = [f"# {one['name']}\n\n{one.get('markdown') or (one['why'] or 'It could not be compared.') + chr(10)}" for one in found]
    kept = [(arguments.json, json.dumps({**whole, "machines": machines}) + "\n"), (arguments.markdown, "\n".join(parts))]
    shown = [text for path, text in kept if path == "-"]
    written = [(path, text) for path, text in kept if path not in (None, "-")]
    files.tell(shown[0].rstrip("\n") if shown else None, *written)
