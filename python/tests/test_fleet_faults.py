"""Fleets: what is killed, stopped, cut off or set wrong while they copy and measure."""

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="fleets need the package distributed")

from fleet_hosts import NAMES, wait_until  # noqa: E402
from fleet_trees import (  # noqa: E402
    assert_copied, children, ended_well, finish, running, some_are_copied, state,
)  # fmt: skip



@pytest.fixture
def slept(request) -> str:
    """A command that no other test runs, also not beside this one: those that run it are looked for on all of this machine."""
    return f"sleep 0.7{zlib.crc32(f'{os.getpid()} {request.node.nodeid}'.encode()):010}"


def measured(command: str) -> list[str]:
    return ["cmd", "--blocks", "3", command]


def files_of(copy: Path) -> int:
    return sum(1 for _ in copy.rglob("f*"))


def status_of(file: Path) -> dict[str, str]:
    return {machine["name"]: machine["status"] for machine in json.loads(file.read_text())["machines"]}


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_that_is_killed_costs_no_byte(fleet, tree, tmp_path, name):
    copy = tmp_path / "copy"
    command = fleet.begin_command("cp", "--limit", "3M", str(tree), str(copy))
    wait_until(some_are_copied(copy))
    fleet.workers[name].kill()
    finish(command)
    assert_copied(tree, copy)


def test_a_worker_that_dies_when_it_is_first_asked_ends_no_copying(fleet, tree, tmp_path):
    script = "import os\nfrom bytepath.fleet import worker\nworker.sees = lambda *paths: os._exit(1)\n"
    (tmp_path / "sitecustomize.py").write_text(script)
    fleet.worker("three", PYTHONPATH=str(tmp_path))
    fleet.wait_for_workers(3)
    try:
        done = fleet.run("cp", str(tree), str(tmp_path / "copy"))
    finally:
        fleet.end_worker("three")
    ended_well(done)
    assert "the worker on three (tcp://" in done.stderr and "is gone; waiting for it to come back" in done.stderr, done
    assert_copied(tree, tmp_path / "copy")


def test_workers_that_sleep_spoil_nothing_when_they_wake(fleet, tree, tmp_path):
    copy = tmp_path / "copy"
    command = fleet.begin_command("cp", "--limit", "1M", "--late", "1", str(tree), str(copy))
    wait_until(some_are_copied(copy))
    for name in NAMES[:-1]:
        there = files_of(copy)
        with asleep(fleet.workers[name].pid):
            wait_until(lambda: command.poll() is not None or files_of(copy) > there + 20)  # noqa: B023
    with asleep(fleet.workers[NAMES[-1]].pid) as pids:
        finish(command)
        assert_copied(tree, copy)
    # It goes on with what it was at, and finds that all is over.
    wait_until(lambda: all(state(pid) in "SIZ?" for pid in pids))
    time.sleep(0.5)
    assert_copied(tree, copy)


@contextlib.contextmanager
def asleep(pid: int) -> Iterator[list[int]]:
    """Stops a process with all its children."""
    pids = [pid, *children(pid)]
    for each in pids:
        os.kill(each, signal.SIGSTOP)
    try:
        yield pids
    finally:
        for each in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def engines(pid: int) -> list[int]:
    """The programs that do the pieces of a worker."""
    return [child for child in children(pid) if b"\0piece\0" in Path(f"/proc/{child}/cmdline").read_bytes()]


def test_an_engine_that_is_stopped_is_not_waited_for_and_ends_with_the_copying(fleet, tree, tmp_path):
    copy = tmp_path / "copy"
    words = ("cp", "--jobs-per-machine", "1", "--limit", "3M", "--late", "1", str(tree), str(copy))
    command = fleet.begin_command(*words)
    wait_until(lambda: some_are_copied(copy)() and engines(fleet.workers["one"].pid))
    [engine] = engines(fleet.workers["one"].pid)
    os.kill(engine, signal.SIGSTOP)
    _, said = command.communicate(timeout=60)
    assert command.returncode == 0, said
    assert "one (tcp" in said and "is late with its work; others are asked" in said
    assert_copied(tree, copy)
    wait_until(lambda: not Path(f"/proc/{engine}").exists())


@pytest.mark.parametrize("how", ["interrupted", "refused"])
def test_engines_end_with_a_copying_that_does_not_come_to_its_end(fleet, tree, tmp_path, how):
    copy = tmp_path / "copy"
    if how == "refused":
        (copy / ".bytepath-fleet-another").mkdir(parents=True)
    command = fleet.begin_command("cp", "--limit", "100K", str(tree), str(copy))
    if how == "interrupted":
        wait_until(lambda: some_are_copied(copy)() and engines(fleet.workers["one"].pid))
        command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == (130 if how == "interrupted" else 1), said
    wait_until(lambda: not any(engines(fleet.workers[name].pid) for name in NAMES), 5)


def test_a_machine_that_is_cut_off_costs_no_byte_and_spoils_none_when_it_is_back(fleet, tree, tmp_path):
    if not fleet.hosts.apart:
        pytest.skip(f"no network can be cut: {fleet.hosts.why}")
    copy = tmp_path / "copy"
    command = fleet.begin_command("cp", "--limit", "2M", "--late", "1", str(tree), str(copy))
    wait_until(some_are_copied(copy))
    with fleet.hosts.cut_off("three"):
        finish(command)
        assert_copied(tree, copy)
    fleet.wait_for_workers(len(NAMES))
    assert_copied(tree, copy)


def test_a_scheduler_that_is_started_again_is_waited_for(fleet, tree, tmp_path):
    copy = tmp_path / "copy"
    command = fleet.begin_command("cp", "--limit", "3M", str(tree), str(copy))
    wait_until(some_are_copied(copy))
    fleet.scheduler.kill()
    fleet.scheduler.wait()
    for name in NAMES:
        fleet.end_worker(name)
    fleet.begin()
    said = finish(command).splitlines()
    assert all(line.startswith("bytepath fleet: ") for line in said), said
    assert_copied(tree, copy)


def test_a_machine_that_dies_in_an_experiment_is_told_of_and_one_that_comes_back_measures_again(fleet, tmp_path, slept):
    file = tmp_path / "run.json"
    command = fleet.begin_command("bench", "--patience", "10", "--json", str(file), *measured(slept))
    wait_until(lambda: len(running(slept)) >= 3)
    ours = children(fleet.workers["two"].pid)
    assert ours
    fleet.workers["two"].kill()
    # This one is back before anybody has lost patience.
    fleet.worker("one")
    command.communicate(timeout=90)
    assert command.returncode == 1
    assert status_of(file) == {"one": "ok", "two": "lost", "three": "ok"}
    # What it ran has ended with it.
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() and state(pid) != "Z" for pid in ours))


@pytest.mark.parametrize("how", ["stopped", "cut off"])
def test_machines_that_are_stopped_or_cut_off_in_an_experiment_are_told_of(fleet, tmp_path, slept, how):
    if how == "cut off" and not fleet.hosts.apart:
        pytest.skip(f"no network can be cut: {fleet.hosts.why}")
    file = tmp_path / "run.json"
    command = fleet.begin_command("bench", "--patience", "2", "--json", str(file), *measured(slept))
    wait_until(lambda: len(running(slept)) >= 3)
    with asleep(fleet.workers["one"].pid) if how == "stopped" else fleet.hosts.cut_off("one"):
        command.communicate(timeout=90)
    fleet.wait_for_workers(len(NAMES))
    assert command.returncode == 1
    assert status_of(file) == {"one": "lost", "two": "ok", "three": "ok"}
    assert "has told nothing" in file.read_text()


@pytest.mark.parametrize("how", ["interrupted", "late"])
def test_an_experiment_that_nobody_waits_for_is_ended_on_every_machine(fleet, slept, how):
    long = slept.replace("0.", "100.")
    command = fleet.begin_command("bench", *(["--timeout", "3"] if how == "late" else []), *measured(long))
    wait_until(lambda: len(running(long)) >= 3)
    if how == "interrupted":
        command.send_signal(signal.SIGINT)
    _, said = command.communicate(timeout=60)
    assert command.returncode == (130 if how == "interrupted" else 1), said
    wait_until(lambda: not running(long))


def test_who_has_a_machine_is_told_and_a_command_that_waits_for_it_can_be_ended(fleet, tree, tmp_path):
    folder = fleet.folder / f"bytepath-fleet-{os.getuid()}-two"
    folder.mkdir(mode=0o700, exist_ok=True)
    with open(folder / "measuring", "w+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 1: bytepath bench everything")
        lock.flush()
        command = fleet.begin_command("bench", "cmd", "--blocks", "3", "true")
        said = ""
        while "two is waited for: process 1: bytepath bench everything" not in said:
            line = command.stderr.readline()
            assert line, said
            said += line
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=60)
        assert command.returncode == 130
        # What has ended leaves its worker to others, though the machine is not to be had yet.
        ended_well(fleet.run("cp", str(tree), str(tmp_path / "copy")))
        assert_copied(tree, tmp_path / "copy")
    ended_well(fleet.run("bench", "cmd", "--blocks", "3", "true"))


def test_an_experiment_without_a_scheduler_ends_and_says_so(fleet, slept):
    command = fleet.begin_command("bench", "--patience", "1", *measured(slept))
    wait_until(lambda: len(running(slept)) >= 3)
    fleet.scheduler.kill()
    fleet.scheduler.wait()
    told, said = command.communicate(timeout=60)
    for name in NAMES:
        fleet.end_worker(name)
    assert command.returncode == 1
    assert all(f"{name}: failed: the scheduler is gone" in told for name in NAMES), told
    assert all(f"{name}: failed, " in said for name in NAMES) and "scheduler is gone" not in said, said


def test_clocks_that_are_apart_are_told_of_and_nothing_depends_on_them(fleet, tree, tmp_path):
    # All that Dask and the package there take for the time is an hour ahead.
    (tmp_path / "sitecustomize.py").write_text("import time\nreal = time.time\ntime.time = lambda: real() + 3600\n")
    fleet.worker("two", PYTHONPATH=str(tmp_path))
    fleet.wait_for_workers(len(NAMES))
    try:
        done = fleet.run("cp", "--json", "-", str(tree), str(tmp_path / "copy"))
    finally:
        fleet.end_worker("two")
    ended_well(done)
    [apart] = re.findall(r"the clock of two is ([0-9.]+) s ahead of this machine's", done.stderr)
    # As near as a question and its answer tell it.
    assert abs(float(apart) - 3600) < 60
    assert_copied(tree, tmp_path / "copy")


def test_a_full_destination_stops_it_and_room_lets_it_go_on(fleet, tree):
    if fleet.small is None:
        pytest.skip("mounting a small file system is refused here")
    copy, filler = fleet.small / "copy", fleet.small / "filler"
    with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    done = fleet.run("cp", str(tree), str(copy))
    assert done.returncode == 1
    assert "No space left on device" in done.stderr and "the same command goes on once it can" in done.stderr
    assert "another storage" not in done.stderr
    filler.unlink()
    done = fleet.run("cp", str(tree), str(copy))
    assert done.returncode == 1
    assert "No space left on device" in done.stderr and "the same command goes on" in done.stderr
    subprocess.run(["mount", "-o", "remount,size=64M", str(fleet.small)], check=True)
    ended_well(fleet.run("cp", str(tree), str(copy)))
    assert_copied(tree, copy)
