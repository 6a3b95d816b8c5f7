"""What the other processes of the channels' tests do."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time

import numpy as np

import bytepath


def fork() -> multiprocessing.context.ForkContext:
    return multiprocessing.get_context("fork")


def put_arrays(queue: bytepath.Queue, name: int, count: int, items: int) -> None:
    for index in range(count):
        queue.put((name, index, np.full(items, index, dtype=np.int64)))


def put_for_ever(queue: bytepath.Queue, items: int) -> None:
    index = 0
    while True:
        queue.put((os.getpid(), index, np.full(items, index, dtype=np.int64)))
        index += 1


def get_for_ever(queue: bytepath.Queue, told) -> None:
    kept = []
    while True:
        kept.append(queue.get())
        told.send(kept[-1][1])
        del kept[:-3]


def put_close_and_live(queue: bytepath.Queue, told) -> None:
    queue.put(1)
    queue.close()
    told.send(None)
    told.recv()


def offer_rings(address: str, count: int, ring_bytes: int, filled: bool, told) -> None:
    """Tells when they are there, and once it is asked, how many of them were refused."""
    rings = [bytepath.Queue.connect(address, ring_bytes=ring_bytes) for _ in range(count)]
    for ring in rings if filled else ():
        ring.put(1)
    told.send(None)
    told.recv()
    refused = 0
    for ring in rings:
        try:
            ring._outbox.is_answered()
        except bytepath.ChannelError as error:
            assert "that end had no memory, addresses or descriptors" in str(error)
            refused += 1
    told.send(refused)


def put_then_die(queue: bytepath.Queue, count: int) -> None:
    for index in range(count):
        queue.put(np.full(100_000, index))
    os.kill(os.getpid(), signal.SIGKILL)


def echo(channel: bytepath.Channel) -> None:
    with channel:
        try:
            while True:
                channel.send(channel.recv())
        except EOFError:
            pass


def send_one(channel: bytepath.Channel, told) -> None:
    _use(lambda: channel.send(os.getpid(), timeout=30), told)


def receive_one(channel: bytepath.Channel, told) -> None:
    _use(lambda: channel.recv(timeout=30), told)


def receive_then(channel: bytepath.Channel, end: str) -> None:
    """Receives one object, sends nothing, and ends."""
    channel.recv(timeout=30)
    if end == "closed":
        channel.close()
    elif end == "collected":
        channel.__del__()
    elif end == "killed":
        os.kill(os.getpid(), signal.SIGKILL)


def connect_and_receive_then(address: str, end: str) -> None:
    receive_then(bytepath.Channel.connect(address, timeout=30), end)


def use_both(told, *given, ends=None) -> None:
    one, other = ends.values() if ends else given[-1] if isinstance(given[-1], list) else given

    def there_and_back() -> None:
        one.send("there")
        assert other.recv(timeout=30) == "there"
        other.send("back")
        assert one.recv(timeout=30) == "back"

    _use(there_and_back, told)


def use_both_of_first(told, inside) -> None:
    use_both(told, *inside[0][0][0]["ends"])


class Holder:
    def __init__(self, one: bytepath.Channel, other: bytepath.Channel) -> None:
        self.one, self.other = one, other

    def work(self, told) -> None:
        use_both(told, self.one, self.other)


class _Holds:
    """A process that keeps its ends itself."""

    def __init__(self, told, *ends: bytepath.Channel) -> None:
        super().__init__()
        self.told, (self.one, self.other) = told, ends

    def run(self) -> None:
        use_both(self.told, self.one, self.other)


# By their methods of start, at the top, where those that are not forked find them.
class HoldsForked(_Holds, multiprocessing.get_context("fork").Process): ...


class HoldsSpawned(_Holds, multiprocessing.get_context("spawn").Process): ...


class HoldsServed(_Holds, multiprocessing.get_context("forkserver").Process): ...


def holding_process(context):
    return {"fork": HoldsForked, "spawn": HoldsSpawned, "forkserver": HoldsServed}[context.get_start_method()]


def _use(use, told) -> None:
    try:
        use()
        told.send("done")
    except Exception as error:
        told.send(f"{type(error).__name__}: {error}")


def work(tasks: bytepath.JoinableQueue, results: bytepath.Queue) -> None:
    while (task := tasks.get()) is not None:
        results.put(float(task.sum()))
        tasks.task_done()
    tasks.task_done()


def follow(tasks: bytepath.JoinableQueue, last: str) -> None:
    """Each task puts the next one before it is done; before the last one is, there is a file."""
    while count := tasks.get():
        tasks.put(count - 1)
        tasks.task_done()
    open(last, "x").close()
    tasks.task_done()


def put_as(queue: bytepath.Queue, user: int, objects: list) -> None:
    os.setuid(user)
    for each in objects:
        queue.put(each)


def put_to(address: str, count: int) -> None:
    with bytepath.Queue.connect(address) as queue:
        for index in range(count):
            queue.put(np.full(50_000, index))


def answer_at(address: str) -> None:
    with bytepath.Channel.connect(address) as channel:
        channel.send(channel.recv() * 2)


def get_one(queue: bytepath.Queue, told) -> None:
    try:
        told.send(queue.get(timeout=30))
    except Exception as error:
        told.send(f"{type(error).__name__}: {error}")


def get_until_none(queue: bytepath.Queue, told) -> None:
    """Tells of all that it gets, in the order in which it got it."""
    while (got := queue.get(timeout=60)) is not None:
        name, index, array = got
        assert (array == index).all() and not array.flags.writeable
        told.send((name, index))
    told.close()


def get_until_killed(queue: bytepath.Queue, told) -> None:
    while True:
        name, index, _ = queue.get()
        told.send((name, index))


def square(tasks: bytepath.JoinableQueue, results: bytepath.Queue) -> None:
    while (task := tasks.get()) is not None:
        results.put((task, task * task))
        tasks.task_done()
    tasks.task_done()


def exit_with_views() -> None:
    queue = bytepath.Queue()
    queue.put(np.arange(1_000_000))
    global view
    view = queue.get()
    sys.modules["view_that_stays"] = view  # type: ignore[assignment]


def tell_inherited(
    channel: bytepath.Channel, one: bytepath.Queue, many: bytepath.Queue, told
) -> None:
    """Tells which descriptors that came as arguments this process would hand on to programs."""
    held = (channel._receives, channel._sends, one._listener, one._board, many._board)
    fds = [it.fileno() for it in held]
    told.send([fd for fd in (*fds, *many._pool.filenos()) if os.get_inheritable(fd)])


def put_one(queue: bytepath.Queue, *_others: object) -> None:
    queue.put(1)


def get_one_and_wait(queue: bytepath.Queue, told) -> None:
    told.send(queue.get())
    # Until the parent, which has the other end, is done with this process.
    told.recv()


def wait_for_ever(queue: bytepath.Queue, told) -> None:
    told.send("waits")
    try:
        queue.get()
    except KeyboardInterrupt:
        told.send(time.monotonic())


if __name__ == "__main__":
    globals()[sys.argv[1]](*(int(word) if word.isdigit() else word for word in sys.argv[2:]))
