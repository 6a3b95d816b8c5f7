"""Channels and queues: what goes in comes out, under every start method, whatever happens to the ends."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import copyreg
import ctypes
import errno
import functools
import gc
import itertools
import mmap
import multiprocessing
import os
import pickle
import queue as queues
import random
import re
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import channel_work as work
import numpy as np
import pytest
from channel_work import fork

import bytepath
from bytepath import _pickling
from interrupts import interrupted_at
from with_little import little_memory, spare_descriptors

METHODS = ["fork", "spawn", "forkserver"]
SMALL = {"capacity": 1 << 20, "ring_bytes": 1 << 14}

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def program(name: str, *words: object, **options) -> subprocess.Popen:
    """A process that is not related: it imports what it needs."""
    arguments = [sys.executable, work.__file__, name, *map(str, words)]
    return subprocess.Popen(arguments, **options)


def mapped_kib() -> int:
    """Shared memory of channels that this process has mapped, which is there."""
    sizes, ours = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if "-" in line.split(" ")[0]:
            ours = "/memfd:bytepath" in line
        elif ours and line.startswith("Rss:"):
            sizes += int(line.split()[1])
    return sizes


# ---- what goes in comes out -------------------------------------------------------------------------


def objects():
    pandas = pytest.importorskip("pandas")
    arrow = pytest.importorskip("pyarrow")
    frame = pandas.DataFrame({"a": np.arange(50_000), "b": np.arange(50_000) * 0.5, "c": ["x", "y"] * 25_000})
    return {
        "nothing": None,
        "text": "æ" * 100_000,
        "bytes": os.urandom(3_000_000),
        "nested": {"a": [1, 2.5, {"b": (None, True)}], "array": np.arange(10)},
        "small array": np.arange(7, dtype=np.int16),
        "empty array": np.empty((0, 3)),
        "array": np.arange(300_000.0).reshape(3, -1),
        "array in Fortran's order": np.asfortranarray(np.arange(300_000).reshape(3, -1)),
        "array with gaps": np.arange(300_000).reshape(3, -1)[:, ::2],
        "array of objects": np.array([{"a": 1}, None], dtype=object),
        "many small arrays": [np.full(index, index) for index in range(600)],
        "many large arrays": [np.full(30_000, index) for index in range(20)],
        "frame": frame,
        "table": arrow.Table.from_pandas(frame),
        "buffer": pickle.PickleBuffer(b"x" * 100_000),
        "larger than all memory for buffers": np.arange(1 << 18),
    }


def same(one, other) -> bool:
    if type(one).__module__.startswith("numpy"):
        return one.dtype == other.dtype and np.array_equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, pickle.PickleBuffer):
        return bytes(one) == bytes(other)
    if hasattr(one, "equals"):
        return bool(one.equals(other))
    return one == other


def test_any_object_comes_out_as_it_went_in():
    channel, other = bytepath.Channel.pair(**SMALL)
    for name, sent in objects().items():
        channel.send(sent, timeout=10)
        got = other.recv(timeout=10)
        assert same(sent, got), name
        del got


def test_what_was_added_to_the_type_of_an_array_comes_with_it():
    channel, other = bytepath.Channel.pair()
    for items in (10, 100_000):
        channel.send(np.arange(items, dtype=np.dtype("f8", metadata={"unit": "m"})))
        got = other.recv(timeout=10)
        assert got.dtype.metadata == {"unit": "m"} and got[-1] == items - 1


@pytest.mark.parametrize("name", ["float8_e5m2", "bfloat16", "int4"])
def test_an_array_of_a_type_that_others_have_added_to_numpy_comes_out_as_it_went_in(name):
    added = pytest.importorskip("ml_dtypes", reason="no package is here that adds types to numpy")
    channel, other = bytepath.Channel.pair()
    for items in (3, 100_000):
        sent = np.ones(items, dtype=getattr(added, name))
        channel.send(sent, timeout=10)
        got = other.recv(timeout=10)
        assert got.dtype == sent.dtype and got.tobytes() == sent.tobytes()


def test_objects_go_while_another_thread_is_importing_numpy(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", types.ModuleType("numpy"))
    channel, other = bytepath.Channel.pair()
    channel.send(["any object"])
    assert other.recv(timeout=10) == ["any object"]


def test_a_type_that_copyreg_was_told_of_is_known_to_whoever_looks_at_whatever_moment():
    looks: list[bool] = []

    def trace(frame, event, _):
        nonlocal left
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left == 0:
            left = -1
            looks.append(kind in _pickling._reducers())
        return trace

    before = sys.gettrace()
    for number in itertools.count(1):
        kind, left = type("Kind", (), {}), number
        copyreg.pickle(kind, lambda _: "kind")
        try:
            # As another thread, in the middle of what this one does.
            sys.settrace(trace)
            _pickling._reducers()
        finally:
            sys.settrace(before)
            del copyreg.dispatch_table[kind]
        if left > 0:
            break
        assert looks[-1], number
    assert number > 10


def test_a_buffer_that_was_received_can_be_handed_on():
    channel, other = bytepath.Channel.pair()
    for size in (100, 100_000):
        sent = os.urandom(size)
        channel.send({"buffer": pickle.PickleBuffer(sent)})
        got = other.recv(timeout=10)
        other.send(got)
        again = channel.recv(timeout=10)
        assert bytes(again["buffer"]) == sent and memoryview(again["buffer"]).readonly
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            assert bytes(pickle.loads(pickle.dumps(got, protocol))["buffer"]) == sent


def test_an_array_is_a_view_that_cannot_be_written_and_holds_its_memory():
    channel, other = bytepath.Channel.pair(capacity=64 << 20)
    channel.send(np.zeros(1 << 20))
    before = mapped_kib()
    assert before > 0
    views = [other.recv()]
    for value in (1, 2):
        channel.send(np.full(1 << 20, value))
        views.append(other.recv())
    channel.close()
    other.close()
    gc.collect()
    for value, view in enumerate(views):
        assert (view == value).all() and not view.flags.owndata
        with pytest.raises(ValueError):
            view[0] = 1
        with pytest.raises(ValueError):
            view.flags.writeable = True
    del view, views
    gc.collect()
    assert mapped_kib() < before


def test_memory_comes_back_in_any_order():
    channel, other = bytepath.Channel.pair(**SMALL)
    order = random.Random(7)
    kept: list = []
    for index in range(300):
        try:
            channel.send(np.full(20_000, index), timeout=0)
        except TimeoutError:
            assert kept, "it is only full while something is kept"
            kept.pop(order.randrange(len(kept)))
            channel.send(np.full(20_000, index), timeout=5)
        kept.append((index, other.recv(timeout=5)))
        if order.random() < 0.3:
            kept.pop(order.randrange(len(kept)))
        assert all((view == index).all() for index, view in kept)


@pytest.mark.parametrize("method", METHODS)
def test_many_processes_put_and_each_ones_objects_keep_their_order(method):
    context = multiprocessing.get_context(method)
    with bytepath.Queue(**SMALL) as queue:
        arguments = [(queue, name, 40, 5_000 + name * 7_000) for name in range(3)]
        children = [context.Process(target=work.put_arrays, args=words) for words in arguments]
        for child in children:
            child.start()
        seen = {0: 0, 1: 0, 2: 0}
        for _ in range(120):
            name, index, array = queue.get(timeout=30)
            assert index == seen[name] and (array == index).all()
            seen[name] += 1
        for child in children:
            child.join()
            assert child.exitcode == 0
        assert queue.empty() and queue.qsize() == 0
        with pytest.raises(queues.Empty):
            queue.get(timeout=0.01)


@pytest.mark.parametrize("method", METHODS)
def test_a_channel_goes_both_ways(method):
    context = multiprocessing.get_context(method)
    here, there = bytepath.Channel.pair()
    child = context.Process(target=work.echo, args=(there,))
    child.start()
    there.close()
    for sent in (1, "two", np.arange(100_000), [np.arange(3), b"x" * 100_000]):
        here.send(sent)
        assert same(sent, here.recv(timeout=30))
    here.close()
    child.join()
    assert child.exitcode == 0


def test_what_was_put_before_anybody_gets_is_there_after_its_process_has_ended():
    queue = bytepath.Queue()
    child = fork().Process(target=work.put_arrays, args=(queue, 0, 5, 100_000))
    child.start()
    child.join()
    assert [queue.get(timeout=5)[1] for _ in range(5)] == [0, 1, 2, 3, 4]
    assert queue.qsize() == 0


def test_tasks_are_done_when_they_are_told_to_be():
    tasks, results = bytepath.JoinableQueue(), bytepath.Queue()
    for value in range(10):
        tasks.put(np.full(10_000, value))
    tasks.put(None)
    assert not tasks.join(0.01)
    child = fork().Process(target=work.work, args=(tasks, results))
    child.start()
    assert tasks.join(30)
    assert [results.get(timeout=5) for _ in range(10)] == [value * 10_000 for value in range(10)]
    child.join()
    with pytest.raises(ValueError, match="too many times"):
        tasks.task_done()


def test_a_task_that_follows_from_another_one_is_waited_for(tmp_path):
    tasks = bytepath.JoinableQueue()
    tasks.put(20_000)
    child = fork().Process(target=work.follow, args=(tasks, str(tmp_path / "last")))
    child.start()
    while not tasks.join(0):
        pass
    assert (tmp_path / "last").exists(), "a task was inside, or was worked on"
    child.join()


def test_processes_that_are_not_related_meet_at_an_address(tmp_path):
    path = str(tmp_path / "queue")
    with bytepath.Queue.listen(path) as queue:
        others = [program("put_to", path, 20) for _ in range(2)]
        assert sorted(int(queue.get(timeout=30)[0]) for _ in range(40)) == sorted(list(range(20)) * 2)
        assert [other.wait() for other in others] == [0, 0]
        with pytest.raises(NotImplementedError):
            queue.qsize()
    assert not os.path.exists(path)
    path = str(tmp_path / "channel")
    with bytepath.ChannelListener(path) as listener:
        other = program("answer_at", path)
        with listener.accept(timeout=30) as channel:
            channel.send(np.arange(100_000))
            assert (channel.recv(timeout=30) == np.arange(100_000) * 2).all()
            with pytest.raises(EOFError):
                channel.recv(timeout=30)
        assert other.wait() == 0


@pytest.mark.parametrize("kind", [bytepath.Channel, bytepath.Queue])
@pytest.mark.parametrize("name, python_class", [("left", ConnectionRefusedError), ("none", FileNotFoundError)])
def test_an_address_where_nobody_listens_is_an_error_of_channels_and_of_its_errno(kind, name, python_class, tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as left:
        left.bind(str(tmp_path / "left"))
    with pytest.raises(bytepath.ChannelError, match="nobody listens at .*start the other end first") as raised:
        kind.connect(tmp_path / name, timeout=0)
    again = pickle.loads(pickle.dumps(raised.value))
    for error in (raised.value, again):
        assert isinstance(error, bytepath.ChannelError) and isinstance(error, python_class)
        assert (error.errno, str(error)) == (raised.value.errno, str(raised.value))


def test_an_address_may_be_a_path(tmp_path):
    with bytepath.Queue.listen(tmp_path / "queue") as queue, bytepath.Queue.connect(tmp_path / "queue") as other:
        other.put(1)
        assert queue.get(timeout=30) == 1
    with bytepath.ChannelListener(tmp_path / "channel") as listener:
        with bytepath.Channel.connect(tmp_path / "channel") as other, listener.accept(timeout=30) as channel:
            other.send(2)
            assert channel.recv(timeout=30) == 2


def test_a_stranger_who_connects_does_not_end_who_listens():
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else for a moment")
    address = f"@bytepath-test-{os.getpid()}"
    with bytepath.ChannelListener(address) as listener:
        os.seteuid(65534)
        try:
            strangers = [bytepath.Channel.connect(address) for _ in range(2)]
        finally:
            os.seteuid(0)
        with bytepath.Channel.connect(address) as other, listener.accept() as channel:
            other.send(1)
            assert channel.recv(timeout=30) == 1
        for stranger in strangers:
            stranger.close()
        with pytest.raises(TimeoutError, match="nobody"):
            listener.accept(timeout=0)


def test_what_a_process_puts_that_has_dropped_its_rights_is_there():
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    queue = bytepath.Queue()
    child = fork().Process(target=work.put_as, args=(queue, 65534, [b"small", bytes(100_000)]))
    child.start()
    assert [queue.get(timeout=30) for _ in range(2)] == [b"small", bytes(100_000)]
    child.join()
    assert queue.qsize() == 0


def test_a_stranger_who_listens_gets_no_end_of_a_channel():
    if os.geteuid() != 0:
        pytest.skip("only root can be somebody else for a moment")
    address = f"@bytepath-test-{os.getpid()}"
    os.seteuid(65534)
    try:
        listener = bytepath.ChannelListener(address)
    finally:
        os.seteuid(0)
    with listener, pytest.raises(bytepath.ChannelError, match="belongs to user 65534"):
        bytepath.Channel.connect(address)


def test_who_connects_and_is_no_channel_is_told_of_and_the_next_one_is_served():
    address = f"@bytepath-test-{os.getpid()}"
    with bytepath.ChannelListener(address) as listener, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
        other.connect(f"\0{address[1:]}")
        other.send(b"hello")
        with pytest.raises(bytepath.ChannelError, match="no channel of this version"):
            listener.accept()
        with bytepath.Channel.connect(address), listener.accept(timeout=30):
            pass


def test_who_hangs_up_before_it_has_said_what_it_is_is_not_waited_for():
    address = f"@bytepath-test-{os.getpid()}"
    with bytepath.ChannelListener(address) as listener:
        for _ in range(3):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
                other.connect(f"\0{address[1:]}")
        with pytest.raises(TimeoutError, match="nobody"):
            listener.accept(timeout=0.2)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.connect(f"\0{address[1:]}")
        with bytepath.Channel.connect(address), listener.accept():
            pass


def test_programs_that_are_started_inherit_no_descriptors_of_channels(tmp_path):
    with bytepath.ChannelListener(str(tmp_path / "channel")) as listener:
        with bytepath.Channel.connect(str(tmp_path / "channel")), listener.accept(timeout=30) as channel:
            assert not any(os.get_inheritable(fd.fileno()) for fd in (channel._receives, channel._sends))
    told, tells = multiprocessing.Pipe()
    here, there = bytepath.Channel.pair()
    queues = bytepath.Queue(), bytepath.Queue(receivers="many")
    child = multiprocessing.get_context("spawn").Process(target=work.tell_inherited, args=(there, *queues, tells))
    child.start()
    assert told.poll(60) and told.recv() == []
    child.join()
    here.close()


# ---- waiting ----------------------------------------------------------------------------------------


def test_who_keeps_very_many_arrays_goes_on_getting_them():
    queue, kept = bytepath.Queue(), []
    for index in range(4500):
        queue.put(np.full(2100, index), timeout=10)
        kept.append(queue.get(timeout=10))
    assert all((array == index).all() for index, array in enumerate(kept))


def test_a_queue_that_is_full_says_so_and_goes_on_when_there_is_room():
    queue = bytepath.Queue(2)
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


@pytest.mark.parametrize("receivers", ["one", "many"])
def test_a_queue_without_a_size_is_full_when_its_ring_is(receivers):
    queue = bytepath.Queue(receivers=receivers, ring_bytes=1 << 14)
    assert not queue.full()
    count = 0
    with pytest.raises(queues.Full):
        while True:
            queue.put_nowait(count)
            count += 1
            assert count < 1 << 14
    assert queue.full() and queue.qsize() == count > 100
    for index in range(count):
        assert queue.get() == index
    assert not queue.full()
    queue.put_nowait("once more")


@pytest.mark.parametrize("receivers", ["one", "many"])
def test_a_queue_is_full_when_it_has_no_memory_for_one_more_like_the_last(receivers):
    queue = bytepath.Queue(receivers=receivers, capacity=8 << 20)
    items = np.zeros(3 << 18)
    queue.put(items)
    assert queue.full(), "two are more than it may hold"
    with pytest.raises(queues.Full):
        queue.put_nowait(items)
    assert queue.full()
    queue.put("small")
    assert not queue.full()
    with pytest.raises(queues.Full):
        queue.put_nowait(items)
    assert queue.full()
    got = queue.get()
    assert got.nbytes == items.nbytes and queue.get() == "small"
    del got
    assert not queue.full()
    queue.put_nowait(items)


def test_who_asks_whether_a_queue_is_full_does_not_keep_a_task_from_being_woken():
    queue = bytepath.Queue(capacity=1 << 20)
    items = np.zeros(100_000)

    async def put_when_there_is_memory() -> None:
        await queue.put_async(items)
        putting = asyncio.ensure_future(queue.put_async(items))
        await asyncio.sleep(0)
        assert not putting.done() and queue.full()
        got = queue.get()
        del got
        assert not queue.full()
        await asyncio.wait_for(putting, 30)

    asyncio.run(put_when_there_is_memory())


def test_a_queue_whose_receiver_is_gone_is_not_full():
    queue = bytepath.Queue(**SMALL)
    told, tells = fork().Pipe(False)
    child = fork().Process(target=work.get_for_ever, args=(queue, tells))
    child.start()
    queue.put((0, 0))
    assert told.recv() == 0
    child.kill()
    child.join()
    assert not queue.full()


def test_who_never_receives_has_the_sender_wait_and_not_take_all_memory():
    channel, other = bytepath.Channel.pair(**SMALL)
    with pytest.raises(TimeoutError):
        for _ in range(100):
            channel.send(np.zeros(50_000), timeout=0.02)
    assert channel._outbox.buffer_bytes() <= SMALL["capacity"]
    other.recv()
    with pytest.raises(TimeoutError):
        while True:
            channel.send("x" * 1000, timeout=0.02)


@pytest.mark.parametrize("wait", ["get", "put"])
def test_an_interrupt_ends_every_wait_at_once(wait):
    queue = bytepath.Queue(**SMALL)
    if wait == "put":
        with pytest.raises(queues.Full):
            while True:
                queue.put(np.zeros(10_000), timeout=0)
    interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        queue.get() if wait == "get" else queue.put(np.zeros(10_000))
    assert time.monotonic() - began < 5
    interrupt.join()


def test_other_threads_run_while_one_waits():
    queue = bytepath.Queue()
    got: list = []
    threads = [threading.Thread(target=lambda: got.append(queue.get())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for value in range(3):
        queue.put(value)
    for thread in threads:
        thread.join(10)
    assert sorted(got) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["queue", "channel"])
def test_threads_that_begin_at_once_share_one_end(kind):
    for _ in range(20):
        if kind == "queue":
            queue = bytepath.Queue(**SMALL)
            put, get, ends = queue.put, lambda: queue.get(timeout=10), [queue]
        else:
            here, there = bytepath.Channel.pair(**SMALL)
            put, get, ends = here.send, lambda: there.recv(10), [here, there]
        start = threading.Barrier(8)

        def begin(value: int) -> None:
            start.wait()
            put(value)

        threads = [threading.Thread(target=begin, args=(value,)) for value in range(8)]
        for thread in threads:
            thread.start()
        # Whoever puts through an end of its own, which another one takes the place of, would be taken for
        # killed.
        assert sorted(get() for _ in range(8)) == list(range(8))
        for thread in threads:
            thread.join(10)
        for end in ends:
            end.close()


def test_event_loops_wait_for_descriptors_and_a_cancelled_task_takes_nothing():
    async def main() -> None:
        here, there = bytepath.Channel.pair(**SMALL)
        receiving = asyncio.ensure_future(there.aio.recv())
        await asyncio.sleep(0.01)
        receiving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await receiving
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(there.aio.recv(), 0.01)
        await here.aio.send("first")
        assert await there.aio.recv() == "first"

        async def send() -> None:
            for index in range(100):
                await here.aio.send(np.full(20_000, index))

        sending = asyncio.ensure_future(send())
        await asyncio.sleep(0.05)
        assert not sending.done(), "memory for 100 arrays is more than there is"
        for index in range(100):
            assert (await there.aio.recv() == index).all()
        await sending
        queue = bytepath.Queue(1)
        getting = asyncio.gather(*(queue.get_async() for _ in range(3)))
        for value in range(3):
            await queue.put_async(value)
        assert sorted(await getting) == [0, 1, 2]

    asyncio.run(main())


# ---- ends that fail ---------------------------------------------------------------------------------


def test_all_that_a_killed_process_had_put_is_received_and_then_its_death_told():
    queue = bytepath.Queue()
    child = fork().Process(target=work.put_then_die, args=(queue, 10))
    child.start()
    assert [int(queue.get(timeout=30)[0]) for _ in range(10)] == list(range(10))
    with pytest.raises(bytepath.PeerGone, match="without a last word"):
        queue.get(timeout=30)
    child.join()
    queue.put("it goes on")
    assert queue.get(timeout=5) == "it goes on"


def test_a_channel_whose_other_end_is_killed_says_so_to_both_ways():
    here, there = bytepath.Channel.pair(**SMALL)
    child = fork().Process(target=work.echo, args=(there,))
    child.start()
    there.close()
    here.send(1)
    assert here.recv(timeout=30) == 1
    child.kill()
    child.join()
    with pytest.raises(bytepath.PeerGone):
        here.recv(timeout=30)
    with pytest.raises(bytepath.PeerGone):
        while True:
            here.send(np.zeros(10_000), timeout=30)


@pytest.mark.parametrize("end", ["killed", "closed", "collected", "over"])
@pytest.mark.parametrize("way", [*METHODS, "address"])
def test_the_end_of_who_has_only_received_is_told_as_what_it_was(way, end):
    context = multiprocessing.get_context("spawn" if way == "address" else way)
    if way == "address":
        address = f"@bytepath-test-{os.urandom(8).hex()}"
        with bytepath.ChannelListener(address) as listener:
            child = context.Process(target=work.connect_and_receive_then, args=(address, end))
            child.start()
            here = listener.accept(timeout=30)
    else:
        here, there = bytepath.Channel.pair()
        with there:
            child = context.Process(target=work.receive_then, args=(there, end))
            child.start()
    here.send(1)
    with pytest.raises(EOFError) as raised:
        here.recv(timeout=30)
    child.join()
    assert raised.type is (bytepath.PeerGone if end == "killed" else EOFError), raised.value
    assert child.exitcode == (-signal.SIGKILL if end == "killed" else 0)
    with pytest.raises(EOFError):
        here.recv(timeout=30)


@pytest.mark.parametrize("used", ["not at all", "to receive"])
def test_an_end_that_sent_nothing_and_is_closed_is_an_end(used):
    here, there = bytepath.Channel.pair()
    if used != "not at all":
        there.send(1)
        assert here.recv() == 1
    here.close()
    with pytest.raises(EOFError) as raised:
        there.recv(timeout=30)
    assert raised.type is EOFError


def test_the_death_of_who_made_both_ends_is_told_to_a_process_that_was_forked_with_them():
    told, tells = fork().Pipe(False)

    def answer(channel: bytepath.Channel) -> None:
        with contextlib.suppress(EOFError), channel:
            while True:
                channel.send(channel.recv())
        tells.send("ended")

    def make_both() -> None:
        here, there = bytepath.Channel.pair()
        worker = fork().Process(target=answer, args=(there,))
        worker.start()
        there.close()
        here.send("one")
        tells.send(here.recv())
        worker.join()

    maker = fork().Process(target=make_both)
    maker.start()
    tells.close()
    assert told.recv() == "one"
    maker.kill()
    assert told.poll(30), "it waits for ever"
    assert told.recv() == "ended"
    maker.join()


@pytest.mark.parametrize("method", METHODS)
def test_an_end_that_two_processes_were_given_is_the_firsts_and_the_second_is_told(method):
    context = multiprocessing.get_context(method)
    here, there = bytepath.Channel.pair()
    told, tells = context.Pipe(False)
    said = []
    # One after the other: what the first has claimed stays its own when it is gone.
    for use in (work.send_one, work.send_one, work.receive_one):
        child = context.Process(target=use, args=(there, tells))
        child.start()
        said.append((child.pid, told.recv()))
        child.join()
    assert here.recv(timeout=30) == said[0][0] and said[0][1] == "done"
    with pytest.raises(EOFError):
        here.recv(timeout=30)
    for _, words in said[1:]:
        assert words.startswith(f"RuntimeError: this end of the channel belongs to process {said[0][0]}"), words


def test_a_copy_of_an_end_is_told_that_the_other_one_is_used():
    here, there = bytepath.Channel.pair()
    twice = copy.copy(there)
    there.send(1)
    with pytest.raises(RuntimeError, match=f"belongs to process {os.getpid()}, which has used it, or a copy of it"):
        twice.send(2)
    there.send(3)
    assert [here.recv(), here.recv()] == [1, 3]


@pytest.mark.parametrize("way", ["arguments", "list", "named", "deep", "method", "partial", "subclass"])
@pytest.mark.parametrize("method", METHODS)
def test_a_process_that_is_given_both_ends_has_both(method, way):
    context = multiprocessing.get_context(method)
    one, other = bytepath.Channel.pair()
    told, tells = context.Pipe(False)
    target, args, kwargs = {
        "arguments": (work.use_both, (tells, one, other), {}),
        "list": (work.use_both, (tells, [one, other]), {}),
        "named": (work.use_both, (tells,), {"ends": {"one": one, "other": other}}),
        "deep": (work.use_both_of_first, (tells, [[({"ends": (one, other)},)]]), {}),
        "method": (work.Holder(one, other).work, (tells,), {}),
        "partial": (functools.partial(work.use_both, tells, one, other), (), {}),
        "subclass": (None, (), {}),
    }[way]
    if way == "subclass":
        child = work.holding_process(context)(tells, one, other)
    else:
        child = context.Process(target=target, args=args, kwargs=kwargs)
    child.start()
    assert told.recv() == "done"
    child.join()


def test_who_uses_the_end_that_a_fork_closed_is_told_why():
    one, other = bytepath.Channel.pair()
    told, tells = fork().Pipe(False)

    def use(channel: bytepath.Channel) -> None:
        channel.send(1)
        with pytest.raises(ValueError, match="closed: this process was forked, has used the other one first"):
            other.recv()
        tells.send("used")
        # Where the parent has closed it, too.
        with pytest.raises(bytepath.PeerGone, match="and has closed the other one, as it was not given both"):
            while True:
                channel.send(1, timeout=30)
        tells.send("done")

    child = fork().Process(target=use, args=(one,))
    child.start()
    tells.close()
    assert told.recv() == "used"
    other.close()
    assert told.recv() == "done"
    child.join()


def test_both_ends_are_for_a_process_that_goes_on_as_another():
    ends = bytepath.Channel.pair()
    child = os.fork()
    if child == 0:
        ends[0].send("one")
        os._exit(ends[1].recv(timeout=30) != "one")
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("beside", ["nobody", "a thread that waits"])
def test_a_listener_is_its_process_own(beside):
    address = f"@bytepath-test-{os.getpid()}"
    listener = bytepath.ChannelListener(address)
    waiting = threading.Thread(target=lambda: pytest.raises(ValueError, listener.accept))
    if beside != "nobody":
        waiting.start()
        # Where it waits most of the time.
        while not any(frame.f_code.co_name == "accept" for frame in sys._current_frames().values()):
            pass
    told, tells = fork().Pipe()

    def stay() -> None:
        with pytest.raises(RuntimeError, match="belongs to process"):
            listener.accept(0)
        tells.send("refused")
        tells.recv()

    child = fork().Process(target=stay, daemon=True)
    child.start()
    tells.close()
    assert told.recv() == "refused"
    listener.close()
    with pytest.raises(ConnectionRefusedError):
        bytepath.Channel.connect(address, timeout=0)
    with bytepath.ChannelListener(address):
        told.send(None)
        child.join()
    if beside != "nobody":
        waiting.join()


def test_a_second_receiver_is_refused_while_the_first_one_is_there():
    queue = bytepath.Queue()
    queue.put("for the first")
    assert queue.get() == "for the first"
    told, tells = multiprocessing.Pipe(False)
    child = fork().Process(target=work.get_one, args=(queue, tells))
    child.start()
    assert f"process {os.getpid()} receives from this queue" in told.recv()
    child.join()
    queue.close()


def test_a_receiver_that_ended_is_followed_by_another_one():
    queue = bytepath.Queue()
    told, tells = multiprocessing.Pipe(False)
    for value in range(3):
        child = fork().Process(target=work.get_one, args=(queue, tells))
        child.start()
        while True:
            try:
                queue.put(value)
            except bytepath.PeerGone:
                queue.put(value)
            # What is put within a moment of the end of the one before may be lost with it.
            if told.poll(1):
                break
        assert told.recv() == value
        child.join()


def test_a_receiver_that_closes_tells_those_that_it_has_not_taken_in_yet():
    queue = bytepath.JoinableQueue(maxsize=3)
    told, tells = fork().Pipe()

    def receive() -> None:
        with queue:
            with pytest.raises(queues.Empty):
                queue.get_nowait()
            told.send("receives")
            told.recv()
        told.send("closed")
        told.recv()

    receiver = fork().Process(target=receive, daemon=True)
    receiver.start()
    told.close()
    assert tells.recv() == "receives"
    for index in range(3):
        queue.put(index)
    with pytest.raises(queues.Full):
        queue.put_nowait(3)
    tells.send(None)
    assert tells.recv() == "closed"
    assert queue.qsize() == 0 and queue.join(1)
    # What was put is lost, which who puts is told, too, within a moment.
    with pytest.raises(bytepath.PeerGone):
        while True:
            queue.put(4)
    for index in range(5, 8):
        queue.put_nowait(index)
    with pytest.raises(queues.Full):
        queue.put_nowait(8)
    assert [queue.get(timeout=10) for _ in range(3)] == [5, 6, 7]
    tells.send(None)
    receiver.join()


def test_a_forked_process_cannot_disturb_a_channel_that_it_inherits():
    here, there = bytepath.Channel.pair()
    here.send(np.arange(100_000))
    view = there.recv()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            assert view.sum() == 4_999_950_000, "what it had before the fork is there"
            for use in (lambda: here.send(1), there.recv, here.recv):
                with pytest.raises(RuntimeError, match=f"belongs to process {os.getppid()}"):
                    use()
            here.close()
            there.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    here.send("still there")
    assert there.recv(timeout=5) == "still there"
    # A process that was forked and lives does not hide that its parent has closed an end.
    child = os.fork()
    if child == 0:
        time.sleep(30)
        os._exit(0)
    here.close()
    with pytest.raises(EOFError):
        there.recv(timeout=5)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert view[-1] == 99_999


def sockets() -> set[str]:
    """The sockets that this process has open."""
    links = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            links.add(os.readlink(f"/proc/self/fd/{name}"))
    return {link for link in links if link.startswith("socket:")}


def test_a_process_that_is_forked_while_threads_look_keeps_nothing_of_its_parents():
    before, over = sockets(), threading.Event()
    here, there = bytepath.Channel.pair(ring_bytes=1 << 12)
    here.send("one")
    there.recv()
    there.send("one")
    here.recv()
    # From here on one way is full, and the other one empty.
    with contextlib.suppress(TimeoutError):
        while True:
            here.send(bytes(1000), 0.0)

    def look(end: Callable[[float], object]) -> None:
        while not over.is_set():
            with pytest.raises(TimeoutError):
                end(0.0003)

    ends = (lambda timeout: here.send(bytes(1000), timeout), here.recv)
    threads = [threading.Thread(target=look, args=(end,)) for end in ends * 2]
    for thread in threads:
        thread.start()
    try:
        ours = sockets() - before
        kept = 0
        for _ in range(60):
            child = os.fork()
            if child == 0:
                os._exit(bool(sockets() & ours))
            kept += os.waitpid(child, 0)[1] != 0
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert len(ours) >= 4 and kept == 0


def test_what_a_forked_process_has_inherited_is_not_written_to_while_it_lives():
    here, there = bytepath.Channel.pair(capacity=1 << 20)
    here.send(np.full(100_000, 1))
    view = there.recv(timeout=30)
    ours, theirs = multiprocessing.Pipe()

    def look(view: np.ndarray) -> None:
        theirs.recv()
        theirs.send(bool((view == 1).all()))

    child = fork().Process(target=look, args=(view,))
    child.start()
    del view
    with pytest.raises(TimeoutError):
        here.send(np.full(100_000, 2), timeout=0.1)
    ours.send("look")
    assert ours.recv()
    child.join()
    here.send(np.full(100_000, 2), timeout=30)
    assert (there.recv(timeout=30) == 2).all()


# What others have registered to be done before a fork comes after what the package does then, if they did so first.
FORKS_THAT_OVERLAP = """
import os
import sys
import threading

forking, goes_on = threading.Event(), threading.Event()

def before():
    if not forking.is_set():
        forking.set()
        assert goes_on.wait(30)

os.register_at_fork(before=before)

import numpy as np
import bytepath

def fork():
    global child
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0 if (view == 1).all() else 1)

reader, writer = os.pipe()
here, there = bytepath.Channel.pair(capacity=1 << 20)
here.send(np.full(100_000, 1))
if sys.argv[1] == "another fork":
    view = there.recv(timeout=30)
thread = threading.Thread(target=fork)
thread.start()
assert forking.wait(30)
if sys.argv[1] == "another fork":
    other = os.fork()
    if other == 0:
        os._exit(0)
    assert os.waitpid(other, 0)[1] == 0
else:
    view = there.recv(timeout=30)
goes_on.set()
thread.join()
del view
try:
    here.send(np.full(100_000, 2), timeout=0.1)
    print("it is written to")
except TimeoutError:
    os.write(writer, b".")
    assert os.waitpid(child, 0)[1] == 0
    here.send(np.full(100_000, 2), timeout=30)
    assert (there.recv(timeout=30) == 2).all()
"""


@pytest.mark.parametrize("meanwhile", ["another fork", "a message"])
def test_what_a_forked_process_has_inherited_is_its_whatever_other_threads_did_meanwhile(meanwhile):
    what = [sys.executable, "-W", "ignore", "-c", FORKS_THAT_OVERLAP, meanwhile]
    done = subprocess.run(what, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("way", ["get", "get_async"])
def test_what_a_forked_process_had_is_the_senders_when_it_has_ended(way):
    queue = bytepath.Queue(capacity=1 << 20)
    sender = fork().Process(target=work.put_arrays, args=(queue, 0, 8, 100_000))
    sender.start()

    def got() -> tuple[int, np.ndarray]:
        if way == "get":
            return queue.get(timeout=30)[1:]
        return asyncio.run(asyncio.wait_for(queue.get_async(), 30))[1:]

    child = None
    for value in range(0, 8, 2):
        # Two, which are more than the queue's memory.
        (index, view), (next_index, other) = got(), got()
        assert (index, next_index) == (value, value + 1) and (view == value).all() and (other == value + 1).all()
        if child is not None:
            # It ended while this process waited, with the views as they were: their memory was its until then.
            assert os.waitpid(child, 0)[1] == 0
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(writer)
            os.read(reader, 1)
            os._exit(0 if (view == value).all() and (other == value + 1).all() else 1)
        os.close(reader)
        del view, other
        # While this process waits for the next one.
        threading.Timer(0.05, os.close, (writer,)).start()
    assert os.waitpid(child, 0)[1] == 0
    sender.join()


@pytest.mark.parametrize(
    "sizes",
    [(500_000, 20_000), (500_000, 200_000), (400_000, 400_000, 100_000), (2_000_000, 20_000, 2_000_000, 3_000_000)],
)
@pytest.mark.parametrize("way", ["queue", "channel", "get_nowait", "async"])
def test_who_keeps_the_last_object_until_it_has_the_next_gets_all(way, sizes):
    queue = bytepath.Queue(**SMALL)
    here, there = bytepath.Channel.pair(**SMALL)
    put = here.send if way == "channel" else queue.put
    values = list(enumerate(sizes * 3))

    async def put_async() -> None:
        for value, size in values:
            await queue.put_async(np.full(size, value, dtype="u1"))

    def put_all() -> None:
        if way == "async":
            return asyncio.run(put_async())
        for value, size in values:
            put(np.full(size, value, dtype="u1"))

    def get() -> np.ndarray:
        if way != "get_nowait":
            return there.recv(timeout=10) if way == "channel" else queue.get(timeout=10)
        until = time.monotonic() + 10
        while True:
            with contextlib.suppress(queues.Empty):
                return queue.get_nowait()
            assert time.monotonic() < until
            time.sleep(0.001)

    async def get_all() -> None:
        for value, size in values:
            view = await asyncio.wait_for(queue.get_async(), 10)
            assert view.size == size and (view == value).all()

    sender = fork().Process(target=put_all)
    sender.start()
    if way == "async":
        asyncio.run(get_all())
    else:
        for value, size in values:
            view = get()
            assert view.size == size and (view == value).all()
    sender.join()


def test_an_interpreter_may_end_with_views_alive():
    other = program("exit_with_views", stderr=subprocess.PIPE)
    assert other.communicate(timeout=30)[1] == b"" and other.returncode == 0


# How a program comes to end with a channel of which it has only received, and whose other end is closed.
ENDS_RECEIVING = {
    "a child closes": """
import multiprocessing
import bytepath

def work(there):
    there.send("sent")
    there.close()

if __name__ == "__main__":
    here, there = bytepath.Channel.pair()
    child = multiprocessing.get_context("fork").Process(target=work, args=(there,))
    child.start()
    there.close()
    print(here.recv(timeout=30))
    child.join()
""",
    "until the end": """
import bytepath

here, there = bytepath.Channel.pair()
there.send("sent")
there.close()
try:
    while True:
        print(here.recv(timeout=30))
except EOFError:
    pass
""",
    "asyncio": """
import asyncio
import bytepath

async def receive():
    global here
    here, there = bytepath.Channel.pair()
    there.send("sent")
    print(await here.aio.recv())
    there.close()

asyncio.run(receive())
""",
    "a listener": """
import os
import bytepath

address = f"@bytepath-test-ends-{os.getpid()}"
listener = bytepath.ChannelListener(address)
there = bytepath.Channel.connect(address)
here = listener.accept(timeout=30)
there.send("sent")
there.close()
try:
    while True:
        print(here.recv(timeout=30))
except EOFError:
    pass
""",
    "a cycle": """
import bytepath

here, there = bytepath.Channel.pair()
there.send("sent")
print(here.recv(timeout=30))
there.close()
here.itself = here
""",
    "after the exit": """
import atexit

def late():
    global here
    here, there = bytepath.Channel.pair()
    there.send("sent")
    print(here.recv(timeout=30))
    there.close()

# First, and so run after what bytepath registers.
atexit.register(late)
import bytepath

queue = bytepath.Queue()
queue.put("before")
""",
}


@pytest.mark.parametrize("ends", ENDS_RECEIVING)
def test_a_program_that_has_only_received_ends_without_a_word(ends, tmp_path):
    (tmp_path / "program.py").write_text(ENDS_RECEIVING[ends])
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "sent\n", "")


@pytest.mark.parametrize("receivers", ["one", "many"])
def test_a_queue_works_where_the_name_of_the_process_ends_in_the_middle_of_a_letter(receivers, tmp_path):
    # The kernel keeps 15 bytes of it.
    script = tmp_path / "aaaaaaaaaaaaaaé.py"
    script.write_text(
        f"#!{sys.executable}\nimport bytepath\nqueue = bytepath.Queue(receivers={receivers!r})\nqueue.put(1)\n"
        "print(queue.get(timeout=30), open('/proc/self/comm', 'rb').read())\n"
    )
    script.chmod(0o755)
    done = subprocess.run([script], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 b'aaaaaaaaaaaaaa\\xc3\\n'\n", "")


def test_exceptions_that_are_not_there_are_told_as_that(monkeypatch):
    name = "bytepath._channel_errors"
    # Once the interpreter ends there is None, and then nothing.
    for is_none in (True, False):
        if is_none:
            monkeypatch.setitem(sys.modules, name, None)
        else:
            monkeypatch.delitem(sys.modules, name)
        for connect in (bytepath.Channel.connect, bytepath.Queue.connect):
            with pytest.raises(ImportError, match=f"^{name} is not there$"):
                connect("@bytepath-test-nobody", timeout=0)


def test_bad_objects_and_closed_ends_are_refused_and_harm_nothing():
    queue = bytepath.Queue()
    with pytest.raises((pickle.PicklingError, AttributeError)):
        queue.put(lambda: None)
    with pytest.raises(TypeError):
        queue.put(threading.Lock())
    with pytest.raises((pickle.PicklingError, BufferError), match="contiguous"):
        queue.put(pickle.PickleBuffer(memoryview(b"abcdef" * 10_000)[::2]))
    queue.put("fine")
    assert queue.get() == "fine"
    queue.close()
    queue.close()
    for use in (queue.get, lambda: queue.put(1)):
        with pytest.raises(ValueError, match="closed"):
            use()
    here, there = bytepath.Channel.pair()
    here.send(1)
    with pytest.raises(ValueError, match="cannot be given away"):
        pickle.dumps(here)
    here.close()
    with pytest.raises(ValueError, match="closed"):
        here.send(1)
    assert there.recv() == 1


@pytest.mark.parametrize("ring_bytes", [1 << 44, 1 << 63])
def test_a_ring_that_is_larger_than_the_memory_of_the_machine_is_refused_at_once(ring_bytes):
    if os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >= 1 << 40:
        pytest.skip("no ring is larger than 1 TiB, and this machine has as much")
    for kind in (bytepath.Queue, bytepath.JoinableQueue):
        queue = kind(ring_bytes=ring_bytes)
        with pytest.raises(MemoryError, match="cannot take .* of memory"):
            queue.put(1)
        queue.close()
    here, there = bytepath.Channel.pair(ring_bytes=ring_bytes)
    with pytest.raises(MemoryError, match="cannot take .* of memory"):
        here.send(1)


def test_a_peer_of_another_version_is_told_from_one_of_this():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.send(b"bytepath" + (8).to_bytes(2, "little") + (9).to_bytes(2, "little") + bytes([1, 4, 0, 0]) + bytes(4))
    inbox = bytepath._bytepath.Inbox.from_fd(ours.detach(), 1 << 14)
    with pytest.raises(bytepath.ChannelError, match="versions 8 to 9"):
        inbox.receive(5.0)
    queue = bytepath.Queue()
    stranger = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    stranger.connect("\0" + queue._address[1:])
    stranger.send(b"hello?")
    queue.put("not disturbed")
    assert queue.get(timeout=10) == "not disturbed"


def test_who_has_said_but_the_token_is_not_waited_for():
    queue = bytepath.Queue()
    slow = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    slow.connect("\0" + queue._address[1:])
    # The token, and an account, which it need not have opened.
    slow.send(os.pread(queue._board.fileno(), 16, 48 * 8) + struct.pack("<Q", 1 << 32 | 7))
    with pytest.raises(queues.Empty):
        queue.get_nowait()
    # It may take its time to make its ring: what others put comes meanwhile, and then what it puts.
    queue.put("first")
    assert queue.get(timeout=30) == "first"
    outbox = bytepath._bytepath.Outbox.from_fd(slow.detach(), 1 << 14, 1 << 20)
    assert outbox.send(pickle.dumps("last"), [], 30.0)
    assert queue.get(timeout=30) == "last"


class Between:
    """Stands between a sender and who receives: hands on what they say, and of memory the ring alone."""

    def __init__(self, receives: socket.socket) -> None:
        self.receives = receives
        self.sends, sender = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.outbox = bytepath._bytepath.Outbox.from_fd(sender.detach(), 1 << 20, 1 << 26)
        self.ring: mmap.mmap | None = None
        threading.Thread(target=self.hand_on, daemon=True).start()

    def hand_on(self) -> None:
        ends = {self.sends: self.receives, self.receives: self.sends}
        while True:
            for end in select.select(list(ends), [], [])[0]:
                packet, fds, _, _ = socket.recv_fds(end, 4096, 16)
                if fds and self.ring:
                    packet = b"dropped"
                elif fds or packet:
                    socket.send_fds(ends[end], [packet], fds)
                if fds and not self.ring:
                    self.ring = mmap.mmap(fds[0], 0)
                for fd in fds:
                    os.close(fd)
                if not packet:
                    for each in ends:
                        each.close()
                    return


def test_who_tells_of_memory_that_it_never_handed_over_is_told_of_once_and_received_from_no_more():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    between = Between(theirs)
    inbox = bytepath._bytepath.Inbox.from_fd(ours.detach(), 1 << 20)
    sending = threading.Thread(target=between.outbox.send, args=(pickle.dumps(0), [bytearray(8 << 20)], 30.0))
    sending.start()
    with pytest.raises(bytepath.ChannelError):
        inbox.receive(30.0)
    with pytest.raises(EOFError):
        inbox.receive(30.0)
    sending.join()


def test_a_message_that_is_none_of_pythons_is_told_of_once_and_not_waited_for_to_be_done():
    queue = bytepath.JoinableQueue()
    with pytest.raises(queues.Empty):
        queue.get_nowait()
    theirs = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    theirs.connect("\0" + queue._address[1:])
    theirs.send(os.pread(queue._board.fileno(), 16, 48 * 8) + struct.pack("<Q", 1 << 32 | 7))
    between = Between(theirs)
    sending = threading.Thread(target=between.outbox.send, args=(pickle.dumps("first"), [], 30.0))
    sending.start()
    assert queue.get(timeout=30) == "first"
    queue.task_done()
    sending.join()
    assert between.outbox.send(pickle.dumps("to be spoilt"), [], 30.0)
    assert between.outbox.send(pickle.dumps("behind it"), [], 30.0)
    at = between.ring.find(pickle.dumps("to be spoilt"))
    # So many buffers come with it.
    between.ring[at - 8 : at] = struct.pack("<Q", 1 << 40)
    with pytest.raises(bytepath.ChannelError, match="none of Python's"):
        queue.get(timeout=30)
    with pytest.raises(queues.Empty):
        queue.get_nowait()
    queue.put("of another")
    assert queue.get(timeout=30) == "of another"
    queue.task_done()
    queue.join()


def test_a_ring_that_is_larger_than_the_other_end_takes_is_refused_before_anything_is_put_into_it():
    address, most = f"@bytepath-test-{os.getpid()}", 64 << 20
    with bytepath.Queue.listen(address) as queue:
        with pytest.raises(ValueError, match="64 MiB"):
            bytepath.Queue.connect(address, ring_bytes=most + 1)
        with pytest.raises(ValueError, match="64 MiB"):
            bytepath.Queue.listen(address + "-too", ring_bytes=most + 1)
        # One that asks nobody gets no further, and does not end who listens.
        bad = bytepath._bytepath.Outbox.connect(address, most + 64, 1 << 20, 5.0)
        assert bad.send(pickle.dumps("lost"), [], 30.0)
        with bytepath.Queue.connect(address, ring_bytes=most) as other:
            other.put(1)
            assert queue.get(timeout=30) == 1
        with pytest.raises(queues.Empty):
            queue.get(timeout=0)
    with bytepath.ChannelListener(address) as listener:
        with pytest.raises(ValueError, match="64 MiB"):
            bytepath.Channel.connect(address, ring_bytes=most + 1)
        with pytest.raises(ValueError, match="64 MiB"):
            listener.accept(timeout=0, ring_bytes=most + 1)


@pytest.mark.parametrize("name", ["capacity", "ring_bytes"])
@pytest.mark.parametrize("given", [-1, 1 << 64])
def test_what_is_no_number_of_bytes_is_refused_by_name(tmp_path, name, given):
    address = str(tmp_path / "queue")
    asked = {name: given}
    makes = [bytepath.Channel.pair, bytepath.Queue, lambda **asked: bytepath.Queue(receivers="many", **asked)]
    with bytepath.Queue.listen(address), bytepath.ChannelListener(str(tmp_path / "channel")) as listener:
        makes += [lambda **asked: bytepath.Queue.connect(address, **asked), lambda **asked: listener.accept(1, **asked)]
        for make in makes:
            with pytest.raises(ValueError, match=f"{name} has to be between 0 .* not {given}"):
                make(**asked)


def test_who_is_out_of_descriptors_is_told_so_and_loses_nothing():
    # What other tests have left.
    gc.collect()
    queue = bytepath.Queue()
    queue.put(np.arange(100_000))
    with spare_descriptors():
        with pytest.raises(OSError, match="Too many open files"):
            queue.get(timeout=1)
        with pytest.raises(OSError, match="Too many open files"):
            bytepath.Queue()
    assert (queue.get(timeout=5) == np.arange(100_000)).all()


def test_memory_that_is_not_to_be_had_is_an_error_and_not_the_end():
    queue = bytepath.Queue()
    queue.put(np.arange(10))
    array = np.zeros(200 << 20, dtype=np.uint8)
    with little_memory(), pytest.raises(MemoryError):
        queue.put(array)
    assert queue.get(timeout=5).sum() == 45
    queue.put(array)
    with little_memory(), pytest.raises(MemoryError, match=r"cannot map 200 MiB in shared pages: .*\(ulimit -v\)"):
        queue.get(timeout=5)
    assert queue.get(timeout=5).shape == array.shape


# Where all that is mapped from then on is locked, in a process that root's capability does not lift the limit for.
LOCKED = """
import ctypes, resource
import bytepath

libc, future = ctypes.CDLL(None, use_errno=True), 2
here, there = bytepath.Channel.pair(ring_bytes=64 << 20)
here.send("stays")
limits = resource.getrlimit(resource.RLIMIT_MEMLOCK)
resource.setrlimit(resource.RLIMIT_MEMLOCK, (min(4 << 20, limits[1]), limits[1]))
assert libc.mlockall(future) == 0, ctypes.get_errno()
for _ in range(2):
    try:
        print(there.recv(timeout=30))
    except MemoryError as error:
        print(error)
libc.munlockall()
print(there.recv(timeout=30))
"""


def test_memory_that_a_limit_on_locked_memory_keeps_is_told_and_tried_again():
    drop_from_bounding_set, ipc_lock = 24, 14
    libc = ctypes.CDLL(None)
    locked = subprocess.run(
        [sys.executable, "-c", LOCKED],
        preexec_fn=lambda: libc.prctl(drop_from_bounding_set, ipc_lock),
        capture_output=True,
        text=True,
    )
    *refused, received = locked.stdout.splitlines()
    assert received == "stays" and len(refused) == 2, locked
    for words in refused:
        assert re.fullmatch(r"cannot map .* in shared pages: .*RLIMIT_MEMLOCK \(ulimit -l\)", words), words


def test_a_limit_on_the_size_of_files_is_told_as_itself():
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError, match=r"\(ulimit -f\)") as refused:
            bytepath.Queue()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert refused.value.errno == errno.EFBIG


# With what is beside a ring of 128 MiB.
NO_ROOM = r"cannot map 1\d\d\d* [KM]iB in shared pages: .*\(ulimit -v\)"


def test_a_ring_that_there_is_no_memory_to_map_is_told_and_tried_again():
    queue = bytepath.Queue(ring_bytes=128 << 20)
    queue.put(1)
    here, there = bytepath.Channel.pair(ring_bytes=128 << 20)
    here.send(1)
    for get, put in ((queue.get, queue.put), (there.recv, here.send)):
        with little_memory():
            for _ in range(2):
                with pytest.raises(MemoryError, match=NO_ROOM):
                    get(timeout=5)
        put(2)
        assert [get(timeout=5), get(timeout=5)] == [1, 2]
    with little_memory(200 << 20), pytest.raises(MemoryError, match=NO_ROOM):
        # The memory of one that many get from is mapped twice.
        bytepath.Queue(receivers="many", ring_bytes=128 << 20)


def test_the_sender_is_told_that_the_receiver_had_no_room_for_its_ring():
    here, there = bytepath.Channel.pair(ring_bytes=128 << 20)
    here.send(1)
    with little_memory():
        with pytest.raises(MemoryError, match=NO_ROOM):
            there.recv(timeout=5)
        there.close()
    with pytest.raises(bytepath.ChannelError, match=r"that end had no memory.*\(ulimit -v"):
        # It looks now and then.
        while True:
            here.send(2, timeout=5)


@contextlib.contextmanager
def rings_offered(address: str, count: int, kib: int, *, filled: bool) -> Iterator[Callable[[], int]]:
    """So many rings of another process, with a message each or none. What is returned ends it, and says how many of
    them were refused."""
    here, there = multiprocessing.Pipe()
    child = fork().Process(target=work.offer_rings, args=(address, count, kib << 10, filled, there))
    child.start()
    here.recv()

    def ended() -> int:
        here.send(None)
        refused = here.recv()
        child.join()
        return refused

    yield ended
    child.join()


def test_a_ring_that_there_was_no_room_for_is_let_go_with_its_sender_if_nothing_is_in_it():
    address = f"@bytepath-test-{os.getpid()}-void"
    with bytepath.Queue.listen(address) as queue:
        for filled in (False, True):
            with rings_offered(address, 1, 64 << 10, filled=filled) as ended, little_memory(32 << 20):
                for _ in range(2):
                    with pytest.raises(MemoryError, match="shared pages"):
                        queue.get_nowait()
                kept = len(os.listdir("/proc/self/fd"))
                assert ended() == 0
                for _ in range(2):
                    with pytest.raises(MemoryError if filled else queues.Empty):
                        queue.get_nowait()
                assert filled or queue.empty() and len(os.listdir("/proc/self/fd")) == kept - 2
        assert queue.get(timeout=5) == 1


def test_of_rings_that_there_is_no_room_for_so_many_are_kept_and_the_others_are_told():
    address = f"@bytepath-test-{os.getpid()}-offers"
    with bytepath.Queue.listen(address) as queue, rings_offered(address, 70, 1800, filled=True) as ended:
        with little_memory(1500 << 10):
            for _ in range(20):
                with pytest.raises(MemoryError, match="shared pages"):
                    queue.get_nowait()
        assert ended() == 6, "no more than 64 wait for room"
        assert [queue.get(timeout=5) for _ in range(64)] == [1] * 64
        with pytest.raises(queues.Empty):
            queue.get_nowait()


def test_nothing_lies_in_dev_shm_nor_is_it_needed(in_dev_shm):
    before = in_dev_shm()
    queue = bytepath.Queue()
    queue.put(np.zeros(4 << 20))
    assert in_dev_shm() == before
    child = fork().Process(target=work.put_for_ever, args=(queue, 100_000))
    child.start()
    queue.get(timeout=10)
    queue.get(timeout=10)
    child.kill()
    child.join()
    assert in_dev_shm() == before


def test_whoever_is_killed_at_whatever_moment_nothing_hangs_and_nothing_is_lost():
    order = random.Random(11)
    for round in range(15):
        queue = bytepath.Queue(**SMALL)
        child = fork().Process(target=work.put_for_ever, args=(queue, order.choice([10, 3_000, 30_000])))
        child.start()
        _, seen, _ = queue.get(timeout=30)
        killer = threading.Timer(order.random() * 0.02, child.kill)
        killer.start()
        with pytest.raises(bytepath.PeerGone):
            while True:
                _, index, array = queue.get(timeout=30)
                seen += 1
                assert index == seen and (array == index).all()
        child.join()
        queue.close()
    for round in range(15):
        queue = bytepath.Queue(**SMALL)
        told, tells = multiprocessing.Pipe(False)
        child = fork().Process(target=work.get_for_ever, args=(queue, tells))
        child.start()
        tells.close()
        queue.put((0, 0, np.zeros(3_000)))
        told.recv()
        killer = threading.Timer(order.random() * 0.03, child.kill)
        killer.start()
        with pytest.raises(bytepath.PeerGone):
            for index in range(1, 1_000_000):
                queue.put((0, index, np.full(3_000, index)), timeout=10)
                with contextlib.suppress(EOFError):
                    if told.poll():
                        told.recv()
        child.join()
        queue.close()
    gc.collect()
    # The last queue's page of counts.
    assert mapped_kib() < 64


def test_whoever_is_alone_is_told_at_every_message():
    one, other = bytepath.Channel.pair()
    other.close()
    until = time.monotonic() + 10
    with pytest.raises(bytepath.PeerGone):
        while time.monotonic() < until:
            one.send(1, timeout=1)
    for _ in range(100):
        with pytest.raises(bytepath.PeerGone):
            one.send(1, timeout=1)
    one.close()


def test_a_queue_that_was_refused_says_only_that(capsys):
    with pytest.raises(TypeError):
        bytepath.Queue("x")
    gc.collect()
    assert "Exception ignored" not in capsys.readouterr().err


def test_tasks_that_wait_are_told_when_their_end_is_closed():
    async def all_of_them():
        here, _there = bytepath.Channel.pair(**SMALL)
        queue, full = bytepath.Queue(), bytepath.Queue(maxsize=1)
        full.put(1)
        tasks = [asyncio.create_task(waits) for waits in (here.aio.recv(), queue.get_async(), full.put_async(2))]
        await asyncio.sleep(0.1)
        for end in (here, queue, full):
            end.close()
        return await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30)

    assert [type(found) for found in asyncio.run(all_of_them())] == [ValueError] * 3


def test_an_end_whose_first_use_is_interrupted_can_be_used_again():
    """At any moment, which a timer finds."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for microseconds in range(1, 400, 4):
            here, there = bytepath.Channel.pair()
            with here, there:
                try:
                    signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
                    here.send("first")
                    while True:
                        time.sleep(0.01)
                except KeyboardInterrupt:
                    here.send("last")
                got = there.recv(timeout=10)
                if got == "first":
                    got = there.recv(timeout=10)
                assert got == "last", microseconds
    finally:
        signal.signal(signal.SIGALRM, before)


def met() -> None:
    address = f"@bytepath-test-{os.getpid()}"
    with bytepath.ChannelListener(address) as listener:
        with bytepath.Channel.connect(address), listener.accept(timeout=30):
            pass


@pytest.mark.parametrize("make", [bytepath.Channel.pair, bytepath.Queue, lambda: bytepath.Queue(receivers="many"), met])
def test_an_end_whose_making_is_interrupted_leaves_no_descriptor(make):
    make()
    gc.collect()
    before = sorted(os.listdir("/proc/self/fd"))
    left = {}
    for number in itertools.count():
        with warnings.catch_warnings():
            # A socket of Python's that nobody has closed.
            warnings.simplefilter("ignore", ResourceWarning)
            goes_on = interrupted_at(number, make) is not None
        now = sorted(os.listdir("/proc/self/fd"))
        if now != before:
            gc.collect()
            now = sorted(os.listdir("/proc/self/fd"))
        if now != before:
            left[number], before = set(now) - set(before), now
        if not goes_on:
            break
    assert number > 10 and not left
