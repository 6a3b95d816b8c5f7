"""A fleet for tests: a scheduler and workers, each worker on a host of its own as far as the network goes (a network
namespace, where that is permitted). All of it ends with the process that made it, however that ends."""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from fleet_trees import some_are_copied

START = "bptest"
PORT = 8786
NAMES = ["one", "two", "three"]
READY_S = 60.0
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def end_with_the_parent() -> None:
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def remove_left() -> None:
    """Removes the namespaces that tests left which were killed."""
    for path in Path("/run/netns").glob(f"{START}-*"):
        if not Path(f"/proc/{path.name.split('-')[1]}").exists():
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True)


def remove_left_mounts() -> None:
    """Removes what tests left mounted which were killed."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        device, place = line.split()[:2]
        if device.startswith(f"{START}-") and not Path(f"/proc/{device.split('-')[1]}").exists():
            subprocess.run(["umount", "-l", place.replace(r"\040", " ")], capture_output=True)


@contextlib.contextmanager
def mounted(place: Path, *words: str | Path) -> Iterator[None]:
    """By default a file system in memory, which is told from others where it is left. Tests are skipped where it is refused."""
    remove_left_mounts()
    place.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", *(words or in_memory()), place], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"mounting is refused: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def in_memory(*options: str) -> tuple[str, ...]:
    """What is mounted: a file system in memory, by the name of this process's."""
    return ("-t", "tmpfs", *options, f"{START}-{os.getpid()}")


def in_folder(folder: Path, **more: str) -> dict[str, str]:
    """The environment of a command that keeps what it keeps in this folder, where no other test's is."""
    return {**os.environ, "XDG_STATE_HOME": str(folder), "XDG_RUNTIME_DIR": str(folder), **more}


def with_workers(count: int) -> list[str]:
    """What stands before the words of a command that has so many workers of its own."""
    return [sys.executable, "-m", "bytepath.fleet", "--scheduler", f"local:{count}"]


class Hosts:
    """Namespaces around a bridge that is in one of them; without rights, this machine's own loopback."""

    def __init__(self, names: list[str]) -> None:
        self.apart, self.why = False, ""
        self.names = names
        self.hub = f"{START}-{os.getpid()}-hub"
        if os.geteuid() != 0 or not shutil.which("ip"):
            self.why = "namespaces need root and ip(8)"
            return
        remove_left()
        try:
            self._make()
            self.apart = True
        except (subprocess.CalledProcessError, OSError) as error:
            self.why = f"namespaces are refused: {error}"
            self.remove()

    def _make(self) -> None:
        _ip("netns", "add", self.hub)
        _ip("-n", self.hub, "link", "set", "lo", "up")
        _ip("-n", self.hub, "link", "add", "bridge", "type", "bridge")
        _ip("-n", self.hub, "addr", "add", "10.99.0.1/24", "dev", "bridge")
        _ip("-n", self.hub, "link", "set", "bridge", "up")
        for number, name in enumerate(self.names):
            own = self.namespace(name)
            _ip("netns", "add", own)
            _ip("-n", own, "link", "set", "lo", "up")
            _ip("-n", self.hub, "link", "add", f"v{number}", "type", "veth", "peer", "name", "eth0", "netns", own)
            _ip("-n", self.hub, "link", "set", f"v{number}", "master", "bridge", "up")
            _ip("-n", own, "addr", "add", f"10.99.0.{number + 2}/24", "dev", "eth0")
            _ip("-n", own, "link", "set", "eth0", "up")

    def namespace(self, name: str) -> str:
        return f"{START}-{os.getpid()}-{name}"

    def address(self) -> str:
        return "10.99.0.1" if self.apart else "127.0.0.1"

    def within(self, name: str | None) -> list[str]:
        """What stands before a command that is to run on this host; the hub, for none."""
        if not self.apart:
            return []
        return ["ip", "netns", "exec", self.namespace(name) if name else self.hub]

    @contextlib.contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """Pulls the cable of a host."""
        cable = f"v{self.names.index(name)}"
        _ip("-n", self.hub, "link", "set", cable, "down")
        try:
            yield
        finally:
            _ip("-n", self.hub, "link", "set", cable, "up")

    def remove(self) -> None:
        for name in [*(self.namespace(name) for name in self.names), self.hub]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Fleet:
    """A scheduler and its workers."""

    def __init__(self, folder: Path, names: list[str]) -> None:
        self.folder, self.names = folder, names
        self.hosts = Hosts(names)
        self.port = PORT if self.hosts.apart else 18000 + os.getpid() % 20000
        self.small: Path | None = None
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            **os.environ,
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_DATA_HOME": str(folder / "data"),
            "XDG_RUNTIME_DIR": str(folder),
            "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
            "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "false",
        }

    @property
    def address(self) -> str:
        return f"tcp://{self.hosts.address()}:{self.port}"

    def start(self, what: list[str], name: str | None, **environment: str) -> subprocess.Popen[bytes]:
        log = open(self.folder / f"{name or 'hub'}.log", "ab")  # noqa: SIM115
        with log:
            return subprocess.Popen(
                [*self.hosts.within(name), *what],
                env={**self.environment, **environment},
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=end_with_the_parent,  # noqa: PLW1509
            )

    def mount_small(self) -> Path | None:
        """A file system of 1 MiB that all workers see which are started from now on; none without rights."""
        remove_left_mounts()
        self.small = self.folder / "small"
        self.small.mkdir()
        words = ["mount", *in_memory("-o", "size=1M"), str(self.small)]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True).returncode != 0:
            self.small = None
        return self.small

    def begin(self) -> None:
        """Starts the scheduler, and what workers there are not."""
        words = ["--host", self.hosts.address(), "--port", str(self.port), "--no-dashboard"]
        self.scheduler = self.start([sys.executable, "-m", "distributed.cli.dask_scheduler", *words], None)
        for name in self.names:
            self.worker(name)

    def worker(self, name: str, before: list[str] | None = None, **environment: str) -> None:
        """Starts a worker, in the place of the one that there was."""
        self.end_worker(name)
        words = [self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--memory-limit", "0", "--name", name]
        words += ["--local-directory", str(self.folder), "--death-timeout", "60"]
        what = [*(before or []), sys.executable, "-m", "distributed.cli.dask_worker", *words]
        own = {"BYTEPATH_MACHINE": name, "XDG_STATE_HOME": str(self.state_of(name)), **environment}
        self.workers[name] = self.start(what, name, **own)

    def state_of(self, name: str) -> Path:
        """Where programs on this host keep what is theirs."""
        return self.folder / f"state-{name}"

    def all_there(self) -> None:
        """Starts again what was ended, and waits for all of it."""
        processes = [self.scheduler, *self.workers.values()]
        if len(processes) == 1 + len(self.names) and all(p is not None and p.poll() is None for p in processes):
            return
        if self.scheduler is None or self.scheduler.poll() is not None:
            self.begin()
        for name in self.names:
            if name not in self.workers or self.workers[name].poll() is not None:
                self.worker(name)
        self.wait_for_workers(len(self.names))

    def wait_for_workers(self, count: int) -> None:
        ask = (
            "import sys, distributed\n"
            "with distributed.Client(sys.argv[1], timeout=60, set_as_default=False) as client:\n"
            "    client.wait_for_workers(int(sys.argv[2]), timeout=60)\n"
            # Those that are gone are known to be.
            "    import time\n"
            "    while len(client.scheduler_info(n_workers=-1)['workers']) != int(sys.argv[2]): time.sleep(0.1)\n"
        )
        words = [*self.hosts.within(None), sys.executable, "-c", ask, self.address, str(count)]
        done = subprocess.run(words, env=self.environment, capture_output=True, timeout=READY_S)
        if done.returncode != 0:
            logs = "\n".join(path.read_text()[-2000:] for path in self.folder.glob("*.log"))
            raise RuntimeError(f"the fleet did not start: {done.stderr.decode()}\n{logs}")

    def command(self, *words: str) -> list[str]:
        return [*self.hosts.within(None), sys.executable, "-m", "bytepath.fleet", "--scheduler", self.address, *words]

    def run(self, *words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs a command to its end."""
        return subprocess.run(self.command(*words), env=self.environment, capture_output=True, text=True, timeout=timeout)

    def begin_command(self, *words: str) -> subprocess.Popen[str]:
        """Starts a command."""
        return subprocess.Popen(
            self.command(*words), env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=end_with_the_parent,  # noqa: PLW1509
        )  # fmt: skip

    @contextlib.contextmanager
    def copying(self, source: Path, copy: Path, *words: str, ended: list[str]) -> Iterator[SimpleNamespace]:
        """A copying in the middle, until it has come to its end: then what it `told` and `said`. These workers are ended after it."""
        found = SimpleNamespace()
        running = self.begin_command("cp", "--json", "-", *words, str(source), str(copy))
        try:
            wait_until(some_are_copied(copy))
            yield found
            out, found.said = running.communicate(timeout=60)
        finally:
            running.kill()
            for name in ended:
                self.end_worker(name)
        assert running.returncode == 0, found.said
        found.told = json.loads(out)

    def end_worker(self, name: str) -> None:
        worker = self.workers.pop(name, None)
        if worker is not None:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
            worker.wait()

    def end(self) -> None:
        for name in list(self.workers):
            self.end_worker(name)
        if self.scheduler is not None:
            self.scheduler.kill()
            self.scheduler.wait()
        if self.small is not None:
            subprocess.run(["umount", "-l", str(self.small)], capture_output=True)
        if self.hosts.apart:
            self.hosts.remove()


def wait_until(what, seconds: float = 20.0) -> None:
    """Waits until something is true."""
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until, f"it did not become true within {seconds} s"
        time.sleep(0.02)
