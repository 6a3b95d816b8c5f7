"""How much faster bytepath copies than shutil: files of several sizes, and trees.

Both copy the same data in pairs, in random order within each pair, into places that are made anew; a
pair gives a ratio. Told are the medians, the ratio's median, and its 95% interval (bootstrap). Data is
in the page cache, as after it was written; nothing is brought to the device.

    python python/benches/copies.py [--quick] [--folder FOLDER] [--pairs N] [--json FILE] [NAME...]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import bytepath

Copy = Callable[[Path, Path], object]


def make_file(path: Path, count: int) -> None:
    """Bytes that do not compress."""
    generator = random.Random(count)
    with open(path, "wb") as file:
        for _ in range(count >> 20):
            file.write(generator.randbytes(1 << 20))
        file.write(generator.randbytes(count & ((1 << 20) - 1)))


def make_tree(path: Path, files: int, count: int) -> None:
    """A tree of files of one size, a hundred to a directory."""
    for number in range(files):
        folder = path / f"{number // 100:03}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:05}").write_bytes(random.Random(number).randbytes(count))


def copies(source: Path, sink: Path) -> tuple[Copy, Copy]:
    """What both sides are: shutil's, and ours."""
    if source.is_dir():
        return shutil.copytree, bytepath.copytree
    return shutil.copyfile, bytepath.copy


def timed(copy: Copy, source: Path, sink: Path, times: int) -> float:
    """Seconds that one copy took, of so many into new places."""
    sinks = [sink.with_name(f"{sink.name}{n}") for n in range(times)]
    began = time.perf_counter()
    for one in sinks:
        copy(source, one)
    took = time.perf_counter() - began
    for one in sinks:
        shutil.rmtree(one) if one.is_dir() else one.unlink()
    return took / times


def interval(ratios: list[float]) -> tuple[float, float]:
    """The middle 95% of the medians of resampled ratios."""
    generator = random.Random(0)
    medians = sorted(
        statistics.median(generator.choices(ratios, k=len(ratios))) for _ in range(2000)
    )
    return medians[50], medians[1949]


def compare(name: str, source: Path, pairs: int, times: int) -> dict[str, object]:
    """Runs the pairs."""
    sink = source.with_name("copy")
    theirs, ours = copies(source, sink)
    seconds: dict[str, list[float]] = {"theirs": [], "ours": []}
    for pair in range(-1, pairs):
        order = [("theirs", theirs), ("ours", ours)]
        random.shuffle(order)
        for side, copy in order:
            took = timed(copy, source, sink, times)
            # The first pair warms up.
            if pair >= 0:
                seconds[side].append(took)
    ratios = [a / b for a, b in zip(seconds["theirs"], seconds["ours"])]
    low, high = interval(ratios)
    return {
        "name": name,
        "shutil_s": statistics.median(seconds["theirs"]),
        "bytepath_s": statistics.median(seconds["ours"]),
        "ratio": statistics.median(ratios),
        "ratio_ci95": [low, high],
        "seconds": seconds,
    }


def works(quick: bool) -> dict[str, tuple[Callable[[Path], None], int]]:
    """What is copied: how it is made, and how often it is copied in a sample."""
    size = 1 << (4 if quick else 0)
    return {
        "file 4K": (lambda path: make_file(path, 4 << 10), 200 // size),
        "file 64K": (lambda path: make_file(path, 64 << 10), 100 // size),
        "file 1M": (lambda path: make_file(path, (1 << 20) // size), 20 // size),
        "file 8M": (lambda path: make_file(path, (8 << 20) // size), 5),
        "file 64M": (lambda path: make_file(path, (64 << 20) // size), 1),
        "file 1G": (lambda path: make_file(path, (1 << 30) // size // size), 1),
        "tree 2000 x 4K": (lambda path: make_tree(path, 2000 // size, 4 << 10), 1),
        "tree 200 x 256K": (lambda path: make_tree(path, 200 // size, 256 << 10), 1),
    }


def main() -> None:
    """Parses, runs, tells."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small data, 3 pairs: does it run?")
    parser.add_argument("--folder", default=".", help="copy in this folder's file system")
    parser.add_argument("--pairs", type=int, help="pairs of each work (15)")
    parser.add_argument("--json", type=Path, help="write all figures to a file")
    parser.add_argument("names", nargs="*", help="works: 'file 1M', …; all unless given")
    options = parser.parse_args()
    pairs = options.pairs or (3 if options.quick else 15)
    chosen = works(options.quick)
    unknown = [name for name in options.names if name not in chosen]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are: {', '.join(chosen)}")
    results = []
    print(f"{'':16} {'shutil':>10} {'bytepath':>10}  ratio  95% interval, {pairs} pairs")
    for name in options.names or chosen:
        make, times = chosen[name]
        with tempfile.TemporaryDirectory(dir=options.folder, prefix="copies-") as folder:
            source = Path(folder) / "source"
            make(source)
            result = compare(name, source, pairs, max(times, 1))
        low, high = result["ratio_ci95"]  # type: ignore[misc]
        ms = [f"{result[side] * 1e3:8.2f}ms" for side in ("shutil_s", "bytepath_s")]  # type: ignore
        print(f"{name:16} {ms[0]} {ms[1]}  {result['ratio']:4.2f}x  [{low:.2f}, {high:.2f}]")
        sys.stdout.flush()
        results.append(result)
    if options.json:
        facts = {"kernel": os.uname().release, "python": sys.version, "pairs": pairs}
        options.json.write_text(json.dumps({**facts, "results": results}, indent=1))


if __name__ == "__main__":
    main()
