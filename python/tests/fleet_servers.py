"""Servers that tests start for themselves, beside those of the system: each with all that comes of it in a process
namespace of its own, so that nothing outlives the tests, however these end."""

import contextlib
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fleet_hosts import end_with_the_parent, wait_until

PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
READY_S = 30.0

APART = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]


def needed(name: str, packages: str) -> str:
    """A program that tests need; they are skipped where it is not."""
    found = shutil.which(name, path=PATH)
    if found is None:
        pytest.skip(f"there is no {name} (Debian: {packages})")
    return found


def needs_namespaces(why: str) -> None:
    """Skips tests where processes cannot be kept apart."""
    if os.geteuid() != 0 or subprocess.run([*APART, "true"], capture_output=True).returncode != 0:
        pytest.skip(f"namespaces are refused: {why}")


def free_port() -> int:
    """A port that nobody has, for the moment."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


@contextlib.contextmanager
def served(words: list[str], log: Path, is_ready: Callable[[], bool]) -> Iterator[bool]:
    """A server as long as it is needed; whether it could start."""
    with open(log, "wb") as said:
        server = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                  preexec_fn=end_with_the_parent)  # noqa: PLW1509  # fmt: skip
    try:
        wait_until(lambda: server.poll() is not None or is_ready(), READY_S)
        yield server.poll() is None
    finally:
        server.kill()
        server.wait()
