"""Fleets: three workers, each on a host of its own where that can be made; all commands against them."""

import hashlib
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="fleets need the package distributed")

from fleet_hosts import Fleet, wait_until  # noqa: E402

NAMES = ["one", "two", "three"]

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


@pytest.fixture(scope="module")
def started(tmp_path_factory):
    fleet = Fleet(tmp_path_factory.mktemp("fleet"), NAMES)
    try:
        if not fleet.hosts.apart:
            print(f"workers share this machine's network: {fleet.hosts.why}")
        fleet.mount_small()
        fleet.begin()
        fleet.wait_for_workers(len(NAMES))
        yield fleet
    finally:
        fleet.end()


@pytest.fixture
def fleet(started):
    """A scheduler and three workers, whatever the test before did to them."""
    started.all_there()
    return started


@pytest.fixture
def tree(tmp_path):
    """A tree with one of everything."""
    root = tmp_path / "source"
    make_tree(root)
    return root


def make_tree(root: Path) -> None:
    root.mkdir()
    for number in range(12):
        folder = root / f"d{number % 4}" / f"e{number}"
        folder.mkdir(parents=True)
        for file in range(20):
            (folder / f"f{file}").write_bytes(os.urandom(200 + 977 * file))
    odd = os.fsencode(root / "d0") + b"/not \xff utf-8 \n"
    with open(odd, "wb") as file:
        file.write(b"odd")
    (root / "link").symlink_to("d0/nowhere")
    os.mkfifo(root / "fifo")
    for name in ("d1/first", "d2/second", "third"):
        if name == "d1/first":
            (root / name).write_bytes(b"several names")
        else:
            os.link(root / "d1/first", root / name)
    with open(root / "sparse", "wb") as file:
        file.truncate(200 << 20)
        for at in (0, 70 << 20, 140 << 20, (200 << 20) - 4096):
            file.seek(at)
            file.write(os.urandom(4096))
    (root / "empty").mkdir()
    (root / "closed").mkdir()
    (root / "closed/inside").write_bytes(b"x")
    os.chmod(root / "closed", 0o555)
    os.chmod(root / "d3", 0o750)
    for path in [*root.rglob("*"), root]:
        os.utime(path, ns=(1_600_000_000_123_456_789, 1_600_000_000_123_456_789), follow_symlinks=False)


def digest(root: Path) -> dict[bytes, tuple]:
    """All that two trees have in common if one is a copy of the other."""
    found, groups = {}, {}
    base = os.fsencode(root)
    for folder, folders, files in os.walk(base):
        for name in [b".", *folders, *files]:
            path = os.path.join(folder, name)
            what = os.lstat(path)
            kind = stat.S_IFMT(what.st_mode)
            content = b""
            if kind == stat.S_IFREG:
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").digest() if hasattr(hashlib, "file_digest") else \
                        hashlib.sha256(file.read()).digest()
                if what.st_nlink > 1:
                    groups.setdefault(what.st_ino, []).append(os.path.relpath(path, base))
            elif kind == stat.S_IFLNK:
                content = os.readlink(path)
            size = what.st_size if kind == stat.S_IFREG else 0
            found[os.path.relpath(path, base)] = (what.st_mode, what.st_mtime_ns, size, content)
    for names in groups.values():
        found[b"names of " + min(names)] = tuple(sorted(names))
    return found


def assert_copied(source: Path, copy: Path) -> None:
    wanted, found = digest(source), digest(copy)
    assert sorted(found) == sorted(wanted)
    assert {name for name in wanted if wanted[name] != found[name]} == set()


def ended_well(done) -> None:
    assert done.returncode == 0, done.stderr


def finish(command: subprocess.Popen, seconds: float = 60.0) -> None:
    out, err = command.communicate(timeout=seconds)
    assert command.returncode == 0, err


def some_are_copied(copy: Path):
    """Whether a copying has begun, and is not over."""
    return lambda: copy.is_dir() and sum(1 for _ in copy.rglob("f*")) > 5


def test_a_tree_is_copied_as_cp_a_copies_it(fleet, tree, tmp_path):
    done = fleet.run("cp", "--verify", "--json", "-", str(tree), str(tmp_path / "copy"))
    ended_well(done)
    assert_copied(tree, tmp_path / "copy")
    found = json.loads(done.stdout)
    assert found["machines"] == 3
    assert found["failed"] == 0 and found["files"] >= 12 * 20
    assert (tmp_path / "copy/sparse").stat().st_blocks * 512 < 10 << 20
    # Once more over what is there, with other bytes in it.
    (tree / "third").write_bytes(b"other bytes")
    (tmp_path / "copy/d0/e0/f3").write_bytes(b"spoilt")
    os.utime(tree, ns=(1_600_000_000_000_000_000,) * 2)
    ended_well(fleet.run("cp", "-a", str(tree), str(tmp_path / "copy")))
    assert_copied(tree, tmp_path / "copy")


def test_what_cp_r_keeps_is_kept_by_r(fleet, tree, tmp_path):
    ended_well(fleet.run("cp", "-r", str(tree), str(tmp_path / "copy")))
    subprocess.run(["cp", "-r", "-T", str(tree), str(tmp_path / "by-cp")], check=True)
    modes = [{name: (entry[0], entry[2:]) for name, entry in digest(tmp_path / copy).items()} for copy in ("copy", "by-cp")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize("name", NAMES)
def test_a_worker_that_is_killed_costs_no_byte(fleet, tree, tmp_path, name):
    copy = tmp_path / "copy"
    command = fleet.begin_command("cp", "--limit", "3M", str(tree), str(copy))
    wait_until(some_are_copied(copy))
    fleet.workers[name].kill()
    finish(command)
    assert_copied(tree, copy)


def test_a_worker_that_sleeps_spoils_nothing_when_it_wakes(fleet, tree, tmp_path):
    copy = tmp_path / "copy"
    command = fleet.begin_command("cp", "--limit", "3M", "--late", "1", str(tree), str(copy))
    wait_until(some_are_copied(copy))
    asleep = [fleet.workers["two"].pid, *children(fleet.workers["two"].pid)]
    for pid in asleep:
        os.kill(pid, signal.SIGSTOP)
    try:
        finish(command)
        assert_copied(tree, copy)
    finally:
        for pid in asleep:
            os.kill(pid, signal.SIGCONT)
    # It goes on with what it was at, and finds that all is over.
    wait_until(lambda: all(state(pid) in "SIZ?" for pid in asleep))
    time.sleep(0.5)
    assert_copied(tree, copy)


def children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [*found, *(grandchild for child in found for grandchild in children(child))]


def state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "?"


def test_a_copying_that_is_killed_goes_on_where_it_was(fleet, tree, tmp_path):
    copy = tmp_path / "copy"
    words = ("cp", "--limit", "1M", str(tree), str(copy))
    command = fleet.begin_command(*words)
    wait_until(some_are_copied(copy))
    command.kill()
    command.communicate()
    command = fleet.begin_command(*words)
    assert "going on with an earlier run" in command.stderr.readline()
    command.send_signal(signal.SIGINT)
    command.communicate(timeout=30)
    assert command.returncode == 130
    done = fleet.run("cp", "--progress", str(tree), str(copy))
    ended_well(done)
    assert " left" in done.stderr and "3 workers" in done.stderr
    assert "going on with an earlier run" in done.stderr
    assert_copied(tree, copy)
    assert not list(copy.glob(".bytepath*"))
    # There is nothing left to go on with.
    assert "going on" not in fleet.run("cp", str(tree), str(copy)).stderr


def test_a_scheduler_that_is_started_again_is_waited_for(fleet, tree, tmp_path):
    copy = tmp_path / "copy"
    command = fleet.begin_command("cp", "--limit", "3M", str(tree), str(copy))
    wait_until(some_are_copied(copy))
    fleet.scheduler.kill()
    fleet.scheduler.wait()
    for name in NAMES:
        fleet.end_worker(name)
    fleet.begin()
    finish(command)
    assert_copied(tree, copy)


def test_a_full_destination_stops_it_and_room_lets_it_go_on(fleet, tree):
    if fleet.small is None:
        pytest.skip("mounting a small file system is refused here")
    copy = fleet.small / "copy"
    done = fleet.run("cp", str(tree), str(copy))
    assert done.returncode == 1
    assert "No space left on device" in done.stderr and "the same command goes on" in done.stderr
    subprocess.run(["mount", "-o", "remount,size=64M", str(fleet.small)], check=True)
    ended_well(fleet.run("cp", str(tree), str(copy)))
    assert_copied(tree, copy)


def test_workers_that_cannot_do_the_work_are_named_with_the_remedy(fleet, tree, tmp_path):
    other = tmp_path / "bytepath"
    other.write_text("#!/bin/sh\necho bytepath 0.0.1\n")
    other.chmod(0o755)
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['bytepath'] = None\n")
    fleet.worker("two", BYTEPATH_PROGRAM=str(other))
    fleet.worker("three", PYTHONPATH=str(tmp_path))
    fleet.wait_for_workers(3)
    try:
        done = fleet.run("cp", str(tree), str(tmp_path / "copy"))
    finally:
        fleet.end_worker("two")
        fleet.end_worker("three")
    assert done.returncode == 1
    assert "on two has bytepath 0.0.1" in done.stderr and "install one version on all machines" in done.stderr
    assert "on three has no Python package bytepath" in done.stderr and "pip install 'bytepath[fleet]'" in done.stderr
    assert not (tmp_path / "copy").exists()


@needs_root
def test_a_path_that_one_machine_has_on_other_storage_is_refused(fleet, tree, tmp_path):
    (tmp_path / "to").mkdir()
    hide = f"mount -t tmpfs tmpfs {tmp_path}/to && exec \"$@\""
    fleet.worker("one", before=["unshare", "--mount", "sh", "-c", hide, "sh"])
    fleet.wait_for_workers(3)
    try:
        done = fleet.run("cp", str(tree), str(tmp_path / "to/copy"))
        other = fleet.run("cp", str(tmp_path / "nowhere"), str(tmp_path / "to/copy"))
    finally:
        fleet.end_worker("one")
    assert done.returncode == 1 and "another storage" in done.stderr, done.stderr
    assert other.returncode == 1 and "cannot read" in other.stderr and "Mount them there" in other.stderr


def test_a_tree_is_not_copied_into_itself(fleet, tree):
    done = fleet.run("cp", str(tree), str(tree / "d0/copy"))
    assert done.returncode == 1 and "into itself" in done.stderr
    assert not (tree / "d0/copy").exists()


def test_what_cannot_be_read_is_told_of_and_tried_again(fleet, tree, tmp_path):
    # As root every file can be read: one is in the way of a directory instead.
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "d1").write_bytes(b"no directory")
    done = fleet.run("cp", str(tree), str(copy))
    assert done.returncode == 1
    assert "cannot overwrite non-directory" in done.stderr and "tries them again" in done.stderr
    (copy / "d1").unlink()
    ended_well(fleet.run("cp", str(tree), str(copy)))
    assert_copied(tree, copy)


def test_nobody_at_the_address_is_said_within_seconds(fleet):
    done = subprocess.run(
        [sys.executable, "-m", "bytepath.fleet", "--scheduler", "tcp://127.0.0.1:9", "doctor"],
        env=fleet.environment, capture_output=True, text=True, timeout=40,
    )  # fmt: skip
    assert done.returncode == 1 and "no Dask scheduler answers at tcp://127.0.0.1:9" in done.stderr


def test_an_experiment_leaves_a_record_of_each_machine_and_one_report(fleet, tmp_path):
    files = {kind: tmp_path / f"run.{kind}" for kind in ("json", "html")}
    words = ["--json", str(files["json"]), "--html", str(files["html"])]
    experiment = ["pipes", "--quick", "--blocks", "3", "--time", "30ms", "--arms", "write-read@same-cpu"]
    done = fleet.run("bench", *words, *experiment)
    ended_well(done)
    found = json.loads(files["json"].read_text())
    assert [machine["name"] for machine in found["machines"]] == sorted(NAMES)
    assert all(machine["record"]["schema"] == "bytepath.record/1" for machine in found["machines"])
    other = tmp_path / "other.json"
    for machine in found["machines"]:
        for arm in machine["record"]["arms"]:
            arm["samples"][0]["value"] *= 1.001
    other.write_text(json.dumps(found))
    page = files["html"].read_text()
    assert all(name in page for name in NAMES) and "write-read" in page
    compared = subprocess.run(
        [sys.executable, "-m", "bytepath.fleet", "compare", str(files["json"]), str(other)],
        env=fleet.environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert compared.returncode == 0, compared.stderr
    assert all(f"== {name}" in compared.stdout for name in NAMES)


def test_a_machine_that_dies_in_an_experiment_is_told_of_and_the_others_are_there(fleet, tmp_path):
    file = tmp_path / "run.json"
    words = ["bench", "--patience", "1", "--json", str(file), "cmd", "--blocks", "3", "sleep 0.7"]
    command = fleet.begin_command(*words)
    wait_until(lambda: len(running("sleep 0.7")) >= 3)
    ours = children(fleet.workers["two"].pid)
    assert ours
    fleet.workers["two"].kill()
    command.communicate(timeout=60)
    assert command.returncode == 1
    status = {machine["name"]: machine["status"] for machine in json.loads(file.read_text())["machines"]}
    assert status == {"one": "ok", "two": "lost", "three": "ok"}
    # What it ran has ended with it.
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() and state(pid) != "Z" for pid in ours))


def running(words: str) -> list[int]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().replace(b"\0", b" ").strip() == words.encode():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_the_command_hands_its_words_on_to_the_package(fleet):
    program = os.environ.get("BYTEPATH_PROGRAM") or shutil.which("bytepath")
    if program is None:
        pytest.skip("there is no program bytepath; BYTEPATH_PROGRAM names one")
    environment = {**fleet.environment, "BYTEPATH_PYTHON": sys.executable}
    done = subprocess.run([program, "fleet", "cp", "--help"], env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and "--jobs-per-machine" in done.stdout, done.stderr
    environment["BYTEPATH_PYTHON"] = "/bin/false"
    done = subprocess.run([program, "fleet", "doctor"], env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "pip install 'bytepath[fleet]'" in done.stderr
