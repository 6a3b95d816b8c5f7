"""Event loops that wait for channels and queues, several of them, and beside threads; and the descriptors of
both."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import multiprocessing
import multiprocessing.connection
import os
import queue as queues
import select
import signal
import threading
import typing

import numpy as np
import pytest
from with_little import spare_descriptors

import bytepath
from bytepath import _sharing

LONG_S = 30


def in_thread(work: typing.Callable[[], object]) -> typing.Callable[[], object]:
    """Begins work in a thread; what is returned waits for what it returns."""
    found: list[object] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()

    def wait() -> object:
        thread.join(LONG_S)
        assert found, "it never ends"
        return found[0]

    return wait


def waits_within(end: bytepath.Channel, count: int) -> None:
    """Waits until so many tasks wait for a channel."""
    pause = threading.Event()
    while end._readers.count() < count:
        pause.wait(0.001)


def get_one(queue: bytepath.Queue) -> None:
    queue.get()
    signal.pause()


async def received(end: bytepath.Channel) -> object:
    return await asyncio.wait_for(end.aio.recv(), LONG_S)


def test_loops_of_several_threads_await_one_end():
    here, there = bytepath.Channel.pair()
    loops = [in_thread(lambda: asyncio.run(received(there))) for _ in range(3)]
    waits_within(there, 3)
    for value in range(3):
        here.send(value)
    assert sorted(loop() for loop in loops) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["channel", "queue"])
def test_what_the_program_has_its_loop_do_with_the_descriptor_stays(kind):
    async def main() -> None:
        if kind == "channel":
            here, there = bytepath.Channel.pair()
            put, get, end = here.send, there.aio.recv, there
        else:
            end = bytepath.Queue()
            put, get = end.put, end.get_async
        loop, told = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(end.fileno(), told.set)
        held = []
        for value in range(4):
            waits = asyncio.ensure_future(get())
            await asyncio.sleep(0)
            put(value)
            assert await asyncio.wait_for(waits, LONG_S) == value
            held.append(len(os.listdir("/proc/self/fd")))
        assert held[-1] <= held[1], "a copy stays open"
        told.clear()
        assert not end.watch()
        put("last")
        await asyncio.wait_for(told.wait(), LONG_S)
        assert loop.remove_reader(end.fileno()), "it is the program's still"
        assert await get() == "last"

    asyncio.run(main())


def test_an_end_that_a_loop_closes_is_closed_and_gives_the_other_one_what_was_sent():
    async def main() -> None:
        here, there = bytepath.Channel.pair()
        waits = asyncio.ensure_future(here.aio.recv())
        await here.aio.send("last")
        here.aio.close()
        assert here.closed
        with pytest.raises(ValueError, match="closed"):
            await waits
        with pytest.raises(ValueError, match="closed"):
            await here.aio.send("later")
        assert await there.aio.recv() == "last"
        with pytest.raises(EOFError):
            await there.aio.recv()
        there.aio.close()

    asyncio.run(main())


def test_tasks_wait_where_no_descriptor_is_left():
    async def main() -> None:
        here, there = bytepath.Channel.pair()
        here.send("first")
        assert await received(there) == "first"
        waits = asyncio.ensure_future(received(there))
        with spare_descriptors():
            await asyncio.sleep(0.01)
            assert not waits.done()
            here.send("second")
            assert await waits == "second"

    asyncio.run(main())


def test_a_loop_that_refuses_a_descriptor_leaves_nobody_waiting():
    """As where fs.epoll.max_user_watches is reached."""

    async def main() -> None:
        here, there = bytepath.Channel.pair()
        loop, refused = asyncio.get_running_loop(), asyncio.Event()

        def add_reader(*_: object) -> None:
            refused.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        loop.add_reader, as_ever = add_reader, loop.add_reader  # type: ignore[method-assign]
        waits = asyncio.ensure_future(received(there))
        await asyncio.wait_for(refused.wait(), LONG_S)
        assert there._readers.count() == 0
        loop.add_reader = as_ever  # type: ignore[method-assign]
        here.send("comes all the same")
        assert await waits == "comes all the same"

    asyncio.run(main())


def test_a_loop_keeps_one_copy_of_a_descriptor_until_the_end_or_the_loop_is_closed():
    here, there = bytepath.Channel.pair()
    copies = there._readers._copies

    async def wait_often() -> None:
        kept = []
        for value in range(3):
            waits = asyncio.ensure_future(received(there))
            while there._readers.count() == 0:
                await asyncio.sleep(0)
            here.send(value)
            assert await waits == value
            kept.append(*copies.values())
        assert kept == kept[:1] * 3
        assert not asyncio.get_running_loop().remove_reader(kept[0].fileno()), "it is in the loop's set still"

    asyncio.run(wait_often())
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(2):
        # The one of the loop before goes.
        asyncio.run(wait_often())
        assert len(os.listdir("/proc/self/fd")) == before
    there.close()
    assert not copies and len(os.listdir("/proc/self/fd")) < before


def test_the_copies_of_what_is_put_by_go_with_the_receiver():
    async def put_until_full(queue: bytepath.Queue) -> None:
        with pytest.raises(asyncio.TimeoutError):
            while True:
                await asyncio.wait_for(queue.put_async(bytes(1000)), 0.1)

    async def main() -> None:
        queue = bytepath.Queue(ring_bytes=1 << 14)
        for _ in range(2):
            child = multiprocessing.get_context("fork").Process(target=get_one, args=(queue,))
            child.start()
            await put_until_full(queue)
            assert len(queue._readers._copies) == 1
            os.kill(child.pid, signal.SIGKILL)
            child.join()
            with pytest.raises(bytepath.PeerGone):
                while True:
                    await asyncio.wait_for(queue.put_async(bytes(1000)), LONG_S)
            assert not queue._readers._copies

    asyncio.run(main())


def test_a_loop_that_was_closed_while_a_task_waited_holds_no_other_up():
    here, there = bytepath.Channel.pair()
    loop = asyncio.new_event_loop()
    waits = loop.create_task(there.aio.recv())
    loop.run_until_complete(asyncio.sleep(0))
    assert there._readers.count() == 1
    loop.close()

    async def main() -> object:
        receiving = asyncio.ensure_future(there.aio.recv())
        await asyncio.sleep(0)
        here.send("for the next loop")
        return await asyncio.wait_for(receiving, LONG_S)

    assert asyncio.run(main()) == "for the next loop"
    # What it was in the middle of is of no use to anybody any more.
    waits._log_destroy_pending = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("looks", ["receives", "polls", "asks"])
def test_a_thread_that_looks_too_leaves_no_loop_asleep(looks):
    """Whoever is woken takes the wake-up, and what comes next wakes nobody until somebody asks for it."""
    here, there = bytepath.Channel.pair()
    loop = in_thread(lambda: asyncio.run(received(there)))
    waits_within(there, 1)
    if looks == "receives":
        thread = in_thread(lambda: there.recv(LONG_S))
        for value in range(2):
            here.send(value)
        assert sorted([loop(), thread()]) == [0, 1]
        return

    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            there.poll(0.01 if looks == "polls" else 0.0)

    thread = in_thread(look)
    here.send("seen")
    try:
        assert loop() == "seen"
    finally:
        over.set()
    thread()


def test_what_was_seen_and_left_wakes_the_loop_that_waits():
    here, there = bytepath.Channel.pair()

    async def main() -> list[object]:
        found = []
        for value in range(50):
            receiving = asyncio.ensure_future(there.aio.recv())
            await asyncio.sleep(0)
            # The thread of the loop itself: nothing of the loop's runs between these.
            here.send(value)
            assert there.poll(LONG_S)
            found.append(await asyncio.wait_for(receiving, LONG_S))
        return found

    assert asyncio.run(main()) == list(range(50))


QUEUE_LOOKS = {
    "asks": lambda queue: queue.empty(),
    "gets": lambda queue: queue.get_nowait(),
    "waits": lambda queue: in_thread(lambda: outcome(lambda: queue.get(timeout=0.01)))(),
}
CHANNEL_LOOKS = {
    "polls": lambda end: end.poll(),
    "receives": lambda end: end.recv(timeout=0),
}


def outcome(work: typing.Callable[[], object]) -> object:
    """What is returned, or raised as there was nothing, or no room."""
    try:
        return work()
    except (queues.Empty, TimeoutError) as error:
        return error


@pytest.mark.parametrize("looks", QUEUE_LOOKS)
def test_a_look_that_finds_nothing_leaves_no_task_of_a_queue_asleep(looks):
    queue = bytepath.Queue()
    queue.put("first")

    async def main() -> object:
        assert await queue.get_async() == "first"
        getting = asyncio.ensure_future(queue.get_async())
        await asyncio.sleep(0)
        outcome(lambda: QUEUE_LOOKS[looks](queue))
        queue.put("next")
        return await asyncio.wait_for(getting, LONG_S)

    assert asyncio.run(main()) == "next"


@pytest.mark.parametrize("looks", CHANNEL_LOOKS)
def test_a_look_that_finds_nothing_leaves_no_task_of_a_channel_asleep(looks):
    here, there = bytepath.Channel.pair()

    async def main() -> object:
        here.send("first")
        assert await there.aio.recv() == "first"
        receiving = asyncio.ensure_future(there.aio.recv())
        await asyncio.sleep(0)
        outcome(lambda: CHANNEL_LOOKS[looks](there))
        here.send("next")
        return await asyncio.wait_for(receiving, LONG_S)

    assert asyncio.run(main()) == "next"


@pytest.mark.parametrize("sent", ["x" * 2000, np.zeros(300_000, np.uint8)], ids=["room", "memory"])
def test_a_send_that_finds_no_room_leaves_no_task_asleep(sent):
    here, there = bytepath.Channel.pair(capacity=1 << 20, ring_bytes=1 << 14)

    async def main() -> None:
        # Nor is the task woken because a receiver comes.
        here.send("first")
        assert there.recv() == "first"
        while outcome(lambda: here.send(sent, timeout=0)) is None:
            pass
        sending = asyncio.ensure_future(here.aio.send(sent))
        await asyncio.sleep(0)
        assert isinstance(outcome(lambda: here.send(sent, timeout=0)), TimeoutError)
        while not isinstance(outcome(lambda: there.recv(timeout=0)), TimeoutError):
            pass
        await asyncio.wait_for(sending, LONG_S)

    asyncio.run(main())


def test_a_look_just_before_a_task_waits_leaves_it_not_asleep():
    here, there = bytepath.Channel.pair()
    add = there._readers._add

    def late(*waits: typing.Any) -> bool:
        there.poll()
        return add(*waits)

    there._readers._add = late  # type: ignore[method-assign]

    async def main() -> object:
        here.send("first")
        assert await there.aio.recv() == "first"
        receiving = asyncio.ensure_future(there.aio.recv())
        await asyncio.sleep(0)
        here.send("next")
        return await asyncio.wait_for(receiving, LONG_S)

    assert asyncio.run(main()) == "next"


def test_tasks_that_wait_do_not_wake_each_other_for_ever():
    queue = bytepath.Queue(ring_bytes=1 << 14)
    woken: list[object] = []
    wake_all = queue._readers._wake_all

    def counted(waits_for: typing.Callable[[int], bool]) -> None:
        woken.append(waits_for)
        wake_all(waits_for)

    queue._readers._wake_all = counted  # type: ignore[method-assign]

    async def main(work: typing.Callable[[], typing.Coroutine[object, object, object]]) -> None:
        tasks = [asyncio.ensure_future(work()) for _ in range(2)]
        for _ in range(100):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()

    with contextlib.suppress(queues.Full):
        while True:
            queue.put_nowait("x" * 2000)
    asyncio.run(main(lambda: queue.put_async("x" * 2000)))
    with contextlib.suppress(queues.Empty):
        while True:
            queue.get_nowait()
    asyncio.run(main(queue.get_async))
    assert len(woken) < 20


def test_a_loop_that_waits_for_room_is_woken_beside_a_thread_that_does():
    small = {"capacity": 1 << 20, "ring_bytes": 1 << 14}
    here, there = bytepath.Channel.pair(**small)
    with contextlib.suppress(TimeoutError):
        while True:
            here.send("x" * 2000, timeout=0)

    async def send() -> None:
        await asyncio.wait_for(here.aio.send("from the loop"), LONG_S)

    loop = in_thread(lambda: asyncio.run(send()))
    waits_within(here, 1)
    thread = in_thread(lambda: here.send("from the thread", LONG_S))
    found = set()
    while not {"from the loop", "from the thread"} <= found:
        found.add(there.recv(LONG_S))
    loop()
    thread()


def test_loops_of_other_threads_are_told_when_their_end_is_closed():
    here, there = bytepath.Channel.pair()

    async def refused() -> bool:
        with pytest.raises(ValueError, match="closed"):
            await received(there)
        return True

    loops = [in_thread(lambda: asyncio.run(refused())) for _ in range(2)]
    waits_within(there, 2)
    there.close()
    assert all(loop() for loop in loops)
    here.close()


def test_a_queue_is_polled_by_its_descriptor():
    queue = bytepath.Queue()
    poll = select.poll()
    poll.register(queue, select.POLLIN)

    def put() -> None:
        for value in range(200):
            queue.put(value)

    putting = in_thread(put)
    got: list[int] = []
    while len(got) < 200:
        if not queue.watch():
            assert poll.poll(LONG_S * 1000), "it is not told of what is there"
        with contextlib.suppress(queues.Empty):
            while True:
                got.append(queue.get_nowait())
    assert got == list(range(200))
    putting()
    queue.put("once more")
    assert queue.get() == "once more"
    # Asked again, it tells what is so now: nothing is there, and then something is.
    assert not queue.watch()
    while poll.poll(0):
        # For nothing: that it was woken for what it had got already has come late.
        assert not queue.watch()
    queue.put("and again")
    assert poll.poll(LONG_S * 1000)
    assert queue.watch() and queue.get_nowait() == "and again"


def test_channels_are_waited_for_together_by_their_descriptors():
    pairs = [bytepath.Channel.pair() for _ in range(3)]
    ends = [here for here, _ in pairs]

    def send() -> None:
        for index in range(300):
            pairs[index % 3][1].send(index)
        for _, there in pairs:
            there.close()

    sending = in_thread(send)
    got: list[int] = []
    while ends:
        ready = [end for end in ends if end.watch()] or multiprocessing.connection.wait(ends, LONG_S)
        assert ready, "it is not told of what is there"
        for end in ready:
            try:
                while end.poll():
                    got.append(end.recv())
            except EOFError:
                ends.remove(end)
    assert sorted(got) == list(range(300))
    sending()


def test_a_queue_that_many_get_from_has_no_descriptor():
    queue = bytepath.Queue(receivers="many")
    for ask in (queue.fileno, queue.watch):
        with pytest.raises(NotImplementedError, match="no descriptor"):
            ask()


WAITS_WHILE_TOO_MUCH_IS_UNDER_WAY = """
import asyncio, contextlib, os, resource, socket, sys
import numpy as np
import bytepath

if os.geteuid() == 0:
    # Root is not counted, and others of this user may be at it.
    os.setuid(54_322)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
large = np.zeros(1 << 20)


async def send(sends, receives):
    await sends(0)
    assert await asyncio.wait_for(receives(), 30) == 0
    puts, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    puts.setblocking(False)
    with contextlib.suppress(OSError):
        while True:
            socket.send_fds(puts, [b"x"], [0] * 16)
    try:
        await asyncio.wait_for(sends(large), 0.2)
    except asyncio.TimeoutError:
        print("waited")
    sending = asyncio.ensure_future(sends(large))
    await asyncio.sleep(0.1)
    assert not sending.done()
    takes.close()
    await asyncio.wait_for(sending, 30)
    assert (await asyncio.wait_for(receives(), 30)).size == large.size
    puts.close()


here, there = bytepath.Channel.pair()
queue = bytepath.Queue()
ends = {"channel": (here.aio.send, there.aio.recv), "queue": (queue.put_async, queue.get_async)}[sys.argv[1]]
asyncio.run(send(*ends))
"""


@pytest.mark.parametrize("what", ["channel", "queue"])
def test_a_loop_goes_on_while_a_task_waits_for_what_nobody_tells_of(python, what):
    done = python(WAITS_WHILE_TOO_MUCH_IS_UNDER_WAY, what)
    assert (done.stdout, done.stderr) == ("waited\n", ""), done


@pytest.mark.parametrize("way", ["get", "get of many", "recv", "put", "put of many", "send"])
def test_other_tasks_run_while_there_is_always_something(monkeypatch, way):
    # Each look is a turn.
    monkeypatch.setattr(_sharing, "_TURN_S", -1.0)
    queue = bytepath.Queue(receivers="many" if way.endswith("many") else "one")
    here, there = bytepath.Channel.pair()
    if way.startswith("get"):
        look, left = queue.get_async, lambda: queue.get(timeout=LONG_S)
    elif way == "recv":
        look, left = there.aio.recv, lambda: there.recv(LONG_S)
    elif way.startswith("put"):
        look, left = lambda: queue.put_async("more"), lambda: queue.get(timeout=LONG_S)
    else:
        look, left = lambda: here.aio.send("more"), lambda: there.recv(LONG_S)
    for value in range(12):
        (here.send if way in ("recv", "send") else queue.put)(value)

    async def main() -> None:
        ran = 0

        async def run() -> None:
            nonlocal ran
            while True:
                ran += 1
                await asyncio.sleep(0)

        other = asyncio.ensure_future(run())
        for _ in range(10):
            await look()
        assert ran >= 9

        async def look_twice() -> None:
            await look()
            await look()

        # One that is cancelled while they run has taken, and put, nothing the second time.
        cancelled = asyncio.ensure_future(look_twice())
        await asyncio.sleep(0)
        cancelled.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await cancelled
        assert cancelled.cancelled()
        other.cancel()

    asyncio.run(main())
    if way.split()[0] in ("get", "recv"):
        assert left() == 11
    else:
        assert [left() for _ in range(23)] == [*range(12), *["more"] * 11]
        assert queue.empty() and not there.poll()


@pytest.mark.parametrize("way", ["get", "get of many", "recv", "put", "put of many", "send"])
def test_a_look_for_no_time_finds_what_is_there_however_long_after_the_last_one(monkeypatch, way):
    # Each look is a turn, and long over at the next one.
    monkeypatch.setattr(_sharing, "_TURN_S", -1.0)
    queue = bytepath.Queue(receivers="many" if way.endswith("many") else "one")
    here, there = bytepath.Channel.pair()
    ways = {"get": queue.get_async, "recv": there.aio.recv, "put": lambda: queue.put_async("more")}
    look = ways.get(way.split()[0], lambda: here.aio.send("more"))
    for value in range(20):
        queue.put(value)
        here.send(value)

    async def main() -> list[object]:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        found = []
        for _ in range(20):
            # As asyncio.timeout(0) does it.
            timeout = loop.call_soon(task.cancel)
            found.append(await look())
            timeout.cancel()
            await asyncio.sleep(0)
        return found

    found = asyncio.run(main())
    assert found == ([*range(20)] if way.split()[0] in ("get", "recv") else [None] * 20)
