"""How an end of a queue ends: who is told of it, and who is not."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import importlib.util
import itertools
import mmap
import multiprocessing
import os
import queue as queues
import random
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import channel_work as work
import numpy as np
import pytest
from channel_work import fork
from interrupts import interrupted_at
from with_little import spare_descriptors

import bytepath

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")


def outcome(work: Callable[[], object]) -> Callable[[], object]:
    """Begins work in a thread; what is returned waits for its end, and gives what it raised, or nothing."""
    raised: list[object] = []

    def run() -> None:
        try:
            work()
            raised.append(None)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def wait() -> object:
        thread.join(30)
        assert raised, "it never ends"
        return raised[0]

    return wait


def wait_until_in(function: str, count: int) -> None:
    """Waits until so many threads are in a function of this name."""
    pause = threading.Event()
    while True:
        stacks = [traceback.extract_stack(frame) for frame in sys._current_frames().values()]
        if sum(any(frame.name == function for frame in stack) for stack in stacks) >= count:
            return
        pause.wait(0.005)


def wait_until(is_so: Callable[[], bool]) -> None:
    pause = threading.Event()
    while not is_so():
        pause.wait(0.001)


def late(channel: bytepath.Channel, tasks: bytepath.Queue, results: bytepath.Queue) -> None:
    first = tasks.get(timeout=30)

    def go_on() -> None:
        # multiprocessing has done what is to be done at the end by then, and waits for this thread.
        wait_until_in("_shutdown", 1)
        channel.send(first)
        results.put(tasks.get(timeout=30))

    threading.Thread(target=go_on).start()


def test_a_thread_that_a_child_waits_for_at_its_end_goes_on_sending_and_getting():
    here, there = bytepath.Channel.pair()
    tasks, results = bytepath.Queue(), bytepath.Queue()
    worker = fork().Process(target=late, args=(there, tasks, results), daemon=True)
    worker.start()
    there.close()
    tasks.put("first")
    tasks.put("second")
    assert here.recv(timeout=30) == "first"
    assert results.get(timeout=30) == "second"
    worker.join(30)
    assert worker.exitcode == 0
    # It has closed its ends, and is not taken for killed.
    with pytest.raises(EOFError) as ended:
        here.recv(timeout=30)
    assert ended.type is EOFError
    with pytest.raises(queues.Empty):
        results.get_nowait()


def test_a_thread_gets_what_a_child_still_puts_while_the_program_ends(python):
    script = """
import multiprocessing, threading
from multiprocessing import util
import bytepath

fork = multiprocessing.get_context("fork")

def work(queues, ends, got):
    ends.recv()
    for name, queue in queues.items():
        queue.put(name)
    print(sorted(got.recv() for _ in queues), flush=True)

def get(queue, gets):
    gets.send(queue.get())

queues = {"many get": bytepath.Queue(receivers="many"), "one gets": bytepath.Queue()}
(ends, end), (got, gets) = fork.Pipe(False), fork.Pipe(False)
fork.Process(target=work, args=(queues, ends, got)).start()
for queue in queues.values():
    threading.Thread(target=get, args=(queue, gets), daemon=True).start()
inbox = None
while inbox is None or not inbox.is_waited_in():
    inbox = queues["one gets"]._inbox
# After what is done before children are waited for.
util.Finalize(None, end.send, args=("now",), exitpriority=5)
"""
    done = python(script)
    assert done.stdout == "['many get', 'one gets']\n", done.stderr


# ---- ends that ended well ---------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("beside", ["a queue for many", "a connected queue"])
def test_a_process_that_ends_well_is_not_taken_for_killed(method, beside):
    queue = bytepath.Queue()
    with bytepath.Queue.listen(f"@bytepath-test-{os.getpid()}"):
        # What comes with it is made anew as its process begins, before multiprocessing forgets what was to
        # be done at its end.
        other = (
            bytepath.Queue(receivers="many")
            if beside == "a queue for many"
            else bytepath.Queue.connect(f"@bytepath-test-{os.getpid()}")
        )
        arguments = (queue,) if method == "fork" and beside == "a connected queue" else (queue, other)
        child = multiprocessing.get_context(method).Process(target=work.put_one, args=arguments)
        child.start()
        assert queue.get(timeout=60) == 1
        child.join()
        with pytest.raises(queues.Empty):
            queue.get(timeout=0.5)
        other.close()


def test_a_connected_queue_that_is_collected_is_not_taken_for_killed():
    with bytepath.Queue.listen(f"@bytepath-test-{os.getpid()}") as queue:
        other = bytepath.Queue.connect(queue._address)
        other.put(1)
        del other
        gc.collect()
        assert queue.get(timeout=30) == 1
        with pytest.raises(queues.Empty):
            queue.get(timeout=0.5)


@pytest.mark.parametrize("use", ["put", "get"])
def test_a_process_that_is_forked_is_told_whose_an_end_at_an_address_is(use):
    with bytepath.Queue.listen(f"@bytepath-test-{os.getpid()}") as queue:
        other = bytepath.Queue.connect(queue._address)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                with pytest.raises(RuntimeError, match=f"belongs to process {os.getppid()}"):
                    other.put(1) if use == "put" else queue.get(timeout=1)
                other.close()
                queue.close()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        other.put("still there")
        assert queue.get(timeout=30) == "still there"
        other.close()


@pytest.mark.parametrize("receivers", ["one", "many"])
def test_no_thread_has_to_be_joined_for_what_was_put_to_be_there(receivers):
    queue = bytepath.Queue(receivers=receivers)
    sent = np.arange(100_000)

    def put_and_be_gone() -> None:
        queue.put(sent)
        queue.cancel_join_thread()
        queue.join_thread()
        os._exit(threading.active_count() - 1)

    child = fork().Process(target=put_and_be_gone)
    child.start()
    child.join()
    assert child.exitcode == 0
    assert (queue.get(timeout=5) == sent).all()
    queue.close()
    queue.cancel_join_thread()
    queue.join_thread()


# ---- waiting for room that nobody makes -------------------------------------------------------------


@contextlib.contextmanager
def receiving(queue: bytepath.Queue) -> Iterator[multiprocessing.Process]:
    """A process that has got one object of the queue, and gets no more."""
    told, tells = multiprocessing.Pipe()
    child = fork().Process(target=work.get_one_and_wait, args=(queue, tells))
    child.start()
    try:
        queue.put(0)
        assert told.recv() == 0
        yield child
    finally:
        child.kill()
        child.join()


def test_a_put_that_waits_for_room_is_told_that_the_receiver_was_killed():
    queue = bytepath.Queue(maxsize=2)
    with receiving(queue) as child:
        queue.put(1)
        queue.put(2)
        waits = [outcome(lambda: queue.put(3)) for _ in range(3)]
        wait_until_in("_send", 3)
        child.kill()
        child.join()
    assert all(isinstance(wait(), bytepath.PeerGone) for wait in waits)
    # What the one that was killed had not got is lost, and takes no room.
    queue.put(4, timeout=30)
    assert queue.get(timeout=30) == 4


def test_a_task_that_puts_and_waits_for_room_is_told_that_the_receiver_was_killed():
    import asyncio

    queue = bytepath.Queue(maxsize=2)
    with receiving(queue) as child:

        async def main() -> None:
            await queue.put_async(1)
            await queue.put_async(2)
            putting = asyncio.ensure_future(queue.put_async(3))
            await asyncio.sleep(0)
            child.kill()
            child.join()
            with pytest.raises(bytepath.PeerGone):
                await asyncio.wait_for(putting, 30)

        asyncio.run(main())


def test_a_time_that_is_no_number_is_over_at_once():
    queue = bytepath.Queue(maxsize=1)
    queue.put(1)
    with pytest.raises(queues.Full):
        queue.put(2, timeout=float("nan"))


@pytest.mark.parametrize("receivers", ["one", "many"])
@pytest.mark.parametrize("number", [Decimal("0.01"), Fraction(1, 100), np.float32(0.01), 0], ids=repr)
def test_seconds_are_numbers_of_whatever_kind(number, receivers):
    with bytepath.Queue(maxsize=1, receivers=receivers) as queue:
        queue.put(1, timeout=number)
        with pytest.raises(queues.Full):
            queue.put(2, timeout=number)
        assert queue.get(timeout=number) == 1
        with pytest.raises(queues.Empty):
            queue.get(timeout=number)
    one, other = bytepath.Channel.pair()
    with one, other, bytepath.ChannelListener(f"@bytepath-test-{os.urandom(8).hex()}") as listener:
        one.send(1, timeout=number)
        assert other.poll(number) and other.recv(timeout=number) == 1
        with pytest.raises(TimeoutError):
            listener.accept(timeout=number)


def test_a_put_that_waits_for_room_ends_when_the_queue_is_closed():
    queue = bytepath.Queue(maxsize=1)
    queue.put(1)
    waits = outcome(lambda: queue.put(2))
    queue.close()
    error = waits()
    assert isinstance(error, ValueError) and "closed" in str(error)


def test_what_a_receiver_that_closed_had_not_got_takes_no_room():
    queue, tells = bytepath.Queue(maxsize=2), multiprocessing.Pipe()
    child = fork().Process(target=work.get_one, args=(queue, tells[1]))
    queue.put(1)
    queue.put(2)
    child.start()
    assert tells[0].recv() == 1
    child.join()
    assert queue.qsize() == 0
    # It is not asked at every object whether the receiver is still there.
    with pytest.raises(bytepath.PeerGone):
        while True:
            queue.put(3, timeout=30)
    queue.put(4, timeout=30)
    assert queue.get(timeout=30) == 4


def test_that_the_other_end_is_gone_is_told_without_importing_anything(python):
    # Other threads would run meanwhile, and wait for ever for an end that is locked.
    done = python(
        "import builtins, bytepath, sys\n"
        "here, there = bytepath.Channel.pair()\n"
        "here.send(1)\n"
        "assert there.recv() == 1\n"
        "there.close()\n"
        "imports = builtins.__import__\n"
        "def refuse(name, *rest):\n"
        "    assert not name.startswith('bytepath'), name\n"
        "    return imports(name, *rest)\n"
        "builtins.__import__ = refuse\n"
        "try:\n    here.send(2) or here._outbox.is_answered()\n"
        "except bytepath.PeerGone:\n    print('gone')\n"
    )
    assert done.stdout == "gone\n", done.stderr


# ---- what is counted ---------------------------------------------------------------------------------


def test_another_interpreter_is_told_why_it_cannot_have_it_before_python_312(python):
    if sys.version_info >= (3, 12):
        pytest.skip("of this Python other interpreters have it")
    done = python(
        "import _xxsubinterpreters as interpreters\n"
        "work = 'try: import bytepath\\nexcept ImportError as error: print(error, flush=True)\\n' \\\n"
        "    'else:\\n    here, there = bytepath.Channel.pair()\\n    here.send(1)\\n    there.recv()'\n"
        "interpreters.run_string(interpreters.create(isolated=False), work)\n"
    )
    assert "for the main interpreter alone" in done.stdout and done.returncode == 0, done


def test_that_the_other_end_is_gone_is_told_to_each_interpreter_in_its_own_words(python):
    if sys.version_info < (3, 12):
        pytest.skip("before Python 3.12 other interpreters are refused")
    # Only such as are not isolated load modules that keep anything in the process.
    modules = {"_interpreters": "'legacy'", "_xxsubinterpreters": "isolated=False"}
    module = next(filter(importlib.util.find_spec, modules), None)
    if module is None:
        pytest.skip("this Python makes no other interpreters")
    done = python(
        "import sys, bytepath\n"
        f"import {module} as interpreters\n"
        "work = 'import bytepath\\n' \\\n"
        "    'here, there = bytepath.Channel.pair()\\n' \\\n"
        "    'there.close()\\n' \\\n"
        "    'try: here.send(1)\\n' \\\n"
        "    'except bytepath.PeerGone: print(\"told\", flush=True)\\n'\n"
        "exec(work)\n"
        f"interpreters.run_string(interpreters.create({modules[module]}), work)\n"
    )
    assert done.stdout == "told\ntold\n", done.stderr


def test_tasks_that_a_receiver_had_not_got_when_it_closed_are_not_waited_for():
    tasks = bytepath.JoinableQueue()
    for value in range(3):
        tasks.put(value)

    def do_one() -> None:
        tasks.get(timeout=30)
        tasks.task_done()

    child = fork().Process(target=do_one)
    child.start()
    child.join()
    assert child.exitcode == 0 and tasks.join(10)


def test_what_a_killed_process_was_putting_takes_no_room_and_is_not_waited_for():
    tasks = bytepath.JoinableQueue(maxsize=2, capacity=1 << 20)
    child = fork().Process(target=work.put_arrays, args=(tasks, 0, 2, 100_000))
    child.start()
    view = tasks.get(timeout=30)[2]
    # The second one is counted, and waits for the memory of the first one.
    pause, until = threading.Event(), time.monotonic() + 30
    while tasks.qsize() + tasks._board.undone() < 2:
        assert time.monotonic() < until
        pause.wait(0.005)
    child.kill()
    child.join()
    with pytest.raises(bytepath.PeerGone):
        tasks.get(timeout=30)
    assert view.sum() == 0
    tasks.task_done()
    assert tasks.join(10)
    for value in range(2):
        tasks.put(value, timeout=10)
    assert [tasks.get(timeout=30), tasks.get(timeout=30)] == [0, 1]


def test_what_waits_for_the_next_receiver_takes_room_and_is_waited_for_after_one_was_killed():
    tasks, (here, there) = bytepath.JoinableQueue(maxsize=3), multiprocessing.Pipe()

    def do_one() -> None:
        tasks.get(timeout=30)
        tasks.task_done()
        there.send("done")
        threading.Event().wait()

    receiver = fork().Process(target=do_one)
    receiver.start()
    for value in range(2):
        tasks.put(value)
    assert here.recv() == "done" and tasks.qsize() == 1
    # Its process has connected, is not taken in, and has ended.
    puts = fork().Process(target=lambda: [tasks.put("a"), tasks.put("b")])
    puts.start()
    puts.join()
    assert tasks.qsize() == 3 and tasks.full()
    receiver.kill()
    receiver.join()
    with pytest.raises(bytepath.PeerGone):
        while True:
            tasks.put(2, timeout=1)
    # What was to be got by the killed one is lost; the others are not.
    assert tasks.qsize() == 2
    tasks.put("c", timeout=30)
    with pytest.raises(queues.Full):
        tasks.put_nowait("d")
    assert sorted(tasks.get(timeout=30) for _ in range(3)) == ["a", "b", "c"]
    assert tasks.qsize() == 0 and not tasks.join(0.2)
    for _ in range(3):
        tasks.task_done()
    assert tasks.join(10)


def test_threads_that_put_at_once_do_not_put_more_than_there_is_room_for():
    queue, begin, full = bytepath.Queue(maxsize=2), threading.Barrier(6), []

    def put(array: np.ndarray) -> None:
        begin.wait()
        try:
            queue.put_nowait(array)
        except queues.Full:
            full.append(array)

    puts = [outcome(lambda: put(np.zeros(1 << 20))) for _ in range(6)]
    assert [wait() for wait in puts] == [None] * 6
    assert len(full) == 4 and queue.qsize() == 2


class Alarm(Exception):
    """What a handler raises."""


@pytest.mark.parametrize("kind", [bytepath.Queue, bytepath.JoinableQueue])
def test_what_handlers_of_signals_raise_leaves_the_count_as_it_is(kind):
    def handle(*_: object) -> None:
        raise Alarm

    queue = kind(maxsize=50)
    # Both ends are there.
    queue.put(0)
    queue.get()
    before = signal.signal(signal.SIGALRM, handle)
    try:
        for _ in range(5000):
            with contextlib.suppress(Alarm):
                signal.setitimer(signal.ITIMER_REAL, random.uniform(20e-6, 200e-6))
                for use in itertools.cycle((lambda: queue.put_nowait(0), queue.get_nowait)):
                    with contextlib.suppress(queues.Full, queues.Empty):
                        while True:
                            use()
    finally:
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(queues.Empty):
        while True:
            queue.get_nowait()
    assert queue.qsize() == 0


def test_a_process_whose_first_put_was_interrupted_is_not_taken_for_killed(monkeypatch):
    make = bytepath._bytepath.Outbox.connect

    def made(*arguments: object) -> None:
        assert make(*arguments) is not None
        raise Alarm

    with bytepath.Queue() as queue:
        monkeypatch.setattr(bytepath._bytepath, "Outbox", types.SimpleNamespace(connect=made))
        with pytest.raises(Alarm):
            queue.put("lost")
        monkeypatch.undo()
        queue.put("there")
        assert queue.get(timeout=30) == "there"
        with pytest.raises(queues.Empty):
            queue.get(timeout=0.1)
        assert queue.qsize() == 0


def test_a_ring_whose_making_was_interrupted_is_there_for_the_next_put(monkeypatch):
    make, made = bytepath._bytepath.Outbox.connect, []

    def close(*arguments: object) -> object:
        """Makes one. A function of this name is not interrupted."""
        made.append(make(*arguments))
        return made[-1]

    monkeypatch.setattr(bytepath._bytepath, "Outbox", types.SimpleNamespace(connect=close))
    for number in itertools.count():
        with bytepath.Queue() as queue:
            made.clear()
            goes_on = interrupted_at(number, lambda queue=queue: queue.put("first")) is not None
            queue.put("last")
            assert len(made) == 1, number
            assert queue.get(timeout=30) == "last" or queue.get(timeout=30) == "last"
        if not goes_on:
            break
    assert number > 50


def test_an_end_that_a_forked_process_collects_stays_its_parents(monkeypatch):
    here, there = bytepath.Channel.pair()
    with here, there:
        here.send(1)
        monkeypatch.setattr(bytepath._sharing, "_live", ())
        child = os.fork()
        if child == 0:
            here._outbox = None
            gc.collect()
            os._exit(0)
        monkeypatch.undo()
        assert os.waitpid(child, 0)[1] == 0
        assert there.recv(timeout=30) == 1
        assert not there.poll(), "no end"
        here.send(2)
        assert there.recv(timeout=30) == 2


@pytest.mark.parametrize("use", ["send", "recv", "put", "get"])
def test_an_end_that_is_closed_while_a_thread_makes_it_is_closed(monkeypatch, use):
    if use in ("put", "get"):
        end = bytepath.Queue()
        peer, work = None, {"put": lambda: end.put(1), "get": lambda: end.get(timeout=30)}[use]
    else:
        end, peer = bytepath.Channel.pair()
        work = {"send": lambda: end.send(1), "recv": lambda: end.recv(timeout=30)}[use]
    kind, maker = {
        "send": ("Outbox", "from_fd"), "recv": ("Inbox", "from_fd"),
        "put": ("Outbox", "connect"), "get": ("Inbox", "listening"),
    }[use]  # fmt: skip
    begun, make = threading.Event(), getattr(getattr(bytepath._bytepath, kind), maker)

    def made(*arguments: object) -> object:
        begun.set()
        wait_until(lambda: end._closed)
        return make(*arguments)

    monkeypatch.setattr(bytepath._bytepath, kind, types.SimpleNamespace(**{maker: made}))
    raised = outcome(work)
    assert begun.wait(30)
    end.close()
    error = raised()
    assert isinstance(error, ValueError) and "is closed" in str(error), repr(error)
    assert end._outbox is end._inbox is None
    if use == "send":
        with pytest.raises(EOFError):
            peer.recv(timeout=30)
    if use == "recv":
        with pytest.raises(bytepath.PeerGone):
            peer.send(1)


@pytest.mark.parametrize("use", ["send", "recv", "put", "get"])
def test_a_thread_that_waits_for_another_one_to_make_an_end_is_told_that_it_was_closed(use):
    end, _peer = (bytepath.Queue(), None) if use in ("put", "get") else bytepath.Channel.pair()
    work = getattr(end, use)
    raised = []

    def run() -> None:
        try:
            work(*([1] if use in ("send", "put") else []), timeout=30)
        except Exception as error:
            raised.append(error)

    end._making.acquire()
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    wait_until_in(f"_{use}_first".replace("recv", "receive"), 1)
    end.close()
    end._making.release()
    thread.join(30)
    assert [type(error) for error in raised] == [ValueError], raised


def test_a_handler_of_a_signal_may_close_the_end_that_its_thread_makes(monkeypatch):
    here, there = bytepath.Channel.pair()
    make = bytepath._bytepath.Outbox.from_fd

    def made(*arguments: object) -> object:
        if not here.closed:
            signal.raise_signal(signal.SIGUSR1)
        return make(*arguments)

    before = signal.signal(signal.SIGUSR1, lambda *_: here.close())
    try:
        monkeypatch.setattr(bytepath._bytepath, "Outbox", types.SimpleNamespace(from_fd=made))
        with pytest.raises(ValueError, match="is closed"):
            here.send(1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    with pytest.raises(EOFError):
        there.recv(timeout=30)


@pytest.mark.parametrize("use", ["send", "recv"])
def test_a_handler_uses_a_channel_whose_first_use_it_interrupts(use):
    """At any moment of it, which a timer finds."""
    for microseconds in range(1, 400, 4):
        here, there = bytepath.Channel.pair()
        got: list[str] = []
        if use == "recv":
            there.send("one")
            there.send("other")

        def work(what: str, here=here, got=got) -> None:
            if use == "send":
                here.send(what)
            else:
                got.append(here.recv(timeout=30))

        handled = []
        before = signal.signal(signal.SIGALRM, lambda *_, work=work, handled=handled: handled.append(work("other")))
        try:
            signal.setitimer(signal.ITIMER_REAL, microseconds / 1e6)
            work("one")
            while not handled:
                time.sleep(0.0001)
        finally:
            signal.signal(signal.SIGALRM, before)
        if use == "send":
            got = [there.recv(timeout=30) for _ in range(2)]
        assert sorted(got) == ["one", "other"], microseconds
        here.close()
        there.close()


def test_an_end_that_is_closed_has_no_descriptors_any_more():
    # What other tests have left.
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    kept = []
    for _ in range(10):
        ends = bytepath.Channel.pair()
        ends[0].send(1)
        ends[1].send(ends[1].recv(timeout=30))
        assert ends[0].recv(timeout=30) == 1
        kept.extend(ends)
        for end in ends:
            end.close()
            for use in (lambda end=end: end.send(1), end.recv, end.poll, end.fileno, end.watch):
                with pytest.raises(ValueError, match="is closed"):
                    use()
    assert len(os.listdir("/proc/self/fd")) <= before


# ---- others who wait ---------------------------------------------------------------------------------


def test_a_put_waits_while_as_many_wait_to_be_taken_as_may(monkeypatch):
    monkeypatch.setattr("bytepath.queue._BACKLOG", 2)
    queue = bytepath.Queue()
    for _ in range(3):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as other:
            other.connect("\0" + queue._address[1:])
    with pytest.raises(queues.Full):
        queue.put_nowait(1)
    with pytest.raises(queues.Full):
        queue.put(1, timeout=0.1)

    async def put_when_there_is_room() -> None:
        putting = asyncio.ensure_future(queue.put_async("async"))
        await asyncio.sleep(0)
        assert not putting.done()
        with pytest.raises(queues.Empty):
            queue.get_nowait()
        await asyncio.wait_for(putting, 30)

    asyncio.run(put_when_there_is_room())
    queue.put("next")
    assert [queue.get(timeout=30) for _ in range(2)] == ["async", "next"]


USES_IN_A_HANDLER = """
import queue as queues, signal, sys
import bytepath
from bytepath import _bytepath

what, when = sys.argv[1:]
name, method = {"put": ("Outbox", "connect"), "get": ("Inbox", "listening")}[what]
real = getattr(getattr(_bytepath, name), method)
calls = []


class Interrupted:
    def make(*arguments):
        calls.append(when)
        if len(calls) == 1 and when == "before":
            signal.raise_signal(signal.SIGUSR1)
        made = real(*arguments)
        if len(calls) == 1 and when == "after":
            signal.raise_signal(signal.SIGUSR1)
        return made


setattr(Interrupted, method, staticmethod(Interrupted.make))
queue = bytepath.Queue(maxsize=5)
if what == "get":
    queue.put("first")
    queue.put("second")
setattr(_bytepath, name, Interrupted)
got = []
use = {"put": lambda: queue.put("first"), "get": lambda: got.append(queue.get(timeout=30))}[what]
signal.signal(signal.SIGUSR1, lambda *_: use())
if what == "put":
    queue.put("second", timeout=30)
    assert queue.qsize() == 2
    got = [queue.get(timeout=30) for _ in range(2)]
else:
    use()
assert len(calls) == 2 and got == ["first", "second"], (calls, got)
try:
    queue.get(timeout=0.1)
except queues.Empty:
    assert queue.qsize() == 0
    for put in range(7):
        queue.put(put, timeout=30)
        assert queue.get(timeout=30) == put
    print("all")
"""


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("what", ["put", "get"])
def test_a_handler_uses_a_queue_whose_first_use_it_interrupts(python, what, when):
    done = python(USES_IN_A_HANDLER, what, when)
    assert (done.stdout, done.stderr) == ("all\n", ""), done


PUTS_WHILE_THE_PROCESS_ENDS = """
import contextlib, multiprocessing, queue, threading, time
import bytepath


def get(items):
    with contextlib.suppress(queue.Empty):
        while True:
            items.get(timeout=1)


items = bytepath.Queue()
child = multiprocessing.get_context("fork").Process(target=get, args=(items,))
child.start()
begun = threading.Event()


def put():
    while True:
        with contextlib.suppress(ValueError):
            items.put(1)
            begun.set()


threading.Thread(target=put, daemon=True).start()
begun.wait()
"""


def test_a_daemon_that_goes_on_putting_does_not_keep_its_process_from_ending(python):
    done = python(PUTS_WHILE_THE_PROCESS_ENDS)
    assert (done.returncode, done.stderr) == (0, ""), done


def use_while_too_much_is_under_way(queue: bytepath.Queue, end: bytepath.Channel, told) -> None:
    if os.geteuid() == 0:
        os.setuid(54_321)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    puts, takes = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    puts.setblocking(False)
    raised: list[object] = []
    with contextlib.suppress(OSError):
        while True:
            socket.send_fds(puts, [b"x"], [0] * 16)
    for use in (lambda: queue.put_nowait("put"), lambda: end.send("sent"), lambda: end.send("sent")):
        try:
            use()
            raised.append(None)
        except (OSError, queues.Full) as error:
            raised.append(getattr(error, "errno", type(error).__name__))
    takes.close()
    queue.put("put", timeout=30)
    end.send("sent", timeout=30)
    told.send(raised)


def test_what_lacks_descriptors_that_are_under_way_is_put_and_sent_when_they_have_come():
    queue, (here, there) = bytepath.Queue(), bytepath.Channel.pair()
    tells, told = multiprocessing.Pipe()
    child = fork().Process(target=use_while_too_much_is_under_way, args=(queue, there, told))
    child.start()
    assert queue.get(timeout=30) == "put"
    assert tells.poll(30) and tells.recv() == ["Full", errno.ETOOMANYREFS, errno.ETOOMANYREFS]
    assert here.recv(timeout=30) == "sent"
    child.join()


# ---- descriptors that run out -----------------------------------------------------------------------


def test_where_descriptors_run_out_those_who_are_taken_in_are_served_and_the_others_when_these_have_ended():
    queue, over = bytepath.Queue(), fork().Event()
    with pytest.raises(queues.Empty):
        queue.get(timeout=0)

    def put(value: int) -> None:
        queue.put(np.full(100_000, value))
        over.wait()

    children = [fork().Process(target=put, args=(value,), daemon=True) for value in range(20)]
    for child in children:
        child.start()
    got = []
    with spare_descriptors(15):
        with pytest.raises(OSError, match="Too many open files"):
            while True:
                got.append(int(queue.get(timeout=30)[0]))
        assert len(got) >= 10, "one descriptor each, and a few for the next one to come"
        over.set()
        for child in children:
            child.join()
        got.extend(int(queue.get(timeout=30)[0]) for _ in range(20 - len(got)))
    assert sorted(got) == list(range(20))


@pytest.mark.parametrize("spare", range(8))
def test_what_was_put_stays_where_descriptors_run_out_as_its_process_is_taken_in(spare):
    queue = bytepath.Queue()
    with pytest.raises(queues.Empty):
        queue.get(timeout=0)
    child = fork().Process(target=work.put_arrays, args=(queue, 0, 3, 100_000))
    child.start()
    child.join()
    got = []
    with spare_descriptors(spare):
        try:
            while len(got) < 3:
                got.append(queue.get(timeout=1)[1])
        except OSError as error:
            assert "Too many open files" in str(error)
    while len(got) < 3:
        got.append(queue.get(timeout=30)[1])
    assert got == [0, 1, 2]


@pytest.mark.parametrize("spare", range(3))
def test_a_receiver_that_could_not_begin_keeps_the_queue_from_nobody(spare):
    queue = bytepath.Queue()
    queue.put(1)
    tells = multiprocessing.Pipe()
    with spare_descriptors(spare), pytest.raises(OSError, match="Too many open files"):
        queue.get(timeout=1)
    assert queue.qsize() == 1
    child = fork().Process(target=work.get_one, args=(queue, tells[1]))
    child.start()
    assert tells[0].poll(30) and tells[0].recv() == 1
    child.join()


@pytest.mark.parametrize("spare", range(12))
def test_an_end_that_descriptors_ran_out_for_is_made_when_there_are_some(spare):
    here, there = bytepath.Channel.pair()
    gc.collect()
    with spare_descriptors(spare):
        with contextlib.suppress(OSError):
            here.send(1)
        with contextlib.suppress(OSError, TimeoutError):
            there.recv(timeout=0)
    # What went at once was the first one.
    here.send(2, timeout=30)
    assert there.recv(timeout=30) in (1, 2)


@pytest.mark.parametrize("spare", range(4))
def test_a_channel_that_descriptors_ran_out_for_keeps_none(spare):
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    with spare_descriptors(spare), pytest.raises(OSError, match="Too many open files"):
        bytepath.Channel.pair()
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("spare", range(3))
def test_who_has_connected_waits_where_a_listener_is_out_of_descriptors(spare):
    address = f"@bytepath-test-{os.getpid()}"
    with bytepath.ChannelListener(address) as listener, bytepath.Channel.connect(address) as other:
        with spare_descriptors(spare), pytest.raises(OSError, match="Too many open files"):
            listener.accept(timeout=30)
        with listener.accept(timeout=30) as channel:
            channel.send("served")
            assert other.recv(timeout=30) == "served"


# ---- nobody at the address --------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [bytepath.Queue, bytepath.Channel])
def test_an_interrupt_ends_the_wait_for_somebody_at_an_address(kind):
    interrupt = threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT))
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupt.start()
        kind.connect(f"@bytepath-nobody-{os.getpid()}", timeout=60)
    # Not a matter of speed: it would have waited all the minute.
    assert time.monotonic() - began < 30
    interrupt.join()


@pytest.mark.parametrize("kind", [bytepath.Queue, bytepath.Channel])
def test_nobody_at_an_address_is_told_when_the_time_is_over(kind):
    with pytest.raises(OSError, match="nobody listens at @bytepath-nobody"):
        kind.connect(f"@bytepath-nobody-{os.getpid()}", timeout=0.2)
    with pytest.raises(OSError, match="nobody listens at @bytepath-nobody"):
        kind.connect(f"@bytepath-nobody-{os.getpid()}", timeout=0)


def test_a_small_ring_takes_no_more_than_it_is() -> None:
    # Both ends are here, so each ring counts twice.
    ask = """
import bytepath

def resident():
    with open("/proc/self/smaps_rollup") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("Rss:"))

before, queues = resident(), [bytepath.Queue(ring_bytes=512 << 10) for _ in range(20)]
for number, queue in enumerate(queues):
    queue.put(number)
assert [queue.get() for queue in queues] == list(range(20))
print(resident() - before)
"""
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) < 20 * 2 * (1 << 20), "a ring has 512 KiB, and no page of 2 MiB"


def test_one_who_puts_beside_as_many_as_can_is_told_so_and_does_not_wait():
    """The accounts of others are written by hand: as many processes are more than a test has."""
    most, first, used, words = 4096, 80, 51, 4
    queue = bytepath.Queue()
    stat = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    ours = os.getpid() << 32 | int(stat[19]) & 0xFFFF_FFFF
    child = fork().Process(target=work.put_one, args=(queue,))
    here, there = fork().Pipe()
    closes = fork().Process(target=work.put_close_and_live, args=(queue, there), daemon=True)
    with mmap.mmap(queue._board.fileno(), (first + most * words) * 8) as board:
        struct.pack_into("<Q", board, used * 8, most)
        for at in range(most):
            struct.pack_into("<2Q", board, (first + at * words) * 8, ours, 1 << 48)
        for how in ({}, {"timeout": 1}, {"block": False}):
            with pytest.raises(bytepath.ChannelError, match="4096 ends put into this queue"):
                queue.put(1, **how)
        struct.pack_into("<2Q", board, first * 8, 0, 0)
    # One that has closed the queue lives, and puts no more: once what it has put was got, there is a place.
    closes.start()
    here.recv()
    for how in ({"timeout": 0.1}, {"block": False}):
        with pytest.raises(queues.Full):
            queue.put(2, **how)
    assert queue.get(timeout=30) == 1
    with pytest.raises(queues.Empty):
        queue.get_nowait()
    child.start()
    assert queue.get(timeout=30) == 1
    child.join()
    here.send(None)
    closes.join()


def test_a_queue_whose_sender_was_killed_is_empty_once_all_is_got():
    queue = bytepath.Queue()
    child = fork().Process(target=work.put_then_die, args=(queue, 2))
    child.start()
    child.join()
    got = [queue.get(timeout=30)[0] for _ in range(2)]
    assert got == [0, 1]
    # There is only its death to be told.
    wait_until(queue.watch)
    assert queue.empty() and queue.empty()
    with pytest.raises(bytepath.PeerGone) as raised:
        queue.get(timeout=30)
    # What went through the ring is no figure of what went.
    assert str(raised.value) == "the other end is gone without a last word: it was ended, or gave up"
    queue.put(3)
    wait_until(lambda: not queue.empty())
    assert queue.get(timeout=30) == 3 and queue.empty()


def test_a_queue_is_not_empty_where_another_put_before_a_death_was_told_of():
    queue = bytepath.Queue()
    killed = fork().Process(target=work.put_then_die, args=(queue, 1))
    killed.start()
    killed.join()
    assert queue.get(timeout=30)[0] == 0
    wait_until(queue.watch)
    assert queue.empty()
    other = fork().Process(target=work.put_one, args=(queue,))
    other.start()
    other.join()
    assert queue.qsize() == 1 and not queue.empty()
    assert queue.get(timeout=30) == 1
    with pytest.raises(bytepath.PeerGone):
        queue.get(timeout=30)


@pytest.mark.parametrize("receivers", ["one", "many"])
def test_one_object_is_told_to_be_done_once_by_whoever_of_two_processes_is_first(receivers):
    tasks = bytepath.JoinableQueue(receivers=receivers)
    with told_at_once(tasks) as others:
        for _ in range(300):
            tasks.put(None)
            tasks.get(timeout=30)
            told = others(lambda: is_told_done(tasks))
            assert sorted(told) == [False, True]
            assert tasks.join(0)


def is_told_done(tasks: bytepath.JoinableQueue) -> bool:
    try:
        tasks.task_done()
    except ValueError:
        return False
    return True


@contextlib.contextmanager
def told_at_once(tasks: bytepath.JoinableQueue) -> Iterator[Callable[[Callable[[], object]], tuple[object, bool]]]:
    """What is yielded does something while another process tells that something is done; it gives what that returned,
    and whether it was told."""
    # The round that is on, the last that was told or refused, and which of both.
    at, ended, told = (fork().RawValue("i", 0) for _ in range(3))

    def wait_for(word: object, number: int) -> None:
        deadline = time.monotonic() + 30
        while word.value != number:
            assert time.monotonic() < deadline, "the other process does not go on"
            os.sched_yield()

    def tell() -> None:
        for number in itertools.count(1):
            wait_for(at, number)
            told.value = is_told_done(tasks)
            ended.value = number

    def at_once(do: Callable[[], object]) -> tuple[object, bool]:
        at.value += 1
        done = do()
        wait_for(ended, at.value)
        return done, bool(told.value)

    child = fork().Process(target=tell, daemon=True)
    child.start()
    try:
        yield at_once
    finally:
        child.kill()
        child.join()


def look_through_all_accounts(tasks: bytepath.JoinableQueue, ours: int) -> None:
    """As where 4096 processes have put, of which this one is the first or the last: who looks how much is inside takes
    as long as for something else to happen before, or behind, it has seen what this one has put."""
    most, first, used, words = 4096, 80, 51, 4
    with mmap.mmap(tasks._board.fileno(), (first + most * words) * 8) as board:
        struct.pack_into("<Q", board, used * 8, most)
        for at in range(most):
            if at != ours:
                struct.pack_into("<3Q", board, (first + at * words) * 8, 1, 1 << 48, 1)


def test_an_object_is_told_to_be_done_while_it_is_being_got():
    tasks = bytepath.JoinableQueue()
    look_through_all_accounts(tasks, 4095)
    with told_at_once(tasks) as others:
        for number in range(300):
            tasks.put(number)
            assert others(lambda: tasks.get(timeout=30)) == (number, True)
            assert tasks.join(0) and not is_told_done(tasks)


def test_what_was_told_to_be_done_of_what_was_not_put_is_not_counted_against_what_comes():
    tasks = bytepath.JoinableQueue(capacity=1 << 20)
    look_through_all_accounts(tasks, 0)
    large = np.zeros(1 << 20, np.uint8)
    tasks.put(large)
    # As long as it is there, there is no memory for another one.
    held = tasks.get(timeout=30)
    tasks.task_done()

    def put_in_vain(times: int) -> None:
        for _ in range(times):
            with pytest.raises(queues.Full):
                tasks.put_nowait(large)

    with told_at_once(tasks) as others:
        for number in range(500):
            # Of those that may be told to be done, one is to be the last.
            others(lambda times=number % 20 + 1: put_in_vain(times))
            tasks.put(number)
            assert not tasks.join(0)
            assert tasks.get(timeout=30) == number
            tasks.task_done()
            assert tasks.join(0)
    del held


def test_what_a_killed_process_was_putting_is_not_counted_against_what_comes():
    tasks = bytepath.JoinableQueue(maxsize=2, capacity=1 << 20)
    child = fork().Process(target=put_arrays_of_a_mebibyte, args=(tasks,))
    child.start()
    wait_until(lambda: tasks.qsize() == 2)
    for _ in range(2):
        tasks.task_done()
    assert tasks.join(0)
    child.kill()
    child.join()
    tasks.put("more", timeout=30)
    assert not tasks.join(0)


def put_arrays_of_a_mebibyte(queue: bytepath.Queue) -> None:
    while True:
        queue.put(np.zeros(1 << 20, np.uint8))


@pytest.mark.parametrize("receivers", ["one", "many", "of multiprocessing"])
def test_an_object_may_be_told_to_be_done_before_it_is_got(receivers):
    if receivers == "of multiprocessing":
        tasks = fork().JoinableQueue()
    else:
        tasks = bytepath.JoinableQueue(receivers=receivers)
    tasks.put("first")
    tasks.task_done()
    with pytest.raises(ValueError, match="too many times"):
        tasks.task_done()
    tasks.join()
    assert tasks.get(timeout=30) == "first"
    with pytest.raises(ValueError, match="too many times"):
        tasks.task_done()
    tasks.put("second")
    if receivers != "of multiprocessing":
        assert not tasks.join(0)
    assert tasks.get(timeout=30) == "second"
    if receivers != "of multiprocessing":
        assert not tasks.join(0)
    tasks.task_done()
    tasks.join()


def test_what_was_told_to_be_done_and_is_lost_is_not_counted_against_what_comes():
    tasks = bytepath.JoinableQueue()
    tasks.put("lost")

    def tell_and_close() -> None:
        tasks.empty()
        tasks.watch()
        tasks.task_done()
        tasks.close()

    child = fork().Process(target=tell_and_close)
    child.start()
    child.join()
    assert child.exitcode == 0 and tasks.join(10)
    while tasks.qsize() < 1:
        with contextlib.suppress(bytepath.PeerGone):
            tasks.put("comes")
    assert tasks.get(timeout=30) == "comes" and not tasks.join(0)


@pytest.mark.parametrize("receivers", ["one", "many"])
def test_how_much_was_in_a_queue_is_told_after_it_was_closed(receivers):
    queue = bytepath.Queue(receivers=receivers)
    queue.put(1)
    queue.close()
    assert (queue.qsize(), queue.empty(), queue.full()) == (1, False, False)
    for use in (queue.get, lambda: queue.put(2)):
        with pytest.raises(ValueError, match="closed"):
            use()
