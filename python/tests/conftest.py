"""What several test files use."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bytepath import ProgramError
from bytepath._program import program

if TYPE_CHECKING:
    from fleet_hosts import Fleet


STARTING_S = 5.0


def semaphores() -> set[Path]:
    """Names of multiprocessing's semaphores, which are left behind where all who know them are killed."""
    return set(Path("/dev/shm").glob("sem.mp-*"))


def not_held(names: set[Path]) -> set[Path]:
    """Those of them that no process has open."""
    held = ""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with suppress(OSError):
            held += maps.read_text(errors="replace")
    return {name for name in names if name.name not in held}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Notes for tools/python that an interpreter did not come to its end: whatever it was at may well pass in another."""
    if error:
        node.config.cache.set("bytepath/broke-off", str(error))


@pytest.fixture(scope="session", autouse=True)
def _no_semaphores_stay() -> Iterator[None]:
    before = semaphores()
    yield
    left = not_held(semaphores() - before)
    if left:
        # Somebody else's may be of a process that is being started, which has not opened them yet.
        time.sleep(STARTING_S)
    for name in not_held(left):
        with suppress(OSError):
            name.unlink()


@pytest.fixture
def in_dev_shm() -> Callable[[], list[str]]:
    """What lies in /dev/shm, but for what other tests have there meanwhile: multiprocessing's, joblib's and tempfile's."""
    others = ("sem.mp-", "psm_", "joblib", "tmp", "pymp-")
    return lambda: sorted(name for name in os.listdir("/dev/shm") if not name.startswith(others))


@pytest.fixture
def some_bytes() -> Callable[[int], bytes]:
    """Bytes that repeat nowhere, so that a piece in the wrong place shows."""
    return lambda count: random.Random(count).randbytes(count)


@pytest.fixture(scope="session")
def document() -> Callable[[str], str]:
    """The text of a document, by its path in the repository; tests of what it says are skipped where that is not."""

    def text(path: str) -> str:
        repository = Path(__file__).parents[2]
        if not (repository / "docs").is_dir():
            pytest.skip(f"{path} is in the repository, and not in a source distribution")
        return (repository / path).read_text()

    return text


@pytest.fixture
def command() -> str:
    """The command `bytepath`; tests of what runs it are skipped where it is not."""
    try:
        return program()
    except ProgramError as error:
        pytest.skip(str(error))


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a script in an interpreter of its own, which has to end by itself."""

    def run(script: str, *arguments: str, prefix: tuple[str, ...] = ()):
        file = tmp_path / "script.py"
        file.write_text(script)
        return subprocess.run(
            [*prefix, sys.executable, str(file), *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )

    return run


@pytest.fixture
def traced() -> tuple[str, ...]:
    """What stands before a program whose system calls are seen, or meddled with."""
    strace = shutil.which("strace")
    if strace is None or subprocess.run([strace, "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        pytest.skip("there is no strace, or tracing is refused")
    return (strace, "-f", "-qqq")


@pytest.fixture(scope="session")
def started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """A scheduler and three workers, each on a host of its own where that can be made."""
    from fleet_hosts import NAMES, Fleet

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
def fleet(started: Fleet) -> Fleet:
    """The same, whatever the test before did to them."""
    started.all_there()
    return started


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with one of everything."""
    from fleet_trees import make_tree

    root = tmp_path / "source"
    make_tree(root)
    return root
