"""A fleet by Dask's SSHCluster: over an sshd of our own on this machine's loopback, with keys of its own."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("distributed", reason="fleets need the package distributed")
pytest.importorskip("asyncssh", reason="Dask's SSHCluster needs the package asyncssh")

from distributed import SSHCluster  # noqa: E402
from fleet_servers import APART, free_port, needed, needs_namespaces, served  # noqa: E402
from fleet_trees import assert_copied, ended_well, make_tree  # noqa: E402

PACKAGES = "openssh-server, openssh-client"
PORTS_TRIED = 5

CONFIGURATION = """\
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
"""


def beginning(sshd: str, folder: Path) -> list[str]:
    """What starts it."""
    words = [sshd, "-D", "-e", "-f", str(folder / "configuration")]
    if os.geteuid() != 0:
        return words
    # As root it insists on /run/sshd, which is only there where the system's own was started once.
    needs_namespaces("sshd needs a /run/sshd, which is made in one")
    return [*APART, "sh", "-c", 'mount -t tmpfs none /run && mkdir -m 755 /run/sshd && exec "$@"', "sh", *words]


def answers(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as there:
        return there.recv(4) == b"SSH-"
    return False


@pytest.fixture(scope="module")
def ssh(tmp_path_factory) -> Iterator[dict]:
    """What asyncssh has to know to get in."""
    sshd, keygen = needed("sshd", PACKAGES), needed("ssh-keygen", PACKAGES)
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    words = beginning(sshd, folder)
    for _ in range(PORTS_TRIED):
        port = free_port()
        (folder / "configuration").write_text(CONFIGURATION.format(port=port, folder=folder))
        with served(words, folder / "log", lambda: answers(port)) as started:  # noqa: B023
            if started:
                yield {"port": port, "client_keys": [str(folder / "user")], "known_hosts": None}
                return
    pytest.fail(f"sshd does not start: {(folder / 'log').read_text()}")


@pytest.fixture
def cluster(ssh, command, tmp_path) -> Iterator[SSHCluster]:
    """A scheduler and two workers, which take themselves for two machines."""
    # Nothing of this process's environment is there at the other end.
    given = f"env BYTEPATH_PROGRAM='{command}' XDG_RUNTIME_DIR='{tmp_path}'"
    python = [f"{given} {sys.executable}", *(f"{given} BYTEPATH_MACHINE={name} {sys.executable}" for name in ("one", "two"))]
    with SSHCluster(
        ["127.0.0.1"] * 3, connect_options=ssh, remote_python=python,
        scheduler_options={"host": "127.0.0.1", "dashboard": False, "idle_timeout": "120s"},
        worker_options={"host": "127.0.0.1", "nthreads": 1, "dashboard": False, "local_directory": str(tmp_path)},
    ) as cluster:  # fmt: skip
        yield cluster


def fleet(cluster: SSHCluster, *words: str) -> subprocess.CompletedProcess[str]:
    what = [sys.executable, "-m", "bytepath.fleet", "--scheduler", cluster.scheduler_address, *words]
    return subprocess.run(what, capture_output=True, text=True, timeout=120)


def test_workers_that_ssh_started_copy_and_measure(cluster, tmp_path):
    source, copy = tmp_path / "source", tmp_path / "copy"
    make_tree(source)
    done = fleet(cluster, "cp", "--journal", str(tmp_path / "journal"), "--json", "-", str(source), str(copy))
    ended_well(done)
    assert_copied(source, copy)
    assert json.loads(done.stdout)["machines"] == 2
    done = fleet(cluster, "bench", "--json", "-", "cmd", "--blocks", "3", "true")
    ended_well(done)
    machines = json.loads(done.stdout)["machines"]
    assert [(machine["name"], machine["status"]) for machine in machines] == [("one", "ok"), ("two", "ok")]
