"""`bytepath fleet bench`, `tune` and `doctor`: a command on every machine, one at a time on each, and one report."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import datetime
import itertools
import json
import os
import time
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from distributed import Client

from .._tune import doubt
from . import files, findings, report, worker
from .cluster import connected, first_line
from .errors import FleetError, WrongUsage
from .machines import Machine, admit, awake, clocks, probe, told
from .within import ended, seconds_of, within

ATTEMPTS_MAX = 2
"""How often a machine is tried whose worker is lost in the middle."""

BACK_S = 15.0
"""How long a machine that has lost its workers may take to have one again."""

SILENT_TIMES = 4
"""A machine whose workers have told nothing for so many times as long is lost as well: cut off, or asleep."""

LOOK_S = 1.0
IDENTITY_S = 10
WAITS_S = 2.0
"""Who has a machine is asked so often until it is had."""

CHECK = "--check"
"""By this, tune leaves no record."""

TELLS = {"--show", CHECK}
"""Of these, tune tells something of the profile that is there, and keeps none."""

WRITES = {"--flame", "--folded", "--firefox", "--save-jobs"}
"""Options of experiments that are for one machine."""

TOLD_MAX = 5
STOP_S = 5
SHOWN_S = 20.0
MACHINE_S = 24 * 3600.0


def add_to(commands: Any) -> None:
    """Adds the commands' arguments."""
    bench = commands.add_parser(
        "bench", allow_abbrev=False, help="run an experiment on every machine",
        description="Runs `bytepath bench WORDS` on every machine: a record of each, and one report.",
    )  # fmt: skip
    _common(bench)
    bench.add_argument("--html", metavar="FILE", help="write the report as a page to FILE, or to standard output (-)")
    bench.add_argument("words", metavar="EXPERIMENT", nargs=argparse.REMAINDER, help="the experiment, and its options")
    bench.set_defaults(run=run_bench, needs_scheduler=True, refuse=refuse)
    tune = commands.add_parser(
        "tune", allow_abbrev=False, help="measure every machine once, and keep a profile on each",
        description="Runs `bytepath tune` on every machine, which keeps its profile there. Options that are not among "
        "these are handed on to it, such as --quick and --dir DIR.",
    )  # fmt: skip
    _common(tune)
    tune.add_argument("--profiles", metavar="DIR", type=_folder, help="write a copy of each profile into DIR")
    tune.set_defaults(run=run_tune, needs_scheduler=True, hands_on=True, refuse=refuse_copies)
    doctor = commands.add_parser(
        "doctor", allow_abbrev=False, help="find out what holds each machine back",
        description="Runs `bytepath doctor` on every machine, and tells what is poor where.",
    )  # fmt: skip
    _common(doctor)
    doctor.set_defaults(run=run_doctor, needs_scheduler=True, words=[])


def _folder(text: str) -> Path:
    if not text:
        raise argparse.ArgumentTypeError("'' is no folder; . is the current one")
    return Path(text)


def _common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--one-after-another", action="store_true", help="one machine at a time, not all at once")
    parser.add_argument("--json", metavar="FILE", help="write all that was found to FILE, or to standard output (-)")
    parser.add_argument(
        "--patience", metavar="SECONDS", type=seconds_of, default=BACK_S,
        help=f"wait so long for a machine that has lost its workers ({BACK_S:.0f})",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=seconds_of, default=MACHINE_S,
        help="give a machine up after so long (a day)",
    )  # fmt: skip


async def run_bench(arguments: argparse.Namespace) -> int:
    """Runs an experiment everywhere."""
    files.refuse_one_twice(json=arguments.json, html=arguments.html)
    files.check(arguments.html)
    found = await _everywhere(arguments, ["bench", *arguments.words], True)
    view = report.view(found)
    page = report.page(found, view) if arguments.html else ""
    if arguments.html == "-":
        _tell(arguments, found, page)
    else:
        _tell(arguments, found, report.terminal(found, view), *([(arguments.html, page)] if page else []))
    return _code(found)


def refuse(arguments: argparse.Namespace) -> None:
    """Refuses words that leave no record of a machine, or name a file, which each machine would write for itself."""
    if arguments.words[:1] == ["--"]:
        del arguments.words[0]
    words = arguments.words
    if not words:
        raise WrongUsage("no experiment is named; `bytepath bench --help` lists them, and pipes --quick is a short one")
    if words[0] == "all":
        raise WrongUsage("all is many experiments; a fleet reports one at a time, `bytepath bench --help` lists them")
    # What stands behind is a command's own.
    own = list(itertools.takewhile(lambda word: word != "--", words))
    for at, word in enumerate(own):
        option, has_value, value = word.partition("=")
        if option in ("--json", "--html"):
            value = value if has_value else (own[at + 1 : at + 2] or ["FILE"])[0]
            raise WrongUsage(f"{option} stands before the experiment: fleet bench {option} {value} {words[0]}")
        if option == "--csv":
            raise WrongUsage(f"a fleet writes no CSV; every sample is in its JSON: fleet bench --json FILE {words[0]}")
        if option == "--report":
            raise WrongUsage(f"a fleet writes one page of all machines: fleet bench --html FILE {words[0]}")
        if option in WRITES:
            raise WrongUsage(
                f"{option} writes files on every machine, where nobody looks for them; `bytepath bench {words[0]} {option} …` "
                "on one of them does"
            )
        if option in ("--list", "--help", "-h"):
            alone = " ".join(dict.fromkeys(["bytepath", "bench", words[0], option]))
            raise WrongUsage(f"{option} measures nothing; `{alone}` needs no fleet")


def refuse_copies(arguments: argparse.Namespace) -> None:
    """Refuses copies of profiles where none is had."""
    if arguments.profiles and CHECK in arguments.words:
        raise WrongUsage(f"{CHECK} leaves no profiles to copy; --show has each machine tell the one that is there")


async def run_tune(arguments: argparse.Namespace) -> int:
    """Measures every machine."""
    if arguments.profiles:
        files.check_folder(arguments.profiles)
    keeps, record = not TELLS & set(arguments.words), CHECK not in arguments.words
    found = await _everywhere(arguments, ["tune", *arguments.words], record, _check_kept if keeps else None)
    lines = [f"{machine['name']}: {_tuned(machine)}" for machine in found["machines"]]
    failed: list[str] = []
    if arguments.profiles:
        more, failed = _copied(arguments.profiles, found["machines"])
        lines += more
    try:
        _tell(arguments, found, files.printable("\n".join(lines)))
    finally:
        for why in failed:
            files.say(why)
    return _code(found) or (1 if failed else 0)


def _copied(folder: Path, machines: list[dict[str, Any]]) -> tuple[list[str], list[str]]:
    """Writes the profiles of machines into a folder: what is to be told of that, and why some could not be written."""
    lines, failed, count = [], [], 0
    for machine in machines:
        file = folder / f"{files.name_of(machine['name'])}.json"
        if machine.get("record") is not None:
            try:
                files.write(file, json.dumps(machine["record"], indent=1) + "\n")
                count += 1
            except FleetError as error:
                failed.append(str(error))
        elif os.path.exists(file):
            lines.append(f"{file} is of an earlier run: this one left none of {machine['name']}")
    written = "1 profile was" if count == 1 else f"{count or 'no'} profiles were"
    return [*lines, f"{written} written into {folder}"], failed


async def _check_kept(client: Client, machine: Machine, found: dict[str, Any], words: list[str]) -> None:
    """Sees that the profile of a machine was not replaced by another's, as where they share a home directory."""
    if found["status"] != "ok":
        return
    where = [word for at, word in enumerate(words) if "--profile" in (word.split("=")[0], words[at - 1] if at else "")]
    kept, why = None, "it has no worker"
    for name in machine.workers:
        try:
            # Not as a task, which would wait for whatever else the worker has to do.
            kept = (await within(SHOWN_S, client.run(worker.profile, where, workers=[name])))[name]
            break
        except Exception as error:
            why = "no answer in time" if isinstance(error, TimeoutError | asyncio.TimeoutError) else first_line(error)
    else:
        # It was measured all the same, and so were the others.
        return found.update(status="failed", why=f"whether its profile was kept could not be seen: {why}")
    if kept != found["record"]:
        found.update(
            status="failed",
            why="another machine's profile is where its own should be: they share a home directory. Set XDG_STATE_HOME "
            "to a directory that is its own, for its worker and for its users, and tune again",
        )


def _tuned(machine: dict[str, Any]) -> str:
    shown = machine.get("shown", "").rstrip()
    if machine["status"] != "ok":
        return "\n".join(filter(None, [f"{machine['status']}: {machine['why']}", shown]))
    if "shown" in machine:
        return f"told there:\n{shown}"
    measured = f"measured in {machine['seconds']:.0f} s; the profile is kept there"
    return "; ".join([measured, *doubt(machine["record"] or {})])


async def run_doctor(arguments: argparse.Namespace) -> int:
    """Asks every machine what holds it back."""
    found = await _everywhere(arguments, ["doctor"], True)
    _tell(arguments, found, findings.told(found))
    # 1 where something is poor, as `doctor` ends there.
    return max(_code(found), *(machine["code"] or 0 for machine in found["machines"] if machine["status"] == "ok"), 0)


def _tell(arguments: argparse.Namespace, found: dict[str, Any], text: str, *kept: tuple[str | Path, str]) -> None:
    """Shows it, once it is in the files that are asked for."""
    whole = json.dumps(found)
    if arguments.json == "-":
        return files.tell(whole, *kept)
    files.tell(text, *kept, *([(arguments.json, whole + "\n")] if arguments.json else []))


def _code(found: dict[str, Any]) -> int:
    """1 where it failed on a machine; where the words were wrong on all of them, 2."""
    if all(machine["status"] == "ok" for machine in found["machines"]):
        return 0
    return 2 if all(machine["code"] == 2 for machine in found["machines"]) else 1


After = Callable[[Client, Machine, dict[str, Any], list[str]], Coroutine[Any, Any, None]]
"""What is done with what was found on a machine, once all are done."""


async def _everywhere(
    arguments: argparse.Namespace, words: list[str], record: bool, after: After | None = None
) -> dict[str, Any]:
    files.check(arguments.json)
    started = datetime.datetime.now(datetime.timezone.utc)
    async with connected(arguments.scheduler) as client:
        machines = await probe(client)
        for line in clocks(machines):
            files.say(line)
        watch = _Watch(client)
        turns = asyncio.Semaphore(1 if arguments.one_after_another else len(machines))

        async def one(machine: Machine) -> dict[str, Any]:
            async with turns:
                found = await _on(watch, machine, words, record, arguments)
                # Whether it is well is known once all are done; the report says why it is not.
                status = "measured" if after and found["status"] == "ok" else found["status"]
                files.say(f"{machine.name}: {status}, {found['seconds']:.0f} s")
                return found

        results = await asyncio.gather(*(one(machine) for machine in machines))
        if after:
            await asyncio.gather(*(after(client, *each, words) for each in zip(machines, results, strict=True)))
    return {
        "schema": "bytepath.fleet/1",
        "started": started.isoformat(timespec="seconds"),
        "words": words,
        "machines": results,
    }


async def _on(
    watch: _Watch, machine: Machine, words: list[str], record: bool, arguments: argparse.Namespace
) -> dict[str, Any]:
    """What became of the command on a machine, whatever became of the machine."""
    found: dict[str, Any] = {"name": machine.name, "key": machine.key, "facts": told(machine.facts),
                             "workers": list(machine.workers), "status": "lost", "why": "", "code": None, "record": None}
    began = time.monotonic()
    for _ in range(ATTEMPTS_MAX):
        try:
            answer = await _once(watch, machine, words, record, arguments)
        except _Gone as error:
            found["why"] = str(error)
            try:
                if await _is_back(watch, machine, arguments.patience):
                    continue
            except FleetError as lost:
                found["why"] += f", and {lost}"
            break
        except FleetError as error:
            found.update(status="failed", why=str(error))
            break
        except Exception as error:
            # Who waits is told of a lost scheduler before the client's state shows it, and in Dask's words.
            gone = watch.client.status != "running" or "scheduler-connection-lost" in str(error)
            found.update(status="failed", why="the scheduler is gone" if gone else first_line(error))
            break
        found.update(status="ok", why="", code=answer["code"], record=answer.get("record"), said=answer["said"])
        # doctor ends with 1 where something is poor: that is what it was asked.
        if answer["code"] != 0 and not (words[0] == "doctor" and answer["code"] == 1 and answer.get("record")):
            found.update(status="failed", why=f"exit code {answer['code']}: {_first(answer['said'])}")
        elif words[0] == "bench" and answer.get("record") is None:
            found.update(status="failed", why="it left no record")
        if words[0] == "tune" and TELLS & set(words):
            found["shown"] = answer["out"]
        break
    found["seconds"] = time.monotonic() - began
    return found


def _first(said: str) -> str:
    """The first thing that a command said, in one line: further lines of it are indented."""
    first, *others = said.splitlines() or ["without a word"]
    more = itertools.takewhile(lambda line: line.startswith(" "), others)
    return f"{first} {'; '.join(map(str.strip, more))}".rstrip()


class _Gone(Exception):
    """The machine's workers are not to be reached: why."""


class _Watch:
    """The workers that the scheduler knows of, asked once a second for all machines together."""

    def __init__(self, client: Client) -> None:
        self.client, self.at = client, 0.0
        self.workers: dict[str, Any] | None = None
        self.lock = asyncio.Lock()

    async def look(self) -> dict[str, Any] | None:
        """What it told last, or nothing yet: one that is slow to tell is none that has lost its workers."""
        async with self.lock:
            if time.monotonic() - self.at >= LOOK_S:
                with contextlib.suppress(TimeoutError, asyncio.TimeoutError, OSError):
                    asking = self.client.scheduler.identity(n_workers=-1)
                    self.workers = (await within(IDENTITY_S, asking))["workers"]
                self.at = time.monotonic()
            return self.workers


class _Pulse:
    """Whether any of a machine's workers still tells something, by this process's clock alone."""

    def __init__(self, patience_s: float) -> None:
        self.silent_s_max = SILENT_TIMES * patience_s
        self.last, self.since = 0.0, time.monotonic()

    def look(self, machine: Machine, workers: dict[str, Any] | None) -> None:
        there = [workers[name]["last_seen"] for name in machine.workers if name in workers] if workers is not None else []
        if not there and workers is not None:
            raise _Gone("its worker was lost in the middle")
        if there and max(there) != self.last:
            self.last, self.since = max(there), time.monotonic()
        elif time.monotonic() - self.since > self.silent_s_max:
            raise _Gone(f"its worker has told nothing for {self.silent_s_max:.0f} s: it is cut off, or stopped")


async def _once(
    watch: _Watch, machine: Machine, words: list[str], record: bool, arguments: argparse.Namespace
) -> dict[str, Any]:
    client = watch.client
    id = uuid.uuid4().hex
    future = client.submit(worker.command, id, words, record, workers=machine.workers, allow_other_workers=False,
                           key=f"bytepath-{id}", pure=False)
    waiting = asyncio.ensure_future(future.result())
    telling = asyncio.ensure_future(_tell_who_is_there(client, machine, id))
    began, pulse = time.monotonic(), _Pulse(arguments.patience)
    try:
        while not waiting.done():
            await asyncio.wait([waiting], timeout=LOOK_S)
            if waiting.done():
                break
            if client.status != "running":
                raise FleetError("the scheduler is gone")
            if time.monotonic() - began > arguments.timeout:
                raise FleetError(f"not done within {arguments.timeout:.0f} s; --timeout gives it longer")
            pulse.look(machine, await watch.look())
        answer: dict[str, Any] = waiting.result()
        return answer
    finally:
        answered = waiting.done()
        for task in (telling, waiting):
            await ended(task)
        with contextlib.suppress(Exception):
            # Nobody waits for it any more: it is not begun where it has not been, and ended where it has.
            await within(STOP_S, client.cancel([future], force=True))
        if not answered:
            with contextlib.suppress(Exception):
                stopping = client.run(worker.stop, id, workers=machine.workers, on_error="ignore")
                await within(STOP_S, stopping)


async def _tell_who_is_there(client: Client, machine: Machine, id: str) -> None:
    """Says once who has a machine that a command waits for."""
    told: set[str] = set()
    before = None
    while True:
        await asyncio.sleep(WAITS_S)
        there: dict[str, Any] = {}
        with contextlib.suppress(Exception):
            asking = client.run(worker.waits_for, id, workers=machine.workers, on_error="ignore")
            there = await within(STOP_S, asking)
        if not there:
            continue
        if None in there.values():
            return
        who = max(there.values()) or "its worker has other work"
        # What is so once may be over already.
        if who == before and who not in told and len(told) < TOLD_MAX:
            told.add(who)
            files.say(f"{machine.name} is waited for: {who}")
        before = who


async def _is_back(watch: _Watch, machine: Machine, patience_s: float) -> bool:
    """Whether the machine has workers again, which are then known."""
    until = time.monotonic() + patience_s
    while time.monotonic() < until:
        with contextlib.suppress(TimeoutError, asyncio.TimeoutError, OSError):
            for other in (await admit(watch.client, [], awake(await watch.look() or {})))[0]:
                if other.key == machine.key:
                    machine.workers = other.workers
                    return True
        await asyncio.sleep(LOOK_S)
    return False
