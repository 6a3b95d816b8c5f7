"""A tree copied by a fleet of this one machine, and by what else copies trees in parallel, in turns.

    python python/benches/fleet_cp.py [--files 200000] [--rounds 7] [--workers 2] [--work DIR]

Each round has every copier copy the same tree once, in random order, to where nothing is; the copies are removed
outside the time. The cluster runs already, as it does for people who have one: its start is told of apart. dcp (mpifileutils) and
rsync take part where they are installed."""

import argparse
import asyncio
import os
import random
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from bytepath.fleet import cluster, worker
from bytepath.fleet.copy.journal import Journal, remove
from bytepath.fleet.copy.options import Options
from bytepath.fleet.copy.run import Run


def make(root: Path, files: int, bytes: int) -> None:
    """Files of a size in directories of 100."""
    content = os.urandom(bytes)
    for folder in range(-(-files // 100)):
        where = root / f"a{folder // 100}" / f"b{folder}"
        where.mkdir(parents=True)
        for file in range(min(100, files - folder * 100)):
            (where / f"f{file}").write_bytes(content)


def by(words: str) -> Callable[[Path, Path], Awaitable[None]]:
    """A copier that is a command for the shell, with $1 and $2 for source and copy."""

    async def copy(source: Path, sink: Path) -> None:
        process = await asyncio.create_subprocess_exec("sh", "-c", words, "sh", str(source), str(sink))
        if await process.wait() != 0:
            raise SystemExit(f"{words}: exit code {process.returncode}")

    return copy


def copiers(workers: int, scheduler: str, folder: Path) -> dict[str, Callable[[Path, Path], Awaitable[None]]]:
    program = worker.program()
    if program is None:
        raise SystemExit("no program bytepath: set BYTEPATH_PROGRAM")

    async def fleet(source: Path, sink: Path) -> None:
        path = folder / "journal"
        journal = Journal(path, [str(source), str(sink)])
        await Run(Options(str(source), str(sink), scheduler, ["-a"]), journal).copy()
        journal.close()
        remove(path)

    found = {
        "bytepath fleet cp": fleet,
        f"bytepath cp -a --jobs {workers}": by(f'exec "{program}" cp -a -T --jobs {workers} "$1" "$2"'),
        f"xargs -P {workers} cp -a": by(
            'mkdir "$2" && cd "$1" && find . -mindepth 1 -type d -print0 | (cd "$2" && xargs -0 mkdir -p) && '
            f'find . ! -type d -print0 | xargs -0 -n 256 -P {workers} cp -a --parents -t "$2"'
        ),
    }
    if shutil.which("rsync"):
        found[f"rsync -a, {workers} at a time"] = by(
            f'mkdir "$2" && cd "$1" && ls | xargs -I@ -P {workers} rsync -a @ "$2/"'
        )
    if shutil.which("dcp") and shutil.which("mpirun"):
        found[f"dcp -p, {workers} ranks"] = by(
            f'mpirun --allow-run-as-root --oversubscribe -n {workers} dcp -q -p "$1" "$2"'
        )
    return found


async def compare(arguments: argparse.Namespace, folder: Path) -> None:
    source = folder / "source"
    make(source, arguments.files, arguments.bytes)
    began = time.monotonic()
    async with cluster.local(arguments.workers) as own:
        async with cluster.connected(own.scheduler_address):
            print(f"the cluster took {time.monotonic() - began:.1f} s to start")
        all = copiers(arguments.workers, own.scheduler_address, folder)
        seconds: dict[str, list[float]] = {name: [] for name in all}
        for _ in range(arguments.rounds):
            for name in random.sample(list(all), len(all)):
                sink = folder / "copy"
                began = time.monotonic()
                await all[name](source, sink)
                seconds[name].append(time.monotonic() - began)
                subprocess.run(["rm", "-rf", str(sink)], check=True)
    first = seconds["bytepath fleet cp"]
    print(f"{arguments.files} files of {arguments.bytes} bytes, {arguments.rounds} rounds, {arguments.workers} workers")
    for name, times in seconds.items():
        ratio = statistics.median(other / own for own, other in zip(first, times, strict=True))
        print(f"{name:<32} {statistics.median(times):7.2f} s   {ratio:5.2f} times the fleet's")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200_000)
    parser.add_argument("--bytes", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--work", type=Path, help="a folder on the file system to measure")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="bytepath-fleet-cp-", dir=arguments.work) as folder:
        asyncio.run(compare(arguments, Path(folder)))


if __name__ == "__main__":
    main()
