"""Fleets: what each option does, and trees that need more than a piece for a directory or a file's names."""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pickle
import platform
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="fleets need the package distributed")

from fleet_hosts import (  # noqa: E402
    NAMES, end_with_the_parent, in_folder, in_memory, mounted, wait_until, with_workers,
)  # fmt: skip
from fleet_trees import assert_copied, ended_well, some_are_copied  # noqa: E402

from distributed import Client  # noqa: E402
from distributed.security import Security  # noqa: E402

from bytepath.fleet import cluster, worker  # noqa: E402
from bytepath.fleet.__main__ import main  # noqa: E402
from bytepath.fleet.copy.command import bytes_of  # noqa: E402
from bytepath.fleet.copy import run  # noqa: E402
from bytepath.fleet.copy.journal import Journal  # noqa: E402
from bytepath.fleet.copy.options import Options  # noqa: E402
from bytepath.fleet.copy.progress import size  # noqa: E402
from bytepath.fleet.errors import FleetError  # noqa: E402

RECORDER = """\
#!{python}
# Stands before the program: notes what each piece is asked for, and whether two are at work at once.
import fcntl, json, os, subprocess, sys
if sys.argv[1:2] != ["piece"]:
    os.execv("{program}", ["{program}", *sys.argv[1:]])
engine = subprocess.Popen(["{program}", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
turn, notes = open("{folder}/turn", "w"), open("{folder}/notes", "a")
for line in sys.stdin.buffer:
    try:
        fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        notes.write("two at once\\n")
    notes.write(" ".join(item["do"] for item in json.loads(line)["items"]) + "\\n")
    notes.flush()
    engine.stdin.write(line)
    engine.stdin.flush()
    answer = engine.stdout.readline()
    fcntl.flock(turn, fcntl.LOCK_UN)
    sys.stdout.buffer.write(answer)
    sys.stdout.flush()
"""


def on_this_machine(
    count: int, folder: Path, *words: str, program: str = "", **more: str
) -> subprocess.CompletedProcess[str]:
    """Runs a command with so many workers of its own."""
    environment = in_folder(folder, **more)
    if program:
        environment["BYTEPATH_PROGRAM"] = program
    what = [*with_workers(count), *words]
    return subprocess.run(what, env=environment, capture_output=True, text=True, timeout=120, cwd=folder)


@pytest.fixture
def piece(command, tmp_path):
    """Asks for pieces of a copying of source to copy, until nothing is left of them; what was answered, together."""
    ends = {"source": tmp_path / "source", "destination": tmp_path / "copy", "run": tmp_path / "copy/run"}

    def asked(*items: dict, options: tuple[str, ...] = (), before: tuple[str, ...] = (), once: bool = False, **request) -> dict:
        words = [word for name, value in ends.items() for word in (f"--{name}", str(value))]
        words += ["--token", uuid.uuid4().hex, "--", "-a", *options]
        found: dict = {"failed": [], "begun": [], "files": 0}
        # It ends when its standard input does.
        with subprocess.Popen(
            [*before, command, "piece", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as engine:
            left = list(items)
            while left:
                engine.stdin.write(json.dumps({"items": left, "budget_ms": 60_000, "stage": 0, **request}) + "\n")
                engine.stdin.flush()
                answer = json.loads(engine.stdout.readline())
                if once:
                    return answer
                left = answer["rest"]
                found = {key: found[key] + answer[key] for key in found}
        return found

    (tmp_path / "copy/run/stage-0").mkdir(parents=True)
    (tmp_path / "copy/run/lists").mkdir()
    return asked


def wake(calls: Path, call: str) -> None:
    """Ends who traces the program that sleeps in this call, and no parent of it, and so its sleep."""
    sleeper = re.search(rf"(\d+) +{call}\(", calls.read_text())[1]
    tracer = re.search(r"TracerPid:\s*(\d+)", Path(f"/proc/{sleeper}/status").read_text())[1]
    os.kill(int(tracer), signal.SIGKILL)


def some_files(root: Path, count: int, size: int) -> None:
    root.mkdir(parents=True)
    for number in range(count):
        (root / f"f{number}").write_bytes(os.urandom(size))


def test_one_job_for_a_machine_is_one_piece_at_a_time_and_sync_brings_all_to_the_device(command, tmp_path):
    for number in range(20):
        some_files(tmp_path / "source" / f"d{number}", 20, 1000)
    recorder = tmp_path / "recorder"
    recorder.write_text(RECORDER.format(python=sys.executable, program=command, folder=tmp_path))
    recorder.chmod(0o755)
    words = ["cp", "--jobs-per-machine", "1", "--sync", "source", "copy"]
    ended_well(on_this_machine(2, tmp_path, *words, program=str(recorder)))
    assert_copied(tmp_path / "source", tmp_path / "copy")
    notes = (tmp_path / "notes").read_text().splitlines()
    assert "two at once" not in notes
    # When all files are there, and before what the work needed is removed; and once more after that.
    assert notes[-3:] == ["sync", "clean closed", "sync"] and notes.count("sync") == 2
    assert not list(tmp_path.glob("bytepath-fleet-*/*-0"))


def test_a_machine_that_does_one_piece_at_a_time_does_the_next_when_one_is_stopped(command, tmp_path):
    some_files(tmp_path / "source", 20, 1000)
    stops = tmp_path / "stops"
    # The first to be started, and no other; nobody asks the one by which the options are checked.
    stops.write_text(
        f'#!/bin/sh\n[ -p /dev/stdin ] && mkdir "{tmp_path}/first" 2>/dev/null && echo $$ >"{tmp_path}/pid" && kill -STOP $$\n'
        f'exec "{command}" "$@"\n'
    )
    stops.chmod(0o755)
    words = ["cp", "--jobs-per-machine", "1", "--late", "0.2", "source", "copy"]
    ended_well(on_this_machine(2, tmp_path, *words, program=str(stops)))
    assert_copied(tmp_path / "source", tmp_path / "copy")
    wait_until(lambda: not Path(f"/proc/{(tmp_path / 'pid').read_text().strip()}").exists())


KILLER = """\
#!{python}
# Stands before the program: ends itself, or its worker, by the directory "bad", which is in a piece with others.
import json, os, subprocess, sys
if sys.argv[1:2] != ["piece"]:
    os.execv("{program}", ["{program}", *sys.argv[1:]])
engine = subprocess.Popen(["{program}", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.stdin.buffer:
    folders = [item.get("d") for item in json.loads(line)["items"] if item["do"] == "tree"]
    if folders == [""]:
        rest = [{{"do": "tree", "d": name, "w": 0.1}} for name in ("good", "bad", "better")]
        print(json.dumps({{"rest": rest, "directories": 1}}), flush=True)
        continue
    if "bad" in folders:
        engine.kill()
        if {worker}:
            os.kill(os.getppid(), 9)
        sys.exit("of bad")
    engine.stdin.write(line)
    engine.stdin.flush()
    sys.stdout.buffer.write(engine.stdout.readline())
    sys.stdout.flush()
"""


@pytest.mark.parametrize(("worker", "why"), [(False, "of bad"), (True, "1 workers died of it")], ids=["engine", "worker"])
def test_what_ends_whoever_does_it_fails_by_its_name_and_the_rest_is_copied(command, tmp_path, monkeypatch, worker, why):
    # Each death counts at once; else Dask tries four times as often.
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    for name in ("good", "bad", "better"):
        some_files(tmp_path / "source" / name, 3, 10)
    killer = tmp_path / "killer"
    killer.write_text(KILLER.format(python=sys.executable, program=command, worker=worker))
    killer.chmod(0o755)
    done = on_this_machine(1, tmp_path, "cp", "--json", "-", "source", "copy", program=str(killer))
    assert done.returncode == 1 and "1 entry was not copied" in done.stderr, done
    [line] = json.loads(done.stdout)["why"]
    assert line.startswith(f"{tmp_path}/source/bad (with all below it): its piece failed again and again, the last time so: ") and why in line
    assert {path.name for path in (tmp_path / "copy").iterdir() if not path.name.startswith(".")} == {"good", "better"}
    ended_well(on_this_machine(1, tmp_path, "cp", "source", "copy"))
    assert_copied(tmp_path / "source", tmp_path / "copy")


DEADLY = """\
#!{python}
# Stands before the program: ends itself by what would copy one file, and notes what that was.
import json, os, subprocess, sys
if sys.argv[1:2] != ["piece"]:
    os.execv("{program}", ["{program}", *sys.argv[1:]])
def is_deadly(item):
    n = item.get("n")
    return item["do"] == "tree" and (
        item["d"] == "" and (n is None or "bad" in n)
        or item["d"] == "bad" and (n is None or "deadly" in n)
    )
engine = subprocess.Popen(["{program}", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
for line in sys.stdin.buffer:
    request = json.loads(line)
    if not request.get("split") and any(map(is_deadly, request["items"])):
        engine.kill()
        sys.exit("of deadly")
    engine.stdin.write(line)
    engine.stdin.flush()
    sys.stdout.buffer.write(engine.stdout.readline())
    sys.stdout.flush()
"""


def test_a_file_that_ends_whoever_copies_it_keeps_no_other_from_being_copied(command, tmp_path):
    for name in ("good", "bad", "bad/below"):
        some_files(tmp_path / "source" / name, 7, 10)
    (tmp_path / "source/bad/deadly").write_text("some")
    os.link(tmp_path / "source/bad/f0", tmp_path / "source/good/same")
    deadly = tmp_path / "deadly"
    deadly.write_text(DEADLY.format(python=sys.executable, program=command))
    deadly.chmod(0o755)
    done = on_this_machine(1, tmp_path, "cp", "--json", "-", "source", "copy", program=str(deadly))
    assert done.returncode == 1 and "1 entry was not copied" in done.stderr, done
    [line] = json.loads(done.stdout)["why"]
    assert line.startswith(f"{tmp_path}/source/bad/deadly: its piece failed again and again"), line
    assert "of deadly" in line and (json.loads(done.stdout)["files"], json.loads(done.stdout)["directories"]) == (22, 4)
    for folder in ("good", "bad", "bad/below"):
        there = set(os.listdir(tmp_path / "copy" / folder))
        assert there == set(os.listdir(tmp_path / "source" / folder)) - {"deadly"}, folder
    assert (tmp_path / "copy/good/same").samefile(tmp_path / "copy/bad/f0")
    ended_well(on_this_machine(1, tmp_path, "cp", "source", "copy"))
    assert_copied(tmp_path / "source", tmp_path / "copy")


def test_a_tree_is_given_back_in_parts_that_are_all_of_it(piece, tmp_path):
    for number in range(10):
        (tmp_path / f"source/few/{number}").mkdir(parents=True)
    some_files(tmp_path / "source/many", 5000, 0)
    left, files, lists = [({"do": "tree", "d": "", "w": 1.0}, 0)], 0, 0
    while left:
        item, depth = left.pop()
        lists += "l" in item
        if depth == 4:
            answer = piece(item)
            files += answer["files"]
        else:
            answer = piece(item, once=True, split=True)
            left += ((part, depth + 1) for part in answer["rest"])
            assert answer["files"] == 0
            assert sum(part["w"] for part in answer["rest"]) + answer["w"] == pytest.approx(item["w"])
        assert answer["failed"] == []
    assert files == 5000 and lists > 2
    for folder in ("few", "many"):
        assert sorted(os.listdir(tmp_path / "copy" / folder)) == sorted(os.listdir(tmp_path / "source" / folder))
    [name, *_] = os.listdir(tmp_path / "source/many")
    one = {"do": "tree", "d": "many", "n": [name], "a": 0, "z": 0, "alone": True, "w": 0.5}
    assert piece(one, once=True, split=True)["rest"] == [one]


def test_directories_that_pieces_made_get_the_default_mode_where_none_is_kept(command, tmp_path):
    some_files(tmp_path / "source" / "inner", 3, 10)
    for path in (tmp_path / "source", tmp_path / "source" / "inner"):
        path.chmod(0o700)
    mask = os.umask(0)
    os.umask(mask)
    for option in ("-a", "-r"):
        done = on_this_machine(2, tmp_path, "cp", option, "--no-preserve=mode", "source", option[1])
        assert done.returncode == 0, done
        modes = [oct(os.stat(tmp_path / path).st_mode & 0o777) for path in (option[1], f"{option[1]}/inner")]
        assert modes == [oct(0o777 & ~mask)] * 2, option


def test_a_fleet_of_its_own_runs_nothing_that_lies_in_the_current_directory(command, tmp_path):
    here = tmp_path / "here"
    (here / "source").mkdir(parents=True)
    (here / "source/file").write_bytes(b"all of it")
    for name in ("multiprocessing", "signal", "socket", "argparse", "runpy", "distributed", "dask", "bytepath"):
        (here / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    environment = in_folder(tmp_path, BYTEPATH_PYTHON=sys.executable)
    words = [command, "fleet", "--scheduler", "local:1", "cp", "source", "copy"]
    done = subprocess.run(words, env=environment, cwd=here, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert (here / "copy/file").read_bytes() == b"all of it"
    assert not (tmp_path / "ran").exists()


def test_what_a_command_was_started_to_ignore_does_not_end_it(command, tmp_path):
    some_files(tmp_path / "source", 30, 1000)
    environment = in_folder(tmp_path, BYTEPATH_PROGRAM=command)
    words = [*with_workers(1), "cp", "--limit", "5K", "source", "copy"]
    with subprocess.Popen(
        ["sh", "-c", "trap '' HUP && exec \"$@\"", "sh", *words], env=environment, cwd=tmp_path,
        stderr=subprocess.PIPE, text=True, preexec_fn=end_with_the_parent,  # noqa: PLW1509
    ) as running:  # fmt: skip
        wait_until(some_are_copied(tmp_path / "copy"), 60)
        running.send_signal(signal.SIGHUP)
        said = running.communicate(timeout=60)[1]
    assert running.returncode == 0, said
    assert_copied(tmp_path / "source", tmp_path / "copy")


def test_a_fleet_of_its_own_says_nothing_of_another(command, tmp_path):
    some_files(tmp_path / "source", 1, 10)
    with socket.socket() as taken:
        # Where Dask listens unless it is told otherwise; whether somebody is there already does not matter.
        with contextlib.suppress(OSError):
            taken.bind(("127.0.0.1", 8787))
            taken.listen()
        done = on_this_machine(1, tmp_path, "cp", "source", "copy")
    assert done.returncode == 0 and done.stderr == "", done


def test_a_fleet_of_its_own_obeys_nobody_else(command, tmp_path):
    pytest.importorskip("cryptography")

    async def tried() -> tuple[str, str]:
        async with cluster.local(1) as own:
            address = own.scheduler_address.replace("tls://", "tcp://")
            with pytest.raises(FleetError, match="no Dask scheduler answers"):
                await cluster._client(address)
            async with Client(own, asynchronous=True, set_as_default=False) as client:
                return own.scheduler_address, await client.submit(os.path.basename, "a/b")

    address, answer = asyncio.run(tried())
    assert address.startswith("tls://") and answer == "b"


def test_the_keys_of_a_fleet_of_its_own_are_on_no_disk(command, monkeypatch, tmp_path):
    pytest.importorskip("cryptography")
    keys = cluster._keys()
    # Where files could be made, if there were such a folder.
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    # The second is what workers get.
    for those in (keys, pickle.loads(pickle.dumps(keys))):
        for role in ("client", "scheduler", "worker"):
            assert those.get_connection_args(role)["ssl_context"] and those.get_listen_args(role)["ssl_context"]


def test_wrong_words_end_with_2_before_anything_is_made_or_kept(command, tmp_path):
    some_files(tmp_path / "source", 1, 10)
    done = on_this_machine(2, tmp_path, "cp", "--preserve=nothing", "source", "copy")
    assert done.returncode == 2 and "‘nothing’" in done.stderr, done
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"]
    for words in (["bench", "nothing"], ["tune", "--nothing"]):
        done = on_this_machine(2, tmp_path, *words)
        assert done.returncode == 2 and "nothing" in done.stdout, done


def test_files_that_cannot_be_written_are_told_of_before_anything_is_done(command, tmp_path):
    some_files(tmp_path / "source", 1, 10)
    gone = str(tmp_path / "gone/file")
    for words in (
        ["cp", "--json", gone, "source", "copy"],
        ["cp", "--journal", gone, "source", "copy"],
        ["bench", "--json", gone, "pipes"],
        ["bench", "--html", gone, "pipes"],
        ["tune", "--profiles", "source/f0/profiles"],
        ["doctor", "--json", gone],
    ):
        done = on_this_machine(1, tmp_path, *words)
        assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done
        assert words[2] in done.stderr and ("No such file" in done.stderr or "Not a directory" in done.stderr), done
    assert not (tmp_path / "copy").exists() and not (tmp_path / "gone").exists()
    done = on_this_machine(1, tmp_path, "cp", "--json", "/dev/full", "source", "copy")
    assert done.returncode == 1 and "1 files in 1 directories" in done.stdout and "No space left" in done.stderr, done


def test_readers_that_are_gone_change_neither_the_work_nor_its_exit_code(command, tmp_path):
    some_files(tmp_path / "source", 3, 10)
    (tmp_path / "other/f0").mkdir(parents=True)
    environment = in_folder(tmp_path)
    # The last of them goes on with an earlier run, and says so before it does anything.
    for copy, code in (("copy", 0), ("other", 1), ("other", 1)):
        reader, writer = os.pipe()
        os.close(reader)
        words = [*with_workers(1), "cp", "--progress", "source", copy]
        done = subprocess.run(words, cwd=tmp_path, env=environment, stdout=writer, stderr=writer, timeout=60)
        os.close(writer)
        assert done.returncode == code, copy
        assert (tmp_path / copy / "f1").read_bytes() == (tmp_path / "source/f1").read_bytes()
    assert_copied(tmp_path / "source", tmp_path / "copy")


def test_what_a_command_needs_here_and_is_not_there_is_told_of_in_a_line(command, tmp_path):
    some_files(tmp_path / "source", 1, 10)
    (tmp_path / "folder").mkdir()
    words = [*with_workers(1), "cp"]
    environment = in_folder(tmp_path)

    def told(*more: str, before: str = "", **what: str) -> str:
        command = ["sh", "-c", f'{before} exec "$@"', "sh", *words, *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env={**environment, **what})
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        said = [line for line in done.stderr.splitlines() if "going on with an earlier run" not in line]
        assert len(said) == 1 and said[0].startswith("bytepath fleet: "), said
        return said[0]

    gone = "mkdir gone; cd gone; rmdir ../gone;"
    assert "current directory was removed" in told("source", "copy", before=gone)
    assert "No space left" in told("source", "copy", before="exec >/dev/full;") and (tmp_path / "copy/f0").exists()
    assert "No space left" in told("--json", "-", "source", "copy", before="exec >/dev/full;")
    # What was to be kept is kept all the same.
    assert "No space left" in told("--json", "kept", "source", "copy", before="exec >/dev/full;")
    assert json.loads((tmp_path / "kept").read_text())["files"] == 1
    for file in ("folder", "/dev/null"):
        assert "no regular file" in told("--anew", "--journal", file, "source", "copy")
    assert "raise ulimit -n to 80" in told("source", "copy", before="ulimit -n 20;")
    # Of the process that workers are forked off.
    (tmp_path / "sitecustomize.py").write_text("import os, sys\nif 'forkserver' in str(sys.orig_argv): os._exit(3)\n")
    path = f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}"
    assert "no worker can be started" in told("source", "copy", PYTHONPATH=path)
    assert not list(tmp_path.glob("bytepath/fleet/*")), "where nothing was begun there is nothing to go on with"
    # What is named from the root needs no current directory.
    some_files(tmp_path / "other", 1, 10)
    paths = [str(tmp_path / name) for name in ("other", "there")]
    ended_well(subprocess.run(["sh", "-c", f'{gone} exec "$@"', "sh", *words, *paths], cwd=tmp_path, capture_output=True,
                              text=True, timeout=60, env=environment))  # fmt: skip
    assert_copied(tmp_path / "other", tmp_path / "there")


def test_paths_and_schedulers_that_mean_nothing_are_told_of_in_a_line(command, tmp_path):
    some_files(tmp_path / "source", 1, 10)
    done = on_this_machine(1, tmp_path, "cp", "source/f0", "copy")
    assert done.returncode == 1 and "is no directory" in done.stderr, done
    words = [sys.executable, "-m", "bytepath.fleet", "--scheduler", "local:two", "doctor"]
    refused = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2 and "local:2" in refused.stderr and refused.stderr.count("\n") == 1, refused


TLS = """\
distributed:
  comm:
    require-encryption: true
    tls: {{ca-file: {0}/ca, client: {{key: {0}/key, cert: {0}/cert}}}}
"""


def test_a_scheduler_or_keys_that_cannot_be_used_are_told_of_in_a_line_and_begin_nothing(command, tmp_path):
    pytest.importorskip("cryptography", reason="keys are made by it")
    some_files(tmp_path / "source", 1, 10)
    keys = Security.temporary()
    made = {"ca": keys.tls_ca_file, "key": keys.tls_client_key, "cert": keys.tls_client_cert}
    (tmp_path / "tls.yaml").write_text(TLS.format(tmp_path))

    def told(address: str, **config: str) -> str:
        words = [sys.executable, "-m", "bytepath.fleet", "--scheduler", address, "cp", "source", "copy"]
        environment = in_folder(tmp_path, **config)
        done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stdout == "" and done.stderr.count("\n") == 1, done
        assert done.stderr.startswith("bytepath fleet: ") and not list(tmp_path.glob("bytepath/fleet/*")), done
        return done.stderr

    def by_tls(address: str, **others: str) -> str:
        for name, text in {**made, **others}.items():
            (tmp_path / name).unlink(missing_ok=True)
            if text:
                (tmp_path / name).write_text(text)
        return told(address, DASK_CONFIG=str(tmp_path / "tls.yaml"))

    assert "encryption required" in (said := by_tls("tcp://127.0.0.1:9")) and "as tls://HOST" in said
    for name in made:
        said = by_tls("tls://127.0.0.1:9", **{name: ""})
        assert f"cannot read {tmp_path}/{name}, " in said and "No such file" in said
        said = by_tls("tls://127.0.0.1:9", **{name: "no key"})
        assert f"{tmp_path}/{name}" in said and "in PEM" in said
    assert "no Dask scheduler answers at tls://127.0.0.1:9" in by_tls("tls://127.0.0.1:9")
    assert "no Dask scheduler answers at tcp://127.0.0.1:9" in told("tcp://127.0.0.1:9")


def test_many_large_files_arrive_all_by_few_machines(command, tmp_path):
    (tmp_path / "source").mkdir()
    for number in range(5):
        with open(tmp_path / "source" / f"large-{number}", "wb") as file:
            file.write(os.urandom(4096))
            file.seek((129 << 20) - 4096)
            file.write(os.urandom(4096))
    for machines in (1, 2):
        copy = f"copy-{machines}"
        ended_well(on_this_machine(machines, tmp_path, "cp", "--verify", "source", copy))
        assert_copied(tmp_path / "source", tmp_path / copy)


def test_places_of_a_machine_are_given_back_by_whoever_dies(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    holder = (
        "import pathlib, sys\nfrom bytepath.fleet import worker\n"
        "with worker._slot('run', 1, 60.0):\n    pathlib.Path(sys.argv[1]).touch()\n    sys.stdin.read()\n"
    )
    holders = {
        tmp_path / name: subprocess.Popen([sys.executable, "-c", holder, tmp_path / name], stdin=subprocess.PIPE)
        for name in ("first", "second")
    }
    try:
        wait_until(lambda: any(path.exists() for path in holders))
        inside = next(path for path in holders if path.exists())
        assert [path for path in holders if path.exists()] == [inside]
        holders[inside].kill()
        wait_until(lambda: all(path.exists() for path in holders))
    finally:
        for process in holders.values():
            process.kill()
            process.communicate()


def test_a_limit_is_for_all_machines_together_and_another_for_each(fleet, tmp_path):
    some_files(tmp_path / "source", 12, 50_000)
    for option, seconds in (("--limit", 1.2), ("--limit-per-machine", 0.4)):
        copy = tmp_path / f"copy{option}"
        done = fleet.run("cp", "--json", "-", option, "500000", str(tmp_path / "source"), str(copy))
        ended_well(done)
        assert_copied(tmp_path / "source", copy)
        # Nobody waits after the last piece.
        assert json.loads(done.stdout)["seconds"] >= seconds * 0.8


def test_what_was_written_by_a_machine_that_is_gone_is_not_said_to_be_on_the_device(fleet, tree, tmp_path):
    copy = tmp_path / "copy"
    words = ("cp", "--sync", "--patience", "5", "--late", "1", "--limit", "3M", str(tree), str(copy))
    running = fleet.begin_command(*words)
    wait_until(some_are_copied(copy))
    fleet.end_worker("two")
    _, said = running.communicate(timeout=60)
    assert running.returncode == 1
    assert "two: no worker is left there" in said and "the same command goes on" in said
    fleet.all_there()
    ended_well(fleet.run(*words))
    assert_copied(tree, copy)


def test_a_worker_that_comes_later_takes_part_or_is_refused(fleet, tree, tmp_path):
    other = tmp_path / "bytepath"
    other.write_text("#!/bin/sh\necho bytepath 0.0.1\n")
    other.chmod(0o755)
    fleet.end_worker("two")
    fleet.end_worker("three")
    fleet.wait_for_workers(1)
    copy = tmp_path / "copy"
    with fleet.copying(tree, copy, "--limit", "120K", ended=["three"]) as done:
        fleet.worker("two")
        fleet.worker("three", BYTEPATH_PROGRAM=str(other))
    assert "takes no part" in done.said and "has bytepath 0.0.1" in done.said
    assert done.told["machines"] == 2
    assert_copied(tree, copy)


TALES = """\
import platform
platform.python_version = lambda: "{told}"
platform.python_version_tuple = lambda: ("3", "99", "1")
"""


@pytest.mark.parametrize("told", ["3.99.1", platform.python_version()])
def test_a_worker_of_another_python_that_comes_later_does_nothing_whatever_it_told(fleet, tree, command, tmp_path, told):
    (tmp_path / "sitecustomize.py").write_text(TALES.format(told=told))
    (tmp_path / "program").write_text(f'#!/bin/sh\n[ "$1" != piece ] || : >{tmp_path}/begun\nexec {command} "$@"\n')
    (tmp_path / "program").chmod(0o755)
    fleet.end_worker("three")
    fleet.wait_for_workers(2)
    copy = tmp_path / "copy"
    with fleet.copying(tree, copy, "--limit", "120K", ended=["three"]) as done:
        fleet.worker("three", PYTHONPATH=str(tmp_path), BYTEPATH_PROGRAM=str(tmp_path / "program"))
    assert "has Python 3.99, and" in done.said and "takes no part" in done.said, done.said
    assert not (tmp_path / "begun").exists()
    assert_copied(tree, copy)


def test_a_worker_without_the_package_that_comes_later_ends_no_copying(fleet, tree, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['bytepath'] = None\n")
    fleet.end_worker("three")
    fleet.wait_for_workers(2)
    copy = tmp_path / "copy"
    with fleet.copying(tree, copy, "--limit", "120K", ended=["three"]) as done:
        fleet.worker("three", PYTHONPATH=str(tmp_path))
    assert "has no Python package bytepath" in done.said and "takes no part" in done.said
    assert_copied(tree, copy)


def test_a_scheduler_without_the_package_is_named_with_the_remedy(command, tmp_path):
    (tmp_path / "without").mkdir()
    (tmp_path / "without/sitecustomize.py").write_text("import sys\nsys.modules['bytepath'] = None\n")
    file, quiet = tmp_path / "scheduler.json", {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    words = ["scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard"]
    with contextlib.ExitStack() as stack:
        for what in (words, ["worker", "--nthreads", "1", "--no-nanny", "--no-dashboard", "--local-directory", str(tmp_path)]):
            python = [sys.executable, "-m", f"distributed.cli.dask_{what[0]}", *what[1:], "--scheduler-file", str(file)]
            own = {**environment, "PYTHONPATH": str(tmp_path / "without")} if what is words else environment
            process = stack.enter_context(subprocess.Popen(python, env=own, preexec_fn=end_with_the_parent, **quiet))  # noqa: PLW1509
            stack.callback(process.kill)
            wait_until(lambda: file.exists() and file.read_text().strip().endswith("}"))
        address = json.loads(file.read_text())["address"]
        fleet = [sys.executable, "-m", "bytepath.fleet", "--scheduler", address, "doctor"]
        done = subprocess.run(fleet, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "the scheduler on" in done.stderr and "pip install 'target/dist/out/" in done.stderr


LONG = """\
import os, time
listdir, scandir = os.listdir, os.scandir
def slow(real):
    def wrapped(path="."):
        # The source is only opened; to list it would take longer than any test.
        if path == "{folder}/copy" or real is listdir and path == "{folder}/source":
            time.sleep({seconds} if path == "{folder}/copy" else 600)
        return real(path)
    return wrapped
os.listdir, os.scandir = slow(listdir), slow(scandir)
"""


def test_directories_that_take_long_to_list_are_copied(command, tmp_path):
    some_files(tmp_path / "source", 3, 10)
    (tmp_path / "sitecustomize.py").write_text(LONG.format(folder=tmp_path, seconds=3))
    impatient = "import bytepath.fleet.copy.ground as g, bytepath.fleet.__main__ as m, sys; g.LOOK_S = 1; sys.exit(m.main())"
    words = [sys.executable, "-c", f"if __name__ == '__main__':\n    {impatient}", "--scheduler", "local:1", "cp", "source", "copy"]
    environment = in_folder(tmp_path)
    environment["PYTHONPATH"] = f"{tmp_path}:{environment.get('PYTHONPATH', '')}"
    ended_well(subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60))
    assert_copied(tmp_path / "source", tmp_path / "copy")


def test_a_directory_of_many_entries_is_copied_in_parts(fleet, tmp_path):
    root = tmp_path / "source"
    (root / "many/below").mkdir(parents=True)
    for number in range(5000):
        (root / f"many/an-entry-{number}").touch()
    for number in range(0, 5000, 500):
        (root / f"many/an-entry-{number}").write_bytes(b"%d" % number)
    (root / "many/below/file").write_bytes(b"below")
    done = fleet.run("cp", "--json", "-", str(root), str(tmp_path / "copy"))
    ended_well(done)
    assert json.loads(done.stdout)["files"] == 5001
    assert_copied(root, tmp_path / "copy")


def test_names_of_one_file_that_pieces_share_stay_names_of_one_file(fleet, tmp_path):
    root, copy = tmp_path / "source", tmp_path / "copy"
    for folder in range(6):
        (root / f"d{folder}").mkdir(parents=True)
    for number in range(60):
        (root / f"d0/f{number}").write_bytes(b"file %d" % number)
        for folder in range(1, 6):
            os.link(root / f"d0/f{number}", root / f"d{folder}/n{number}")
    ended_well(fleet.run("cp", str(root), str(copy)))
    assert_copied(root, copy)
    # Names that are there and are another file's, or nobody's, become right.
    for number in range(0, 60, 7):
        (copy / f"d1/n{number}").unlink()
        (copy / f"d2/n{number}").unlink()
        (copy / f"d2/n{number}").write_bytes(b"another file")
    ended_well(fleet.run("cp", str(root), str(copy)))
    assert_copied(root, copy)


def test_names_of_one_file_that_machines_see_on_devices_of_other_numbers_stay_names_of_one_file(fleet, tmp_path):
    root, source, copy = tmp_path / "real", tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    (tmp_path / "empty").mkdir()
    for folder in range(8):
        # Each takes a while by the limit, so that all machines find some of the names.
        some_files(root / f"d{folder}/slow", 1, 2000)
        for number in range(20):
            if folder:
                os.link(root / f"d0/f{number}", root / f"d{folder}/f{number}")
            else:
                (root / f"d0/f{number}").write_bytes(b"file %d" % number)
    # Each machine has a mount of its own, and the kernel a number for each. The submitter's is a plain one.
    mount = f"mount -t overlay -o lowerdir={root}:{tmp_path}/empty none {source}"
    apart = ["unshare", "-m", "sh", "-c", f'{mount} && exec "$@"', "sh"]
    if subprocess.run([*apart, "true"], capture_output=True).returncode != 0:
        pytest.skip("no right to mount an overlay")
    try:
        for name in NAMES:
            fleet.worker(name, before=apart)
        fleet.wait_for_workers(len(NAMES))
        ended_well(fleet.run("cp", "--limit", "20K", str(source), str(copy)))
    finally:
        for name in NAMES:
            fleet.end_worker(name)
    assert_copied(root, copy)


def test_verify_finds_what_was_not_written(command, tmp_path, traced):
    some_files(tmp_path / "source", 1, 100_000)
    liar = tmp_path / "liar"
    # The kernel is made to say that it wrote what it did not: by the second call, as the first writes an answer.
    lie = f"{' '.join(traced)} -o /dev/null -e inject=write:retval=100000:when=2"
    liar.write_text(f'#!/bin/sh\n[ "$1" = piece ] || exec "{command}" "$@"\nexec {lie} "{command}" "$@"\n')
    liar.chmod(0o755)
    done = on_this_machine(1, tmp_path, "cp", "--verify", "--reflink", "never", "source", "copy", program=str(liar))
    assert done.returncode == 1
    assert "differs from" in done.stderr and "the same command tries again" in done.stderr


TUNER = """\
#!/bin/sh
# Stands before the program, as tune takes a while: its profile are the words that it was given.
[ "$1" = tune ] || exec "{program}" "$@"
said="$*"
while [ $# -gt 1 ]; do [ "$1" != --json ] || file=$2; shift; done
[ "$file" != - ] || file=/dev/stdout
case "$said" in
*--show*) {shown} "{folder}/profile" >"$file" || exit 1 ;;
*) echo "{{\\"words\\": \\"${{said%% --json*}}\\"}}" | tee "{folder}/profile" >"$file" ;;
esac
"""


@pytest.mark.parametrize(
    ("shown", "code"), [("cat", 0), ("sed s/quick/other/", 1), ("echo no profile >&2; false", 1)], ids=["own", "shared", "gone"]
)
def test_tune_hands_its_options_on_and_sees_whether_the_profile_is_kept(command, tmp_path, shown, code):
    tuner = tmp_path / "tuner"
    tuner.write_text(TUNER.format(program=command, folder=tmp_path, shown=shown))
    tuner.chmod(0o755)
    done = on_this_machine(1, tmp_path, "tune", "--profiles", "profiles", "--quick", "--dir", "/", program=str(tuner))
    assert done.returncode == code, done.stderr
    [profile] = (tmp_path / "profiles").iterdir()
    assert json.loads(profile.read_text()) == {"words": "tune --quick --dir /"}
    assert "1 profile was written into profiles" in done.stdout
    if code == 0:
        assert "measured in" in done.stdout
    elif "no profile" in shown:
        assert "failed: whether its profile was kept could not be seen: exit code 1: no profile" in done.stdout, done
    else:
        assert "failed: another machine's profile" in done.stdout and "XDG_STATE_HOME" in done.stdout


def test_a_folder_of_profiles_keeps_other_files_and_those_of_an_earlier_run_are_told_of(command, tmp_path):
    tuner, other = tmp_path / "tuner", tmp_path / "profiles/notes.txt"
    tuner.write_text(TUNER.format(program=command, folder=tmp_path, shown="cat"))
    tuner.chmod(0o755)
    other.parent.mkdir()
    other.write_text("notes")
    words = ["tune", "--quick", "--profiles", "profiles"]
    ended_well(on_this_machine(1, tmp_path, *words, program=str(tuner)))
    [earlier] = (tmp_path / "profiles").glob("*.json")
    before = earlier.read_text()
    tuner.write_text(f'#!/bin/sh\n[ "$1" != tune ] || exit 1\nexec "{command}" "$@"\n')
    done = on_this_machine(1, tmp_path, *words, program=str(tuner))
    assert done.returncode == 1 and "no profiles were written into profiles" in done.stdout, done
    assert f"profiles/{earlier.name} is of an earlier run: this one left none of {earlier.stem}" in done.stdout, done
    assert earlier.read_text() == before and other.read_text() == "notes"
    earlier.unlink()
    earlier.mkdir()
    others = TUNER.replace('%% --json*}}\\"', '%% --json*}}\\", \\"disturbed\\": \\"others worked\\"')
    tuner.write_text(others.format(program=command, folder=tmp_path, shown="cat"))
    done = on_this_machine(1, tmp_path, *words, program=str(tuner))
    assert done.returncode == 1 and done.stdout.endswith("\nno profiles were written into profiles\n"), done
    assert f"cannot write profiles/{earlier.name}: Is a directory" in done.stderr, done
    doubt = "while this was measured, others worked; measure again when the machine is idle"
    assert f"; the profile is kept there; {doubt}\n" in done.stdout, done
    for folder, why in (("", "'' is no folder"), ("profiles/notes.txt", "cannot write into profiles/notes.txt: it is no folder")):
        done = on_this_machine(1, tmp_path, "tune", "--profiles", folder, program=str(tuner))
        assert done.returncode == (1 if folder else 2) and why in done.stderr and not done.stdout, done


def test_what_a_profile_is_found_to_be_is_shown_and_nothing_is_said_before_it_is_looked_at(command, tmp_path):
    tuner = tmp_path / "tuner"
    tuner.write_text(f'#!/bin/sh\n[ "$1" = tune ] && echo "told by $2" || exec "{command}" "$@"\n')
    tuner.chmod(0o755)
    for option in ("--show", "--check"):
        done = on_this_machine(1, tmp_path, "tune", option, program=str(tuner))
        assert done.returncode == 0 and ": ok, " in done.stderr, done
        assert done.stdout.endswith(f": told there:\ntold by {option}\n"), done
    # The program itself reads these, and refuses the last of them alone.
    done = on_this_machine(1, tmp_path, "tune", "--check", "--blocks", "2")
    assert done.returncode == 2 and ": failed: exit code 2: error: --check --blocks 2: fewer than 3" in done.stdout, done
    done = on_this_machine(1, tmp_path, "tune", "--check", "--profiles", "profiles")
    assert done.returncode == 2 and "--check leaves no profiles" in done.stderr and not (tmp_path / "profiles").exists()
    tuner.write_text(TUNER.format(program=command, folder=tmp_path, shown="sed s/quick/other/"))
    done = on_this_machine(1, tmp_path, "tune", "--quick", program=str(tuner))
    assert done.returncode == 1 and ": measured, " in done.stderr and ": ok" not in done.stderr, done


def test_a_profile_is_looked_at_while_somebody_else_measures(command, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(tmp_path / "tuner"))
    (tmp_path / "tuner").write_text(TUNER.format(program=command, folder=tmp_path, shown="cat"))
    (tmp_path / "tuner").chmod(0o755)
    (tmp_path / "profile").write_text('{"words": "own"}')
    with open(worker.machine_folder() / "measuring", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert worker.profile(["--profile", "file"]) == {"words": "own"}


ONE_MACHINES = ("flame", "folded", "firefox", "save-jobs")


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (["cmd", "--csv", "x.csv", "true"], "no CSV; every sample is in its JSON: fleet bench --json FILE cmd"),
        (["cmd", "--json=x.json", "true"], "stands before the experiment: fleet bench --json x.json cmd"),
        (["cmd", "--html", "x.html", "true"], "stands before the experiment: fleet bench --html x.html cmd"),
        (["cmd", "--json"], "fleet bench --json FILE cmd"),
        (["cmd", "--report", "x.html", "true"], "one page of all machines: fleet bench --html FILE cmd"),
        *((["cmd", f"--{name}=x", "true"], f"`bytepath bench cmd --{name} …` on one of them does") for name in ONE_MACHINES),
        (["all", "--quick"], "a fleet reports one at a time, `bytepath bench --help`"),
        (["pipes", "--list"], "--list measures nothing; `bytepath bench pipes --list` needs no fleet"),
        (["cmd", "--help"], "--help measures nothing; `bytepath bench cmd --help` needs no fleet"),
        (["--", "-h"], "-h measures nothing; `bytepath bench -h` needs no fleet"),
    ],
)
def test_words_that_leave_no_record_are_refused_with_what_works_and_no_scheduler(words, advice, capsys, monkeypatch):
    for name in ("DASK_SCHEDULER_ADDRESS", "BYTEPATH_SCHEDULER"):
        monkeypatch.delenv(name, raising=False)
    assert main(["bench", *words]) == 2
    told = capsys.readouterr()
    assert advice in told.err and told.err.count("\n") == 1 and not told.out


def test_a_machine_without_a_record_is_not_called_ok_first(command, tmp_path):
    measurer = tmp_path / "measurer"
    measurer.write_text(MEASURER.format(program=command, folder=tmp_path, code=0))
    measurer.chmod(0o755)
    (tmp_path / "record").write_text("")
    done = on_this_machine(1, tmp_path, "bench", "pipes", program=str(measurer))
    assert done.returncode == 1 and ": failed: it left no record" in done.stdout, done
    # Once is enough.
    assert ": failed, " in done.stderr and "record" not in done.stderr and ": ok" not in done.stderr, done


def test_what_stands_behind_an_experiment_reaches_its_command(command, tmp_path):
    words = ["bench", "--json", "run", "cmd", "--blocks", "3", "--", f"touch {tmp_path}/touched"]
    ended_well(on_this_machine(1, tmp_path, *words))
    (machine,) = json.loads((tmp_path / "run").read_text())["machines"]
    assert machine["record"] and (tmp_path / "touched").exists()


def test_a_program_that_said_nothing_once_is_asked_again_and_one_that_was_replaced_too(tmp_path, monkeypatch):
    path = tmp_path / "bytepath"
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(path))
    programs = {"exit 1": f"{path}: exit code 1", "echo bytepath 1": "bytepath 1", "echo bytepath 22": "bytepath 22"}
    for text, said in programs.items():
        new = tmp_path / "new"
        new.write_text(f"#!/bin/sh\n{text}\n")
        new.chmod(0o755)
        if said == "bytepath 1":
            # The same file, which works now.
            path.write_text(new.read_text())
        else:
            new.rename(path)
        assert worker.about()["version"] == said


def test_one_after_another_measures_by_turns(fleet, tmp_path):
    work = f"sh -c 'echo begin >>{tmp_path}/log; sleep 0.05; echo end >>{tmp_path}/log'"
    ended_well(fleet.run("bench", "--one-after-another", "--json", str(tmp_path / "run"), "cmd", "--blocks", "3", work))
    lines = (tmp_path / "log").read_text().split()
    assert len(lines) >= 2 * 3 * len(NAMES) and lines == ["begin", "end"] * (len(lines) // 2)


def test_the_doctor_looks_at_every_machine(fleet):
    done = fleet.run("doctor", "--json", "-")
    machines = json.loads(done.stdout)["machines"]
    assert [machine["name"] for machine in machines] == sorted(NAMES)
    findings = [{finding["name"] for finding in machine["record"]["findings"]} for machine in machines]
    assert findings[0] and findings[0] == findings[1] == findings[2]
    poor = any(f["verdict"] == "poor" for machine in machines for f in machine["record"]["findings"])
    assert done.returncode == poor, done.stderr
    done = fleet.run("doctor")
    assert done.returncode == poor, done.stderr
    assert ("poor: " if poor else "nothing poor on one, three, two") in done.stdout


MEASURER = """\
#!/bin/sh
# Stands before the program: leaves what is named by its words, and ends as they say.
case "$1" in bench|doctor) ;; *) exec "{program}" "$@" ;; esac
while [ $# -gt 1 ]; do [ "$1" != --json ] || file=$2; shift; done
[ "$file" != - ] || file=/dev/stdout
cat "{folder}/record" >"$file"
exit {code}
"""


@pytest.mark.parametrize(("code", "poor"), [(0, 0), (1, 1), (3, 1)])
def test_a_measurement_that_failed_is_no_good_one_and_poor_findings_are_told_by_the_exit_code(command, tmp_path, code, poor):
    measurer = tmp_path / "measurer"
    measurer.write_text(MEASURER.format(program=command, folder=tmp_path, code=code))
    measurer.chmod(0o755)
    arm = {"name": "wake", "unit": "s", "better": "lower", "status": "ok", "median": 1.0, "ci95": [1.0, 1.0], "samples": [1.0]}
    (tmp_path / "record").write_text(json.dumps({"arms": [arm], "machine": {}, "trusted": True, "findings": []}))
    done = on_this_machine(1, tmp_path, "bench", "--json", "run", "pipes", program=str(measurer))
    assert done.returncode == (code != 0), done
    (machine,) = json.loads((tmp_path / "run").read_text())["machines"]
    assert machine["status"] == ("failed" if code else "ok") and machine["record"]["arms"] == [arm]
    assert ("failed: exit code" in done.stdout) == (code != 0) and "wake" in done.stdout
    done = on_this_machine(1, tmp_path, "doctor", "--json", "run", program=str(measurer))
    assert done.returncode == poor, done
    assert json.loads((tmp_path / "run").read_text())["machines"][0]["status"] == ("failed" if code == 3 else "ok")


def test_files_of_which_nothing_came_are_not_left_empty_and_others_stay(command, tmp_path):
    (tmp_path / "there").touch()
    (tmp_path / "link").symlink_to("linked")
    other = tmp_path / "bytepath"
    # To each who asks it is another version.
    other.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo bytepath $$ || exec "{command}" "$@"\n')
    other.chmod(0o755)
    for kept, page in (("new", "page"), ("there", "link")):
        done = on_this_machine(1, tmp_path, "bench", "--json", kept, "--html", page, "cmd", "true", program=str(other))
        assert done.returncode == 1 and "install one version" in done.stderr, done
    left = {path.name for path in tmp_path.iterdir()}
    assert not left & {"new", "page", "linked"} and {"there", "link"} <= left, left
    run = {"schema": "bytepath.fleet/1", "words": ["bench"], "machines": []}
    (tmp_path / "run").write_text(json.dumps(run))
    done = on_this_machine(1, tmp_path, "compare", "run", "run", "--json", "new", "--markdown", "gone/new")
    assert done.returncode == 1 and not (tmp_path / "new").exists(), done


def test_workers_of_this_machine_are_forks_of_one_process(command, tmp_path):
    begun = tmp_path / "begun"
    begin = f"import os, sys\nwith open({str(begun)!r}, 'a') as file:\n    file.write(f'{{os.getppid()}}\\n')\n"
    (tmp_path / "sitecustomize.py").write_text(begin)
    some_files(tmp_path / "source", 3, 10)
    ended_well(on_this_machine(4, tmp_path, "cp", "source", "copy", PYTHONPATH=str(tmp_path)))
    assert_copied(tmp_path / "source", tmp_path / "copy")
    # The command, multiprocessing's account of what is shared, and the process that workers are forked off.
    assert len(begun.read_text().splitlines()) == 3


@pytest.mark.parametrize("when", ["starting", "measuring"])
def test_who_interrupts_all_in_the_foreground_is_told_that_alone(command, tmp_path, when):
    signs = tmp_path / "signs"
    # What is measured may be interrupted as ever.
    read = "while read -r name mask; do case $name in SigBlk:|SigIgn:) echo $name $mask;; esac; done </proc/$$/status"
    measured = f"sh -c '{read} >>{signs}; exec sleep 100'"
    words = ["bench", "--json", "kept", "cmd", "--blocks", "3", measured]
    what = [*with_workers(2), *words]
    environment = in_folder(tmp_path)
    with subprocess.Popen(
        what, env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=end_with_the_parent
    ) as fleet:
        children = Path(f"/proc/{fleet.pid}/task/{fleet.pid}/children")
        if when == "starting":
            wait_until(lambda: children.read_text())
        else:
            wait_until(lambda: signs.exists() and len(signs.read_text().splitlines()) == 2)
            assert all(int(line.split()[1], 16) & 1 << signal.SIGINT - 1 == 0 for line in signs.read_text().splitlines())
        os.killpg(fleet.pid, signal.SIGINT)
        _, said = fleet.communicate(timeout=60)
    assert fleet.returncode == 130 and said == "bytepath fleet: interrupted\n", said
    assert not (tmp_path / "kept").exists()


def test_the_ids_of_a_machine_are_in_no_file(command, tmp_path):
    ended_well(on_this_machine(1, tmp_path, "bench", "--json", "run", "cmd", "--blocks", "3", "true"))
    (machine,) = json.loads((tmp_path / "run").read_text())["machines"]
    assert machine["key"] and machine["facts"]["kernel"] == os.uname().release
    for file in ("/etc/machine-id", "/proc/sys/kernel/random/boot_id"):
        id = Path(file).read_text().strip() if os.path.exists(file) else ""
        assert not id or id not in (tmp_path / "run").read_text(), file


def test_what_was_found_is_kept_where_it_cannot_be_shown(command, tmp_path):
    words = "bench --json kept --html page cmd --blocks 3 true".split()
    what = [*with_workers(1), *words]
    environment = in_folder(tmp_path)
    with open("/dev/full", "w") as full:
        done = subprocess.run(what, cwd=tmp_path, env=environment, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "No space left" in done.stderr, done.stderr
    assert json.loads((tmp_path / "kept").read_text())["machines"][0]["record"]
    assert "</html>" in (tmp_path / "page").read_text()


def test_compare_says_which_machine_was_in_one_run_alone(command, tmp_path):
    files = [tmp_path / name for name in ("base", "other")]
    for file, names in zip(files, (["a", "b"], ["b", "c"]), strict=True):
        machines = [{"name": name, "key": name, "record": None} for name in names]
        file.write_text(json.dumps({"schema": "bytepath.fleet/1", "words": ["bench"], "machines": machines}))
    compare = [sys.executable, "-m", "bytepath.fleet", "compare"]
    done = subprocess.run([*compare, *map(str, files)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "== a: not in both runs" in done.stdout and f"== c: only in {files[1]}" in done.stdout
    files[1].write_text("{")
    done = subprocess.run([*compare, *map(str, files)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "fleet bench --json" in done.stderr


@pytest.mark.parametrize(
    ("names", "told"),
    [
        # Keys and names of the base's machines, and of the other's: one was given the name of another.
        (({"1": "x"}, {"1": "y", "2": "x"}), [("x", ""), ("x", "only in other")]),
        (({"1": "x", "2": "y"}, {"1": "y"}), [("x", ""), ("y", "not in both runs")]),
        # Two have one name, and were started anew.
        (({"1": "x", "2": "x"}, {"3": "x"}), [("x", ""), ("x", "not in both runs")]),
        (({"1": "x"}, {"2": "x"}), [("x", "")]),
    ],
)
def test_compare_tells_of_each_machine_once_whatever_their_names(tmp_path, names, told):
    for run, machines in zip(("base", "other"), names, strict=True):
        record = {"schema": "bytepath.record/1", "arms": []}
        found = [{"key": key, "name": name, "record": record} for key, name in machines.items()]
        (tmp_path / run).write_text(json.dumps({"schema": "bytepath.fleet/1", "words": ["bench"], "machines": found}))
    compare = [sys.executable, "-m", "bytepath.fleet", "compare", "base", "other", "--json", "-"]
    environment = {**os.environ, "BYTEPATH_PROGRAM": shutil.which("true")}
    done = subprocess.run(compare, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert [(one["name"], one["why"]) for one in json.loads(done.stdout)["machines"]] == told, done.stderr


def test_compare_takes_options_anywhere_and_says_in_which_run_a_machine_failed(command, tmp_path):
    measure = [command, "bench", "cmd", "--blocks", "3", "true", "--json", "-"]
    made = subprocess.run(measure, capture_output=True, check=True)
    record = json.loads(made.stdout)
    for run, whys in (("base", ["", ""]), ("other", ["", "exit code 1: no room"])):
        record["arms"][0]["samples"][0]["value"] *= 1.001
        machines = [
            {"name": name, "key": name, "status": "failed" if why else "ok", "why": why, "record": not why and record}
            for name, why in zip("ab", whys, strict=True)
        ]
        whole = {"schema": "bytepath.fleet/1", "words": ["bench"], "machines": machines}
        (tmp_path / run).write_text(json.dumps(whole))
    tuned = {"schema": "bytepath.fleet/1", "words": ["tune", "--quick"], "machines": []}
    (tmp_path / "tuned").write_text(json.dumps(tuned))

    def compare(*words):
        what = [sys.executable, "-m", "bytepath.fleet", "compare", *words]
        return subprocess.run(what, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    margin = ("--margin", "7")
    orders = (*margin, "base", "--alone", "other"), ("base", *margin, "other"), ("--arms=*", "base", "other", *margin)
    for words in orders:
        done = compare(*words, "--json", "-")
        a, b = json.loads(done.stdout)["machines"]
        assert a["comparison"]["method"]["margin"] == 0.07 and done.returncode == 1, done
        assert b["why"] == "failed in other: exit code 1: no room" and not b["comparison"]
    assert "== b: failed in other: exit code 1: no room" in compare("base", "other").stdout
    done = compare("base", "tuned")
    assert done.returncode == 1 and "tuned is a run of fleet tune, not of fleet bench; `" in done.stderr, done
    done = compare("base", "other", "--margin")
    assert done.returncode == 2 and "expected one argument" in done.stderr, done


def test_a_page_on_standard_output_is_there_alone(command, tmp_path):
    measured = "cmd --blocks 3 true".split()
    done = on_this_machine(1, tmp_path, "bench", "--html", "-", "--json", "kept", *measured)
    ended_well(done)
    assert done.stdout.startswith("<!doctype html>") and done.stdout.endswith("</html>\n")
    assert json.loads((tmp_path / "kept").read_text())["machines"] and not (tmp_path / "-").exists()
    for words in (
        ("bench", "--html", "-", "--json=-", *measured),
        ("bench", "--html", "new", "--json=./new", *measured),
        ("cp", "--json=new", "--metrics=./new", "source", "copy"),
    ):
        done = on_this_machine(1, tmp_path, *words)
        assert done.returncode == 2 and "name the same file" in done.stderr and not done.stdout


def test_comparisons_of_all_machines_are_one_document_by_the_names_that_were_typed(command, tmp_path):
    for run in ("base", "other"):
        made = subprocess.run([command, "bench", "cmd", "--blocks", "3", "true", "--json", "-"], capture_output=True, check=True)
        machines = [{"name": name, "key": name, "record": json.loads(made.stdout)} for name in ("a", "b")]
        machines.append({"name": run, "key": run, "record": None})
        (tmp_path / run).write_text(json.dumps({"schema": "bytepath.fleet/1", "words": ["bench"], "machines": machines}))

    def compare(*words):
        what = [sys.executable, "-m", "bytepath.fleet", "compare", *words]
        return subprocess.run(what, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    done = compare("base", "other", "--json", "-", "--markdown", "kept", "--margin", "7")
    assert done.returncode == 1, done.stderr
    found = {one["name"]: one for one in json.loads(done.stdout)["machines"]}
    assert [one["code"] for one in found.values()] == [0, 0, 1, 0] and list(found) == ["a", "b", "base", "other"]
    for name in "ab":
        comparison = found[name]["comparison"]
        assert [run["name"] for run in comparison["runs"]] == ["base", "other"] and comparison["method"]["margin"] == 0.07
    lines = (tmp_path / "kept").read_text().splitlines()
    assert [line for line in lines if line.startswith("# ")] == ["# a", "# b", "# base", "# other"]
    assert "only in other" in lines and sum("**A** base (" in line for line in lines) == 2
    done = compare("base", "other")
    assert done.returncode == 1 and done.stdout.count("A  base (") == 2 and "bytepath-" not in done.stdout
    for words, why in (
        (("base", "base"), "base and base are the same run on a"),
        (("base", "other", "--json", "base"), "it is one of the runs"),
        (("base", "other", "--json", "-", "--markdown=-"), "name the same file"),
        (("base", "other", "--json", "new", "--markdown=./new"), "--json and --markdown name the same file, new"),
    ):
        done = compare(*words)
        assert done.returncode == 2 and why in done.stderr and not done.stdout, done


def test_two_results_are_not_written_to_one_file_by_whatever_names(command, tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "kept").write_text("kept")
    os.link(tmp_path / "kept", tmp_path / "too")
    for words in (
        ("bench", "--json", "./new", "--html", "new", "cmd", "--blocks", "3", "true"),
        ("bench", "--json", "kept", "--html", "too", "cmd", "--blocks", "3", "true"),
        ("cp", "--json", "new", "--metrics", f"{tmp_path}/new", "source", "copy"),
        ("cp", "--metrics", "new", "--journal", "source/../new", "source", "copy"),
    ):
        done = on_this_machine(1, tmp_path, *words)
        assert done.returncode == 2 and "name the same file" in done.stderr, done
    assert (tmp_path / "kept").read_text() == "kept" and not {"new", "copy"} & set(os.listdir(tmp_path))


@pytest.fixture
def runs(tmp_path):
    """Two runs that can be compared, base and other, and what compares them."""
    machine = {"name": "a", "key": "a", "record": {"schema": "bytepath.record/1", "arms": []}}
    for run in ("base", "other"):
        (tmp_path / run).write_text(json.dumps({"schema": "bytepath.fleet/1", "words": ["bench"], "machines": [machine]}))
    return [sys.executable, "-m", "bytepath.fleet", "compare", "base", "other"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_comparison_that_is_interrupted_ends_at_once_with_what_it_began(tmp_path, runs, number):
    (tmp_path / "temporary").mkdir()
    (tmp_path / "compares").write_text("#!/bin/sh\necho $$ >begun.new; mv begun.new begun; exec sleep 100\n")
    (tmp_path / "compares").chmod(0o755)
    environment = {**os.environ, "BYTEPATH_PROGRAM": str(tmp_path / "compares"), "TMPDIR": str(tmp_path / "temporary")}
    with subprocess.Popen(runs, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True) as fleet:
        wait_until((tmp_path / "begun").exists)
        fleet.send_signal(number)
        _, said = fleet.communicate(timeout=60)
    assert (fleet.returncode, said) == (128 + number, "bytepath fleet: interrupted\n")
    assert not Path("/proc", (tmp_path / "begun").read_text().strip()).exists()
    assert not os.listdir(tmp_path / "temporary")


OPENS = {"x86_64": "257", "aarch64": "56"}
"""The number of openat."""


def results_to(fifo: str, command: str, runs: list[str]) -> tuple[list[str], dict[str, str]]:
    """A command that writes its result there, and its environment."""
    words = {
        "compare": [*runs[3:], "--json", fifo],
        "bench": ["--scheduler", "local:1", "bench", "--json", fifo, *"cmd --blocks 3 true".split()],
    }
    environment = in_folder(Path(fifo).parent)
    if command == "compare":
        environment["BYTEPATH_PROGRAM"] = shutil.which("true")
    return [*runs[:3], *words[command]], environment


@pytest.mark.parametrize("name", ["compare", "bench"])
def test_whoever_reads_a_fifo_gets_all_that_was_found(command, tmp_path, runs, name):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    what, environment = results_to(str(fifo), name, runs)
    with (
        subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True, preexec_fn=end_with_the_parent) as reader,  # noqa: PLW1509
        subprocess.Popen(what, cwd=tmp_path, env=environment, preexec_fn=end_with_the_parent) as fleet,  # noqa: PLW1509
    ):
        try:
            assert json.loads(reader.communicate(timeout=60)[0])["machines"]
            assert fleet.wait(timeout=60) == 0
        finally:
            fleet.kill()


@pytest.mark.skipif(platform.machine() not in OPENS, reason="the number of openat is not known here")
@pytest.mark.parametrize("name", ["compare", "bench"])
def test_a_command_whose_fifo_nobody_reads_can_be_interrupted(command, tmp_path, runs, name):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    what, environment = results_to(str(fifo), name, runs)
    with subprocess.Popen(what, cwd=tmp_path, env=environment, preexec_fn=end_with_the_parent) as fleet:  # noqa: PLW1509
        try:
            wait_until(lambda: Path(f"/proc/{fleet.pid}/syscall").read_text().split()[0] == OPENS[platform.machine()], 60)
            fleet.send_signal(signal.SIGTERM)
            assert fleet.wait(timeout=60) == 128 + signal.SIGTERM
        finally:
            fleet.kill()


def test_a_comparison_that_is_killed_is_no_success(tmp_path):
    (tmp_path / "killed").write_text("#!/bin/sh\nkill -KILL $$\n")
    (tmp_path / "killed").chmod(0o755)
    machines = [{"name": "a", "key": "a", "record": {"schema": "bytepath.record/1", "arms": []}}]
    (tmp_path / "run").write_text(json.dumps({"schema": "bytepath.fleet/1", "words": ["bench"], "machines": machines}))
    compare = [sys.executable, "-m", "bytepath.fleet", "compare", "run", "run"]
    environment = {**os.environ, "BYTEPATH_PROGRAM": str(tmp_path / "killed")}
    done = subprocess.run(compare, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 128 + 9, done


def test_a_destination_that_was_removed_meanwhile_is_not_gone_on_with(command, tmp_path):
    some_files(tmp_path / "source", 4, 100)
    (name,) = [path.name for path in (tmp_path / "source").iterdir()][:1]
    (tmp_path / "copy" / name).mkdir(parents=True)
    for anew in ([], ["--anew"]):
        done = on_this_machine(1, tmp_path, "cp", *anew, "source", "copy")
        assert done.returncode == 1 and "cannot overwrite directory" in done.stderr
        assert len(list(tmp_path.glob("copy/.bytepath-fleet-*"))) == 1, "what was forgotten leaves nothing"
    shutil.rmtree(tmp_path / "copy")
    done = on_this_machine(1, tmp_path, "cp", "source", "copy")
    assert done.returncode == 1 and "is not as an earlier run left it" in done.stderr and "--anew" in done.stderr
    ended_well(on_this_machine(1, tmp_path, "cp", "--anew", "source", "copy"))
    assert_copied(tmp_path / "source", tmp_path / "copy")


def test_a_copying_that_goes_on_tells_what_it_did_itself(command, tmp_path):
    some_files(tmp_path / "source", 1, 3 << 20)
    (tmp_path / "source/little").write_bytes(bytes(2000))
    (tmp_path / "copy/little").mkdir(parents=True)
    assert on_this_machine(1, tmp_path, "cp", "source", "copy").returncode == 1
    (tmp_path / "copy/little").rmdir()
    done = on_this_machine(1, tmp_path, "cp", "--json", "kept", "source", "copy")
    ended_well(done)
    found = json.loads((tmp_path / "kept").read_text())
    assert (found["files"], found["bytes"]) == (2, (3 << 20) + 2000)
    assert found["this_run"] == {"files": 1, "bytes": 2000, "directories": 0}
    assert "2 files in 1 directories, 3 MiB, of which this run copied 1 files, 1.95 KiB, in " in done.stdout
    [rate] = re.findall(r"\((\S+ \S+)/s\)", done.stdout)
    assert rate == size(2000 / found["seconds"])


@pytest.mark.parametrize("destination", ["place", "place/copy"])
def test_a_copying_that_could_begin_nothing_is_not_gone_on_with(command, tmp_path, destination):
    source, place = tmp_path / "source", tmp_path / "place"
    some_files(source, 3, 10)
    source.chmod(0o555)
    # Nobody makes directories there.
    place.symlink_to("/sys/kernel")
    words = ("cp", "-r", "--journal", "journal", "source", destination)
    for _ in range(2):
        done = on_this_machine(1, tmp_path, *words)
        assert done.returncode == 1 and re.search(r"\(t(ls|cp)://127\.0\.0\.1:\d+\): cannot prepare", done.stderr), done
        assert "earlier run" not in done.stderr and "goes on" not in done.stderr, done.stderr
        assert not list(tmp_path.glob("journal*"))
    place.unlink()
    # One that was there is no new one, which would get the mode of the source.
    (tmp_path / destination).mkdir(parents=True, mode=0o755)
    done = on_this_machine(1, tmp_path, *words)
    ended_well(done)
    assert "earlier run" not in done.stderr and (tmp_path / destination).stat().st_mode & 0o777 == 0o755


def test_what_failed_is_tried_again_whatever_has_become_of_it(command, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    names = ["file", "gone", "folder", "large", "first", "closed/inside"]
    for name in names:
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_bytes(name.encode())
        # What is in their way.
        (copy / name).mkdir(parents=True)
    with open(source / "large", "wb") as file:
        file.truncate(129 << 20)
    for name in ("second", "third"):
        os.link(source / "first", source / name)
    (source / "closed").chmod(0o555)
    source.chmod(0o555)
    done = on_this_machine(2, tmp_path, "cp", "source", "copy")
    assert done.returncode == 1 and done.stderr.count("cannot overwrite directory") == len(names), done
    assert [oct((copy / name).stat().st_mode & 0o200) for name in ("", "closed")] == [oct(0o200)] * 2
    shutil.rmtree(copy / "closed/inside")
    for name in names[:-1]:
        (copy / name).rmdir()
    for name in ("gone", "folder", "large", "first"):
        (source / name).unlink()
    (source / "folder/below").mkdir(parents=True)
    (source / "folder/below/file").write_bytes(b"below")
    (source / "large").write_bytes(b"small now")
    ended_well(on_this_machine(2, tmp_path, "cp", "source", "copy"))
    assert_copied(source, copy)
    assert (copy / "second").samefile(copy / "third")


def test_a_directory_that_is_a_file_now_is_copied_as_one_and_one_that_is_gone_is_not(piece, tmp_path):
    (tmp_path / "source/other").mkdir(parents=True)
    (tmp_path / "source/folder").write_bytes(b"file")
    (tmp_path / "source/link").symlink_to("other")
    trees = [{"do": "tree", "d": name} for name in ("folder/below", "link", "gone", "gone/below")]
    assert piece(*trees)["failed"] == []
    assert (tmp_path / "copy/folder").read_bytes() == b"file" and os.readlink(tmp_path / "copy/link") == "other"
    assert not (tmp_path / "copy/gone").exists()


def test_names_that_are_no_text_go_through_the_journal_and_pieces(piece, tmp_path):
    names = [b"\xff\n\xe4", b"\x01\"\\\x7f", "\u00e4\u2028".encode(), b"\xed\xa0\x80"]
    source, copy = (os.fsencode(tmp_path / name) for name in ("source", "copy"))
    for name in names:
        os.makedirs(source + b"/" + name)
        with open(source + b"/" + name + b"/" + name, "wb") as file:
            file.write(name)
    path = tmp_path / "a.journal"
    journal = Journal(path, ["from", "to"])
    # Bytes are sent as the characters of these numbers.
    journal.put({"do": "tree", "d": name.decode("latin-1"), "n": [name.decode("latin-1")], "w": 0.1} for name in names)
    journal.commit()
    journal.close()
    journal = Journal(path, ["from", "to"])
    items = [item for _, item in journal.take(9)]
    journal.remove()
    # A piece makes the directory that it is given, and those of what is found in it.
    found = piece({"do": "tree", "d": "", "w": 1.0})
    assert found["failed"] == [] and found["files"] == len(names)
    for name in names:
        os.unlink(copy + b"/" + name + b"/" + name)
    found = piece(*items)
    assert found["failed"] == [] and found["files"] == len(names)
    for name in names:
        with open(copy + b"/" + name + b"/" + name, "rb") as file:
            assert file.read() == name


def test_what_is_in_the_way_of_one_name_of_a_file_keeps_no_other_from_being_made(command, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    for folder, size in (("small", 10), ("large", 129 << 20)):
        (source / folder).mkdir(parents=True)
        with open(source / folder / "aü", "wb") as file:
            file.write(os.urandom(10))
            file.truncate(size)
        for name in ("bö", *"cdef"):
            os.link(source / folder / "aü", source / folder / name)
    names = [path.relative_to(source) for path in source.glob("*/*")]
    # Whichever of them comes first.
    blocked = [name for name in names if name.name != "c"]
    for name in blocked:
        (copy / name).mkdir(parents=True)
    done = on_this_machine(1, tmp_path, "cp", "--json", "-", "source", "copy")
    assert done.returncode == 1, done
    why = json.loads(done.stdout)["why"]
    # The name that is made comes before some of them, or after.
    assert len(why) == len(blocked) and all("directory" in line for line in why), why
    assert all(sum(f"'{copy / name}'" in line for line in why) == 1 for name in blocked), why
    for name in set(names) - set(blocked):
        assert (copy / name).read_bytes() == (source / name).read_bytes()
    for name in blocked:
        (copy / name).rmdir()
    ended_well(on_this_machine(1, tmp_path, "cp", "source", "copy"))
    assert_copied(source, copy)
    assert len({(copy / name).stat().st_ino for name in names}) == 2


def test_names_that_are_of_another_file_meanwhile_are_copied_as_what_they_are(command, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    names = ["file", "folder", "link", "gone", "same"]
    (source / "a").mkdir(parents=True)
    (source / "a/first").write_bytes(b"first")
    for name in names:
        (source / name).mkdir()
        os.link(source / "a/first", source / name / "other")
        (copy / name / "other").mkdir(parents=True)
    done = on_this_machine(2, tmp_path, "cp", "source", "copy")
    assert done.returncode == 1, done
    for name in names:
        (copy / name / "other").rmdir()
        if name != "same":
            (source / name / "other").unlink()
    (source / "file/other").write_bytes(b"another")
    (source / "folder/other").mkdir()
    (source / "folder/other/below").write_bytes(b"below")
    (source / "link/other").symlink_to("nowhere")
    ended_well(on_this_machine(2, tmp_path, "cp", "source", "copy"))
    assert_copied(source, copy)
    assert (copy / "same/other").samefile(copy / "a/first")


def test_names_of_a_file_whose_first_is_gone_stay_names_of_one_file(command, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    for name in ("a", "b", "c"):
        (source / name).mkdir(parents=True)
    (source / "a/1").write_bytes(b"one")
    for name in ("b/1", "c/1"):
        os.link(source / "a/1", source / name)
        (copy / name).mkdir(parents=True)
    done = on_this_machine(1, tmp_path, "cp", "source", "copy")
    assert done.returncode == 1, done
    found = [path for path in ("a/1", "b/1", "c/1") if (copy / path).is_file()]
    for name in ("b/1", "c/1"):
        if (copy / name).is_dir():
            (copy / name).rmdir()
    for name in found:
        shutil.rmtree((source / name).parent)
        shutil.rmtree((copy / name).parent)
    ended_well(on_this_machine(1, tmp_path, "cp", "source", "copy"))
    assert_copied(source, copy)


def test_a_large_file_that_is_begun_again_late_spoils_nothing(piece, tmp_path):
    (tmp_path / "source").mkdir()
    data = os.urandom(1 << 20)
    (tmp_path / "source/large").write_bytes(data)
    begun = piece({"do": "begin", "f": "large", "k": 1, "w": 0.5})["begun"][0]
    file = {"f": "large", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"]}
    if not begun["cloned"]:
        assert piece({"do": "range", **file, "a": 0, "z": 1 << 20, "w": 0.5})["failed"] == []
    end = {"do": "end", **file, "size": 1 << 20, "w": 0.0}
    assert piece(end)["failed"] == []
    assert piece({"do": "begin", "f": "large", "k": 1, "w": 0.5})["begun"][0]["s"] != begun["s"]
    assert piece(end)["failed"] == []
    assert (tmp_path / "copy/large").read_bytes() == data


@pytest.mark.parametrize("what", ["nothing", "link", "directory", "file", "nothing above", "file above"])
def test_a_large_file_that_is_gone_or_another_by_now_is_no_failure_but_looked_at_anew(piece, tmp_path, what):
    large = tmp_path / "source/d/large"
    some_files(large.parent, 1, 10)
    # Where there is nothing at all, the source may not be mounted any more.
    (tmp_path / "source/other").touch()
    (tmp_path / "copy/d").mkdir()
    large.write_bytes(os.urandom(1 << 20))
    begin = {"do": "begin", "f": "d/large", "k": 1, "w": 0.5}
    begun = piece(begin, options=("--reflink=never",))["begun"][0]
    file = {"f": "d/large", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"]}
    parts = [begin, {"do": "range", **file, "a": 0, "z": 1 << 20, "w": 0.25},
             {"do": "end", **file, "size": 1 << 20, "w": 0.0}]  # fmt: skip
    large.rename(tmp_path / "old")
    if what.endswith("above"):
        shutil.rmtree(large.parent)
    if what == "link":
        large.symlink_to("nowhere")
    elif what == "directory":
        large.mkdir()
    elif what == "file":
        shutil.copy2(tmp_path / "old", large)
        parts = parts[1:]
    elif what == "file above":
        large.parent.write_bytes(b"file")
    answer = piece(*parts, once=True)
    assert answer["again"] == [{"k": 1, "w": part["w"]} for part in parts], answer
    assert not answer["failed"] and not answer["told"] and not answer["rest"] and answer["bytes"] == 0
    assert not (tmp_path / "copy/d/large").exists()


@pytest.mark.parametrize("options", [(), ("--verify",), ("--reflink=never", "--fsync")])
def test_a_large_file_that_grows_while_it_is_copied_is_copied_as_it_was_begun_and_one_that_shrinks_anew(piece, tmp_path, options):
    some_files(tmp_path / "source", 1, 1 << 20)
    large, copy = tmp_path / "source/f0", tmp_path / "copy/f0"
    data, before = large.read_bytes(), 1_600_000_000_123_456_789
    os.utime(large, ns=(before, before))
    (begun,) = piece({"do": "begin", "f": "f0", "k": 1, "w": 0.5}, options=options)["begun"]
    file = {"f": "f0", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"]}
    parts = [{"do": "range", **file, "a": a, "z": a + (512 << 10), "w": 0.25} for a in (0, 512 << 10)]
    end = {"do": "end", **file, "size": 1 << 20, "w": 0.0}
    for part in [] if begun["cloned"] else parts:
        with open(large, "ab") as log:
            log.write(b"grown")
        assert piece(part, options=options)["failed"] == []
    # The second has been overtaken.
    for _ in range(2):
        found = piece(end, options=options)
        assert found["failed"] == [] and found["files"] == 1
    assert copy.read_bytes() == data
    assert copy.stat().st_mtime_ns == before, "as cp has it: so it can be told that there is more by now"
    (begun,) = piece({"do": "begin", "f": "f0", "k": 1, "w": 0.5}, options=options)["begun"]
    # What an earlier run has read of it may be of another day.
    os.utime(large, ns=(before, before))
    for item in (parts[1], end):
        answer = piece({**item, "s": begun["s"], "mtime": before - 1, "earlier": True}, options=options, once=True)
        assert answer["again"] == [{"k": 1, "w": item["w"]}] and not answer["failed"] and answer["files"] == 0, answer
    os.truncate(large, 700 << 10)
    for item in (parts[1], end):
        answer = piece({**item, "s": begun["s"]}, options=options, once=True)
        assert answer["again"] == [{"k": 1, "w": item["w"]}] and not answer["failed"] and answer["files"] == 0, answer


def test_a_copying_that_goes_on_takes_a_large_file_for_what_it_is_by_then(command, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    some_files(source, 3, 8 << 20)
    os.link(source / "f2", source / "other")
    environment = in_folder(tmp_path)
    words = [*with_workers(1), "cp", "--limit", "2M", "--reflink=never"]
    first = subprocess.Popen([*words, "source", "copy"], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        # Of one, something is copied; the others are in the journal by then.
        wait_until(lambda: list(copy.glob(".bytepath-fleet-*/stage-0/large-*")))
    finally:
        first.terminate()
        first.wait()
    for name in ("f0", "f1", "f2"):
        (source / name).unlink()
    (source / "f1").mkdir()
    (source / "f1/below").write_bytes(b"below")
    # The same file still, with other bytes.
    (source / "other").write_bytes(b"other" * ((8 << 20) // 5))
    done = on_this_machine(1, tmp_path, "cp", "--reflink=never", "source", "copy")
    ended_well(done)
    assert "earlier run" in done.stderr and "cannot" not in done.stderr, done.stderr
    assert_copied(source, copy)


def test_a_large_file_is_on_the_device_with_its_attributes_before_it_has_its_name(piece, tmp_path, traced):
    some_files(tmp_path / "source", 1, 1000)
    trace = (*traced, "-y", "-o", str(tmp_path / "calls"), "-e", "trace=fsync,utimensat,renameat,renameat2,ioctl")
    for reflink in ("auto", "never"):
        options = ("--fsync", f"--reflink={reflink}")
        begun = piece({"do": "begin", "f": "f0", "k": 1, "w": 0.5}, options=options)["begun"][0]
        file = {"f": "f0", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"]}
        if not begun["cloned"]:
            piece({"do": "range", **file, "a": 0, "z": 1000, "w": 0.5}, options=options)
        end = {"do": "end", **file, "size": 1000, "w": 0.0}
        assert piece(end, options=options, before=trace)["failed"] == []
        calls = [line.split()[1].split("(")[0] for line in (tmp_path / "calls").read_text().splitlines() if "large-1-" in line]
        assert calls.index("utimensat") < calls.index("fsync") < [at for at, call in enumerate(calls) if "rename" in call][-1]


def test_blocks_that_are_shared_are_verified_too(piece, tmp_path, traced):
    some_files(tmp_path / "source", 1, 100_000)
    # The kernel is made to say that it shared what it did not.
    lie = (*traced, "-o", "/dev/null", "-e", "inject=ioctl:retval=0")
    begin = {"do": "begin", "f": "f0", "k": 1, "w": 0.5}
    (begun,) = piece(begin, options=("--verify",), before=lie)["begun"]
    assert not begun["cloned"] and begun["size"] == 100_000
    part = {"do": "range", "f": "f0", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"], "a": 0, "z": 100_000, "w": 0.5}
    (failed,) = piece(part, options=("--verify",))["failed"]
    assert "differs from" in failed["why"][0]
    # Compared, and not copied over what is shared.
    staged = tmp_path / "copy/run/stage-0" / begun["s"]
    staged.write_bytes((tmp_path / "source/f0").read_bytes())
    blocks = (*traced, "-o", str(tmp_path / "calls"), "-e", "trace=copy_file_range,splice,sendfile,ftruncate,pwrite64")
    assert piece(part, options=("--verify",), before=blocks)["failed"] == []
    assert (tmp_path / "calls").read_text() == ""


def test_holes_of_large_files_are_not_read_to_be_verified_and_what_is_in_them_is_found(piece, tmp_path, traced):
    (tmp_path / "source").mkdir()
    with open(tmp_path / "source/f0", "wb") as file:
        file.truncate(64 << 20)
        for at in (0, (64 << 20) - 4096):
            file.seek(at)
            file.write(os.urandom(4096))
    options = ("--verify", "--reflink=never")
    (begun,) = piece({"do": "begin", "f": "f0", "k": 1, "w": 0.5}, options=options)["begun"]
    file = {"f": "f0", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"]}
    part = {"do": "range", **file, "a": 0, "z": 64 << 20, "w": 0.5}
    reads = (*traced, "-o", str(tmp_path / "calls"), "-e", "trace=pread64")
    assert piece(part, options=options, before=reads)["failed"] == []
    # Else 256 of each.
    assert len((tmp_path / "calls").read_text().splitlines()) < 100
    with open(tmp_path / "copy/run/stage-0" / begun["s"], "r+b") as staged:
        assert staged.read() == (tmp_path / "source/f0").read_bytes()
        staged.seek((16 << 20) + 5)
        staged.write(b"x")
    for a, z, count in ((0, 64 << 20, 1), ((16 << 20) + 6, 64 << 20, 0), (0, (16 << 20) + 5, 0), (16 << 20, (16 << 20) + 6, 1)):
        failed = piece({**part, "a": a, "z": z}, options=options)["failed"]
        assert len(failed) == count and all("at byte 16777221;" in entry["why"][0] for entry in failed), (a, z, failed)


def test_a_range_that_is_written_once_more_while_its_file_is_ended_leaves_its_time(piece, tmp_path):
    some_files(tmp_path / "source", 1, 300 << 10)
    os.utime(tmp_path / "source/f0", ns=(10**18, 10**18))
    begun = piece({"do": "begin", "f": "f0", "k": 1, "w": 0.5}, options=("--reflink=never",))["begun"][0]
    file = {"f": "f0", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"]}
    part = {"do": "range", **file, "a": 0, "z": 300 << 10, "w": 0.5}
    with ThreadPoolExecutor() as threads:
        # Half a second between its first part and its last.
        late = threads.submit(piece, part, bytes_per_second=512 << 10)
        wait_until(lambda: any((tmp_path / "copy/run/stage-0" / begun["s"]).read_bytes()))
        assert piece(part)["failed"] == []
        assert piece({"do": "end", **file, "size": 300 << 10, "w": 0.0})["failed"] == []
        assert late.result()["failed"] == []
    assert_copied_file(tmp_path / "source/f0", tmp_path / "copy/f0")


def assert_copied_file(source: Path, copy: Path) -> None:
    assert copy.read_bytes() == source.read_bytes() and copy.stat().st_mtime_ns == source.stat().st_mtime_ns


def test_a_limit_cuts_files_so_that_pieces_end_in_time(piece, tmp_path):
    some_files(tmp_path / "source", 1, 300_000)
    whole = {"do": "tree", "d": "", "w": 1.0}
    answer = piece(whole, once=True, bytes_per_second=100_000)
    assert [(found["f"], found["size"]) for found in answer["large"]] == [("f0", 300_000)] and answer["files"] == 0
    begun = piece({"do": "begin", "f": "f0", "k": 1, "w": 0.5}, options=("--reflink=never",))["begun"][0]
    part = {"do": "range", "f": "f0", "k": 1, "s": begun["s"], "ino": begun["ino"], "mtime": begun["mtime"], "a": 0, "z": 300_000, "w": 0.5}
    (rest,) = piece(part, once=True, budget_ms=1, bytes_per_second=100_000)["rest"]
    assert (rest["a"], rest["z"]) == (64 << 10, 300_000)
    assert piece(whole, once=True)["files"] == 1, "without a limit it is copied at once"


def test_a_piece_that_wakes_when_all_is_over_makes_no_directories(piece, tmp_path, traced):
    for number in range(5):
        (tmp_path / f"source/{number}").mkdir(parents=True)
    stage = tmp_path / "copy/run/stage-0"
    # It sleeps once it has made the first of them, for as long as who traces it is there.
    calls = tmp_path / "calls"
    sleepy = (*traced, "-D", "-o", str(calls), "-e", "trace=mkdirat", "-e", "inject=mkdirat:delay_exit=60000000:when=1")
    with ThreadPoolExecutor(1) as other:
        late = other.submit(piece, {"do": "tree", "d": "", "w": 1.0}, before=sleepy, once=True)
        wait_until(lambda: len(list((tmp_path / "copy").iterdir())) > 1)
        began = time.monotonic()
        stage.rmdir()
        # After less than a second it would not look around.
        wait_until(lambda: time.monotonic() > began + 1.1)
        wake(calls, "mkdirat")
        answer = late.result()
    assert len(list((tmp_path / "copy").iterdir())) == 2, answer
    assert answer["fenced"] and len(answer["rest"]) == 4


def test_what_is_copied_of_each_large_file_is_told(piece, tmp_path):
    (tmp_path / "source").mkdir()
    for name in ("one", "two"):
        with open(tmp_path / "source" / name, "wb") as file:
            file.write(b"x" * 10_000)
            file.truncate(129 << 20)
    keys = {"one": 1, "two": 2}
    begun = {name: piece({"do": "begin", "f": name, "k": k, "w": 0.5})["begun"][0] for name, k in keys.items()}
    if any(one["cloned"] for one in begun.values()):
        pytest.skip("blocks are shared here")
    parts = [{"do": "range", "f": name, **{key: begun[name][key] for key in ("k", "s", "ino", "mtime")}, "w": 0.1} for name in keys]
    spans = [(parts[0], 0, 4096), (parts[1], 0, 1 << 20), (parts[0], 1 << 20, 2 << 20)]
    answer = piece(*({**part, "a": a, "z": z} for part, a, z in spans), once=True)
    told = [(moved["k"], moved["bytes"]) for moved in answer["moved"]]
    assert [k for k, _ in told] == [1, 2, 1] and answer["bytes"] == sum(bytes for _, bytes in told)
    assert told[0] == (1, 4096) and 10_000 <= told[1][1] < 1 << 20 and told[2] == (1, 0)


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_links_and_fifos_change_nothing_once_it_is_over(piece, tmp_path, traced, kind):
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    make = {"link": lambda path: path.symlink_to("new"), "fifo": os.mkfifo}[kind]
    make(source / "name")
    (copy / "name").symlink_to("old")
    call = {"link": "symlinkat,symlink", "fifo": "mknodat,mknod"}[kind]
    # It sleeps where it was about to make it, for as long as who traces it (no parent of it) is there.
    calls = tmp_path / "calls"
    sleepy = (*traced, "-D", "-o", str(calls), "-e", f"inject={call}:delay_enter=60000000")
    with ThreadPoolExecutor() as threads:
        late = threads.submit(piece, {"do": "tree", "d": "", "n": ["name"]}, once=True, before=sleepy)
        wait_until(lambda: calls.exists() and call.split(",")[0] in calls.read_text())
        shutil.rmtree(copy / "run/stage-0")
        before = os.stat(copy).st_mtime_ns
        assert os.readlink(copy / "name") == "old", "nothing is removed before there is something in its place"
        wake(calls, call.split(",")[0])
        answer = late.result()
    assert answer["fenced"]
    assert os.readlink(copy / "name") == "old" and os.stat(copy).st_mtime_ns == before
    (copy / "run/stage-0").mkdir()
    assert piece({"do": "tree", "d": "", "n": ["name"]})["failed"] == []
    assert os.path.lexists(copy / "name") and os.lstat(copy / "name").st_mode == os.lstat(source / "name").st_mode
    assert kind == "fifo" or os.readlink(copy / "name") == "new"
    assert [path.name for path in copy.rglob("*")].count("name") == 1 and not list((copy / "run/stage-0").iterdir())


def test_metrics_tell_how_far_a_copying_is_and_how_it_ended(command, document, tmp_path):
    some_files(tmp_path / "source", 5, 100)
    (tmp_path / "copy/f3").mkdir(parents=True)
    assert on_this_machine(1, tmp_path, "cp", "--metrics", "unix:sock", "source", "copy").returncode == 2
    for code in (1, 0):
        done = on_this_machine(1, tmp_path, "cp", "--metrics", "a job.prom", "source", "copy")
        assert done.returncode == code, done.stderr
        told = (tmp_path / "a job.prom").read_text()
        own = 'job="a job",command="fleet cp"'
        for name, value in (("job_running", 0), ("job_exit_code", code), ("failed_entries", code), ("files_total", 5 - code),
                            ("moved_bytes_total", 500 - 100 * code), ("workers", 1)):  # fmt: skip
            assert f"\nbytepath_{name}{{{own}}} {value}\n" in told, told
        for name, kind in re.findall(r"# TYPE (\w+) (\w+)\n", told):
            rows = document("docs/seeing.md").splitlines()
            row = next(row for row in rows if row.startswith(f"| `{name}` | {kind} |"))
            assert re.match(" all|.*`fleet cp`", row.split("|")[5]), row
        if code:
            (tmp_path / "copy/f3").rmdir()
    # It disturbs nothing.
    done = on_this_machine(1, tmp_path, "cp", "--metrics", "none/file", "source", "other")
    assert done.returncode == 0 and done.stderr.count("--metrics: cannot write none/file") == 1, done
    assert not list(tmp_path.glob(".tmp*"))


@pytest.mark.parametrize("where", ["here", "on another mount"])
def test_links_that_are_replaced_are_as_new_ones(piece, tmp_path, where):
    source, copy = tmp_path / "source/sub", tmp_path / "copy/sub"
    source.mkdir(parents=True)
    (source / "link").symlink_to("new")
    os.mkfifo(source / "fifo")
    with contextlib.ExitStack() as stack:
        if where != "here":
            stack.enter_context(mounted(tmp_path / "copy"))
            (tmp_path / "copy/run/stage-0").mkdir(parents=True)
            stack.enter_context(mounted(copy, "--bind", copy))
        copy.mkdir(exist_ok=True)
        if os.geteuid() == 0:
            os.chown(copy, -1, 6)
        copy.chmod(0o2775)
        for name in ("link", "fifo"):
            (copy / name).write_bytes(b"old")
        assert piece({"do": "tree", "d": "sub", "w": 1.0}, options=("--no-preserve=ownership",))["failed"] == []
        assert os.readlink(copy / "link") == "new" and (copy / "fifo").is_fifo()
        assert {os.lstat(copy / name).st_gid for name in ("link", "fifo")} == {os.stat(copy).st_gid}


def test_bytes_of_what_failed_do_not_count(piece, tmp_path):
    some_files(tmp_path / "source", 1, 3 << 20)
    some_files(tmp_path / "source/below", 2, 1000)
    copy = tmp_path / "copy"
    with mounted(copy, *in_memory("-o", "size=1M")):
        (copy / "run/stage-0").mkdir(parents=True)
        answer = piece({"do": "tree", "d": "below", "w": 0.5}, {"do": "tree", "d": "", "n": ["f0"], "w": 0.5}, once=True)
    assert "No space left" in answer["stop"] and [item["n"] for item in answer["rest"]] == [["f0"]]
    assert (answer["files"], answer["bytes"]) == (2, 2000)


def test_a_destination_that_is_full_stops_it_also_where_a_file_that_is_replaced_made_room_again(piece, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    source.mkdir()
    with open(source / "file", "wb") as file:
        for _ in range(100):
            file.write(b"x" * (1 << 20))
    with mounted(copy, *in_memory("-o", "size=90M")):
        (copy / "run/stage-0").mkdir(parents=True)
        (copy / "run/lists").mkdir()
        # With another name it is replaced, not written into.
        (copy / "file").write_bytes(b"old")
        os.link(copy / "file", copy / "other")
        answer = piece({"do": "tree", "d": "", "w": 1.0}, once=True)
        assert "No space left on device" in answer["stop"] and not answer["failed"], answer
        assert [item["n"] for item in answer["rest"]] == [["file"]] and (copy / "file").read_bytes() == b"old"
        assert os.statvfs(copy).f_bavail * os.statvfs(copy).f_frsize >= 64 << 20, "what was written of it is gone again"


def test_sync_reaches_what_is_mounted_in_the_destination(piece, tmp_path, traced):
    inside = tmp_path / "copy/a sub"
    (tmp_path / "source").mkdir()
    with mounted(inside):
        assert piece({"do": "sync"}, before=(*traced, "-y", "-o", str(tmp_path / "calls"), "-e", "trace=syncfs"))["failed"] == []
    calls = (tmp_path / "calls").read_text()
    assert calls.count("syncfs(") == 2 and f"<{tmp_path}/copy>" in calls and f"<{inside}>" in calls


def test_a_path_through_a_link_and_back_is_what_the_file_system_says(command, tmp_path):
    for name, text in (("s", b"wrong"), ("other/s", b"right")):
        some = tmp_path / name
        some.mkdir(parents=True)
        (some / "file").write_bytes(text)
    (tmp_path / "other/folder").mkdir()
    (tmp_path / "link").symlink_to("other/folder")
    ended_well(on_this_machine(1, tmp_path, "cp", "link/../s", "link/../copy"))
    assert (tmp_path / "other/copy/file").read_bytes() == b"right" and not (tmp_path / "copy").exists()


def test_damage_that_is_met_while_it_copies_is_told_of_with_the_remedy(command, tmp_path):
    source, copy, path = tmp_path / "source", tmp_path / "copy", tmp_path / "journal"
    some_files(source, 3, 10)
    for sql in (
        """UPDATE items SET body = '{"do":"tree","d'""",
        "UPDATE items SET body = CAST(x'7bff' AS TEXT)",
        "INSERT INTO meta VALUES ('files', '?')",
    ):
        journal = Journal(path, [str(source), str(copy), "-a"])
        journal.set("id", "0123456789ab")
        journal.put([{"do": "tree", "d": "", "w": 1.0}])
        journal.db.execute(sql)
        journal.commit()
        journal.close()
        done = on_this_machine(1, tmp_path, "cp", "--journal", "journal", "source", "copy")
        assert done.returncode == 1 and "Traceback" not in done.stderr, done.stderr
        assert "cannot be used" in done.stderr and "--anew begins the copying again" in done.stderr, done.stderr
        ended_well(on_this_machine(1, tmp_path, "cp", "--anew", "--journal", "journal", "source", "copy"))
        assert_copied(source, copy)


def test_a_copying_that_goes_on_is_not_forgotten(command, tmp_path):
    some_files(tmp_path / "source", 3, 1 << 20)
    environment = in_folder(tmp_path)
    words = [*with_workers(1), "cp", "--limit", "50K", "source", "copy"]
    first = subprocess.Popen(words, env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: list(tmp_path.glob("copy/.bytepath-fleet-*")))
        done = on_this_machine(1, tmp_path, "cp", "--anew", "source", "copy")
        assert done.returncode == 1 and "another process is at this copying" in done.stderr, done
        some_files(tmp_path / "other", 3, 10)
        for words in (["source"], ["--fsync", "source"], ["other"]):
            done = on_this_machine(1, tmp_path, "cp", "--journal", "journal", *words, "copy")
            assert done.returncode == 1 and "another copying to" in done.stderr and not (tmp_path / "journal").exists(), done
    finally:
        first.terminate()
        first.wait()
    assert len(list(tmp_path.glob("copy/.bytepath-fleet-*"))) == 1, "who was refused leaves nothing"
    done = on_this_machine(1, tmp_path, "cp", "other", "copy")
    assert done.returncode == 1 and "or was interrupted" in done.stderr, done
    ended_well(on_this_machine(1, tmp_path, "cp", "source", "copy"))
    assert_copied(tmp_path / "source", tmp_path / "copy")
    ended_well(on_this_machine(1, tmp_path, "cp", "other", "copy"))


def test_what_an_interrupted_copying_left_in_the_source_keeps_none_from_its_copy(command, tmp_path):
    some_files(tmp_path / "source/.bytepath-fleet-0", 1, 10)
    for _ in range(2):
        ended_well(on_this_machine(1, tmp_path, "cp", "source", "copy"))
        assert_copied(tmp_path / "source", tmp_path / "copy")


def test_a_destination_that_is_mounted_in_the_source_is_not_copied_into_itself(command, tmp_path):
    source, copy = tmp_path / "memory/source", tmp_path / "copy"
    with mounted(tmp_path / "memory"):
        some_files(source, 3, 10)
        (source / "inside").mkdir()
        with mounted(copy, "--bind", source / "inside"):
            done = on_this_machine(1, tmp_path, "cp", "memory/source", "copy")
            assert done.returncode == 1 and "into itself" in done.stderr, done
            assert len(list(copy.iterdir())) == 4, "three files, and what lets it be tried again"


@pytest.mark.parametrize("where", ["here", "on another file system"])
def test_what_lies_on_another_file_system_or_behind_a_link_is_reached(command, tmp_path, where):
    source, copy = tmp_path / "source", tmp_path / "copy"
    (source / "sub").mkdir(parents=True)
    (copy / "sub").mkdir(parents=True)
    for name in ("large", "sub/large"):
        with open(source / name, "wb") as file:
            file.write(os.urandom(4096))
            file.truncate(129 << 20)
    (source / "sub/one").write_bytes(b"one")
    os.link(source / "sub/one", source / "sub/two")
    (tmp_path / "behind").write_bytes(b"old")
    (copy / "large").symlink_to("../behind")
    with mounted(copy / "sub") if where != "here" else contextlib.nullcontext():
        for name in ("one", "two"):
            (copy / "sub" / name).write_bytes(b"old")
        ended_well(on_this_machine(1, tmp_path, "cp", "source", "copy"))
        assert (copy / "large").is_symlink() and (tmp_path / "behind").read_bytes() == (source / "large").read_bytes()
        assert (copy / "sub/large").read_bytes() == (source / "sub/large").read_bytes()
        assert (copy / "sub/one").samefile(copy / "sub/two") and (copy / "sub/two").read_bytes() == b"one"


def test_a_large_file_is_copied_over_another_as_a_small_one_is(command, tmp_path):
    (tmp_path / "source").mkdir()
    for name, size in (("large", 129 << 20), ("small", 1000)):
        with open(tmp_path / "source" / name, "wb") as file:
            file.truncate(size)
    options = [["-r"], ["-a", "--no-preserve=mode"], ["-a", "--no-preserve=ownership"], ["-a"]]
    for number, words in enumerate(options):
        found = []
        for by in ("cp", "fleet"):
            copy = tmp_path / f"{by}-{number}"
            copy.mkdir()
            for name in ("large", "small"):
                (copy / name).write_bytes(b"old")
                os.chmod(copy / name, 0o600)
                if os.geteuid() == 0:
                    os.chown(copy / name, 5, 6)
            if by == "cp":
                subprocess.run(["cp", *words, "-T", "source", copy.name], cwd=tmp_path, check=True)
            else:
                ended_well(on_this_machine(1, tmp_path, "cp", *words, "source", copy.name))
            stats = [os.stat(copy / name) for name in ("large", "small")]
            found.append([(what.st_mode, what.st_uid, what.st_gid, what.st_size) for what in stats])
        assert found[0] == found[1], words


def compared(folder: Path, words: list[str], prepare) -> None:
    """Sees that the fleet leaves what cp leaves, in a place that is prepared."""
    found = []
    for by in ("cp", "fleet"):
        place = folder / f"{by}{''.join(words)}"
        place.mkdir()
        prepare(place)
        if by == "cp":
            subprocess.run(["cp", *words, "-T", "source", place / "copy"], cwd=folder, check=True)
        else:
            ended_well(on_this_machine(2, folder, "cp", *words, "source", str(place / "copy")))
        listed = ["sh", "-c", "find . -printf '%p %M %u %g\\n' | sort; find . | sort | xargs getfacl -p"]
        found.append(subprocess.run(listed, cwd=place, capture_output=True, text=True, check=True).stdout)
    assert found[0] == found[1], words


@pytest.fixture
def source_with_large(tmp_path):
    """A source of files that are whole, and one in ranges."""
    (tmp_path / "source/folder").mkdir(parents=True)
    for name in ("small", "folder/small", "folder/large"):
        (tmp_path / "source" / name).write_bytes(b"new")
        (tmp_path / "source" / name).chmod(0o664)
    os.truncate(tmp_path / "source/folder/large", 129 << 20)
    return tmp_path


needs_lists = pytest.mark.skipif(not shutil.which("setfacl"), reason="there is no setfacl (Debian: acl)")


@needs_lists
@pytest.mark.parametrize("words", [["-r"], ["-a"], ["-r", "--no-preserve=mode"]], ids="".join)
def test_access_lists_of_directories_and_files_that_are_there_are_as_cp_leaves_them(command, source_with_large, words):
    def prepare(place: Path) -> None:
        subprocess.run(["setfacl", "-d", "-m", "u:1:rwx,g::rx,o::-", place], check=True)

    def older(place: Path) -> None:
        (place / "copy/folder").mkdir(parents=True)
        for name in ("small", "folder/small", "folder/large"):
            (place / "copy" / name).write_bytes(b"old")
            subprocess.run(["setfacl", "-m", "u:1:rw,g::-,o::-", place / "copy" / name], check=True)

    compared(source_with_large, words, prepare)
    shutil.rmtree(source_with_large / f"cp{''.join(words)}")
    shutil.rmtree(source_with_large / f"fleet{''.join(words)}")
    compared(source_with_large, words, older)


@needs_lists
@pytest.mark.parametrize(
    ("umask", "words"), [(0o022, ["-r"]), (0o002, ["-r", "--preserve=timestamps"]), (0o077, ["-r"])], ids=str
)
def test_a_list_of_the_place_lets_nobody_write_to_directories_whom_cp_does_not(command, tmp_path, umask, words):
    for name, mode in (("group", 0o775), ("all", 0o1777), ("group/below", 0o757)):
        (tmp_path / "source" / name).mkdir(parents=True)
        (tmp_path / "source" / name / "file").write_bytes(b"bytes")
        (tmp_path / "source" / name).chmod(mode)

    def prepare(place: Path) -> None:
        place.chmod(0o2775)
        subprocess.run(["setfacl", "-d", "-m", "u:1005:rwx,o::-", place], check=True)

    before = os.umask(umask)
    try:
        compared(tmp_path, words, prepare)
        compared(tmp_path, [*words, "--sparse=never"], lambda place: place.chmod(0o2775))
    finally:
        os.umask(before)


@pytest.mark.parametrize("words", [["-r"], ["-a"], ["-a", "--no-preserve=ownership"]], ids="".join)
def test_a_large_file_has_the_group_of_its_directory_as_a_small_one(command, source_with_large, words):
    def prepare(place: Path) -> None:
        (place / "copy/folder").mkdir(parents=True)
        if os.geteuid() == 0:
            os.chown(place / "copy/folder", 5, 6)
        (place / "copy/folder").chmod(0o2775)

    compared(source_with_large, words, prepare)


@pytest.mark.parametrize("words", [["-r"], ["-r", "--no-preserve=mode"], ["-r", "--preserve=ownership"]], ids="".join)
def test_directories_that_were_there_keep_their_modes_and_new_ones_have_those_of_cp(command, tmp_path, words):
    for number, mode in enumerate((0o755, 0o555, 0o500)):
        (tmp_path / f"source/there{number}").mkdir(parents=True)
        (tmp_path / f"source/new{number}").mkdir()
        for name in ("there", "new"):
            (tmp_path / f"source/{name}{number}").chmod(mode)
    (tmp_path / "source").chmod(0o555)

    def prepare(place: Path) -> None:
        for number in range(3):
            (place / f"copy/there{number}").mkdir(parents=True)
            (place / f"copy/there{number}").chmod((0o711, 0o755, 0o700)[number])

    compared(tmp_path, words, prepare)
    compared(tmp_path, [*words, "--sparse=never"], lambda place: None)


def test_a_directory_that_cannot_be_read_is_made_and_told_of(command, tmp_path):
    (tmp_path / "source/below/closed").mkdir(parents=True)
    (tmp_path / "source/below/closed/file").write_bytes(b"bytes")
    (tmp_path / "source/open").write_bytes(b"bytes")
    user = tmp_path / "user"
    drop = "exec"
    if os.geteuid() == 0:
        drop = "exec setpriv --bounding-set=-dac_override,-dac_read_search --inh-caps=-all"
    user.write_text(f'#!/bin/sh\n[ "$1" = piece ] || exec "{command}" "$@"\n{drop} "{command}" "$@"\n')
    for path in (tmp_path, *tmp_path.rglob("*"), tmp_path.parent, tmp_path.parent.parent):
        path.chmod(0o777)
    (tmp_path / "source/below/closed").chmod(0)
    done = on_this_machine(1, tmp_path, "cp", "-r", "source", "copy", program=str(user))
    said = f"cannot access '{tmp_path}/source/below/closed': Permission denied"
    assert done.returncode == 1 and said in done.stderr and "1 entry was not copied" in done.stderr, done
    assert (tmp_path / "copy/below/closed").is_dir() and (tmp_path / "copy/open").is_file()
    (tmp_path / "source/below/closed").chmod(0o755)
    ended_well(on_this_machine(1, tmp_path, "cp", "-r", "source", "copy", program=str(user)))
    assert (tmp_path / "copy/below/closed/file").read_bytes() == b"bytes"


def test_blocks_that_have_to_be_shared_and_cannot_be_are_an_error_for_large_files_too(command, tmp_path):
    (tmp_path / "source").mkdir()
    with open(tmp_path / "source/large", "wb") as file:
        file.truncate(129 << 20)
    theirs = subprocess.run(["cp", "-r", "--reflink=always", "source", "theirs"], cwd=tmp_path, capture_output=True)
    done = on_this_machine(1, tmp_path, "cp", "-r", "--reflink=always", "source", "copy")
    assert done.returncode == theirs.returncode
    assert done.returncode == 0 or "failed to clone" in done.stderr, done.stderr


def test_a_list_that_lost_its_bytes_is_an_error_and_no_end(piece, tmp_path):
    some_files(tmp_path / "source", 3, 1)
    lists = tmp_path / "copy/run/lists"
    whole, lines = {"do": "tree", "d": "", "l": "list", "a": 0, "z": 8}, b"\x01f0\0\x01f1\0"
    for left in (0, 4):
        (lists / "list").write_bytes(lines[:left])
        answer = piece(whole)
        assert [failed["item"]["do"] for failed in answer["failed"]] == ["tree"] and answer["files"] == 0
    (lists / "list").write_bytes(lines)
    answer = piece(whole)
    assert (answer["failed"], answer["files"]) == ([], 2)
    (lists / "list").write_bytes(b"")
    assert len(piece({"do": "attributes", "l": "list", "a": 0})["failed"]) == 1


def test_sizes_are_what_all_commands_take():
    # As the program's own test has it (values.rs).
    cases = {
        "1": 1, "64K": 65_536, "64k": 65_536, "1MiB": 1 << 20, "1MB": 1_000_000, "1.5G": 3 << 29, "5 GiB": 5 << 30,
        "2kB": 2000, "200M": 200 << 20, "18446744073709551615": (1 << 64) - 1,
    }  # fmt: skip
    for text, count in cases.items():
        assert bytes_of(text) == count, text
    wrong = ["", "K", "-1", "1Q", "0", "0.1", "9" * 20, "9" * 5000, "1.2.3", "1.2.3M", ".", "99999999T", "١K"]
    for text in [*wrong, "1e3", "1_000", " 5M", "+5", "nan", "inf", "18446744073709551616"]:
        with pytest.raises(argparse.ArgumentTypeError):
            bytes_of(text)


def test_the_time_of_a_copying_is_not_that_of_starting_its_fleet(tmp_path, monkeypatch):
    now = [1000.0]

    @contextlib.asynccontextmanager
    async def connected(scheduler):
        now[0] += 100
        yield None

    def passes(seconds):
        async def work(self, client):
            now[0] += seconds

        return work

    monkeypatch.setattr(run, "connected", connected)
    monkeypatch.setattr(run, "time", types.SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(run.Run, "_meet", passes(10))
    monkeypatch.setattr(run.Run, "_by", passes(1))
    journal = Journal(tmp_path / "journal", ["a", "b"])
    options = Options("/a", "/b", "local:1", [], None, None, None, False, False, 60.0, 60.0)
    assert asyncio.run(run.Run(options, journal).copy()).seconds == 1
    journal.close()
