"""The copying: pieces in flight, their answers into the journal, and what happens where a worker or the scheduler
is lost. However large the tree is, only a window of pieces is in memory here and at the scheduler."""

import asyncio
import contextlib
import json
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from distributed import Client

from .. import worker
from ..cluster import connected, first_line
from ..errors import FleetError, Lost
from ..machines import Machine, clocks, probe
from .ground import Ground, check
from .journal import Journal
from .progress import Progress, size

BUDGET_MS = 500
"""What a piece may take. Longer for large fleets: the scheduler hands out so many pieces a second at most."""

BUDGET_MS_SHORT = 40
"""What it may take while there is not enough work for all, and near the end."""

PIECES_PER_S_MAX = 100
WINDOW_PER_THREAD = 2
ITEMS_MAX = 64
"""Directories of a piece, at most."""

LATE_S = 20.0
"""A piece that takes so much longer than its budget is given to another worker as well."""

SILENT_S = 5.0
"""A worker that has told nothing for so long may be asleep."""

ATTEMPTS_MAX = 5
LINKS_TOGETHER = 500
PATIENCE_S = 60.0
"""How long a scheduler that is gone is waited for."""

PHASES = ["files", "links", "attributes", "closed", "ending"]
STAGE = {"files": 0, "links": 1}
"""What replaces others waits in a stage of its own in each of these phases."""

_EMPTY = {"files": 0, "bytes": 0, "directories": 0, "w": 0.0, "rest": [], "large": [], "links": [], "failed": [],
          "told": [], "closed": []}


Piece = Callable[[dict[str, Any], bytes], bytes]
"""What does a piece on a worker."""


@dataclass
class Options:
    """What is asked for."""

    source: str
    destination: str
    scheduler: str
    words: list[str]
    per_machine: int | None = None
    rate: int | None = None
    rate_per_machine: int | None = None
    progress: bool = False
    sync: bool = False
    late_s: float = LATE_S
    patience_s: float = PATIENCE_S


@dataclass
class Flight:
    """A piece on its way: what it is, since when, how often it was tried."""

    taken: list[tuple[int, dict[str, Any]]]
    began: float = 0.0
    budget_ms: int = 0
    attempts: int = 1
    group: int = 0
    key: tuple[str, int] = ("", 0)


@dataclass
class Outcome:
    """How it went."""

    files: int = 0
    bytes: int = 0
    directories: int = 0
    failed: int = 0
    why: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    seconds: float = 0.0
    resumed: bool = False
    machines: int = 0


class Full(FleetError):
    """Nothing more can be done before somebody makes room."""


class Run:
    """One copying, from when a journal is open."""

    def __init__(self, options: Options, journal: Journal, piece: Piece = worker.piece) -> None:
        self.options, self.journal, self.piece = options, journal, piece
        self.outcome = Outcome(resumed=not journal.is_new)
        self.progress = Progress(options.progress)
        id = journal.get("id")
        if id is None:
            id = uuid.uuid4().hex[:12]
            journal.set("id", id)
            journal.put([{"do": "tree", "d": "", "w": 1.0}])
            journal.commit()
        self.id = id
        self.ground = Ground(options.source, options.destination, id)
        self.machines: list[Machine] = []
        self.flights: dict[asyncio.Task[bytes], Flight] = {}
        self.groups = self.pieces = 0
        self.session = uuid.uuid4().hex
        self.stop: str | None = None

    async def copy(self) -> Outcome:
        """Copies, however often the scheduler is lost meanwhile, if it comes back."""
        began = lost_at = time.monotonic()
        try:
            while True:
                try:
                    async with connected(self.options.scheduler) as client:
                        await self._by(client)
                    break
                except Lost as error:
                    # What was done since is a reason to be patient again.
                    lost_at = max(lost_at, getattr(self, "settled_at", lost_at))
                    if time.monotonic() - lost_at > self.options.patience_s or not self.machines:
                        raise FleetError(f"{error}\n{self._later()}") from error
                    self._tell(f"{first_line(error)}; waiting for it to come back")
                    await asyncio.sleep(1.0)
        except asyncio.CancelledError:
            self.progress.end()
            print(f"bytepath fleet: {self._later()}", file=sys.stderr)
            raise
        finally:
            self.progress.end()
        self.outcome.seconds = time.monotonic() - began
        self.outcome.failed, self.outcome.why = self.journal.failures(10)
        for key in ("files", "bytes", "directories"):
            setattr(self.outcome, key, int(self.journal.get(key, "0") or 0))
        return self.outcome

    async def _by(self, client: Client) -> None:
        self.machines = await probe(client)
        self.outcome.machines = len(self.machines)
        for line in clocks(self.machines):
            self._tell(line)
        await check(client, self.ground, self.machines, self.options.words)
        if self.outcome.resumed:
            again = self.journal.try_failed_again()
            if again or self.journal.get("phase") == "done":
                self.journal.set("phase", "files")
            self.journal.commit()
        # A stage that was ended is never made again: somebody who is late would find it.
        left = [number for name, number in STAGE.items() if PHASES.index(self._phase()) <= PHASES.index(name)]
        await self._alone(client, {"do": "prepare", "stages": left})
        await self.ground.agree(client, self.machines)
        try:
            await self._phases(client)
        except BaseException:
            await self._abandon()
            raise

    def _phase(self) -> str:
        phase = self.journal.get("phase")
        return phase if phase in PHASES else PHASES[0]

    async def _phases(self, client: Client) -> None:
        journal = self.journal
        for phase in PHASES[PHASES.index(self._phase()) :]:
            journal.set("phase", phase)
            journal.commit()
            if phase == "files":
                await self._work(client, STAGE[phase])
                await self._alone(client, {"do": "fence", "stage": STAGE[phase]})
            elif phase == "links":
                while journal.put_links(LINKS_TOGETHER, 64) or journal.free():
                    await self._work(client, STAGE[phase])
                await self._alone(client, {"do": "fence", "stage": STAGE[phase]})
            elif phase == "attributes":
                while journal.put_attributes(256) or journal.free():
                    await self._work(client, 1)
            elif phase == "closed":
                while journal.put_closed(256) or journal.free():
                    await self._work(client, 1)
            elif self.options.sync:
                for machine in self.machines:
                    await self._alone(client, {"do": "sync"}, machine.workers)
        if not journal.failures(0)[0]:
            await self._alone(client, {"do": "clean"})
        # Making and removing what is in it has changed its time.
        await self._alone(client, {"do": "closed", "dirs": [""]})
        await self._release(client)
        journal.set("phase", "done")
        journal.commit()

    # -- pieces --

    async def _work(self, client: Client, stage: int) -> None:
        """Has all work done that is in the journal, and all that comes of it."""
        while True:
            self._fill(client, stage)
            if not self.flights:
                return
            done, _ = await asyncio.wait(self.flights, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._landed(client, task, stage)
            if done:
                self.journal.commit()
                self.settled_at = time.monotonic()
            if self.stop:
                raise Full(f"{self.stop}\n{self._later()}")
            await self._look_after(client, stage)
            shares = [float(self.journal.get(key, "0") or 0) for key in ("files", "bytes", "w")]
            self.progress.look(int(shares[0]), int(shares[1]), shares[2], self._workers())

    def _workers(self) -> int:
        return sum(len(machine.workers) for machine in self.machines)

    def _threads(self) -> int:
        return max(1, sum(machine.threads for machine in self.machines))

    def _fill(self, client: Client, stage: int) -> None:
        threads = self._threads()
        window = WINDOW_PER_THREAD * threads - len({flight.group for flight in self.flights.values()})
        if window <= 0:
            return
        free = self.journal.free()
        enough = free >= 2 * threads
        budget = max(BUDGET_MS, 1000 * threads // PIECES_PER_S_MAX) if enough else BUDGET_MS_SHORT
        together = max(1, min(ITEMS_MAX, free // (4 * threads)))
        for _ in range(window):
            taken = self.journal.take(together)
            if not taken:
                return
            self.groups += 1
            self._fly(client, Flight(taken, budget_ms=budget, group=self.groups), stage)

    def _fly(self, client: Client, flight: Flight, stage: int, workers: list[str] | None = None) -> None:
        request = {"items": [item for _, item in flight.taken], "budget_ms": flight.budget_ms, "stage": stage}
        if self._rate():
            request["bytes_per_second"] = self._rate()
        flight.began, flight.key = time.monotonic(), self._key()
        self.flights[asyncio.create_task(self._one(client, flight.key, request, workers))] = flight

    def _key(self) -> tuple[str, int]:
        # One group of tasks: the scheduler keeps account of every group until the fleet is idle.
        self.pieces += 1
        return (f"bytepath-{self.session}", self.pieces)

    async def _one(
        self, client: Client, key: tuple[str, int], request: dict[str, Any], workers: list[str] | None
    ) -> bytes:
        setup = self.ground.setup(self.options.words, self.options.per_machine)
        body = json.dumps(request, separators=(",", ":")).encode()
        future = client.submit(self.piece, setup, body, key=key, pure=False, workers=workers)
        try:
            return await future
        finally:
            future.release()

    def _rate(self) -> int | None:
        """What one piece may move a second. Shares are fixed: what one does not use, no other gets."""
        rates = []
        if self.options.rate:
            rates.append(self.options.rate / self._concurrent())
        if self.options.rate_per_machine:
            most = max((self._at_once(machine) for machine in self.machines), default=1)
            rates.append(self.options.rate_per_machine / most)
        return max(1, int(min(rates))) if rates else None

    def _at_once(self, machine: Machine) -> int:
        return min(machine.threads, self.options.per_machine or machine.threads)

    def _concurrent(self) -> int:
        return max(1, sum(self._at_once(machine) for machine in self.machines))

    def _landed(self, client: Client, task: asyncio.Task[bytes], stage: int) -> None:
        flight = self.flights.pop(task, None)
        if flight is None:
            return
        try:
            answer = json.loads(task.result())
        except asyncio.CancelledError as error:
            raise Lost("the scheduler forgot what it had been given") from error
        except Exception as error:
            return self._again(client, flight, stage, first_line(error))
        if "died" in answer:
            return self._again(client, flight, stage, answer["died"])
        answer = {**_EMPTY, **answer}
        if answer.get("fenced"):
            return self._again(client, flight, stage, f"{self.ground.run} is gone: did somebody remove it?")
        for other in [task for task, twin in self.flights.items() if twin.group == flight.group]:
            # Another is at it still, or asleep: what it does changes nothing any more.
            del self.flights[other]
            other.cancel()
        if self.journal.settle(flight.taken, answer):
            self.outcome.told += answer["told"][: max(0, 100 - len(self.outcome.told))]
        self.stop = self.stop or answer.get("stop")

    def _again(self, client: Client, flight: Flight, stage: int, why: str) -> None:
        if not self.journal.is_open([id for id, _ in flight.taken]):
            return
        if any(other.group == flight.group for other in self.flights.values()):
            # Its twin is still at it.
            return
        if flight.attempts >= ATTEMPTS_MAX:
            self.stop = f"a piece failed {flight.attempts} times, the last time so: {why}"
            return
        flight.attempts += 1
        self._fly(client, flight, stage)

    async def _look_after(self, client: Client, stage: int) -> None:
        """Sees that the scheduler is there, and gives pieces that are late to others as well."""
        if client.status != "running":
            raise Lost(f"the scheduler at {self.options.scheduler} is gone")
        now = time.monotonic()
        newest: dict[int, Flight] = {}
        for flight in self.flights.values():
            if flight.group not in newest or flight.began > newest[flight.group].began:
                newest[flight.group] = flight
        late = [flight for flight in newest.values() if now - flight.began > self._late_s(flight.budget_ms)]
        if not late:
            return
        busy = await self._busy(client)
        if not busy:
            await self._workers_back(client)
            return
        for flight in late:
            keys = {other.key for other in self.flights.values() if other.group == flight.group}
            others = [name for name, there in busy.items() if not keys & there]
            flight.began = now
            if others:
                twin = Flight(flight.taken, 0.0, flight.budget_ms, flight.attempts, flight.group)
                self._fly(client, twin, stage, others)

    def _late_s(self, budget_ms: int) -> float:
        return self.options.late_s + budget_ms / 1000

    async def _busy(self, client: Client) -> dict[str, set[Any]]:
        """What each worker has to do. Those that have told nothing for long are left out, if others are there."""
        try:
            where = await asyncio.wait_for(client.processing(), 10)
            info = (await asyncio.wait_for(client.scheduler.identity(n_workers=-1), 10))["workers"]
        except (TimeoutError, asyncio.TimeoutError, OSError) as error:
            raise Lost(f"the scheduler at {self.options.scheduler} does not answer") from error
        all = {name: set(where.get(name, ())) for name in info}
        awake = {name: keys for name, keys in all.items() if time.time() - info[name]["last_seen"] < SILENT_S}
        return awake or all

    async def _workers_back(self, client: Client) -> None:
        try:
            await client.wait_for_workers(1, timeout=self.options.patience_s)
        except (TimeoutError, asyncio.TimeoutError) as error:
            raise FleetError(f"all workers are gone\n{self._later()}") from error
        self.machines = await probe(client)

    async def _alone(self, client: Client, item: dict[str, Any], workers: list[str] | None = None) -> None:
        """Has one thing done, by anybody or by one of these, before anything else goes on."""
        request = {"items": [item], "budget_ms": BUDGET_MS}
        why = ""
        for _ in range(ATTEMPTS_MAX):
            task = await self._awaited(client, request, workers)
            try:
                answer = {**_EMPTY, **json.loads(task.result())}
            except asyncio.CancelledError as error:
                raise Lost("the scheduler forgot what it had been given") from error
            except Exception as error:
                why = first_line(error)
                continue
            if "died" in answer:
                why = answer["died"]
                continue
            if answer.get("stop"):
                raise Full(f"{answer['stop']}\n{self._later()}")
            if answer["failed"]:
                raise FleetError(f"{'; '.join(answer['failed'][0]['why'])}\n{self._later()}")
            return
        raise FleetError(f"{item['do']} failed: {why}\n{self._later()}")

    async def _awaited(self, client: Client, request: dict[str, Any], workers: list[str] | None) -> asyncio.Task[bytes]:
        """The first to be done of as many as it takes: a worker that does not get on is not waited for alone."""
        tasks: dict[asyncio.Task[bytes], tuple[str, int]] = {}
        among = workers
        try:
            while True:
                key = self._key()
                tasks[asyncio.create_task(self._one(client, key, request, among))] = key
                began = time.monotonic()
                while time.monotonic() - began < self._late_s(BUDGET_MS):
                    done, _ = await asyncio.wait(tasks, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                    if done:
                        return done.pop()
                    if client.status != "running":
                        raise Lost(f"the scheduler at {self.options.scheduler} is gone")
                keys = set(tasks.values())
                others = [name for name, there in (await self._busy(client)).items() if not keys & there]
                among = [name for name in others if workers is None or name in workers] or workers
        finally:
            for task in tasks:
                if not task.done():
                    task.cancel()

    async def _release(self, client: Client) -> None:
        """Ends the engines. A worker that does not hear of it ends them with its next copying, or its own end."""
        with contextlib.suppress(Exception):
            await asyncio.wait_for(client.run(worker.release, on_error="return"), 5)

    async def _abandon(self) -> None:
        """Lets go of what is in flight. Whatever of it is still done does no harm."""
        for task in self.flights:
            task.cancel()
        with contextlib.suppress(Exception):
            await asyncio.wait_for(asyncio.gather(*self.flights, return_exceptions=True), 5)
        self.flights.clear()
        # What an error left half said in the journal is not kept: it is done again.
        self.journal.rollback()
        self.journal.db.execute("UPDATE items SET taken = 0 WHERE taken != 0")
        self.journal.commit()

    def _later(self) -> str:
        files, moved = (int(self.journal.get(key, "0") or 0) for key in ("files", "bytes"))
        return (
            f"{files} files ({size(moved)}) are copied, and the journal knows which; the same command goes on from there"
        )

    def _tell(self, line: str) -> None:
        self.progress.end()
        if line not in self.outcome.told:
            self.outcome.told.append(line)
