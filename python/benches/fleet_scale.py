"""What sharing a tree out costs, and what memory it takes, as the tree grows and as the fleet grows.

    python python/benches/fleet_scale.py entries 10000 100000 1000000 10000000
    python python/benches/fleet_scale.py machines 10 100
    python python/benches/fleet_scale.py model 10 100 1000 4000

The first has a tree of so many entries gone through by two workers: names alone, which are made up instead of being
read from a disk, so that all that is measured is the sharing out. Pieces are of 10,000 entries, as those of half a
second are where a worker copies 20,000 files a second. The second has pieces done by so many workers that do nothing but
wait (Dask's own scheduler and the real journal; many workers in a process), and says how busy they were kept, and what
each piece cost the scheduler and the submitter. The third has no fleet at all: it computes how busy machines are kept by a
scheduler that needs so much of a CPU for each piece."""

import argparse
import asyncio
import contextlib
import heapq
import json
import logging
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dask
from bytepath.fleet.copy import pieces as copying
from bytepath.fleet.copy.journal import Journal
from bytepath.fleet.copy.options import Options
from bytepath.fleet.copy.run import Run
from bytepath.fleet.machines import Machine
from distributed import Client, Scheduler, Worker
from distributed.deploy.subprocess import SubprocessCluster

PIECE_ENTRIES = 10_000
PRETEND_ENTRIES = 100
"""Entries of a piece that is only waited for: all workers share a machine, so that names are few."""

PIECES_EACH = 10
WORKERS_TOGETHER = 125
START_S = 300
FOLDERS = 10
FILES = 90


def pretend(setup: dict[str, Any], request: bytes) -> bytes:
    """A piece of a tree that does not exist: each directory has 10 others and 90 files, down to where the number
    of entries that its name ends with is used up."""
    asked = json.loads(request)
    answer: dict[str, Any] = {"files": 0, "bytes": 0, "directories": 0, "w": 0.0, "rest": [], "large": [], "links": [],
                              "failed": [], "told": [], "closed": [], "begun": [], "fenced": False}  # fmt: skip
    wait = float(os.environ.get("BYTEPATH_PRETEND_S", "0"))
    left = list(asked["items"])
    done, most = 0, int(os.environ.get("BYTEPATH_PRETEND_ENTRIES", PIECE_ENTRIES))
    while left and done < most:
        item = left.pop()
        if item["do"] != "tree":
            continue
        budget = int(item["d"].rpartition("~")[2] or setup["options"][0].rpartition("=")[2])
        names = [f"{item['d']}/file-with-a-name-{number:06}" for number in range(min(FILES, budget - 1))]
        answer["files"] += len(names)
        answer["directories"] += 1
        done += len(names) + 1
        below = budget - len(names) - 1
        count = min(FOLDERS, below)
        # A directory that is too small to be worth one of its own has none below.
        if below < FOLDERS * 2:
            answer["files"] += max(0, below)
            done += max(0, below)
            count = 0
        each = item["w"] / (count + 1)
        answer["w"] += each
        sizes = [below // count + (at < below % count) for at in range(count)]
        left += [{"do": "tree", "d": f"{item['d']}/d{at}~{size}", "w": each} for at, size in enumerate(sizes)]
    if wait:
        time.sleep(wait)
    answer["rest"] = left
    return json.dumps(answer).encode()


def memory_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@contextlib.contextmanager
def ground(entries: int):
    """Real directories, in which nothing happens, and a journal."""
    with tempfile.TemporaryDirectory(prefix="bytepath-scale-") as folder:
        source = Path(folder) / "source"
        source.mkdir()
        options = Options(str(source), f"{folder}/copy", "", [f"--entries={entries}"])
        journal = Journal(Path(folder) / "journal", ["scale", str(entries)])
        try:
            yield options, journal, Path(folder) / "journal"
        finally:
            journal.close()


async def files_phase(client: Client, options: Options, journal: Journal, workers: int = 2) -> float:
    """Shares the tree out; the seconds that took."""
    run = Run(options, journal, lambda setup, request: (pretend, setup, request))
    await client.wait_for_workers(workers, timeout=120)
    info = (await client.scheduler.identity(n_workers=-1))["workers"]
    run.members.machines = [Machine(name, name, {}, [name], 1) for name in info]
    began = time.monotonic()
    await run.pieces.work(client, 0)
    return time.monotonic() - began


async def over_entries(counts: list[int]) -> None:
    print("entries    pieces  seconds  µs/entry  submitter MiB  scheduler MiB  worker MiB  journal MiB")
    for entries in counts:
        # Processes of their own, so that each has its own peak of memory.
        async with SubprocessCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", asynchronous=True,
                                     worker_kwargs={"memory_limit": 0}, dashboard_address=":0") as cluster:  # fmt: skip
            with ground(entries) as (options, journal, file):
                async with Client(cluster, asynchronous=True) as client:
                    seconds = await files_phase(client, options, journal)
                    there = await client.run(memory_mib)
                    scheduler = await client.run_on_scheduler(memory_mib)
                found = int(journal.get("files") or 0) + int(journal.get("directories") or 0)
                assert found == entries, (found, entries)
                size = sum(path.stat().st_size for path in file.parent.glob("journal*")) / (1 << 20)
                print(f"{entries:<10} {entries // PIECE_ENTRIES:<7} {seconds:<8.2f} {seconds * 1e6 / entries:<9.1f} "
                      f"{memory_mib():<14.0f} {scheduler:<14.0f} {max(there.values()):<11.0f} {size:.1f}", flush=True)  # fmt: skip


async def over_machines(counts: list[int], piece_s: float | None) -> None:
    print("machines  started in  piece s  pieces  seconds  kept busy  scheduler ms/piece  submitter ms/piece  scheduler MiB")
    for machines in counts:
        wait = piece_s or max(copying.BUDGET_MS, 1000 * machines // copying.PIECES_PER_S_MAX) / 1000
        entries = machines * PIECES_EACH * PRETEND_ENTRIES
        began = time.monotonic()
        async with hosted(machines, wait) as address, Client(address, asynchronous=True, timeout=60) as client:
            await client.wait_for_workers(machines, timeout=START_S)
            started = time.monotonic() - began
            with ground(entries) as (options, journal, _):
                before = [await client.run_on_scheduler(time.process_time), time.process_time()]
                seconds = await files_phase(client, options, journal, machines)
                after = [await client.run_on_scheduler(time.process_time), time.process_time()]
                pieces = int(journal.get("pieces") or 0)
            memory = await client.run_on_scheduler(memory_mib)
        costs = [1000 * (then - now) / pieces for now, then in zip(before, after, strict=True)]
        busy = pieces * wait / (machines * seconds)
        print(f"{machines:<9} {started:<11.0f} {wait:<8.2f} {pieces:<7} {seconds:<8.2f} {busy:<10.0%} {costs[0]:<19.2f} "
              f"{costs[1]:<19.2f} {memory:.0f}", flush=True)  # fmt: skip


@contextlib.asynccontextmanager
async def hosted(machines: int, wait_s: float):
    """A scheduler in a process of its own, and so many workers, as many together in a process as it bears."""
    own = {"BYTEPATH_PRETEND_S": str(wait_s), "BYTEPATH_PRETEND_ENTRIES": str(PRETEND_ENTRIES)}
    processes = []

    async def host(*words: str) -> str:
        process = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "host", *words, env={**os.environ, **own}, stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )  # fmt: skip
        processes.append(process)
        return (await process.stdout.readline()).decode().strip()

    try:
        address = await host("0")
        left = [min(WORKERS_TOGETHER, machines - at) for at in range(0, machines, WORKERS_TOGETHER)]
        await asyncio.gather(*(host(str(count), address) for count in left))
        yield address
    finally:
        for process in processes:
            process.kill()
            await process.wait()


async def host(count: int, address: str | None) -> None:
    """A scheduler, or so many workers, until standard input is closed."""
    async with contextlib.AsyncExitStack() as stack:
        if address is None:
            scheduler = await stack.enter_async_context(Scheduler(host="127.0.0.1", port=0, dashboard=False))
            print(scheduler.address, flush=True)
        else:
            for at in range(0, count, 10):
                workers = [Worker(address, nthreads=1, memory_limit=0, dashboard=False, host="127.0.0.1")
                           for _ in range(min(10, count - at))]  # fmt: skip
                await asyncio.gather(*workers)
            print("started", flush=True)
        await asyncio.to_thread(sys.stdin.read)


def modelled(machines: int, piece_s: float, cost_s: float, pieces_each: int) -> float:
    """How busy so many machines are where one server hands out each piece, and takes its answer, in `cost_s`: two
    pieces for each machine are on their way, and pieces take between half and one and a half times as long."""
    chance = random.Random(1)
    left = machines * pieces_each
    server, busy, end = 0.0, 0.0, 0.0
    free = [0.0] * machines
    # When the server is asked for the next piece of a machine.
    asked = [(0.0, machine) for _ in range(2) for machine in range(machines)]
    heapq.heapify(asked)
    while left and asked:
        at, machine = heapq.heappop(asked)
        server = max(server, at) + cost_s
        takes = piece_s * chance.uniform(0.5, 1.5)
        free[machine] = max(free[machine], server) + takes
        busy, end, left = busy + takes, max(end, free[machine]), left - 1
        heapq.heappush(asked, (free[machine], machine))
    return busy / (machines * end)


def model(counts: list[int], piece_s: float | None, cost_s: float) -> None:
    print(f"machines  piece s  kept busy, of an hour's work, where a piece costs {cost_s * 1000:.0f} ms")
    for machines in counts:
        takes = piece_s or max(copying.BUDGET_MS, 1000 * machines // copying.PIECES_PER_S_MAX) / 1000
        busy = modelled(machines, takes, cost_s, max(1, round(3600 / takes)))
        print(f"{machines:<9} {takes:<8.2f} {busy:.1%}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["entries", "machines", "model", "host"])
    parser.add_argument("counts", nargs="+", metavar="COUNT", help="how many entries, or machines")
    parser.add_argument("--piece", type=float, help="seconds that a piece takes")
    parser.add_argument("--cost", type=float, default=0.008, help="seconds of one CPU that handing out a piece takes")
    arguments = parser.parse_args()
    if arguments.what == "model":
        return model([int(count) for count in arguments.counts], arguments.piece, arguments.cost)
    dask.config.set({"distributed.worker.profile.enabled": False, "distributed.admin.tick.limit": "60s",
                     "distributed.worker.memory.terminate": False})  # fmt: skip
    logging.getLogger("distributed").setLevel(logging.ERROR)
    if arguments.what == "host":
        # How this program starts itself: a scheduler for none, or so many workers of the one at an address.
        return asyncio.run(host(int(arguments.counts[0]), (arguments.counts[1:] or [None])[0]))
    counts = [int(count) for count in arguments.counts]
    work = over_entries(counts) if arguments.what == "entries" else over_machines(counts, arguments.piece)
    asyncio.run(work)


if __name__ == "__main__":
    main()
