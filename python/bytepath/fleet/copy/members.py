"""Who takes part in a copying: the machines at its beginning, those that come and go later, and workers that turned
out to be unfit."""

import asyncio
import contextlib
import time

from distributed import Client

from ..errors import Lost
from ..machines import Machine, admit, probe, workers_of

TOLD_MAX = 100

LOOK_S = 3.0
"""Who came and went is looked at so often."""


class Members:
    """The machines of a copying."""

    def __init__(self, per_machine: int | None = None) -> None:
        self.per_machine = per_machine
        """How many pieces a machine does at a time, at most."""
        self.machines: list[Machine] = []
        self.refused: set[str] = set()
        """Workers that get no work."""
        self.doubted: set[str] = set()
        """Workers that get none until it is known whether their source is that of the others."""
        self.told: list[str] = []
        """Why they get none."""
        self.worked: set[str] = set()
        """Workers that did something, or began to, whatever process is there by now."""
        self.earlier: dict[str, str] = {}
        """The names of machines that took part before, by their keys."""
        self.names: dict[str, str] = {}
        self.hands: dict[str, set[str]] = {}
        """By the keys of machines, those that were there since, and all their workers."""
        self._looked = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def begin(self, client: Client, earlier: dict[str, str]) -> None:
        """Asks every worker what it is; an error where one cannot do the work."""
        self.earlier = earlier
        self.hands.clear()
        self.machines = await probe(client)
        self._note()

    def seen(self) -> dict[str, str]:
        """The names of all machines that have ever taken part, by their keys: not of those whose workers were all refused
        before they did anything."""
        idle = self.refused - self.worked
        return self.earlier | {key: self.names[key] for key, workers in self.hands.items() if not workers <= idle}

    def workers(self) -> int:
        return sum(len(machine.workers) for machine in self.machines)

    def threads(self) -> int:
        """How many pieces are done at a time."""
        return max(1, sum(machine.at_once(self.per_machine) for machine in self.machines))

    def name_of(self, worker: str) -> str:
        """A worker's name, for messages."""
        return next((f"{machine.name} ({worker})" for machine in self.machines if worker in machine.workers), worker)

    def fit(self) -> list[str] | None:
        """The workers that may be asked; None where that is all of them."""
        if not self.refused | self.doubted:
            return None
        # Where there is no other, one that is in doubt is about to be let in.
        return [name for name in self.not_refused() if name not in self.doubted] or self.not_refused()

    def not_refused(self) -> list[str]:
        return [name for machine in self.machines for name in machine.workers if name not in self.refused]

    def look(self, client: Client) -> None:
        """Sees from time to time who came and went, while the work goes on."""
        now = time.monotonic()
        if now - self._looked < LOOK_S or (self._looking and not self._looking.done()):
            return
        self._looked = now
        self._looking = asyncio.create_task(self._look(client))

    async def _look(self, client: Client) -> None:
        # Whether the scheduler is gone is seen by who waits for pieces.
        with contextlib.suppress(Lost):
            await self.now(client)

    async def now(self, client: Client) -> None:
        """Takes note of who is there. Who came since and cannot do the work is left out."""
        fit = {name: about for name, about in (await workers_of(client)).items() if name not in self.refused}
        self.machines, refused = await admit(client, self.machines, fit)
        for name, why in refused.items():
            self.refuse(name, f"{why}; it takes no part")
        self._note()

    def refuse(self, worker: str, line: str) -> None:
        """Gives a worker no more work, and says so in the end."""
        self.refused.add(worker)
        if line not in self.told and len(self.told) < TOLD_MAX:
            self.told.append(line)

    def _note(self) -> None:
        for machine in self.machines:
            self.names[machine.key] = machine.name
            self.hands.setdefault(machine.key, set()).update(machine.workers)

    def end(self) -> None:
        """Looks no more."""
        if self._looking is not None:
            self._looking.cancel()
