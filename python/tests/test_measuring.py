"""What runs the command: tune, bench, and what is told where it is missing."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings

import pytest

import bytepath


@pytest.fixture(scope="module")
def record():
    try:
        return bytepath.bench(
            "pipes",
            arms=["write-read@same-cpu", "vmsplice-read@same-cpu"],
            blocks=3,
            time="5ms",
            warm_up="1ms",
            show=False,
        )
    except bytepath.ProgramError as error:
        if "is missing" in str(error):
            pytest.skip(str(error))
        raise


def test_a_record_tells_of_its_arms(record):
    assert {arm.name for arm in record.arms} >= {"write-read@same-cpu", "vmsplice-read@same-cpu"}
    arm = record["write-read@same-cpu"]
    assert arm.status == "ok" and len(arm.samples) == 3
    assert min(arm.samples) <= arm.median <= max(arm.samples)
    assert arm.ci95[0] <= arm.median <= arm.ci95[1]
    assert "write-read@same-cpu" in str(record) and record.id in repr(record)
    assert list(record) == [arm.name for arm in record.arms] and len(record) == len(record.arms)
    assert "write-read@same-cpu" in record and "another" not in record


def test_what_measures_nothing_gives_no_record(command):
    with pytest.raises(ValueError, match="gives no record but text"):
        bytepath.bench("cmd", "true", help=True)


def test_a_record_is_a_data_frame(record):
    pytest.importorskip("pandas")
    frame = record.to_pandas()
    assert frame.loc["write-read@same-cpu", "median"] == record["write-read@same-cpu"].median
    assert frame.loc["write-read@same-cpu", "pipe_bytes"] == 65536
    samples = record.samples()
    assert len(samples) == sum(len(arm["samples"]) for arm in record.data["arms"])
    # A sample that was disturbed is taken again, and both are kept.
    ours = samples[(samples.arm == "write-read@same-cpu") & ~samples.superseded]
    assert list(ours.value) == record["write-read@same-cpu"].samples


def test_a_parameter_is_no_other_column_of_a_data_frame():
    pytest.importorskip("pandas")
    columns = ["arm", "median", "low", "high", "unit", "ratio", "ratio_low", "ratio_high", "touched", "status", "why", "cost"]
    arm = {"name": "one", "unit": "s", "status": "ok", "median": 0.5, "ci95": [0.4, 0.6], "ratio": 1.0, "ratio_ci95": [1, 1]}
    params = {name: f"given {name}" for name in (*columns, "other")}
    arms = [
        {**arm, "samples": [], "touched": True, "params": params, "costs": {"cost": 7}},
        {**arm, "samples": [], "touched": True, "params": params, "name": "two"},
    ]
    frame = bytepath.Record({"schema": "bytepath.record/1", "id": "x", "trusted": True, "arms": arms}).to_pandas()
    assert list(frame.index) == ["one", "two"] and (frame["median"] == 0.5).all() and (frame["unit"] == "s").all()
    assert frame.loc["one", "cost"] == 7 and (frame["other"] == "given other").all()
    for name in columns:
        assert (frame[f"parameter_{name}"] == f"given {name}").all()


def test_a_record_is_kept_and_read_again(record, tmp_path):
    record.save(tmp_path / "run.json")
    assert bytepath.Record.load(tmp_path / "run.json").data == record.data


@pytest.mark.parametrize("given", [{"schema": "other/1"}, {"schema": "bytepath.record/2"}, {"schema": "bytepath.record/x"}, {}])
def test_what_the_command_takes_for_no_record_is_none(command, tmp_path, given):
    file = tmp_path / "other.json"
    file.write_text(json.dumps(given))
    said = subprocess.run([command, "report", file], capture_output=True, text=True).stderr
    with pytest.raises(ValueError) as raised:
        bytepath.Record.load(file)
    assert str(raised.value) in said


def test_numbers_are_numbers_in_a_data_frame_also_where_no_arm_has_one():
    pytest.importorskip("pandas")
    sample = {"value": 1, "seconds": 1, "steal_share": None, "foreign_cpu_share": None, "flag_why": None}
    arm = {"name": "one", "unit": "s", "status": "unavailable", "median": None, "costs": {"cost": None}, "samples": [sample]}
    record = bytepath.Record({"schema": "bytepath.record/1", "id": "x", "trusted": True, "arms": [arm]})
    for frame, numbers in [
        (record.to_pandas(), ["median", "low", "high", "ratio", "ratio_low", "ratio_high", "cost"]),
        (record.samples(), ["value", "seconds", "steal_share", "foreign_cpu_share"]),
    ]:
        assert (frame.dtypes[numbers] == float).all(), frame.dtypes


def test_a_notebook_shows_the_plots_without_a_network(record):
    shown = record._repr_html_()
    assert shown.startswith("<iframe srcdoc=")
    # Without modals its Print button does nothing.
    assert ' sandbox="allow-scripts allow-modals" ' in shown
    page = record.to_html()
    assert "write-read@same-cpu" in page
    # Nothing is fetched: the page names no other file.
    assert not re.search(r"<(script|img|link|iframe)[^>]+(src|href)=[\"']?(https?:)?//", page)
    assert "connect-src" in page or "default-src 'none'" in page


def test_a_notebook_shows_a_record_in_a_browser(record, tmp_path):
    browser = shutil.which("chromium")
    if browser is None:
        pytest.skip("no chromium")
    # What is in a frame is not dumped.
    tell = (
        "<script>onload = () => setTimeout(() => { const plots = frames[0].document.querySelectorAll('svg').length;"
        " document.title = `${plots} plots` }, 2000)</script>"
    )
    (tmp_path / "cell.html").write_text(f"<!doctype html><body>{record._repr_html_()}{tell}</body>")
    (tmp_path / "page.html").write_text(record.to_html())
    shown = {}
    for name in ("cell", "page"):
        done = subprocess.run(
            [browser, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom", f"--user-data-dir={tmp_path}/browser",
             # Else one document could not look into the other, whose frame is of another origin.
             "--disable-web-security", "--disable-site-isolation-trials",
             "--virtual-time-budget=5000", f"file://{tmp_path}/{name}.html"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        shown[name] = done.stdout
        assert "</html>" in done.stdout, done.stderr[-1000:]
    plots = shown["page"].count("<svg")
    assert plots > 0 and f"<title>{plots} plots</title>" in shown["cell"]


def test_what_the_command_says_is_the_message(command):
    with pytest.raises(bytepath.ProgramError, match="nonsense"):
        bytepath.bench("nonsense", show=False)
    with pytest.raises(bytepath.ProgramError, match="exit code 2"):
        bytepath.bench("pipes", nonsense=3, show=False)
    with pytest.raises(TypeError, match="json"):
        bytepath.bench("pipes", json="-")
    with pytest.raises(ValueError, match="one record"):
        bytepath.bench("all")


def test_commands_are_measured(command):
    record = bytepath.bench("cmd", "true", "sleep 0", blocks=3, show=False)
    assert {arm.unit for arm in record.arms} == {"s"}


def test_a_command_that_fails_leaves_the_record_of_the_others(command):
    record = bytepath.bench("cmd", "true", "false", blocks=3, show=False)
    assert record["true"].status == "ok" and len(record["true"].samples) == 3
    assert record["false"].status == "unavailable" and "1" in record["false"].why


class Cell(io.StringIO):
    """A notebook's standard error, which is no file; when something is shown there is another file."""

    def __init__(self, seen) -> None:
        super().__init__()
        self.seen = seen

    def write(self, text: str) -> int:
        self.seen.touch()
        return super().write(text)


def test_a_notebook_shows_how_it_goes_on_as_it_comes(tmp_path, monkeypatch):
    program = tmp_path / "program"
    program.write_text(
        "#!/bin/sh\necho one >&2\nfor turn in $(seq 1000); do [ -e seen ] && break; sleep 0.01; done\n"
        "[ -e seen ] && echo two >&2; exit 3\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(program))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stderr", Cell(tmp_path / "seen"))
    with pytest.raises(bytepath.ProgramError, match="one\ntwo"):
        bytepath.bench("any")
    assert sys.stderr.getvalue() == "one\ntwo\n"


@pytest.fixture
def profile(tmp_path):
    """A profile of this machine that was never measured: by it, an odd route is the fastest."""
    facts = bytepath.machine()
    choice = {"ci95": [1.0, 9.0], "overall_gib_per_s": 8.0, "cpu_s_per_gib": 0.1}
    place = {"directory": str(tmp_path), "file_system": "any", "options": []}
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot_id = file.read().strip()
    return {
        "schema": "bytepath.profile/1",
        "made": "2026-01-01T00:00:00Z",
        "bytepath": bytepath.__version__,
        "machine": {
            "kernel": facts["kernel"],
            "cpu_model": facts["processor"],
            "cpus_allowed": facts["CPUs allowed"],
            "virtualisation": facts["virtualisation"],
            "boot_id": boot_id,
        },
        "costs": [{"name": "system call", "unit": "ns", "value": 154.8}],
        "pairs": [
            {
                "source": "file",
                "sink": "file",
                "place": {**place, "device": os.stat(tmp_path).st_dev},
                "choices": [{"route": "mmap-write", "gib_per_s": 8.5, **choice}],
            }
        ],
    }


def test_a_profile_is_what_the_command_measured(profile, tmp_path, monkeypatch):
    # Measuring takes a minute: a stand-in tells what it was asked, and gives what it was given.
    (tmp_path / "profile.json").write_text(json.dumps(profile))
    (tmp_path / "stand-in").write_text(
        f"#!/bin/sh\necho \"$@\" >{tmp_path}/asked\ncat {tmp_path}/profile.json\n"
    )
    (tmp_path / "stand-in").chmod(0o755)
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(tmp_path / "stand-in"))
    got = bytepath.tune(quick=True, directories=["/a", "/b"], profile="/p", blocks=2, bytes="1M")
    asked = "tune --json - --quick --dir /a --dir /b --blocks 2 --bytes 1M --profile /p\n"
    assert (tmp_path / "asked").read_text() == asked
    assert got == profile
    assert "system call: 154.8 ns" in str(got)
    assert "\x1b" not in str(bytepath.Profile({**got, "made": "\x1b[1m"}))
    assert "file to file on any: mmap-write, 8.00 GiB/s" in str(got)
    # As the command shows it: the speed of all samples, and of those about as fast the one that takes less CPU.
    choice = got["pairs"][0]["choices"][0]
    cheaper = {**choice, "route": "splice", "gib_per_s": 1.0, "overall_gib_per_s": 7.9, "cpu_s_per_gib": 0.01}
    got["pairs"][0]["choices"].append(cheaper)
    assert "file to file on any: splice, 7.90 GiB/s" in str(got)
    choice["gib_per_s"] = choice["overall_gib_per_s"] = cheaper["overall_gib_per_s"] = 1 / 1024
    assert "file to file on any: splice, 1.00 MiB/s" in str(got)
    got["pairs"][0]["choices"].clear()
    assert "file to file on any\n" in f"{got}\n"
    (tmp_path / "profile.json").write_text(json.dumps({**profile, "disturbed": "others worked"}))
    with pytest.warns(UserWarning, match="others worked; measure again"):
        assert "others worked" in str(bytepath.tune())
    place = {"file_system": "xfs", "directory": "/b", "earlier": {"made": "before", "disturbed": "others slept"}}
    got["pairs"][0]["place"] = place
    assert "while xfs (/b) was measured, others slept; run `bytepath tune --profile /p --dir /b` when" in str(got)
    assert "others slept; run `bytepath tune --dir /b` when" in str(bytepath.Profile(got))
    # What was not measured now is no news.
    (tmp_path / "profile.json").write_text(json.dumps(got))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert bytepath.tune() == got


def test_copies_go_by_a_profile(profile, tmp_path):
    kept = tmp_path / "profile.json"
    kept.write_text(json.dumps(profile))
    (tmp_path / "a").write_bytes(bytes(100_000))
    plan = bytepath.plan(tmp_path / "a", tmp_path / "b", profile=kept)
    assert plan.reason == "by what was measured on this machine"
    assert (plan.routes[0].name, plan.routes[0].expected_gib_per_s) == ("mmap-write", 8.0)
    copied = bytepath.copy(tmp_path / "a", tmp_path / "b", profile=kept)
    assert copied.route == "mmap-write"
    assert (tmp_path / "b").read_bytes() == bytes(100_000)
    # It was read before its file is emptied, and once.
    assert bytepath.copy(tmp_path / "a", kept, profile=kept).route == "mmap-write"
    assert kept.read_bytes() == bytes(100_000)
    profile["machine"]["boot_id"] = "another"
    profile["machine"]["cpu_model"] = "another"
    kept.write_text(json.dumps(profile))
    with pytest.raises(ValueError, match="stale"):
        bytepath.copy(tmp_path / "a", tmp_path / "b", profile=kept)


def test_trees_go_by_the_profile_or_the_route_that_is_asked_for(command, profile, tmp_path):
    kept, tree = tmp_path / "profile.json", tmp_path / "tree"
    kept.write_text(json.dumps(profile))
    tree.mkdir()
    for number in range(3):
        # Smaller ones are copied without a look at the profile.
        (tree / f"f{number}").write_bytes(bytes([number]) * 1_000_000)
    for asked, route in (({"profile": kept}, "mmap-write"), ({"route": "read-write"}, "read-write")):
        copied = bytepath.copytree(tree, tmp_path / route, **asked)
        assert copied.routes == {route: 3_000_000}
        assert [(tmp_path / route / f"f{number}").read_bytes()[-1] for number in range(3)] == [0, 1, 2]


def test_a_run_is_kept_where_that_is_asked_for(command, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for store in (False, True):
        record = bytepath.bench("cmd", "true", blocks=3, show=False, store=store)
        history = subprocess.run([command, "history"], capture_output=True, text=True)
        assert (record.id in history.stdout) == store, history


def test_a_command_that_is_missing_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("BYTEPATH_PROGRAM", str(tmp_path / "not-there"))
    with pytest.raises(bytepath.ProgramError, match="BYTEPATH_PROGRAM names no program"):
        bytepath.tune()
    monkeypatch.delenv("BYTEPATH_PROGRAM")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sysconfig.get_path", lambda *_: str(tmp_path))
    monkeypatch.setattr("bytepath._program.__file__", str(tmp_path / "a" / "b" / "c.py"))
    with pytest.raises(bytepath.ProgramError, match="is missing"):
        bytepath.copytree(tmp_path, tmp_path / "new")
