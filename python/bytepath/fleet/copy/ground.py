"""Source and destination as the machines see them: all of them have to see the same."""

import asyncio
import errno
import itertools
import os
import uuid
from collections.abc import Callable
from typing import Any

from distributed import Client

from .. import files, storage, worker
from ..cluster import first_line
from ..errors import FleetError, Lost
from ..machines import Machine, awake, workers_of
from ..within import within

LOOK_S = 20
LOOKS_MAX = 10
"""So often a source that looks different is looked at again: somebody may have changed it in between."""

KNOWN_MAX = 3
"""So many workers are asked what the source looks like to them, until one answers."""

NAMES_S = 10
"""How long a file system may take to show a new name on all machines."""

RUN_START = ".bytepath-fleet-"


class Taken(FleetError):
    """Another copying is at the destination."""


class Another(FleetError):
    """A source is not the same directory everywhere."""


class Ground:
    """Where a copying goes on: paths that mean the same on every machine."""

    def __init__(self, source: str, destination: str, id: str) -> None:
        self.source, self.destination, self.id = source, destination, id
        self.run = os.path.join(destination, f"{RUN_START}{id}")
        self.version = worker.about()["version"]
        self.umask = files.umask()
        self.session = ""
        self.source_look: dict[str, Any] | None = None
        self.trusted: set[str] = set()
        """Workers whose source was compared with that of others."""
        self.uid = os.getuid()
        self.is_new = False
        self.word: str | None = None

    def setup(self, words: list[str], per_machine: int | None, late_s: float) -> dict[str, Any]:
        """What an engine has to know."""
        return {
            "id": self.id,
            "session": self.session,
            "source": self.source,
            "destination": self.destination,
            "run": self.run,
            "options": words,
            "per_machine": per_machine,
            "late_s": late_s,
            "version": self.version,
            "python": worker.python(),
            "umask": self.umask,
            "source_look": self.source_look,
            "uid": self.uid,
            "mark": self._mark(),
            "word": self.word,
        }

    def _mark(self) -> str:
        return os.path.join(self.run, "mark")

    def unmark(self) -> None:
        """From now on nobody looks for the file that shows that the storage is the same."""
        self.word = None

    async def forget(self, client: Client, machines: list[Machine], id: str) -> None:
        """Removes what an earlier copying needed here."""
        run = os.path.join(self.destination, f"{RUN_START}{id}")
        await _ask(client, machines[0].workers[0], machines[0].name, worker.remove_tree, run)

    async def be_alone(self, client: Client, machines: list[Machine], leave: bool) -> None:
        """Refuses a destination that another copying goes on in, or was interrupted in; this one leaves it then, if asked.
        Each looks once all can see that it is there itself, so that of two that begin at once one at least is refused."""
        listings = (_listed(client, machine, self.destination) for machine in machines)
        found = {name for answer in await asyncio.gather(*listings) for name in answer} - {os.path.basename(self.run)}
        if found:
            looks = (_ask(client, m.workers[0], m.name, worker.there, self.source, sorted(found)) for m in machines)
            # What is in the source too was copied from there.
            found -= {name for answer in await asyncio.gather(*looks) for name in answer}
        if not found:
            return
        if leave:
            await self.forget(client, machines, self.id)
        other = os.path.join(self.destination, min(found))
        raise Taken(
            f"another copying to {self.destination} goes on, or was interrupted: {other} is there. Wait for it, or give its "
            "command again, which goes on with it; if nobody is at it any more, remove that directory"
        )

    async def is_as_it_was_left(self, client: Client, machines: list[Machine]) -> bool:
        """Whether the directory for the work is there, which stays until all is done."""
        first = machines[0]
        return bool(await _ask(client, first.workers[0], first.name, worker.is_directory, self.run))

    async def is_untouched(self, client: Client, machines: list[Machine]) -> bool:
        """Whether nothing was made for the copying that was not there before."""
        first, path = machines[0], self.destination if self.is_new else self.run
        return not await _ask(client, first.workers[0], first.name, worker.is_directory, path)

    async def trust(self, client: Client, name: str, others: list[str]) -> None:
        """Lets a worker in whose source does not look as it did at the beginning: an error if it is another than that
        of one of these others that was compared before, as far as one is left that answers."""
        known = [other for other in others if other in self.trusted and other != name]
        for other in known[:KNOWN_MAX]:
            pair = [Machine(each, each, {}, [each]) for each in (other, name)]
            its = await _ask(client, name, name, storage.look, self.source)
            try:
                found = [await _ask(client, other, other, storage.look, self.source), its]
                await _one_source(client, self.source, pair, found)
                break
            except Another:
                raise
            except FleetError:
                # That one does not answer, as where it is asleep.
                continue
        await _ask(client, name, name, worker.trust, self.id, self.source)
        self.trusted.add(name)

    async def agree(self, client: Client, machines: list[Machine]) -> None:
        """Sees that the destination is one storage: what one machine writes there, the others find."""
        path, word = self._mark(), uuid.uuid4().hex
        first = machines[0].workers[0]
        refused = await _ask(client, first, machines[0].name, worker.mark, path, word)
        if refused:
            number, why = refused
            if number not in (errno.ENOENT, errno.ENOTDIR):
                raise FleetError(
                    f"{machines[0].name} cannot write to {self.destination} ({why}); the same command goes on once it can"
                )
            raise FleetError(
                f"{machines[0].name} does not find what another machine made in {self.destination} ({why}): it is "
                "another storage there. Mount the same file system on all machines, or name a path that is on it"
            )
        waiting = {machine.name: machine for machine in machines[1:]}
        for _ in range(NAMES_S * 5):
            if not waiting:
                break
            answers = await asyncio.gather(
                *(_ask(client, m.workers[0], m.name, worker.marked, path) for m in waiting.values())
            )
            told = list(zip(waiting.values(), answers, strict=True))
            for machine, (_, number) in told:
                if number in (errno.EACCES, errno.EPERM):
                    raise FleetError(worker.no_entry(f"the worker on {machine.name}", machine.facts["uid"], self.run))
            waiting = {machine.name: machine for machine, (found, _) in told if found != word}
            if waiting:
                await asyncio.sleep(0.2)
        if waiting:
            names = ", ".join(list(waiting)[:10])
            raise FleetError(
                f"{self.destination} is another storage on {names} than on {machines[0].name}: what one writes there "
                "the other does not find. Mount the same file system on all machines, or name a path that is on it"
            )
        self.word = word


async def check(client: Client, ground: Ground, machines: list[Machine]) -> None:
    """Refuses workers of several users, and paths that not all machines see, or that lie in each other."""
    ground.uid = _one_user(machines)
    answers = await asyncio.gather(
        *(_ask(client, m.workers[0], m.name, worker.sees, ground.source, ground.destination) for m in machines)
    )
    seen = {m.name: answer for m, answer in zip(machines, answers, strict=True)}
    _all(seen, "source_error", f"read {ground.source}")
    _all(seen, "destination_error", f"reach {ground.destination}")
    for other in seen.values():
        if not other["source"]["directory"]:
            raise FleetError(f"{ground.source} is no directory; `bytepath cp` copies a file")
        if other["destination"]["exists"] and not other["destination"]["directory"]:
            raise FleetError(f"{ground.destination} is there, and no directory")
        source, sink = other["source"]["real"], other["destination"]["real"]
        if source == sink:
            raise FleetError(f"{ground.source} and {ground.destination} are the same directory")
        if sink.startswith(source.rstrip("/") + "/"):
            raise FleetError(f"cannot copy {ground.source} into itself, {ground.destination}")
        if source.startswith(sink.rstrip("/") + "/"):
            raise FleetError(f"{ground.source} lies in {ground.destination}, which it would be copied over")
    looks = [answer["source"]["look"] for answer in answers]
    ground.source_look = await _one_source(client, ground.source, machines, looks)
    ground.trusted = {machine.workers[0] for machine in machines}
    ground.is_new = not answers[0]["destination"]["exists"]


def _one_user(machines: list[Machine]) -> int:
    """The user that all workers run as: what one makes in the destination is for that user alone."""
    of_uid: dict[int, list[str]] = {}
    for machine in machines:
        for uid in sorted(machine.uids):
            of_uid.setdefault(uid, []).append(machine.name)
    if len(of_uid) > 1:
        users = "; ".join(
            f"uid {uid} on {', '.join(names[:5])}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"
            for uid, names in of_uid.items()
        )
        raise FleetError(f"workers run as several users: {users}. Start all of them as one user")
    return next(iter(of_uid))


async def _one_source(
    client: Client, source: str, machines: list[Machine], found: list[dict[str, Any]]
) -> dict[str, Any]:
    """How the source looks, which is the same directory on all machines. Where somebody changes it, they do not see the
    same at once: it is looked at again, and what never looks the same though it stands still is another one."""
    first, *others = machines
    looks = {machine.name: [look] for machine, look in zip(machines, found, strict=True)}

    def apart() -> list[Machine]:
        return [m for m in others if not any(storage.is_same(a, b) for a in looks[first.name] for b in looks[m.name])]

    def refuse(machine: Machine) -> None:
        raise Another(
            f"{source} is not the same directory on {first.name} and on {machine.name}: mount the same file system on "
            "both, or name a path that is on it"
        )

    for _ in range(LOOKS_MAX):
        for machine in apart():
            if storage.is_another(looks[first.name][-1], looks[machine.name][-1]):
                refuse(machine)
        if not apart():
            break
        await asyncio.sleep(0.2)
        for machine, look in await _looks(client, source, [first, *apart()]):
            looks[machine.name].append(look)
    for machine in apart():
        one, other = looks[first.name], looks[machine.name]
        moves = any(not storage.is_same(look, seen[0]) for seen in (one, other) for look in seen)
        if not moves or not storage.may_be_same(one[-1], other[-1]):
            refuse(machine)
    return looks[first.name][-1]


async def _looks(client: Client, source: str, machines: list[Machine]) -> list[tuple[Machine, dict[str, Any]]]:
    answers = await asyncio.gather(*(_ask(client, m.workers[0], m.name, storage.look, source) for m in machines))
    return list(zip(machines, answers, strict=True))


def _all(seen: dict[str, dict[str, Any]], key: str, what: str) -> None:
    found = {answer.get(key) for answer in seen.values()}
    if len(found) == 1 and (why := found.pop()):
        raise FleetError(f"cannot {what} on any machine: {why}")
    wrong = [f"{who} cannot {what} ({answer[key]})" for who, answer in seen.items() if key in answer]
    if wrong:
        more = f"\n  and {len(wrong) - 10} more" if len(wrong) > 10 else ""
        raise FleetError(
            "not every machine sees the paths:\n  "
            + "\n  ".join(wrong[:10])
            + more
            + "\nMount them there under the same names, or leave these machines out"
        )


async def _listed(client: Client, machine: Machine, folder: str) -> list[str]:
    """The names of copyings in a directory as a machine sees it, which takes as long as it takes: a thread of a worker's is
    at it, which meanwhile answers who asks whether it is there. That worker may be busy with what does not go on, so others
    of the machine are asked too."""
    asked: dict[asyncio.Task[list[str]], Any] = {}

    def ask(workers: list[str]) -> None:
        future = client.submit(worker.beginning, folder, RUN_START, workers=workers, pure=False)
        asked[asyncio.ensure_future(future.result())] = future

    ask(machine.workers)
    others = iter(machine.workers if len(machine.workers) > 1 else [])
    looking: asyncio.Task[list[str]] | None = None
    try:
        while looking is None:
            done = (await asyncio.wait(asked, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED))[0]
            if done:
                looking = done.pop()
                continue
            if client.status != "running":
                raise Lost("the scheduler is gone")
            known = await workers_of(client)
            if not set(machine.workers) & set(known):
                raise Lost(f"{machine.name} has no worker any more")
            if not set(machine.workers) & set(awake(known)):
                raise FleetError(f"{machine.name}: asleep, while it looked into {folder}")
            for other in itertools.islice(others, 1):
                ask([other])
        return looking.result()
    except FleetError:
        raise
    except (Exception, asyncio.CancelledError) as error:
        if isinstance(error, asyncio.CancelledError) and not (looking and looking.cancelled()):
            raise
        raise FleetError(f"{machine.name} cannot look into {folder}: {first_line(error)}") from error
    finally:
        for task, future in asked.items():
            task.cancel()
            future.release()


async def _ask(client: Client, address: str, name: str, function: Callable[..., Any], *words: Any) -> Any:
    try:
        answers = await within(LOOK_S, client.run(function, *words, workers=[address], on_error="return"))
    except (TimeoutError, asyncio.TimeoutError) as error:
        raise FleetError(
            f"{name} ({address}) does not answer within {LOOK_S} s: is a file system there waiting for its server?"
        ) from error
    except OSError as error:
        # What goes wrong at a worker is an answer.
        raise Lost("the scheduler is gone") from error
    answer = answers.get(address)
    if isinstance(answer, OSError) and answer.errno is None:
        # What the system says of a file has a number; this is Dask's, of a connection.
        raise Lost(f"the worker on {name} ({address}) is gone")
    if isinstance(answer, BaseException):
        raise FleetError(f"{name} ({address}): {answer}")
    return answer
