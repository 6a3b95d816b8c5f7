"""`bytepath fleet compare`: two runs of `fleet bench`, machine by machine, each pair judged by `bytepath compare`."""

import argparse
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from . import files, worker
from .errors import FleetError


def add_to(commands: Any) -> None:
    """Adds the command's arguments."""
    compare = commands.add_parser(
        "compare", allow_abbrev=False, help="compare two runs of bench, machine by machine",
        description="Compares two files that `fleet bench --json` wrote, machine by machine.",
    )  # fmt: skip
    compare.add_argument("base", metavar="BASE", type=Path)
    compare.add_argument("other", metavar="OTHER", type=Path)
    compare.add_argument("words", metavar="WORD", nargs=argparse.REMAINDER, help="options of `bytepath compare`")
    compare.set_defaults(run=run, needs_scheduler=False)


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(path.read_text())
        if found["schema"] != "bytepath.fleet/1" or found["words"][0] != "bench":
            raise ValueError(f"its schema is {found['schema']}")
        return {machine["key"]: machine for machine in found["machines"]}
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise FleetError(f"{path} is no run of a fleet ({error}); `bytepath fleet bench --json FILE` writes one") from error


async def run(arguments: argparse.Namespace) -> int:
    """Compares, and says how each machine fared; the worst exit code of all."""
    base, other = _read(arguments.base), _read(arguments.other)
    program = worker.program()
    if program is None:
        raise FleetError("here is no program bytepath: install it, or set BYTEPATH_PROGRAM")
    names = {machine["name"]: key for key, machine in other.items()}
    code = 0
    for key, machine in base.items():
        # A machine that was started anew has another key, and its name still.
        match = other.get(key) or other.get(names.get(machine["name"], ""))
        if match is None or not (machine.get("record") and match.get("record")):
            files.show(f"== {machine['name']}: not in both runs")
            code = max(code, 1)
            continue
        files.show(f"== {machine['name']}")
        code = max(code, _compared(program, machine["record"], match["record"], arguments.words))
    known = {machine["name"] for machine in base.values()}
    for machine in other.values():
        if machine["key"] not in base and machine["name"] not in known:
            files.show(f"== {machine['name']}: only in {arguments.other}")
    return code


def _compared(program: str, base: dict[str, Any], other: dict[str, Any], words: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="bytepath-") as folder:
        paths = [Path(folder) / name for name in ("base.json", "other.json")]
        for path, record in zip(paths, (base, other), strict=True):
            path.write_text(json.dumps(record))
        code = subprocess.run([program, "compare", *words, *map(str, paths)]).returncode
        return code if code >= 0 else 128 - code
