"""A fleet by dask-jobqueue: its jobs are given to a Slurm of our own, which has this machine for its only node."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="fleets need the package distributed")
pytest.importorskip("dask_jobqueue", reason="Slurm's part needs the package dask-jobqueue")

from dask_jobqueue import SLURMCluster  # noqa: E402
from fleet_servers import APART, PATH, free_port, needed, needs_namespaces, served  # noqa: E402
from fleet_trees import assert_copied, ended_well, make_tree  # noqa: E402

PACKAGES = "slurmctld, slurmd, slurm-client, munge"

CONFIGURATION = """\
ClusterName=tried
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={controller}
SlurmdPort={node}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 RealMemory=1024 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
"""

BEGINNING = """\
munged --force --key-file="$1/key" --socket="$1/socket" --pid-file="$1/munged.pid" --log-file="$1/munged.log" --seed-file="$1/seed"
slurmctld -f "$1/slurm.conf" && exec slurmd -D -f "$1/slurm.conf"
"""


@pytest.fixture
def slurm(tmp_path_factory, monkeypatch) -> Iterator[Path]:
    """A Slurm, which the commands of this process ask from now on."""
    for name in ("slurmctld", "slurmd", "sbatch", "munged"):
        needed(name, PACKAGES)
    needs_namespaces("Slurm's jobs would outlive a test that is killed")
    folder = tmp_path_factory.mktemp("slurm")
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "key").write_bytes(os.urandom(1024))
    (folder / "key").chmod(0o600)
    host, ports = socket.gethostname().partition(".")[0], {"controller": free_port(), "node": free_port()}
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, **ports))
    (folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\nCgroupAutomount=no\n")
    monkeypatch.setenv("SLURM_CONF", str(folder / "slurm.conf"))
    monkeypatch.setenv("PATH", PATH)

    def idle() -> bool:
        nodes = subprocess.run(["sinfo", "--noheader", "--format=%t"], capture_output=True, text=True, timeout=20)
        return nodes.stdout.strip() == "idle"

    with served([*APART, "sh", "-c", BEGINNING, "sh", str(folder)], folder / "log", idle) as started:
        if not started:
            logs = "\n".join(path.read_text()[-2000:] for path in [folder / "log", *folder.glob("*.log")])
            pytest.fail(f"Slurm does not start: {logs}")
        yield folder


def test_workers_that_are_jobs_of_slurm_copy_a_tree(slurm, command, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    make_tree(source)
    given = [f"export BYTEPATH_PROGRAM='{command}' XDG_RUNTIME_DIR='{tmp_path}' BYTEPATH_MACHINE=$SLURM_JOB_ID"]
    with SLURMCluster(
        cores=1, processes=1, memory="200MB", walltime="00:10:00", interface="lo", python=sys.executable,
        log_directory=str(slurm / "jobs"), local_directory=str(tmp_path), job_script_prologue=given,
        scheduler_options={"dashboard": False},
    ) as cluster:  # fmt: skip
        cluster.scale(jobs=2)
        cluster.wait_for_workers(2, timeout=120)
        what = [sys.executable, "-m", "bytepath.fleet", "--scheduler", cluster.scheduler_address]
        what += ["cp", "--journal", str(tmp_path / "journal"), "--json", "-", str(source), str(copy)]
        done = subprocess.run(what, capture_output=True, text=True, timeout=120)
    ended_well(done)
    assert_copied(source, copy)
    assert json.loads(done.stdout)["machines"] == 2
