"""Arrays from one process to another: bytepath's queue beside what Python has.

Each run is a fresh process that receives, and sums what it gets, so that every byte is read; the clock runs
from the first array that is put until the sum of the last one is back. In each round all ways run once, in
random order; a ratio is of two runs of one round. Needs numpy; pyarrow and joblib where they are there.

    python queues.py                        # all sizes, 5 rounds
    python queues.py --sizes 1K 1M --rounds 11 --ways bytepath.Queue mp.Queue
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import shutil
import socket
import statistics
import sys
import tempfile
import time
from multiprocessing import shared_memory

import numpy as np

import bytepath

context = multiprocessing.get_context("fork")


class Queue:
    """What `put`s in one process and `get`s in another."""

    def __init__(self, count: int, nbytes: int) -> None:
        self.queue = self.make()

    def make(self):
        return bytepath.Queue()

    def put(self, array: np.ndarray) -> None:
        self.queue.put(array)

    def get(self) -> np.ndarray:
        return self.queue.get()

    def done(self) -> None:
        """What was got is not used any more."""

    def close(self) -> None:
        self.queue.close()


class SharedQueue(Queue):
    """One that many may get from."""

    def make(self):
        return bytepath.Queue(receivers="many")


class MpQueue(Queue):
    def make(self):
        return context.Queue()


class MpSimpleQueue(Queue):
    def make(self):
        return context.SimpleQueue()


class Channel(Queue):
    def __init__(self, count: int, nbytes: int) -> None:
        self.there, self.here = self.pair()

    def pair(self):
        return bytepath.Channel.pair()

    def put(self, array):
        self.here.send(array)

    def get(self):
        return self.there.recv()

    def close(self):
        self.here.close()
        self.there.close()


class MpPipe(Channel):
    def pair(self):
        return context.Pipe(False)


class SharedMemory(Queue):
    """By hand: two blocks in turn, each written when a semaphore says that its reader is done."""

    def __init__(self, count, nbytes):
        self.blocks = [shared_memory.SharedMemory(create=True, size=max(nbytes, 1)) for _ in range(2)]
        self.free, self.full = context.Semaphore(2), context.Semaphore(0)
        self.put_to = self.get_from = 0
        self.items = nbytes // 8

    def view(self, index):
        return np.ndarray((self.items,), dtype=np.float64, buffer=self.blocks[index % 2].buf)

    def put(self, array):
        self.free.acquire()
        self.view(self.put_to)[:] = array
        self.put_to += 1
        self.full.release()

    def get(self):
        self.full.acquire()
        self.get_from += 1
        return self.view(self.get_from - 1)

    def done(self):
        self.free.release()

    def close(self):
        for block in self.blocks:
            block.close()
            block.unlink()


class Arrow(Queue):
    """Arrow's stream format over a Unix socket."""

    def __init__(self, count, nbytes):
        import pyarrow

        self.arrow = pyarrow
        self.here, self.there = socket.socketpair()
        self.writer = self.reader = None

    def put(self, array):
        batch = self.arrow.RecordBatch.from_arrays([self.arrow.array(array)], ["x"])
        if self.writer is None:
            self.file = self.here.makefile("wb")
            self.writer = self.arrow.ipc.new_stream(self.file, batch.schema)
        self.writer.write_batch(batch)
        self.file.flush()

    def get(self):
        if self.reader is None:
            self.reader = self.arrow.ipc.open_stream(self.there.makefile("rb"))
        return self.reader.read_next_batch().column(0).to_numpy()

    def close(self):
        self.here.close()
        self.there.close()


class Joblib(Queue):
    """joblib's way: a file for each array, in memory, which the other process maps."""

    def __init__(self, count, nbytes):
        import joblib

        self.joblib = joblib
        self.folder = tempfile.mkdtemp(dir="/dev/shm")
        self.there, self.here = context.Pipe(False)
        self.free = context.Semaphore(2)
        self.number = 0

    def put(self, array):
        self.free.acquire()
        path = f"{self.folder}/{self.number}"
        self.number += 1
        self.joblib.dump(array, path)
        self.here.send(path)

    def get(self):
        self.path = self.there.recv()
        return self.joblib.load(self.path, mmap_mode="r")

    def done(self):
        os.unlink(self.path)
        self.free.release()

    def close(self):
        shutil.rmtree(self.folder)


WAYS = {
    "bytepath.Queue": Queue,
    "Queue for many": SharedQueue,
    "bytepath.Channel": Channel,
    "mp.Queue": MpQueue,
    "mp.SimpleQueue": MpSimpleQueue,
    "mp.Pipe": MpPipe,
    "shared_memory": SharedMemory,
    "pyarrow IPC": Arrow,
    "joblib memmap": Joblib,
}


def receive(way: Queue, warm_up: int, count: int, told) -> None:
    total = 0.0
    for _ in range(warm_up):
        way.get()
        way.done()
    told.send(None)
    for _ in range(count):
        array = way.get()
        total += float(array.sum())
        del array
        way.done()
    told.send(total)


def seconds(kind: type[Queue], array: np.ndarray, count: int) -> float:
    way = kind(count, array.nbytes)
    warm_up = 3 if array.nbytes < 64 << 20 else 1
    hears, told = context.Pipe(False)
    child = context.Process(target=receive, args=(way, warm_up, count, told))
    child.start()
    for _ in range(warm_up):
        way.put(array)
    hears.recv()
    began = time.perf_counter()
    for _ in range(count):
        way.put(array)
    total = hears.recv()
    took = time.perf_counter() - began
    child.join()
    way.close()
    if total != float(array.sum()) * count:
        sys.exit(f"{kind.__name__}: {total} is not the sum of what was put")
    return took


def size(text: str) -> int:
    return int(text.rstrip("KMG")) << {"K": 10, "M": 20, "G": 30}.get(text[-1], 0)


def name(nbytes: int) -> str:
    for unit, shift in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if nbytes >= 1 << shift:
            return f"{nbytes >> shift} {unit}"
    return f"{nbytes} B"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=size, default=[size(s) for s in "1K 16K 64K 256K 1M 16M 128M 1G".split()])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=WAYS)
    parser.add_argument("--beside", default="mp.Queue", help="what ratios are to")
    parser.add_argument("--bytes", type=size, default=256 << 20, help="bytes that a run moves, about")
    options = parser.parse_args()
    ways = list(dict.fromkeys([*options.ways, options.beside]))
    seed = random.randrange(1 << 32)
    order = random.Random(seed)
    print(f"{os.cpu_count()} CPUs, {options.rounds} rounds, seed {seed}; ratios to {options.beside}: median (least to most)")
    for nbytes in options.sizes:
        array = np.random.default_rng(7).integers(0, 1000, nbytes // 8).astype(np.float64)
        count = min(max(options.bytes // nbytes, 2), 10_000)
        runs: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(options.rounds):
            for way in order.sample(ways, len(ways)):
                runs[way].append(seconds(WAYS[way], array, count))
        for way in ways:
            each = statistics.median(runs[way]) / count
            ratios = [theirs / ours for ours, theirs in zip(runs[way], runs[options.beside])]
            print(
                f"{name(nbytes):>8}  {way:<17} {each * 1e6:>12.1f} us {nbytes / each / (1 << 30):>7.2f} GiB/s "
                f"{statistics.median(ratios):>7.2f}x ({min(ratios):.2f} to {max(ratios):.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
