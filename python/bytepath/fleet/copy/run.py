"""The copying: pieces in flight, their answers into the journal, and what happens where a worker or the scheduler
is lost. However large the tree is, only a window of pieces is in memory here and at the scheduler."""

import asyncio
import contextlib
import json
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

PIECES_PER_S_MAX = 500
WINDOW_PER_THREAD = 2
ITEMS_MAX = 64
"""Directories of a piece, at most."""

LATE_S = 20.0
"""A piece that takes so much longer than its budget is given to another worker as well."""

ATTEMPTS_MAX = 5
LINKS_TOGETHER = 500
PATIENCE_S = 60.0
"""How long a scheduler that is gone is waited for."""

STAGE = {"files": 0, "links": 1}
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
    twins: int = 0
    group: int = 0


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
        self.over: set[int] = set()
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
        await self._alone(client, {"do": "prepare"})
        await self.ground.agree(client, self.machines)
        try:
            await self._phases(client)
        except BaseException:
            await self._abandon()
            raise

    async def _phases(self, client: Client) -> None:
        journal = self.journal
        phases = ["files", "links", "attributes", "closed", "ending"]
        for phase in phases[phases.index(journal.get("phase", "files") or "files") :]:
            journal.set("phase", phase)
            journal.commit()
            if phase == "files":
                await self._work(client, 0)
                await self._alone(client, {"do": "fence", "stage": 0})
            elif phase == "links":
                while journal.put_links(LINKS_TOGETHER, 64) or journal.free():
                    await self._work(client, 1)
                await self._alone(client, {"do": "fence", "stage": 1})
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

    def _fly(self, client: Client, flight: Flight, stage: int, but: set[str] | None = None) -> None:
        request = {"items": [item for _, item in flight.taken], "budget_ms": flight.budget_ms, "stage": stage}
        if self._rate():
            request["bytes_per_second"] = self._rate()
        others = [name for machine in self.machines for name in machine.workers if name not in (but or set())]
        flight.began = time.monotonic()
        task = asyncio.create_task(self._one(client, request, others if but and others else None))
        self.flights[task] = flight

    async def _one(self, client: Client, request: dict[str, Any], workers: list[str] | None) -> bytes:
        setup = self.ground.setup(self.options.words, self.options.per_machine)
        body = json.dumps(request, separators=(",", ":")).encode()
        # One group of tasks: the scheduler keeps account of every group until the fleet is idle.
        self.pieces += 1
        key = (f"bytepath-{self.session}", self.pieces)
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
        flight = self.flights.pop(task)
        if flight.group in self.over:
            # Another did it, and was faster. Its outcome is the same.
            task.cancelled() or task.exception()
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
        self.over.add(flight.group)
        if flight.twins == 0:
            self.over.discard(flight.group)
        if self.journal.settle(flight.taken, answer):
            self.outcome.told += answer["told"][: max(0, 100 - len(self.outcome.told))]
        self.stop = self.stop or answer.get("stop")

    def _again(self, client: Client, flight: Flight, stage: int, why: str) -> None:
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
        late = [flight for flight in self.flights.values()
                if flight.twins == 0 and now - flight.began > self.options.late_s + flight.budget_ms / 1000]
        if not late:
            return
        info = (await client.scheduler.identity(n_workers=-1))["workers"]
        if not info:
            await self._workers_back(client)
            return
        where = await asyncio.wait_for(client.processing(), 10)
        busy = {name for name, keys in where.items() if keys}
        for flight in late:
            flight.twins = 1
            twin = Flight(flight.taken, 0.0, flight.budget_ms, flight.attempts, 1, flight.group)
            # Whoever has not told of anything for long is the least likely to.
            silent = {name for name in busy if name in info and time.time() - info[name]["last_seen"] > 5}
            self._fly(client, twin, stage, silent or None)

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
            task = asyncio.create_task(self._one(client, request, workers))
            while not task.done():
                await asyncio.wait([task], timeout=1.0)
                if client.status != "running":
                    task.cancel()
                    raise Lost(f"the scheduler at {self.options.scheduler} is gone")
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
