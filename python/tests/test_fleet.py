"""Fleets: three workers, each on a host of its own where that can be made; what all commands do, and refuse."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="fleets need the package distributed")

from fleet_hosts import NAMES, wait_until  # noqa: E402
from fleet_trees import assert_copied, digest, ended_well, some_are_copied  # noqa: E402

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting needs root")


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


def test_new_files_are_as_the_umask_of_the_one_who_copies_has_them(fleet, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    (source / "folder").mkdir(parents=True)
    for name in ("file", "folder/file"):
        (source / name).write_bytes(b"bytes")
        (source / name).chmod(0o666)
    (source / "folder").chmod(0o777)
    # It is cut into ranges.
    with open(source / "large", "wb") as file:
        file.truncate(129 << 20)
    by_umask = ["sh", "-c", 'umask "$1"; shift; exec "$@"', "sh"]
    for name, mask in zip(NAMES, ("077", "000", "027"), strict=True):
        fleet.worker(name, before=[*by_umask, mask])
    try:
        for words in (["-r"], ["-r", "--no-preserve=mode"]):
            for command in (["cp", *words, "-T", source, tmp_path / "by-cp"], fleet.command("cp", *words, source, copy)):
                done = subprocess.run([*by_umask, "002", *command], env=fleet.environment, capture_output=True, text=True)
                ended_well(done)
            modes = [{name: entry[0] for name, entry in digest(root).items()} for root in (copy, tmp_path / "by-cp")]
            assert modes[0] == modes[1], words
            shutil.rmtree(copy)
            shutil.rmtree(tmp_path / "by-cp")
    finally:
        for name in NAMES:
            fleet.end_worker(name)


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
    assert "on three has no Python package bytepath" in done.stderr and "pip install 'target/dist/out/" in done.stderr
    assert not (tmp_path / "copy").exists()


@needs_root
def test_a_path_that_one_machine_has_on_other_storage_is_refused(fleet, tree, tmp_path):
    (tmp_path / "to/from").mkdir(parents=True)
    hide = f"mount -t tmpfs tmpfs {tmp_path}/to && exec \"$@\""
    fleet.worker("one", before=["unshare", "--mount", "sh", "-c", hide, "sh"])
    fleet.wait_for_workers(3)
    try:
        done = fleet.run("cp", str(tree), str(tmp_path / "to/copy"))
        other = fleet.run("cp", str(tmp_path / "to/from"), str(tmp_path / "to/copy"))
    finally:
        fleet.end_worker("one")
    assert done.returncode == 1 and "another storage" in done.stderr, done.stderr
    assert other.returncode == 1 and f"one cannot read {tmp_path}/to/from" in other.stderr and "Mount them there" in other.stderr


def test_a_path_that_no_machine_has_is_no_matter_of_mounts(fleet, tree, tmp_path):
    nowhere = tmp_path / "nowhere"
    for words, what in (([nowhere, tmp_path / "copy"], f"read {nowhere}"), ([tree, nowhere / "copy"], f"reach {nowhere}/copy")):
        done = fleet.run("cp", *map(str, words))
        said = f"bytepath fleet: cannot {what} on any machine: {nowhere} does not exist\n"
        assert (done.returncode, done.stderr) == (1, said), done


@needs_root
def test_who_could_not_do_it_is_named_with_what_failed_where_there_are_others(fleet, tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "file").touch()
    os.chown(source / "file", 1234, 1234)
    for name in ("one", "two"):
        fleet.worker(name, before=["setpriv", "--bounding-set", "-chown", "--inh-caps", "-chown"])
    fleet.end_worker("three")
    fleet.wait_for_workers(2)
    try:
        several = fleet.run("cp", str(source), str(tmp_path / "copy"))
        fleet.end_worker("two")
        fleet.wait_for_workers(1)
        alone = fleet.run("cp", str(source), str(tmp_path / "other"))
    finally:
        fleet.end_worker("one")
        fleet.end_worker("two")
    why = "failed to preserve ownership for "
    assert several.returncode == 1 and re.match(rf"bytepath fleet: (one|two) \(tcp://\S+\): {why}", several.stderr), several
    assert alone.returncode == 1 and alone.stderr.startswith(f"bytepath fleet: {why}"), alone


@needs_root
def test_a_source_that_machines_have_on_storage_of_their_own_is_refused(fleet, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    # Their roots have one inode, and all in them one name, size and time.
    files = f"for i in $(seq 60); do echo $0 $i >{source}/f$i; touch -d @1 {source}/f$i; done"
    own = f"mount -t tmpfs tmpfs {source} && {files} && exec \"$@\""
    fleet.end_worker("three")
    fleet.worker("one", before=["unshare", "--mount", "sh", "-c", own, "1"])
    fleet.end_worker("two")
    fleet.wait_for_workers(1)
    try:
        with fleet.copying(source, copy, "--limit", "30", ended=[]) as done:
            fleet.worker("two", before=["unshare", "--mount", "sh", "-c", own, "2"])
        assert done.told["files"] == 60
        assert "takes no part: its" in done.said and "is not the directory that the others see" in done.said
        assert {path.read_text().split()[0] for path in copy.iterdir()} == {"1"}
        done = fleet.run("cp", str(source), str(tmp_path / "other"))
    finally:
        fleet.end_worker("one")
        fleet.end_worker("two")
    assert done.returncode == 1 and "is not the same directory on one and on two" in done.stderr, done.stderr
    assert not (tmp_path / "other").exists()


@needs_root
def test_a_source_that_a_worker_does_not_see_is_nothing_that_was_removed(fleet, tmp_path):
    source, copy = tmp_path / "from/source", tmp_path / "copy"
    for number in range(40):
        (source / f"d{number}").mkdir(parents=True)
        (source / f"d{number}/f").write_bytes(bytes([number]) * 100)
    for name in NAMES:
        fleet.end_worker(name)
    fleet.worker("one", before=["unshare", "--mount"])
    fleet.wait_for_workers(1)
    within = ["nsenter", "--target", str(fleet.workers["one"].pid), "--mount"]
    hide = f"mount -t tmpfs tmpfs {tmp_path}/from && exec \"$@\""
    try:
        with fleet.copying(source, copy, "--limit", "500", ended=["two"]) as done:
            fleet.worker("two", before=["unshare", "--mount", "sh", "-c", hide, "sh"])
        assert f"takes no part: it cannot read {source} ({source} does not exist)" in done.said, done.said
        assert done.told["files"] == 40
        assert_copied(source, copy)
        command = fleet.begin_command("cp", "--limit", "500", str(source), str(tmp_path / "other"))
        wait_until(some_are_copied(tmp_path / "other"))
        subprocess.run([*within, "mount", "-t", "tmpfs", "tmpfs", str(tmp_path / "from")], check=True)
        said = command.communicate(timeout=60)[1]
        assert command.returncode == 1 and f"it cannot read {source}" in said and "there is no other worker" in said, said
        subprocess.run([*within, "umount", str(tmp_path / "from")], check=True)
        ended_well(fleet.run("cp", str(source), str(tmp_path / "other")))
        assert_copied(source, tmp_path / "other")
    finally:
        fleet.end_worker("one")


@needs_root
def test_a_worker_that_comes_later_takes_part_though_nothing_in_the_source_looks_as_at_the_beginning(fleet, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    # It tells no time of birth.
    files = f"for i in $(seq 60); do echo $i >{source}/f$i; done"
    own = f"mount -t ramfs ramfs {source} && {files} && exec \"$@\""
    for name in NAMES:
        fleet.end_worker(name)
    fleet.worker("one", before=["unshare", "--mount", "sh", "-c", own, "sh"])
    fleet.wait_for_workers(1)
    within = fleet.workers["one"].pid
    with fleet.copying(source, copy, "--limit", "20", ended=["one", "two"]) as done:
        for path in Path(f"/proc/{within}/root{source}").iterdir():
            os.utime(path)
        Path(f"/proc/{within}/root{source}/new").touch()
        fleet.worker("two", before=["nsenter", "--target", str(within), "--mount"])
    assert "takes no part" not in done.said, done.said
    assert done.told["machines"] == 2


def test_workers_of_several_users_are_refused_by_name(fleet, tree, tmp_path):
    # Another user may have no way to this Python.
    (tmp_path / "sitecustomize.py").write_text("import os\nown = os.getuid()\nos.getuid = lambda: own + 54321\n")
    fleet.worker("two", PYTHONPATH=str(tmp_path))
    fleet.wait_for_workers(3)
    try:
        done = fleet.run("cp", str(tree), str(tmp_path / "copy"))
    finally:
        fleet.end_worker("two")
    assert done.returncode == 1 and not (tmp_path / "copy").exists()
    users = f"several users: uid {os.getuid()} on one, three; uid {os.getuid() + 54321} on two"
    assert f"{users}. Start all of them as one user" in done.stderr, done.stderr


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
    assert "cannot overwrite non-directory" in done.stderr and "tries again" in done.stderr
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


def test_the_command_hands_its_words_on_to_the_package(fleet):
    program = os.environ.get("BYTEPATH_PROGRAM") or shutil.which("bytepath")
    if program is None:
        pytest.skip("there is no program bytepath; BYTEPATH_PROGRAM names one")
    environment = {**fleet.environment, "BYTEPATH_PYTHON": sys.executable}
    done = subprocess.run([program, "fleet", "cp", "-a", "--help"], env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0 and "--jobs-per-machine" in done.stdout, done.stderr
    environment["BYTEPATH_PYTHON"] = "/bin/false"
    done = subprocess.run([program, "fleet", "doctor"], env=environment, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "target/dist/out/" in done.stderr
