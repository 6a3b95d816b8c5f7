"""The machines of a fleet: which workers share one, and whether all of them can do what is asked."""

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from .errors import FleetError, Lost
from .text import as_text
from .within import within

WHEEL = "'target/dist/out/NAME.whl[fleet]'"
"""What `make dist` makes, with what fleets need besides. PyPI has no package of this project."""

PROBE_S = 20
WORKERS_S = 10
SILENT_S = 5.0
"""A worker that has told nothing for so long may be asleep."""

KEY_LENGTH = 16
KEY_SHOWN = 4
"""So much of a key at least is behind the names of machines that share one."""

CLOCK_S = 1.0
"""Clocks that are apart by more are told of."""


def hello() -> dict[str, Any]:
    """What a worker, or the scheduler, knows of itself. Sent as its text: it needs nothing of this package there."""
    import os
    import platform
    import socket
    import sys
    import time

    def read(path: str) -> str:
        try:
            with open(path) as file:
                return file.read().strip()
        except OSError:
            return ""

    found: dict[str, Any] = {
        "host": os.environ.get("BYTEPATH_MACHINE") or socket.gethostname(),
        "named": bool(os.environ.get("BYTEPATH_MACHINE")),
        "machine_id": read("/etc/machine-id"),
        "boot_id": read("/proc/sys/kernel/random/boot_id"),
        "kernel": platform.release(),
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        "executable": sys.executable,
        "pid": os.getpid(),
        "uid": os.getuid(),
        "clock": time.time(),
    }
    try:
        from bytepath.fleet import worker
    except Exception as error:
        found["missing"] = f"{type(error).__name__}: {error}"
        return found
    found.update(worker.about())
    return found


@dataclass
class Machine:
    """One machine: what it says of itself, and its workers."""

    name: str
    key: str
    facts: dict[str, Any]
    workers: list[str] = field(default_factory=list)
    threads: int = 0
    uids: set[int] = field(default_factory=set)
    """The users that its workers run as."""

    def at_once(self, most: int | None) -> int:
        """How many pieces it does at a time, of so many at most."""
        return min(self.threads, most or self.threads)

    @property
    def clock_apart_s(self) -> float:
        return float(self.facts.get("clock_apart_s", 0.0))


def key_of(facts: dict[str, Any]) -> str:
    """What tells machines apart: the boot of a kernel, as containers on one machine have machine ids and names
    of their own. A worker that was given a name by BYTEPATH_MACHINE is on a machine of that name."""
    parts = [facts["boot_id"] or facts["machine_id"] or facts["host"]]
    if facts.get("named"):
        parts.append(facts["host"])
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:KEY_LENGTH]


def told(facts: dict[str, Any]) -> dict[str, Any]:
    """What may be written of a machine. Its id is confidential (machine-id(5)); its key, which is a hash, tells it from
    others."""
    return {name: fact for name, fact in facts.items() if name not in ("machine_id", "boot_id")}


async def workers_of(client: Client) -> dict[str, Any]:
    """What the scheduler knows of its workers."""
    try:
        return dict((await within(WORKERS_S, client.scheduler.identity(n_workers=-1)))["workers"])
    except (TimeoutError, asyncio.TimeoutError) as error:
        raise Lost("the scheduler does not answer") from error
    except OSError as error:
        raise Lost("the scheduler is gone") from error


async def probe(client: Client) -> list[Machine]:
    """Every machine of the fleet; an error where a worker does not answer, or lacks the package."""
    info = await workers_of(client) if client.scheduler else {}
    if not info:
        raise FleetError("the fleet has no workers left; start some with `dask worker ADDRESS`")
    await _check_scheduler(client)
    answers = await asyncio.gather(*(_ask(client, worker) for worker in info))
    silent = {worker: answer for worker, answer in zip(info, answers, strict=True) if isinstance(answer, str)}
    if silent:
        raise FleetError(
            f"{_count(len(silent), 'worker')} of {len(info)} did not answer: "
            + "; ".join(f"{worker} ({answer})" for worker, answer in list(silent.items())[:5])
            + ". Restart or remove them, and try again"
        )
    facts = {worker: answer for worker, answer in zip(info, answers, strict=True) if not isinstance(answer, str)}
    machines: dict[str, Machine] = {}
    for worker, answer in facts.items():
        key = key_of(answer)
        machine = machines.setdefault(key, Machine(answer["host"], key, answer))
        machine.workers.append(worker)
        machine.uids.add(answer["uid"])
        machine.threads += info[worker]["nthreads"]
    check_packages(facts)
    return _tell_names_apart(sorted(machines.values(), key=lambda machine: (machine.name, machine.key)))


async def _check_scheduler(client: Client) -> None:
    """Refuses a scheduler of another Python, or whose Python has no bytepath: Dask looks up there what is handed out by it."""
    there: dict[str, Any] = {}
    # One that is told to unpickle nothing answers with an error, and needs nothing.
    with contextlib.suppress(Exception):
        there = await within(PROBE_S, client.run_on_scheduler(*as_text(hello)))
    if there and (why := unlike_python(there["python"])):
        raise FleetError(f"the scheduler on {there['host']} {why}")
    if "missing" in there:
        raise FleetError(
            f"the scheduler on {there['host']} has no Python package bytepath ({there['missing']}), which Dask needs there as "
            f"well: run `{there['executable']} -m pip install {WHEEL}` there, and start it again"
        )


def awake(workers: dict[str, Any]) -> dict[str, Any]:
    """Those of a scheduler's workers that have told something of late. By the scheduler's clock alone:
    this machine's may be another."""
    now = max((about["last_seen"] for about in workers.values()), default=0.0)
    return {name: about for name, about in workers.items() if now - about["last_seen"] < SILENT_S}


async def admit(
    client: Client, machines: list[Machine], info: dict[str, Any]
) -> tuple[list[Machine], dict[str, str]]:
    """The machines of these workers: those that are known, and those that came since and can do the work; and why others
    cannot."""
    known = {worker: machine for machine in machines for worker in machine.workers}
    new = [worker for worker in info if worker not in known]
    facts = dict(zip(new, await asyncio.gather(*(_ask(client, worker) for worker in new)), strict=True))
    found = {machine.key: Machine(machine.name, machine.key, machine.facts, uids=machine.uids) for machine in machines}
    refused: dict[str, str] = {}
    for worker, about in info.items():
        answer = facts.get(worker)
        if worker in known:
            machine = found[known[worker].key]
        elif not isinstance(answer, dict):
            # It is asked again.
            continue
        elif wrong := unfit({worker: answer}):
            refused[worker] = wrong[0]
            continue
        else:
            machine = found.setdefault(key_of(answer), Machine(answer["host"], key_of(answer), answer))
        machine.workers.append(worker)
        machine.threads += about["nthreads"]
    return _tell_names_apart([machine for machine in found.values() if machine.workers]), refused


async def _ask(client: Client, worker: str) -> dict[str, Any] | str:
    began = time.time()
    try:
        answers = await within(PROBE_S, client.run(*as_text(hello), workers=[worker], on_error="return"))
    except (TimeoutError, asyncio.TimeoutError):
        return f"no answer within {PROBE_S} s"
    except OSError as error:
        # What goes wrong at a worker is an answer.
        raise Lost("the scheduler is gone") from error
    except Exception as error:
        return str(error) or type(error).__name__
    answer = answers.get(worker)
    if not isinstance(answer, dict):
        return f"{type(answer).__name__}: {answer}"
    # Half the way there and back is as near as it gets.
    answer["clock_apart_s"] = answer["clock"] - (began + time.time()) / 2
    answer["clock_known_to_s"] = (time.time() - began) / 2
    return answer


def _tell_names_apart(machines: list[Machine]) -> list[Machine]:
    """Gives those that share a name as much of their keys behind it as tells all apart."""
    for length in range(KEY_SHOWN, KEY_LENGTH + 1):
        count = Counter(machine.name for machine in machines)
        for machine in machines:
            if count[machine.name] > 1:
                machine.name = f"{machine.facts['host']}-{machine.key[:length]}"
    return machines


def check_packages(facts: dict[str, dict[str, Any]]) -> None:
    """Refuses workers that have no bytepath, or another one than this."""
    from . import worker as own

    wrong = unfit(facts)
    if own.about()["program"] is None:
        wrong.append("here is no program bytepath: install it, or set BYTEPATH_PROGRAM")
    if wrong:
        more = f"\n  and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        raise FleetError("not every worker can do the work:\n  " + "\n  ".join(wrong[:10]) + more)


def unfit(facts: dict[str, dict[str, Any]]) -> list[str]:
    """Why workers cannot do the work, with the remedy."""
    from . import worker as own

    here = own.about()
    wrong = []
    for address, there in facts.items():
        who = f"{address} on {there['host']}"
        if why := unlike_python(there["python"]):
            wrong.append(f"{who} {why}")
        elif "missing" in there:
            wrong.append(
                f"{who} has no Python package bytepath ({there['missing']}): run "
                f"`{there['executable']} -m pip install {WHEEL}` there"
            )
        elif there["program"] is None:
            wrong.append(
                f"{who} has the package, but finds no program bytepath: install it there, or set BYTEPATH_PROGRAM "
                "before its worker starts"
            )
        elif (there["version"], there["protocol"]) != (here["version"], here["protocol"]):
            wrong.append(
                f"{who} has {there['version']} (protocol {there['protocol']}), and here is {here['version']} "
                f"(protocol {here['protocol']}): install one version on all machines"
            )
    return wrong


def unlike_python(version: str) -> str | None:
    """Why a Python cannot take part, where it is of another minor version than this one."""
    from . import worker as own

    there, here = ".".join(version.split(".")[:2]), own.python()
    if there == here:
        return None
    return f"has Python {there}, and here is {here}: Dask needs one minor version on all machines"


def clocks(machines: list[Machine]) -> list[str]:
    """What there is to say about clocks that are apart from this machine's."""
    told = []
    for machine in machines:
        apart = machine.clock_apart_s
        if abs(apart) > CLOCK_S + machine.facts.get("clock_known_to_s", 0.0):
            way = "ahead of" if apart > 0 else "behind"
            told.append(
                f"the clock of {machine.name} is {abs(apart):.1f} s {way} this machine's: nothing here depends on it, "
                "but files that are copied without their times, and logs, do"
            )
    return told


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
