"""Pieces of a copying in flight: handed to the scheduler, their answers taken into the journal, and given to somebody
else as well where they are late. However large the tree is, only a window of pieces is in memory here and at the
scheduler."""

import asyncio
import contextlib
import json
import os
import random
import time
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from distributed import Client, KilledWorker

from .. import files, metrics, worker
from ..cluster import first_line
from ..errors import FleetError, Lost
from ..machines import awake, workers_of
from ..text import as_text
from ..within import within
from .ground import Another, Ground
from .journal import Journal, shown
from .members import Members
from .options import Options
from .progress import Progress

BUDGET_MS = 500
"""What a piece may take. Longer for large fleets: the scheduler hands out so many pieces a second at most."""

BUDGET_MS_SHORT = 30
"""What it may take while there is not enough work for all."""

BUDGET_MS_EARLY = 120
"""What it may take at least while there is enough."""

PATIENT = 2
"""A piece takes at most this part of the time that the work took before it, or will yet take; twice as much of the first
where there is plenty to do."""

SHARES = 2
"""A piece is this part of a thread's share of what is left, at most."""

PLENTY = 8
"""With so many things for each thread to do, nobody will be without work soon."""

WORTH_S = 0.2
"""What a piece is to take at least, where there is enough work: to be handed out costs it some milliseconds."""

WANT_EVERY_S = 0.05
"""Those who are at work are asked for what they have not begun so often, while somebody has nothing to do."""

WANT_OF_MAX = 16
"""So many workers are asked, at most: one that is at work is enough."""

WANT_PATIENCE_S = 2
"""So long the answers of those who were asked are waited for, before others are."""

PIECES_PER_S_MAX = 100
WINDOW_PER_THREAD = 2
ITEMS_MAX = 64
"""Directories of a piece, at most."""

ATTEMPTS_MAX = 5
"""What is in a piece that failed so often is tried one by one, while nothing else is in flight."""

FAILED_MAX = 10
"""So many things that fail one after the other are no matter of theirs: nothing goes on."""

SPLIT_MAX = 30
"""So many trees are tried in parts, with nothing done between them: more than the halvings of a part of a directory."""

_EMPTY = {"files": 0, "bytes": 0, "directories": 0, "w": 0.0, "rest": [], "large": [], "links": [], "failed": [],
          "told": [], "closed": [], "begun": [], "moved": [], "apart": [], "again": []}  # fmt: skip

Piece = Callable[[dict[str, Any], bytes], tuple[Any, ...]]
"""What has a worker do a piece: a function, and what it is called with there."""


def piece(setup: dict[str, Any], request: bytes) -> tuple[Any, ...]:
    """Has a worker do a piece. One that came since, and is not fit for it, says so before anything else."""
    return as_text(_piece, setup, request)


def _piece(setup: dict[str, Any], request: bytes) -> bytes:
    import json
    import sys

    try:
        from bytepath.fleet import worker
    except Exception as error:
        from distributed import get_worker

        install = f"{sys.executable} -m pip install 'target/dist/out/NAME.whl[fleet]'"
        why = f"it has no Python package bytepath ({error}): run `{install}` there"
        return json.dumps({"refused": why, "worker": get_worker().address}).encode()
    return worker.piece(setup, request)


@dataclass
class Flight:
    """A piece on its way: what it is, since when, how often it was tried."""

    taken: list[tuple[int, dict[str, Any]]]
    began: float = 0.0
    budget_ms: int = 0
    attempts: int = 1
    group: int = 0
    key: tuple[str, int] = ("", 0)
    alone: bool = False
    """Whether nothing else is in flight."""
    is_whole: bool = False
    """Whether it is not to be given back in parts: finding the one that ends workers would cost all of them."""
    why: str = ""
    """What a tree that is to be given back in parts did to whoever copied it."""


def _has_no_parts(tree: dict[str, Any], rest: list[dict[str, Any]]) -> bool:
    """Whether a tree was given back as it is: one name, which is no directory."""
    return "n" in tree and [(part["d"], part.get("n")) for part in rest] == [(tree["d"], tree["n"])]


class Yardstick:
    """How long things take, as far as that has been seen: so that pieces are neither too small nor too few. A copying that
    goes on has some share of all behind it when its measuring begins."""

    def __init__(self, share: float = 0.0) -> None:
        self.began, self.done, self.share = time.monotonic(), 0, share

    def count(self, flight: Flight, answer: dict[str, Any]) -> None:
        self.done += max(int(answer["directories"]), len(flight.taken) - len(answer["rest"]))

    def together(self, free: int, threads: int) -> int:
        """How many things make a piece, where so many are left: ever fewer, so that all end at the same time."""
        each = -(-free // threads)
        worth = int(WORTH_S * self.done / max(1e-6, self._seconds() * threads)) if self.done else each
        return max(1, min(ITEMS_MAX, max(free // (SHARES * threads), min(worth, each))))

    def weight(self, threads: int, share: float) -> float:
        """What part of all work makes a piece, where such a share is done: ever less, but not less than is worth it."""
        done = max(0.0, share - self.share)
        return max((1 - share) / (SHARES * threads), WORTH_S * done / max(1e-6, self._seconds() * threads))

    def budget_ms(self, free: int, threads: int, share: float) -> int:
        """How long a piece may take, where such a share of all is done. As all there is left may be in one piece, it is a
        part of what the work took so far, and of what it will yet take: nobody is without work for longer."""
        if free < 2 * threads:
            return BUDGET_MS_SHORT
        past, done = self._seconds(), share - self.share
        left = past * (1 - share) / done if done > 0 and share < 1 else past
        near_s = min(2 * past if free >= PLENTY * threads else past, left) / PATIENT
        return max(BUDGET_MS_EARLY, min(max(BUDGET_MS, 1000 * threads // PIECES_PER_S_MAX), int(1000 * near_s)))

    def _seconds(self) -> float:
        return time.monotonic() - self.began


class Full(FleetError):
    """Nothing more can be done before somebody makes room."""


class Pieces:
    """The work in a journal, and those who do it."""

    def __init__(self, options: Options, journal: Journal, ground: Ground, members: Members, piece: Piece) -> None:
        self.options, self.journal, self.ground, self.piece = options, journal, ground, piece
        self.members = members
        self.progress = Progress(options.progress)
        self.yardstick = Yardstick()
        self.told: list[str] = []
        self.late: set[str] = set()
        self.flights: dict[asyncio.Task[dict[str, Any]], Flight] = {}
        self.groups = self.count = 0
        self.session = uuid.uuid4().hex
        self.settled_at = self.wanted_at = self.measured_at = 0.0
        self.wanting: asyncio.Task[None] | None = None
        self.judging: dict[str, asyncio.Task[None]] = {}
        """By the workers that are in doubt."""
        self.stop: str | None = None
        self.suspects: list[tuple[int, dict[str, Any]]] = []
        """What is yet to be tried by itself: who dies of one piece takes others along, and none of them can be told from it."""
        self.failed_in_a_row = self.split_in_a_row = 0
        self.bytes_told = 0

    # -- all that is in the journal --

    async def work(self, client: Client, stage: int) -> None:
        """Has all work done that is in the journal, and all that comes of it."""
        self.yardstick = Yardstick(self._share())
        while True:
            self._fill(client, stage)
            if not self.flights:
                return self._tell_how_far()
            self._want(client)
            done, _ = await asyncio.wait(self.flights, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                self._landed(client, task, stage)
            if done:
                self.journal.set_seen(self.members.seen())
                self.journal.commit()
                self.settled_at = time.monotonic()
            if self.stop:
                raise Full(f"{self.stop}\n{self.journal.so_far()}")
            await self._look_after(client, stage)
            self._tell_how_far()

    def _tell_how_far(self) -> None:
        count, bytes = self.journal.number("files"), self.journal.number("bytes")
        share, workers = self.journal.share(), self.members.workers()
        self.progress.look(count, bytes, share, workers)
        job, now = metrics.job(), time.monotonic()
        if job is not None and (not self.flights or now - self.measured_at >= metrics.EVERY_S):
            self.measured_at = now
            # What is begun anew does not count any more, but what Prometheus counts only grows.
            self.bytes_told = max(self.bytes_told, bytes)
            job.figures = metrics.Figures(count, self.bytes_told, share, self.journal.failures(0)[0], workers)

    def _fill(self, client: Client, stage: int) -> None:
        if any(flight.alone for flight in self.flights.values()):
            return
        if self.suspects:
            if not self.flights:
                self.groups += 1
                one = Flight([self.suspects.pop(0)], budget_ms=BUDGET_MS, group=self.groups, alone=True)
                self._fly(client, one, stage)
            return
        threads = self.members.threads()
        window = WINDOW_PER_THREAD * threads - len({flight.group for flight in self.flights.values()})
        if window <= 0:
            return
        free = self.journal.free()
        share = self._share()
        budget = self.yardstick.budget_ms(free, threads, share)
        together, weight = self.yardstick.together(free, threads), self.yardstick.weight(threads, share)
        for _ in range(window):
            taken = self.journal.take(together, weight)
            if not taken:
                return
            self.groups += 1
            self._fly(client, Flight(taken, budget_ms=budget, group=self.groups), stage)

    def _share(self) -> float:
        """What part of all work is done, as far as that is known."""
        return float(self.journal.number("w"))

    def _fly(self, client: Client, flight: Flight, stage: int, workers: list[str] | None = None) -> None:
        request = {"items": [item for _, item in flight.taken], "budget_ms": flight.budget_ms, "stage": stage}
        if flight.why:
            request["split"] = True
        rate = self._rate()
        if rate:
            request["bytes_per_second"] = rate
        flight.began, flight.key = time.monotonic(), self._key()
        self.flights[asyncio.create_task(self._one(client, flight.key, request, workers))] = flight

    def _want(self, client: Client) -> None:
        """Has those who are at work give back what they have not begun, where somebody has nothing to do."""
        now = time.monotonic()
        at_work = {flight.group for flight in self.flights.values()}
        asked = now - self.wanted_at < WANT_EVERY_S or (self.wanting is not None and not self.wanting.done())
        if self.journal.free() or len(at_work) >= self.members.threads() or asked:
            return
        self.wanted_at = now
        self.wanting = asyncio.create_task(self._ask_back(client))

    async def _ask_back(self, client: Client) -> None:
        all = self.members.not_refused()
        some = random.sample(all, min(len(all), WANT_OF_MAX))
        # Who does not hear of it gives back the rest when its time is over.
        with contextlib.suppress(Exception):
            await within(WANT_PATIENCE_S, client.run(worker.want, self.ground.id, workers=some, on_error="ignore"))

    def _want_no_more(self) -> None:
        for task in (self.wanting, *self.judging.values()):
            if task is not None:
                task.cancel()
        # One that is ended before it began clears nothing up.
        self.judging.clear()
        self.members.doubted.clear()

    def _key(self) -> tuple[str, int]:
        # One group of tasks: the scheduler keeps account of every group until the fleet is idle.
        self.count += 1
        return (f"bytepath-{self.session}", self.count)

    async def _one(
        self, client: Client, key: tuple[str, int], request: dict[str, Any], workers: list[str] | None
    ) -> dict[str, Any]:
        late_s = self._late_s(request["budget_ms"])
        setup = self.ground.setup(self.options.words, self.options.per_machine, late_s)
        body = json.dumps(request, separators=(",", ":")).encode()
        among = workers or self.members.fit()
        future = client.submit(*self.piece(setup, body), key=key, pure=False, workers=among)
        try:
            answer: dict[str, Any] = json.loads(await future)
        finally:
            future.release()
        if "refused" not in answer and "doubted" not in answer:
            self.members.worked.add(answer["worker"])
        return answer

    def _rate(self) -> int | None:
        """What one piece may move a second. Shares are fixed: what one does not use, no other gets."""
        at_once = [machine.at_once(self.options.per_machine) for machine in self.members.machines]
        rates = []
        if self.options.rate:
            rates.append(self.options.rate / max(1, sum(at_once)))
        if self.options.rate_per_machine:
            rates.append(self.options.rate_per_machine / max(at_once, default=1))
        return max(1, int(min(rates))) if rates else None

    # -- answers --

    def _landed(self, client: Client, task: asyncio.Task[dict[str, Any]], stage: int) -> None:
        flight = self.flights.pop(task, None)
        if flight is None:
            return
        try:
            answer = task.result()
        except asyncio.CancelledError as error:
            raise Lost("the scheduler forgot what it had been given") from error
        except KilledWorker as error:
            # Dask has tried it as often as is worth it.
            flight.attempts, flight.is_whole = ATTEMPTS_MAX, True
            why = f"{error.allowed_failures + 1} workers died of it, the last one {error.last_worker.address}"
            return self._again(client, flight, stage, why)
        except Exception as error:
            return self._again(client, flight, stage, first_line(error))
        if "died" in answer:
            return self._again(client, flight, stage, answer["died"])
        if "refused" in answer:
            self._refused(answer)
            flight.attempts -= 1
            return self._again(client, flight, stage, answer["refused"])
        if "doubted" in answer:
            self._doubted(client, answer)
            flight.attempts -= 1
            return self._again(client, flight, stage, answer["doubted"])
        answer = {**_EMPTY, **answer}
        if answer.get("fenced"):
            if self._is_given_up(client, flight, stage):
                self.stop = f"{self.ground.run} is gone: did somebody remove it?"
            return
        for other in [task for task, twin in self.flights.items() if twin.group == flight.group]:
            # Another is at it still, or asleep: what it does changes nothing any more.
            del self.flights[other]
            other.cancel()
        if not flight.why:
            self.failed_in_a_row = self.split_in_a_row = 0
        elif not answer.get("stop") and _has_no_parts(flight.taken[0][1], answer["rest"]):
            return self._failed(flight.taken, flight.why)
        if len(self.members.machines) > 1:
            for failed in answer["failed"]:
                failed["why"] = [self._at_whom(answer) + "; ".join(failed["why"])]
        if self.journal.settle(flight.taken, answer):
            self.yardstick.count(flight, answer)
            self.told += answer["told"][: max(0, 100 - len(self.told))]
        if answer.get("stop") and not self.stop:
            self.stop = f"{self._at_whom(answer)}{answer['stop']}"

    def _at_whom(self, answer: dict[str, Any]) -> str:
        """Who it failed at, before what failed."""
        return f"{self.members.name_of(answer['worker'])}: "

    def _refused(self, answer: dict[str, Any]) -> None:
        """A worker that came later cannot do the work: it gets no more of it."""
        line = f"{answer['worker']} takes no part: {answer['refused']}"
        self.members.refuse(answer["worker"], line)
        if not self.members.fit():
            raise FleetError(f"{line}, and there is no other worker\n{self.journal.so_far()}")

    def _doubted(self, client: Client, answer: dict[str, Any]) -> None:
        """Finds out whether a worker's source is that of the others, while they go on."""
        name = answer["worker"]
        if name not in self.judging:
            self.members.doubted.add(name)
            self.judging[name] = asyncio.create_task(self._judge_aside(client, answer))

    async def _judge_aside(self, client: Client, answer: dict[str, Any]) -> None:
        name = answer["worker"]
        try:
            # Who does not answer is doubted again with its next piece.
            with contextlib.suppress(FleetError):
                await self._judge(client, answer)
        finally:
            self.members.doubted.discard(name)
            self.judging.pop(name, None)

    async def _judge(self, client: Client, answer: dict[str, Any]) -> str:
        """Lets a worker in whose source is that of the others; why it takes no part, where it is another."""
        name = answer["worker"]
        try:
            await self.ground.trust(client, name, self.members.not_refused())
        except Another as error:
            why = f"{name} takes no part: {error}"
            self.members.refuse(name, why)
            return why
        return ""

    def _again(self, client: Client, flight: Flight, stage: int, why: str) -> None:
        if not self._is_given_up(client, flight, stage):
            return
        if not flight.alone:
            self.suspects += flight.taken
        elif self._may_split(flight):
            # One of its entries ended whoever came to it, which keeps none of the others from being copied.
            self.split_in_a_row += 1
            self.groups += 1
            parts = Flight(flight.taken, budget_ms=BUDGET_MS, group=self.groups, alone=True, why=why)
            self._fly(client, parts, stage)
        else:
            self._failed(flight.taken, flight.why or why)

    def _may_split(self, flight: Flight) -> bool:
        """Whether a thing that failed by itself is tried in parts."""
        is_tree = flight.taken[0][1]["do"] == "tree"
        return is_tree and not flight.is_whole and not flight.why and self.split_in_a_row < SPLIT_MAX

    def _is_given_up(self, client: Client, flight: Flight, stage: int) -> bool:
        """Has a piece tried once more, by its twin where there is one; or says that this was often enough."""
        if not self.journal.is_open([id for id, _ in flight.taken]):
            return False
        twins = {task: twin for task, twin in self.flights.items() if twin.group == flight.group}
        flight.attempts += 1
        for twin in twins.values():
            # Else each would be tried as often, and have new twins.
            twin.attempts = max(twin.attempts, flight.attempts)
        if flight.attempts <= ATTEMPTS_MAX:
            if not twins:
                self._fly(client, flight, stage)
            return False
        for task in twins:
            del self.flights[task]
            task.cancel()
        return True

    def _failed(self, taken: list[tuple[int, dict[str, Any]]], why: str) -> None:
        """A thing cannot be done, as if it ended whoever does it; the others go on."""
        [(_, item)] = taken
        line = f"{self._named(item)}: its piece failed again and again, the last time so: {why}"
        self.failed_in_a_row += 1
        if self.failed_in_a_row >= FAILED_MAX:
            self.stop = f"{line}; and so did {FAILED_MAX - 1} others before, with nothing done between them"
        else:
            # By another of its names it would do the same.
            self.journal.settle(taken, {**_EMPTY, "failed": [{"item": {**item, "deadly": True}, "why": [line]}]})

    def _named(self, item: dict[str, Any]) -> str:
        """What a thing is about, as messages show it."""
        names = item.get("n") or [name for _, name in item.get("links", [])] or item.get("dirs") or []
        path = item.get("f", item.get("d", ""))
        first = "/".join(filter(None, [path, *names[:1]]))
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        if item["do"] == "tree" and not names:
            more = " (some of what is in it)" if item.get("l") else " (with all below it)"
        return f"{os.path.join(self.ground.source, shown(first)).rstrip('/')}{more}"

    # -- who is late, or gone --

    async def _look_after(self, client: Client, stage: int) -> None:
        """Sees that the scheduler is there, and gives pieces that are late to others as well."""
        if client.status != "running":
            raise Lost(f"the scheduler at {self.options.scheduler} is gone")
        self.members.look(client)
        now = time.monotonic()
        newest: dict[int, Flight] = {}
        for flight in self.flights.values():
            if flight.group not in newest or flight.began > newest[flight.group].began:
                newest[flight.group] = flight
        late = [flight for flight in newest.values() if now - flight.began > self._late_s(flight.budget_ms)]
        if not late:
            return
        at_work, ready = await self._busy(client)
        if not ready:
            await self._workers_back(client, self.flights)
            return await self.members.now(client)
        for flight in late:
            keys = {other.key for other in self.flights.values() if other.group == flight.group}
            others = [name for name in ready if not keys & at_work[name]]
            self._tell_late([name for name, there in at_work.items() if keys & there], bool(others))
            flight.began = now
            if others:
                twin = replace(flight, began=0.0)
                self._fly(client, twin, stage, others)

    def _tell_late(self, workers: Iterable[str], others: bool) -> None:
        # At once: it may be all that is ever said.
        for name in set(workers) - self.late:
            self.late.add(name)
            self.progress.end()
            what = "others are asked for it as well" if others else "there is nobody else to do it"
            files.say(f"{self.members.name_of(name)} is late with its work; {what}")

    def _late_s(self, budget_ms: int) -> float:
        return self.options.late_s + budget_ms / 1000

    async def _busy(self, client: Client) -> tuple[dict[str, set[Any]], list[str]]:
        """What each worker has to do; and those of them that are awake, as far as they have told something of late."""
        try:
            where = await within(10, client.processing())
            info = (await within(10, client.scheduler.identity(n_workers=-1)))["workers"]
        except (TimeoutError, asyncio.TimeoutError, OSError) as error:
            raise Lost(f"the scheduler at {self.options.scheduler} does not answer") from error
        fit = {name: about for name, about in info.items() if name not in self.members.refused}
        return {name: set(where.get(name, ())) for name in fit}, list(awake(fit))

    async def _workers_back(self, client: Client, pieces: Iterable[asyncio.Task[dict[str, Any]]]) -> None:
        """Waits for workers that can do the work, or for a piece of which is known that it is what ends them."""
        until, why = time.monotonic() + self.options.patience_s, "all workers are gone"
        if self.members.refused & (await workers_of(client)).keys():
            why = f"no workers are left but those that take no part ({'; '.join(self.members.told[-3:])})"
            self.progress.end()
            files.say(f"{why}; others are waited for")
        while not (await asyncio.wait(pieces, timeout=1.0, return_when=asyncio.FIRST_COMPLETED))[0]:
            if (await self._busy(client))[1]:
                return
            if time.monotonic() > until:
                raise FleetError(f"{why}\n{self.journal.so_far()}")

    # -- one thing, before anything else goes on --

    async def alone(self, client: Client, items: list[dict[str, Any]], workers: list[str] | None = None) -> None:
        """Has these things done, one after the other, by anybody or by one of these."""
        request = {"items": items, "budget_ms": BUDGET_MS}
        attempts, why = 0, ""
        while attempts < ATTEMPTS_MAX:
            attempts += 1
            task = await self._awaited(client, request, workers)
            try:
                answer = {**_EMPTY, **task.result()}
            except asyncio.CancelledError as error:
                raise Lost("the scheduler forgot what it had been given") from error
            except Exception as error:
                why = first_line(error)
                continue
            if "died" in answer:
                why = answer["died"]
                continue
            if "refused" in answer:
                self._refused(answer)
                why = answer["refused"]
                continue
            if "doubted" in answer:
                try:
                    why = await self._judge(client, answer)
                except FleetError as error:
                    why = str(error)
                # Who is trusted now is doubted no more.
                attempts -= not why
                continue
            if answer.get("stop"):
                raise Full(f"{self._at_whom(answer)}{answer['stop']}\n{self.journal.so_far()}")
            if answer["failed"]:
                why = "; ".join(answer["failed"][0]["why"])
                raise FleetError(f"{self._at_whom(answer)}{why}\n{self.journal.so_far()}")
            if not answer["rest"]:
                return
            request["items"], attempts = answer["rest"], 0
        raise FleetError(f"{items[0]['do']} failed: {why}\n{self.journal.so_far()}")

    async def _awaited(self, client: Client, request: dict[str, Any], workers: list[str] | None) -> asyncio.Task[dict[str, Any]]:
        """The first to be done of as many as it takes, one for each worker at most: one that does not get on is not
        waited for alone."""
        tasks: dict[asyncio.Task[dict[str, Any]], tuple[str, int]] = {}
        among = workers
        try:
            while True:
                if among != []:
                    key = self._key()
                    tasks[asyncio.create_task(self._one(client, key, request, among))] = key
                began = time.monotonic()
                while time.monotonic() - began < self._late_s(BUDGET_MS):
                    done, _ = await asyncio.wait(tasks, timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
                    if done:
                        return done.pop()
                    if client.status != "running":
                        raise Lost(f"the scheduler at {self.options.scheduler} is gone")
                keys, (at_work, ready) = set(tasks.values()), await self._busy(client)
                if workers is not None and not set(workers) & set(ready):
                    raise FleetError(f"{', '.join(workers)}: gone, or asleep\n{self.journal.so_far()}")
                if not ready:
                    await self._workers_back(client, tasks)
                among = [name for name in ready if not keys & at_work[name] and (workers is None or name in workers)]
        finally:
            for task in tasks:
                if not task.done():
                    task.cancel()

    async def abandon(self) -> None:
        """Lets go of what is in flight. Whatever of it is still done does no harm."""
        self.members.end()
        self._want_no_more()
        for task in self.flights:
            task.cancel()
        with contextlib.suppress(Exception):
            await within(5, asyncio.gather(*self.flights, return_exceptions=True))
        self.flights.clear()
        self.suspects.clear()
        # What an error left half said in the journal is not kept: it is done again.
        self.journal.rollback()
        self.journal.give_back()
        self.journal.commit()

    async def release(self, client: Client) -> None:
        """Ends the engines. A worker that does not hear of it ends them with its next copying, or its own end."""
        self.members.end()
        self._want_no_more()
        with contextlib.suppress(Exception):
            await within(5, client.run(worker.release, self.ground.id, self.ground.session, on_error="return"))
