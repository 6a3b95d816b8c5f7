"""`bytepath fleet cp`."""

import argparse
import json
import os
import sqlite3
import subprocess
from pathlib import Path
from typing import Any

from .. import files, metrics, worker
from ..errors import FleetError, WrongUsage
from ..within import seconds_of
from . import journal as journals
from .ground import Taken
from .journal import Journal
from .options import LATE_S, PATIENCE_S, Options
from .progress import clock, size
from .run import Run

_UNITS = {
    "": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40,
    "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40,
    "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12,
}  # fmt: skip


def bytes_of(text: str) -> int:
    """A size above 0 as all commands take it (the program's `size`): 200M, 1.5GiB."""
    unit = text.lstrip("0123456789.")
    number, factor = text[: len(text) - len(unit)], _UNITS.get(unit.strip().upper())
    if factor is None or number.count(".") > 1 or not number.strip("."):
        raise argparse.ArgumentTypeError(f"{text!r} is no size; 200M is one, or 1GiB")
    is_whole = number.isdigit() and len(number) <= 20
    count = int(number) * factor if is_whole else int(min(float(number) * factor, 2.0**64))
    if count >= 1 << 64:
        raise argparse.ArgumentTypeError(f"{text!r} is no size that fits in 64 bits; 200M is one, or 1GiB")
    if count == 0:
        raise argparse.ArgumentTypeError("a size of 0 bytes moves nothing")
    return count


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return int(text)


def add_to(commands: Any) -> None:
    """Adds the command's arguments."""
    cp = commands.add_parser(
        "cp",
        allow_abbrev=False,
        help="copy a tree on storage that all machines mount",
        description="Copies all that is in the directory SOURCE to the directory DEST, as `cp -a -T` would: by all "
        "machines of the fleet, on storage that they all mount under the same names. Interrupted, the same command "
        "goes on where it was.",
    )
    cp.add_argument("source", metavar="SOURCE")
    cp.add_argument("destination", metavar="DEST")
    what = cp.add_argument_group("what is kept")
    what.add_argument("-a", "--archive", action="store_true", help="keep all that cp -a keeps; so it is unless -r is given")
    what.add_argument("-r", "-R", "--recursive", action="store_true", help="keep what cp -r keeps: bytes and permissions")
    what.add_argument("--preserve", metavar="LIST", help="as for cp")
    what.add_argument("--no-preserve", metavar="LIST", help="as for cp")
    what.add_argument("--sparse", choices=["auto", "always", "never"], help="as for cp")
    what.add_argument("--reflink", choices=["auto", "always", "never"], help="as for cp")
    what.add_argument("-x", "--one-file-system", action="store_true", help="stay on the file system of SOURCE")
    safety = cp.add_argument_group("safety and progress")
    safety.add_argument("--verify", action="store_true", help="read source and copy again, and compare them")
    safety.add_argument("--fsync", action="store_true", help="bring each file to the device before going on")
    safety.add_argument("--sync", action="store_true", help="bring all to the devices at the end, on every machine")
    safety.add_argument(
        "--progress", action="store_true", help="show files, bytes, rate and time left on standard error"
    )
    safety.add_argument("--journal", metavar="FILE", type=Path, help="keep account of what is done here, on a local disk")
    safety.add_argument("--anew", action="store_true", help="forget an earlier run of the same command")
    safety.add_argument("--json", metavar="FILE", help="write how it went to FILE, or to standard output (-)")
    safety.add_argument(
        "--metrics", metavar="FILE", help="tell Prometheus how far it is, in FILE, which is replaced every second"
    )
    load = cp.add_argument_group("load")
    load.add_argument("--limit", metavar="RATE", type=bytes_of, help="bytes a second of all machines together, such as 1G")
    load.add_argument("--limit-per-machine", metavar="RATE", type=bytes_of, help="bytes a second of each machine")
    load.add_argument("--jobs-per-machine", metavar="N", type=_count, help="pieces that one machine does at a time")
    load.add_argument(
        "--late", metavar="SECONDS", type=seconds_of, default=LATE_S,
        help=f"give a piece to another worker as well after so long ({LATE_S:.0f})",
    )  # fmt: skip
    load.add_argument(
        "--patience", metavar="SECONDS", type=seconds_of, default=PATIENCE_S,
        help=f"wait so long for a scheduler that is gone, or for workers ({PATIENCE_S:.0f})",
    )  # fmt: skip
    cp.set_defaults(run=run, needs_scheduler=True)


def words_for_cp(arguments: argparse.Namespace) -> list[str]:
    """The options by which each machine's cp does its part."""
    words = ["-R", "-P"] if arguments.recursive and not arguments.archive else ["-a"]
    for name in ("preserve", "no_preserve", "sparse", "reflink"):
        value = getattr(arguments, name)
        if value is not None:
            words.append(f"--{name.replace('_', '-')}={value}")
    for name in ("one_file_system", "verify", "fsync"):
        if getattr(arguments, name):
            words.append(f"--{name.replace('_', '-')}")
    return words


def check(words: list[str]) -> None:
    """Refuses options that no machine's cp would take, before any is asked."""
    found = worker.program()
    if found is None:
        return
    nothing = ["--source", "/", "--destination", "/", "--run", "/", "--token", "check", "--", *words]
    # Of no request, it reads its options and ends.
    done = subprocess.run([found, "piece", *nothing], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise WrongUsage(done.stderr.strip().removeprefix("bytepath: "))


def absolute(path: str) -> str:
    """The same place by a path from the root. What `..` leads to is the file system's to say: not where a link stands."""
    if ".." not in path.split("/"):
        try:
            return os.path.abspath(path)
        except FileNotFoundError as error:
            raise FleetError(f"cannot find {path!r}: the current directory was removed; name it from the root") from error
    folder, name = os.path.split(path.rstrip("/"))
    if name == "..":
        folder, name = path, ""
    return os.path.join(os.path.realpath(folder), name).rstrip("/") or "/"


def _metrics_file(word: str | None) -> Path | None:
    if word is not None and word.startswith("unix:"):
        raise WrongUsage(f"--metrics {word}: a fleet has no socket for it; name a file")
    if word in ("", "-"):
        raise WrongUsage("--metrics: a file that can be replaced is needed")
    return Path(word) if word is not None else None


def _named(*paths: str) -> tuple[str, ...]:
    for path in paths:
        if "\0" in path or not path.strip("/"):
            raise WrongUsage(f"{path!r} is no directory that is copied by a fleet")
    return paths


async def run(arguments: argparse.Namespace) -> int:
    """Copies, and says how it went."""
    source, destination = (absolute(path) for path in _named(arguments.source, arguments.destination))
    _named(source, destination)
    words = words_for_cp(arguments)
    check(words)
    files.refuse_one_twice(json=arguments.json, metrics=arguments.metrics, journal=arguments.journal)
    files.check(arguments.json)
    metrics.begin(_metrics_file(arguments.metrics), "fleet cp")
    path = arguments.journal
    if not path:
        path = journals.default_path(source, destination, words)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise FleetError(f"no folder for the journal, {path.parent}: {error.strerror}") from error
    forgotten = journals.forget(path) if arguments.anew else None
    journal = Journal(path, [source, destination, *words])
    resumed = not journal.is_new
    if resumed:
        files.say(f"going on with an earlier run (journal {path}; --anew begins again)")
    options = Options(
        source, destination, arguments.scheduler, words, arguments.jobs_per_machine, arguments.limit,
        arguments.limit_per_machine, arguments.progress, arguments.sync, arguments.late, arguments.patience,
    )  # fmt: skip
    keep = True
    try:
        if forgotten:
            journal.set("forgotten", forgotten)
        outcome = await Run(options, journal).copy()
        keep = bool(outcome.failed)
    except Taken:
        # One that has not begun is not gone on with.
        keep = resumed
        raise
    except sqlite3.OperationalError as error:
        raise FleetError(
            f"the journal {path} cannot be kept ({error}); what it knows so far is on disk, and the same command goes on "
            "from there once it can"
        ) from error
    except sqlite3.Error as error:
        raise journals.unusable(path, error) from error
    except BaseException:
        # Where nothing was begun yet, and nothing is to be forgotten, there is nothing to go on with.
        keep = resumed or bool(forgotten) or journal.is_begun()
        raise
    finally:
        if keep:
            journal.close()
        else:
            journal.remove()
    for line in (*outcome.told, *outcome.why):
        files.say(line)
    if outcome.failed:
        more = f", the first {len(outcome.why)} above" if outcome.failed > len(outcome.why) else ""
        entries = "1 entry was" if outcome.failed == 1 else f"{outcome.failed} entries were"
        files.say(f"{entries} not copied{more}; the same command tries again")
    _write(arguments, outcome, destination)
    return 1 if outcome.failed else 0


def _write(arguments: argparse.Namespace, outcome: Any, destination: str) -> None:
    found = {"schema": "bytepath.fleet-cp/1", "source": arguments.source, "destination": arguments.destination}
    found.update({key: getattr(outcome, key) for key in
                  ("files", "bytes", "directories", "this_run", "failed", "why", "seconds", "resumed", "machines")})
    if arguments.json == "-":
        return files.show(json.dumps(found))
    now = outcome.this_run
    rate = size(now["bytes"] / max(outcome.seconds, 1e-9))
    last = f", of which this run copied {now['files']} files, {size(now['bytes'])}" if outcome.resumed else ""
    files.tell(
        f"{outcome.files} files in {outcome.directories} directories, {size(outcome.bytes)}{last}, in "
        f"{clock(outcome.seconds)} ({rate}/s) by {outcome.machines} machine{'' if outcome.machines == 1 else 's'}",
        *([(arguments.json, json.dumps(found) + "\n")] if arguments.json else []),
    )
