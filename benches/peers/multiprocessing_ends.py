"""Both ends of a sample by Python's multiprocessing: this process begins (and for throughput takes),
another one answers (or sends). Prints one line of JSON as the Rust ends do.

usage: multiprocessing_ends.py python-pipe|python-queue latency|throughput BYTES CPU CPU TIME_US WARM_UP_US
"""

import json
import multiprocessing
import os
import resource
import struct
import sys
import time
import zlib

# A message that says that the clock starts, and one that says that nothing more comes.
MARK, END = 2**63, 2**63 + 1


class Pipe:
    """multiprocessing.Pipe, by send_bytes, which does without pickling."""

    def __init__(self):
        (self.out, self.back) = multiprocessing.Pipe(duplex=False)[::-1]
        self.send, self.receive = self.out.send_bytes, self.back.recv_bytes


class Queue:
    """multiprocessing.Queue."""

    def __init__(self, size):
        # As many messages wait as samples of iceoryx2 do: those that lie in a ring.
        self.queue = multiprocessing.Queue(maxsize=max(4, min(1024, (512 << 10) // size)))
        self.send, self.receive = self.queue.put, self.queue.get


def message(number, rest):
    """Writes all of a message."""
    return struct.pack("<Q", number) + rest


def taken(receive, checksum):
    """The number of the next message, all of whose other bytes are as they should be."""
    came = memoryview(receive())
    if zlib.crc32(came[8:]) != checksum:
        sys.exit("other bytes came than were sent")
    return struct.unpack_from("<Q", came)[0]


def other_end(what, there, back, rest, cpu, times):
    os.sched_setaffinity(0, {cpu})
    checksum = zlib.crc32(rest)
    if what == "latency":
        number = None
        while number != END:
            number = taken(there.receive, checksum)
            back.send(message(number, rest))
        return
    number = 0
    for seconds, says in zip(times, (MARK, END)):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(max(1, min(1024, 65536 // (8 + len(rest))))):
                number += 1
                back.send(message(number, rest))
        back.send(message(says, rest))


def trips(there, back, rest, times):
    checksum, number = zlib.crc32(rest), 0
    for seconds in times:
        nanoseconds, began = [], time.monotonic_ns()
        before = began
        while before - began < seconds * 1e9:
            number += 1
            there.send(message(number, rest))
            if taken(back.receive, checksum) != number:
                sys.exit("another message came")
            now = time.monotonic_ns()
            nanoseconds.append(now - before)
            before = now
    there.send(message(END, rest))
    taken(back.receive, checksum)
    return {"nanoseconds": nanoseconds, "seconds": (before - began) / 1e9}


def flow(back, rest):
    checksum, number = zlib.crc32(rest), 0
    while (came := taken(back.receive, checksum)) != MARK:
        number += 1
    began, first = time.monotonic_ns(), number
    while (came := taken(back.receive, checksum)) != END:
        number += 1
        if came != number:
            sys.exit("another message came")
    seconds = (time.monotonic_ns() - began) / 1e9
    return {"bytes": (number - first) * (8 + len(rest)), "seconds": seconds}


def main():
    medium, what, *numbers = sys.argv[1:]
    size, begins, answers, measured, warm_up = map(int, numbers)
    times = (warm_up / 1e6, measured / 1e6)
    rest = os.urandom(size - 8)
    make = {"python-pipe": Pipe, "python-queue": lambda: Queue(size)}[medium]
    there, back = make(), make()
    # The process that this one starts is the sender where bytes flow one way.
    here, elsewhere = (begins, answers) if what == "latency" else (answers, begins)
    other = multiprocessing.Process(
        target=other_end, args=(what, there, back, rest, elsewhere, times), daemon=True
    )
    other.start()
    os.sched_setaffinity(0, {here})
    told = trips(there, back, rest, times) if what == "latency" else flow(back, rest)
    other.join()
    used = resource.getrusage(resource.RUSAGE_SELF)
    told["user_s"], told["system_s"] = used.ru_utime, used.ru_stime
    print(json.dumps(told))


if __name__ == "__main__":
    main()
