"""Queues that many get from: each object goes to one of them, whoever is killed when."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import multiprocessing
import os
import pickle
import queue as queues
import random
import signal
import socket
import struct
import threading
import time
from multiprocessing.connection import wait
from pathlib import Path

import channel_work as work
import numpy as np
import pytest
from channel_work import fork
from with_little import little_memory, spare_descriptors

import bytepath

METHODS = ["fork", "spawn", "forkserver"]
SMALL = {"capacity": 1 << 20, "ring_bytes": 1 << 14}

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def many(maxsize: int = 0, **options) -> bytepath.Queue:
    return bytepath.Queue(maxsize, receivers="many", **options)


def all_told(readers: list) -> dict:
    """What each of them tells of, until it has closed its end, or is gone."""
    told: dict = {reader: [] for reader in readers}
    open_ones = list(readers)
    while open_ones:
        for reader in wait(open_ones, timeout=60):
            try:
                told[reader].append(reader.recv())
            except (EOFError, OSError):
                open_ones.remove(reader)
    return told


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("options", [{}, SMALL], ids=["ordinary", "small"])
def test_many_put_and_many_get_and_each_object_goes_to_one(method, options):
    context = multiprocessing.get_context(method)
    with many(**options) as queue:
        putters = [context.Process(target=work.put_arrays, args=(queue, name, 60, 10 + name * 5_000)) for name in range(3)]
        pipes = [context.Pipe(False) for _ in range(3)]
        getters = [context.Process(target=work.get_until_none, args=(queue, told)) for _, told in pipes]
        for child in putters + getters:
            child.start()
        for _, told in pipes:
            told.close()
        for child in putters:
            child.join()
        for _ in getters:
            queue.put(None)
        told = all_told([reader for reader, _ in pipes])
        for child in putters + getters:
            child.join()
            assert child.exitcode == 0
        for seen in told.values():
            for name in range(3):
                # What one has put comes in its order, to whoever gets it.
                indices = [index for other, index in seen if other == name]
                assert indices == sorted(indices)
        everything = sorted(pair for seen in told.values() for pair in seen)
        assert everything == [(name, index) for name in range(3) for index in range(60)]
        assert queue.empty() and queue.qsize() == 0


def test_workers_that_begin_later_share_all_tasks_out():
    tasks, results = bytepath.JoinableQueue(receivers="many"), bytepath.Queue()
    for value in range(20_000):
        tasks.put(value)
    assert tasks.qsize() == 20_000 and not tasks.join(0.01)
    workers = [fork().Process(target=work.square, args=(tasks, results)) for _ in range(3)]
    for worker in workers:
        worker.start()
    got = dict(results.get(timeout=30) for _ in range(20_000))
    assert got == {value: value * value for value in range(20_000)}
    for _ in workers:
        tasks.put(None)
    assert tasks.join(30)
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0


def mapped_files() -> set[str]:
    """The files in memory, by their numbers, that this process has mapped."""
    maps = Path("/proc/self/maps").read_text().splitlines()
    return {line.split()[4] for line in maps if "/memfd:bytepath" in line}


def test_an_array_is_a_view_of_memory_that_nobody_can_change():
    queue = many()
    before = mapped_files()
    sent = {"one": np.arange(1_000_000), "few": np.arange(10), "text": b"x" * 100_000}
    child = fork().Process(target=queue.put, args=(sent,))
    child.start()
    child.join()
    got = queue.get(timeout=5)
    queue.close()
    assert (got["one"] == sent["one"]).all() and (got["few"] == sent["few"]).all()
    assert bytes(got["text"]) == sent["text"]
    with pytest.raises(ValueError, match="read-only"):
        got["one"][0] = 1
    # It is mapped where it was written: the memory is a sealed file's, beside the queue's own.
    assert len(mapped_files() - before) == 1


def test_objects_that_are_larger_than_the_ring_go_all_the_same():
    queue = many(**SMALL)
    large = [b"x" * 100_000, "y" * 300_000, list(range(50_000)), [bytes(100)] * 5_000, np.zeros(4 << 20, np.uint8)]
    for sent in large:
        queue.put(sent)
        got = queue.get(timeout=5)
        assert (got == sent).all() if isinstance(sent, np.ndarray) else got == sent


@pytest.mark.parametrize("options", [{"ring_bytes": 1 << 12}, {"ring_bytes": 1 << 14}, {"ring_bytes": 1 << 21}])
def test_what_is_put_and_got_by_chance_comes_in_order(options):
    order = random.Random(5)
    queue, inside = many(**options), []
    for index in range(5_000):
        if inside and order.random() < 0.5:
            first, size = inside.pop(0)
            assert queue.get(False) == (first, b"z" * size)
        size = order.choice([0, 1, 7, 8, 100, 900, 1_500, 40_000, 300_000])
        try:
            queue.put((index, b"z" * size), timeout=0)
            inside.append((index, size))
        except queues.Full:
            assert inside
        assert queue.qsize() == len(inside) and queue.empty() is (not inside)


# ---- waiting ----------------------------------------------------------------------------------------


def test_it_is_full_at_its_size_and_at_its_memory():
    queue = many(2)
    queue.put(1)
    queue.put(2)
    assert queue.full()
    with pytest.raises(queues.Full):
        queue.put_nowait(3)
    with pytest.raises(queues.Full):
        queue.put(3, timeout=0.02)
    threading.Timer(0.05, queue.get).start()
    queue.put(3, timeout=10)
    assert [queue.get(), queue.get()] == [2, 3]
    with pytest.raises(queues.Empty):
        queue.get_nowait()
    with pytest.raises(queues.Empty):
        queue.get(timeout=0.02)
    bounded = many(**SMALL)
    with pytest.raises(queues.Full):
        for _ in range(100):
            bounded.put(np.zeros(50_000), timeout=0.02)
    assert bounded.qsize() * 400_000 <= SMALL["capacity"]
    bounded.get()
    bounded.put(np.zeros(50_000), timeout=0.02)


def test_more_blocks_than_a_socket_holds_are_waited_for():
    # A small ring, so that small buffers are blocks: some machines' sockets hold thousands.
    queue = many(ring_bytes=1 << 20, capacity=4 << 30)
    with pytest.raises(queues.Full):
        for index in range(10_000):
            queue.put(np.full(18_000, index), timeout=0.02)
    count = queue.qsize()
    assert 100 < count == index
    for expected in range(count):
        assert (queue.get(timeout=5) == expected).all()
    assert queue.empty()


@pytest.mark.parametrize("wait", ["get", "put"])
def test_an_interrupt_ends_every_wait_at_once(wait):
    queue = many(1)
    if wait == "put":
        queue.put(1)
    interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        queue.get() if wait == "get" else queue.put(2)
    assert time.monotonic() - began < 5
    interrupt.join()


def test_threads_share_it_and_closing_ends_their_waits():
    queue, got, ended = many(), [], []

    def get() -> None:
        try:
            while True:
                got.append(queue.get())
        except ValueError as error:
            ended.append(str(error))

    threads = [threading.Thread(target=get) for _ in range(3)]
    for thread in threads:
        thread.start()
    for value in range(100):
        queue.put(value)
    while len(got) < 100:
        time.sleep(0.001)
    queue.close()
    for thread in threads:
        thread.join(10)
    assert sorted(got) == list(range(100)) and ended == ["this queue is closed"] * 3
    with pytest.raises(ValueError, match="closed"):
        queue.put(1)
    with pytest.raises(ValueError, match="closed"):
        queue.get()


def test_event_loops_get_and_put_and_a_cancelled_task_takes_nothing():
    async def run() -> None:
        queue = many(1)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.get_async(), 0.02)
        await queue.put_async("one")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(queue.put_async("two"), 0.02)
        assert queue.qsize() == 1
        later = asyncio.create_task(queue.put_async("three"))
        assert [await queue.get_async(), await queue.get_async()] == ["one", "three"]
        await later

    asyncio.run(run())
    with pytest.raises(NotImplementedError):
        many().fileno()


def test_who_is_forked_while_others_use_it_has_its_own_way_to_it():
    queue, stop = many(), threading.Event()

    def use() -> None:
        while not stop.is_set():
            queue.put("own")
            queue.get()

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            child = fork().Process(target=lambda: (queue.put("child's"), queue.get(timeout=10)))
            child.start()
            child.join(20)
            assert child.exitcode == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join(10)
    assert queue.empty()


# ---- what goes wrong --------------------------------------------------------------------------------


def test_bad_objects_and_words_are_refused_and_harm_nothing():
    with pytest.raises(ValueError, match='"one" or "many"'):
        bytepath.Queue(receivers="some")
    queue = bytepath.JoinableQueue(receivers="many")
    with pytest.raises((TypeError, AttributeError)):
        queue.put(lambda: None)
    with pytest.raises((ValueError, TypeError, BufferError)):
        queue.put([memoryview(bytes(100))[::2]])
    assert queue.empty() and queue.join(0)
    queue.put(1)
    assert queue.get() == 1


def test_the_refusal_of_a_second_receiver_names_the_remedy():
    queue = bytepath.Queue()
    queue.put(1)
    assert queue.get() == 1
    told, tells = fork().Pipe(False)
    child = fork().Process(target=work.get_one, args=(queue, tells))
    child.start()
    assert 'receivers="many"' in told.recv()
    child.join()


def test_who_is_out_of_descriptors_is_told_so_and_loses_nothing():
    queue = many()
    queue.put(np.arange(200_000))
    with spare_descriptors():
        for _ in range(2):
            with pytest.raises(OSError, match="Too many open files"):
                queue.get(timeout=1)
        with pytest.raises(OSError, match="Too many open files"):
            queue.put(np.arange(200_000))
        with pytest.raises(OSError, match="Too many open files"):
            many()
    assert queue.qsize() == 1
    assert (queue.get(timeout=5) == np.arange(200_000)).all()


def test_memory_that_is_not_to_be_had_is_an_error_and_not_the_end():
    queue = many(capacity=1 << 30)
    array = np.zeros(200 << 20, dtype=np.uint8)
    queue.put(array)
    with little_memory():
        with pytest.raises(MemoryError):
            queue.put(array)
        with pytest.raises(MemoryError):
            queue.get(timeout=5)
    assert queue.qsize() == 1
    assert queue.get(timeout=5).shape == array.shape


@pytest.mark.parametrize("receivers", ["one", "many"])
def test_memory_that_is_not_to_be_had_for_a_long_text_is_an_error_and_not_the_end(python, receivers):
    script = (
        "import sys\n"
        "import bytepath\n"
        "sys.path.append(sys.argv[2])\n"
        "from with_little import little_memory\n"
        "def limited(spare_bytes, work):\n"
        "    try:\n        with little_memory(spare_bytes):\n            work()\n        print('had')\n"
        "    except MemoryError:\n        print('lacks memory')\n"
        "queue = bytepath.Queue(receivers=sys.argv[1], capacity=1 << 30)\n"
        "large, small = 'x' * (64 << 20), 'y' * 1_900_000\n"
        # One has room for its pickle, and not for more.
        "limited(100 << 20, lambda: queue.put(large))\n"
        "queue.put(small)\n"
        "limited(0, queue.get)\n"
        "print(queue.qsize(), queue.get(timeout=30) == small)\n"
        "queue.put(large)\n"
        "print(queue.get(timeout=30) == large)\n"
    )
    done = python(script, receivers, str(Path(__file__).parent))
    assert done.stdout == "lacks memory\nlacks memory\n1 True\nTrue\n", done.stderr


def test_a_message_that_is_none_of_pythons_is_told_of_once_and_not_waited_for_to_be_done():
    queue = bytepath.JoinableQueue(receivers="many")
    queue.put("to be spoilt")
    queue.put("behind it")
    with mmap.mmap(queue._pool.filenos()[0], 0) as ring:
        at = ring.find(pickle.dumps("to be spoilt", 5))
        # So many buffers come with it.
        ring[at - 8 : at] = struct.pack("<Q", 1 << 40)
    with pytest.raises(bytepath.ChannelError, match="none of Python's"):
        queue.get(timeout=30)
    assert queue.get(timeout=30) == "behind it"
    assert not queue.join(0)
    queue.task_done()
    assert queue.join(30)


def die_in_its_turn(queue: bytepath.Queue) -> None:
    """As who is killed between the putting of a block and the putting of its message, with the counts
    stored, but not where the messages end."""
    memory, put, _ = queue._pool.filenos()
    with mmap.mmap(memory, 4096) as words:
        began = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
        assert struct.unpack_from("Q", words, 0) == (0,)
        number = struct.unpack_from("Q", words, 50 * 8)[0] + 1
        struct.pack_into("Q", words, 50 * 8, number)
        struct.pack_into("QQ", words, 48 * 8, 1000, 1 << 60)
        struct.pack_into("Q", words, 0, os.getpid() << 32 | began & 0xFFFFFFFF)
    with socket.socket(fileno=os.dup(put)) as sends, open("/dev/null", "rb") as file:
        socket.send_fds(sends, [number.to_bytes(8, "little")], [file.fileno()])
    os.kill(os.getpid(), signal.SIGKILL)


def test_who_is_killed_in_its_turn_is_followed_by_the_next_and_has_put_nothing():
    queue = many()
    queue.put(np.full(200_000, 1))
    queue.put("two")
    for round in range(3):
        child = fork().Process(target=die_in_its_turn, args=(queue,))
        child.start()
        child.join()
        assert child.exitcode == -signal.SIGKILL
        queue.put(np.full(200_000, round), timeout=10)
        assert queue.qsize() == 3 + round
    assert (queue.get(timeout=5) == 1).all()
    assert queue.get(timeout=5) == "two"
    for round in range(3):
        assert (queue.get(timeout=5) == round).all()
    assert queue.empty()


def die_while_putting(queue: bytepath.JoinableQueue, moment: str) -> None:
    """As who is killed just before its object is put, or just before that is counted as to be done."""
    if moment == "before it is counted":
        queue.put("two")
    memory, _, _ = queue._pool.filenos()
    with mmap.mmap(memory, 4096) as words, mmap.mmap(queue._board.fileno(), 4096) as board:
        began = int(Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()[19])
        struct.pack_into("Q", words, 0, os.getpid() << 32 | began & 0xFFFFFFFF)
        if moment == "before it is counted":
            assert struct.unpack_from("Q", board, 52 * 8) == (2,)
            struct.pack_into("Q", board, 52 * 8, 1)
        else:
            ends = struct.unpack_from("Q", words, 16 * 8)[0] >> 32
            struct.pack_into("QQ", words, 52 * 8, ends + 10, 2)
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("follows", ["who puts", "who gets"])
@pytest.mark.parametrize("moment", ["before it is put", "before it is counted"])
def test_what_who_is_killed_in_its_turn_has_put_is_to_be_done_and_nothing_else(moment, follows):
    queue = bytepath.JoinableQueue(receivers="many")
    queue.put("one")
    child = fork().Process(target=die_while_putting, args=(queue, moment))
    child.start()
    child.join()
    assert child.exitcode == -signal.SIGKILL
    got = ["one", "two"] if moment == "before it is counted" else ["one"]
    if follows == "who puts":
        queue.put("three", timeout=10)
        got.append("three")
    assert [queue.get(timeout=10) for _ in got] == got and queue.empty()
    for _ in got:
        assert not queue.join(0)
        queue.task_done()
    assert queue.join(10)
    with pytest.raises(ValueError, match="too many times"):
        queue.task_done()
    queue.put("four")
    assert not queue.join(0)


def test_who_waits_until_all_is_done_waits_for_what_who_is_killed_has_put_last():
    queue = bytepath.JoinableQueue(receivers="many")
    queue.put("one")
    child = fork().Process(target=die_while_putting, args=(queue, "before it is counted"))
    child.start()
    child.join()
    queue.task_done()
    assert not queue.join(0)
    queue.task_done()
    assert queue.join(10)


@contextlib.contextmanager
def turn_of_another(queue: bytepath.Queue):
    """As while a process that was stopped in its turn has it: the one that began this one."""
    memory, _, _ = queue._pool.filenos()
    began = int(Path(f"/proc/{os.getppid()}/stat").read_text().rsplit(")", 1)[1].split()[19])
    with mmap.mmap(memory, 4096) as words:
        struct.pack_into("Q", words, 0, os.getppid() << 32 | began & 0xFFFFFFFF)
        yield
        struct.pack_into("Q", words, 0, 0)


def test_a_turn_that_lasts_is_waited_for_no_longer_than_asked():
    queue = many()
    queue.put(1)
    with turn_of_another(queue):
        others = [threading.Thread(target=queue.get, daemon=True) for _ in range(20)]
        for thread in others:
            thread.start()
        began = time.monotonic()
        with pytest.raises(queues.Empty):
            queue.get(timeout=0.05)
        with pytest.raises(queues.Full):
            queue.put_nowait(2)
        # However many threads wait for it.
        assert time.monotonic() - began < 5
        # Who cannot look at that process does not take it for gone.
        with spare_descriptors(), pytest.raises(queues.Full):
            queue.put_nowait(2)
    for value in range(20):
        queue.put(value)
    for thread in others:
        thread.join(10)
    assert queue.get(timeout=5) == 19


def test_others_turns_are_no_reason_to_be_full_or_empty():
    queue, started = many(), fork().Barrier(4)

    def put_now(name: int) -> None:
        started.wait()
        for index in range(3_000):
            queue.put_nowait((name, index))

    children = [fork().Process(target=put_now, args=(name,)) for name in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert queue.qsize() == 12_000

    def get_now() -> None:
        started.wait()
        for _ in range(3_000):
            queue.get_nowait()

    children = [fork().Process(target=get_now) for _ in range(4)]
    for child in children:
        child.start()
    for child in children:
        child.join()
        assert child.exitcode == 0
    assert queue.empty()


def test_what_was_not_put_is_not_to_be_done():
    queue = bytepath.JoinableQueue(1, receivers="many")
    queue.put(1)
    child = fork().Process(target=queue.put, args=(2,))
    child.start()
    time.sleep(0.3)
    child.kill()
    child.join()
    assert queue.get(timeout=5) == 1
    queue.task_done()
    assert queue.join(5)
    with pytest.raises(ValueError, match="too many times"):
        queue.task_done()


def test_who_is_forked_without_descriptors_has_no_queue_of_its_parents():
    shared, own = [many() for _ in range(3)], bytepath.Queue()
    own.put(1)
    assert own.get() == 1
    pools = [queue._pool for queue in shared]
    with spare_descriptors():
        pid = os.fork()
        if pid == 0:
            # Queues that come before these may have made room for one.
            not_theirs = [queue._pool not in pools and queue._closed == (queue._pool is None) for queue in shared]
            os._exit(0 if all(not_theirs) and own._inbox is None else 1)
    assert os.waitpid(pid, 0)[1] == 0
    assert [queue._pool for queue in shared] == pools
    for queue in [*shared, own]:
        queue.put(2)
        assert queue.get(timeout=5) == 2


def test_a_task_that_waits_for_room_packs_its_object_once():
    class Counted:
        packed = 0

        def __reduce__(self):
            Counted.packed += 1
            return int, (7,)

    async def run() -> None:
        queue = many(1)
        queue.put(1)
        later = asyncio.create_task(queue.put_async(Counted()))
        await asyncio.sleep(0.1)
        assert await queue.get_async() == 1
        assert await queue.get_async() == 7
        await later

    asyncio.run(run())
    assert Counted.packed == 1


def test_whoever_is_killed_at_whatever_moment_nothing_hangs_and_nothing_comes_twice():
    order = random.Random(23)
    for round in range(12):
        items = order.choice([10, 3_000, 30_000])
        queue = many(**SMALL)
        putters = [fork().Process(target=work.put_for_ever, args=(queue, items)) for _ in range(2)]
        pipes = [fork().Pipe(False) for _ in range(3)]
        getters = [fork().Process(target=work.get_until_killed, args=(queue, told)) for _, told in pipes]
        for child in putters + getters:
            child.start()
        for _, told in pipes:
            told.close()
        victims = [*putters, *getters]
        order.shuffle(victims)
        readers = [reader for reader, _ in pipes]
        timers = []
        for at, child in enumerate(victims):
            timers.append(threading.Timer(0.02 + at * order.random() * 0.03, child.kill))
            timers[-1].start()
        told = all_told(readers)
        for timer in timers:
            timer.join()
        for child in putters + getters:
            child.join()
        left = []
        with contextlib.suppress(queues.Empty):
            while True:
                name, index, array = queue.get(timeout=0.2)
                assert (array == index).all()
                left.append((name, index))
        queue.put("goes on")
        assert queue.get(timeout=5) == "goes on"
        seen = [pair for one in told.values() for pair in one] + left
        assert len(seen) == len(set(seen))
        for child in putters:
            indices = sorted(index for name, index in seen if name == child.pid)
            # Whoever was killed had at most one object that it had not told of.
            missing = set(range(indices[-1] + 1 if indices else 0)) - set(indices)
            assert len(missing) <= len(getters)
        queue.close()


def test_nothing_lies_in_dev_shm_and_descriptors_are_given_back(in_dev_shm):
    before, fds = in_dev_shm(), len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        queue = many()
        for _ in range(5):
            queue.put(np.zeros(1 << 20))
        queue.get()
        assert in_dev_shm() == before
        queue.close()
    del queue
    assert len(os.listdir("/proc/self/fd")) == fds
