"""The copying: its phases one after the other, and what happens where the scheduler is lost."""

import asyncio
import math
import time
import uuid

from distributed import Client

from .. import files
from ..cluster import connected, first_line
from ..errors import FleetError, Lost
from ..machines import clocks
from .ground import Ground, check
from .journal import Journal, shown
from .members import Members
from .options import Options, Outcome
from .pieces import Piece, Pieces, piece

LINKS_TOGETHER = 500
BACK_S = 1.0
"""A scheduler that is gone is looked for so often."""

PHASES = ["files", "links", "attributes", "closed", "ending"]
STAGE = {"files": 0, "links": 1}
"""What replaces others waits in a stage of its own in each of these phases."""


class Run:
    """One copying, from when a journal is open."""

    def __init__(self, options: Options, journal: Journal, piece: Piece = piece) -> None:
        self.options, self.journal = options, journal
        self.outcome = Outcome(resumed=not journal.is_new)
        self.before = self._counts()
        """What earlier runs did."""
        id = journal.get("id")
        if id is None:
            id = uuid.uuid4().hex[:12]
            journal.set("id", id)
            journal.put([{"do": "tree", "d": "", "w": 1.0}])
            journal.commit()
        self.ground = Ground(options.source, options.destination, id)
        self.members = Members(options.per_machine)
        self.pieces = Pieces(options, journal, self.ground, self.members, piece)

    async def copy(self) -> Outcome:
        """Copies, however often the scheduler is lost meanwhile, if it comes back."""
        lost_at = met_at = -math.inf
        began = 0.0
        try:
            while True:
                try:
                    async with connected(self.options.scheduler) as client:
                        await self._meet(client)
                        met_at = time.monotonic()
                        # To start a fleet of this machine's own takes longer than many a copying, and is none of it.
                        began = began or time.monotonic()
                        await self._by(client)
                    break
                except Lost as error:
                    now, patience_s = time.monotonic(), self.options.patience_s
                    # What was done since is a reason to be patient again, and so is that it was there for as long.
                    is_another = self.pieces.settled_at > lost_at or lost_at < met_at < now - patience_s
                    lost_at = now if is_another else lost_at
                    if now - lost_at > patience_s or not self.members.machines:
                        raise FleetError("\n".join([str(error), *self._so_far()])) from error
                    if is_another:
                        # At once: it may be all that is said for long.
                        self.pieces.progress.end()
                        files.say(f"{first_line(error)}; waiting for it to come back")
                    await asyncio.sleep(BACK_S)
        except asyncio.CancelledError:
            self.pieces.progress.end()
            for line in self._so_far():
                files.say(line)
            raise
        finally:
            self.pieces.progress.end()
        self.outcome.seconds = time.monotonic() - began
        self.outcome.machines = len(self.members.seen())
        self.outcome.told += [*self.members.told, *self.pieces.told]
        self.outcome.failed, self.outcome.why = self.journal.failures(10)
        for key, count in self._counts().items():
            setattr(self.outcome, key, count)
            self.outcome.this_run[key] = count - self.before[key]
        self.outcome.this_run["bytes"] += self.journal.number("undone_bytes")
        return self.outcome

    def _so_far(self) -> list[str]:
        """What is said where it ends too early, if there is something to go on with."""
        return [self.journal.so_far()] if self.journal.is_begun() else []

    def _counts(self) -> dict[str, int]:
        return {key: self.journal.number(key) for key in ("files", "bytes", "directories")}

    async def _meet(self, client: Client) -> None:
        self.ground.session = uuid.uuid4().hex
        await self.members.begin(client, self.journal.seen())

    async def _by(self, client: Client) -> None:
        machines = self.members.machines
        for line in clocks(machines):
            self._tell(line)
        await check(client, self.ground, machines)
        if forgotten := self.journal.get("forgotten"):
            for id in forgotten.split():
                await self.ground.forget(client, machines, id)
            self.journal.set("forgotten", "")
            self.journal.commit()
        if self.journal.get("prepared") and not await self.ground.is_as_it_was_left(client, machines):
            raise FleetError(
                f"{self.ground.destination} is not as an earlier run left it: {self.ground.run} is gone, and with it perhaps "
                "what was copied then; copy all of it with --anew"
            )
        if self.outcome.resumed:
            again = self.journal.try_failed_again()
            if again or self.journal.get("phase") == "done":
                self.journal.set("phase", "files")
            self.journal.commit()
        if not self.journal.is_begun():
            self.journal.set("made", "1" if self.ground.is_new else "")
            self.journal.commit()
        # A stage that was ended is never made again: somebody who is late would find it.
        left = [number for name, number in STAGE.items() if PHASES.index(self._phase()) <= PHASES.index(name)]
        try:
            await self._prepare(client, left)
            await self.ground.agree(client, machines)
            await self.ground.be_alone(client, machines, leave=not self.journal.get("prepared"))
            self.journal.set("prepared", "1")
            self.journal.commit()
            await self._phases(client)
        except BaseException:
            await self.pieces.abandon()
            if client.status == "running":
                # Else they end with the next copying, or their worker.
                await self.pieces.release(client)
            raise

    async def _prepare(self, client: Client, stages: list[int]) -> None:
        """Makes what the work needs in the destination."""
        try:
            await self.pieces.alone(client, [{"do": "prepare", "stages": stages}])
        except Lost:
            raise
        except FleetError as error:
            if self.outcome.resumed or not await self.ground.is_untouched(client, self.members.machines):
                raise
            # There is nothing to go on with: whoever makes the destination meanwhile has not made a new one of ours.
            self.journal.unset("made")
            self.journal.commit()
            raise FleetError(first_line(error)) from error

    def _phase(self) -> str:
        phase = self.journal.get("phase")
        return phase if phase in PHASES else PHASES[0]

    async def _phases(self, client: Client) -> None:
        journal, pieces = self.journal, self.pieces
        for phase in PHASES[PHASES.index(self._phase()) :]:
            journal.set("phase", phase)
            journal.set_seen(self.members.seen())
            journal.commit()
            if phase == "files":
                await pieces.work(client, STAGE[phase])
                if unfinished := journal.unfinished():
                    raise FleetError(
                        f"{len(unfinished)} large files are not whole, {shown(unfinished[0])} first, and nothing is left to be done: "
                        f"this is a defect of bytepath; copy with --anew\n{journal.so_far()}"
                    )
                await pieces.alone(client, [{"do": "fence", "stage": STAGE[phase]}])
            elif phase == "links":
                if not journal.has_links():
                    # Nobody has used the stage, so that nobody has to be kept from it.
                    continue
                while journal.put_links(LINKS_TOGETHER, 64) or journal.free():
                    await pieces.work(client, STAGE[phase])
                await pieces.alone(client, [{"do": "fence", "stage": STAGE[phase]}])
            elif phase == "attributes":
                while journal.put_attributes(256) or journal.free():
                    await pieces.work(client, 1)
            elif phase == "closed":
                journal.leave_open()
                while journal.put_closed(256) or journal.free():
                    await pieces.work(client, 1)
            elif self.options.sync:
                await self._sync(client)
        self.ground.unmark()
        clean = [] if journal.failures(0)[0] else [{"do": "clean"}]
        if clean:
            journal.set("prepared", "")
            journal.commit()
        # Making and removing what is in it has changed its time.
        if not journal.is_left_open(""):
            await pieces.alone(client, [*clean, {"do": "closed", "dirs": [""], "new": bool(journal.get("made"))}])
        if self.options.sync:
            # This as well; there is little left.
            await self._sync(client)
        await pieces.release(client)
        journal.set("phase", "done")
        journal.commit()

    async def _sync(self, client: Client) -> None:
        """Has every machine that took part bring to its devices what it wrote."""
        await self.members.now(client)
        there = {machine.key: machine for machine in self.members.machines}
        lost = [name for key, name in self.members.seen().items() if key not in there]
        if lost:
            raise FleetError(
                f"{', '.join(lost)}: no worker is left there, so that nobody can bring to the device what that machine wrote. "
                f"Start one there, and give the same command again; if it was started anew, copy with --anew\n"
                f"{self.journal.so_far()}"
            )
        await asyncio.gather(*(self.pieces.alone(client, [{"do": "sync"}], there[key].workers) for key in there))

    def _tell(self, line: str) -> None:
        self.pieces.progress.end()
        if line not in self.outcome.told:
            self.outcome.told.append(line)
