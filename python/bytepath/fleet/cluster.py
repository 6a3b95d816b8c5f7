"""The scheduler: one that runs somewhere, or one of our own on this machine."""

import asyncio
import contextlib
import importlib.util
import logging
import multiprocessing
import os
import re
import resource
import ssl
import sys
import warnings
from collections.abc import AsyncIterator, Iterator
from typing import Any

import dask
import distributed.utils
from distributed import Client, LocalCluster
from distributed.security import Security
from distributed.versions import VersionMismatchWarning

from . import files, forks
from .errors import FleetError, Lost, WrongUsage
from .within import within

CONNECT_S = 5
WORKERS_S = 30
"""How long a cluster may take to have its first worker."""

START_S = 30
START_EACH_S = 1
"""How long workers of our own may take to be there: so long, and so long for each."""

FILES_EACH = 16
FILES_BESIDES = 64
"""So many open files are asked for, for each worker here and besides: with one there were 32, with six 97."""

FILES_MIN_EACH = 12
FILES_MIN_BESIDES = 16
"""With fewer, Dask says for as long as it is let that it has too few."""

CLOSE_S = 10

_OWN = {
    # Who is not there so long after it died is taken for gone, also where it is being started for the third time.
    "distributed.deploy.lost-worker-timeout": "1 day",
    "distributed.worker.multiprocessing-method": "forkserver",
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.system-monitor.interval": "5s",
}
"""Of a cluster of our own: what Python does there tells nothing of programs, nobody has a dashboard of it, and to look at
it as often as Dask does takes 5% of two CPUs."""


def local_workers(scheduler: str) -> int | None:
    """How many workers `local[:N]` asks for; None for an address."""
    found = re.fullmatch(r"local(?::(\d+))?", scheduler)
    if not found and scheduler.startswith("local:"):
        raise WrongUsage(f"--scheduler {scheduler}: local:2 starts two workers here, and no address begins so")
    if not found:
        return None
    count = int(found[1]) if found[1] else len(os.sched_getaffinity(0))
    if not 1 <= count <= 1024:
        raise WrongUsage(f"--scheduler {scheduler}: between 1 and 1024 workers")
    return count


@contextlib.asynccontextmanager
async def connected(scheduler: str, workers_s: float = WORKERS_S) -> AsyncIterator[Client]:
    """A client of the scheduler, which has at least one worker."""
    count = local_workers(scheduler)
    # What a lost connection means is said by us, once; Dask's log would say it for each of its parts.
    # Some of Dask's loggers have a level of their own.
    of_dask = [name for name in logging.root.manager.loggerDict if name.startswith("distributed.")]
    for name in ("distributed", "tornado", "asyncio", *of_dask):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # What differs is a patch of Python or of a package that is not used here, or is refused.
    warnings.filterwarnings("ignore", category=VersionMismatchWarning)
    async with contextlib.AsyncExitStack() as stack:
        if count is not None:
            scheduler = await stack.enter_async_context(local(count))
        client = await _client(scheduler)
        stack.push_async_callback(_closed, client)
        await _workers(client, scheduler, count or 1, workers_s)
        yield client


@contextlib.asynccontextmanager
async def local(count: int) -> AsyncIterator[Any]:
    """A scheduler and so many workers on this machine."""
    dask.config.set(_OWN)
    try:
        os.getcwd()
    except FileNotFoundError:
        # No Python can be started where this one is.
        os.chdir("/")
    forks.begin()
    # What is imported before the fork is said there: Dask would import here, too, what it finds of pandas and its like.
    distributed.utils._forkserver_preload_set = True
    _open_files(count)
    security = _keys()
    # A worker for each of so many threads of work: they are processes, as on machines of their own.
    cluster = LocalCluster(
        n_workers=count,
        threads_per_worker=1,
        processes=True,
        host="127.0.0.1",
        security=security,
        # It listens for HTTP all the same: not where somebody else may, such as another fleet.
        scheduler_kwargs={"dashboard": False, "dashboard_address": "127.0.0.1:0"},
        worker_dashboard_address=None,
        memory_limit=0,
        silence_logs=logging.CRITICAL,
        asynchronous=True,
    )
    try:
        try:
            await within(START_S + count * START_EACH_S, cluster)
        except (RuntimeError, OSError, asyncio.TimeoutError) as error:
            cause = _first_cause(error)
            late = isinstance(cause, TimeoutError | asyncio.TimeoutError | asyncio.CancelledError)
            why = "they are not there in time" if late else first_line(cause)
            raise FleetError(f"no worker can be started on this machine: {why}") from error
        yield cluster
    finally:
        with contextlib.suppress(Exception):
            await within(CLOSE_S, cluster.close(timeout=CLOSE_S))
        # Those that were not up yet would not find what they need for that, once this process has ended.
        for process in multiprocessing.active_children():
            process.kill()


def _open_files(count: int) -> None:
    """Sees that as many files may be open here as so many workers need, or as can be had."""
    # Linux gives no process an unlimited number.
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_BESIDES + count * FILES_EACH
    if hard < FILES_MIN_BESIDES + count * FILES_MIN_EACH:
        raise FleetError(
            f"no worker can be started on this machine: a process may have {hard} files open, too few for {count} "
            f"worker{'' if count == 1 else 's'}; raise ulimit -n to {wanted}, or ask for fewer"
        )
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(wanted, hard), hard))


def _keys() -> Security | None:
    """Keys for this cluster alone: whoever reaches a scheduler without them, as anybody on this machine does, has it run what
    they like."""
    if importlib.util.find_spec("cryptography") is None:
        files.say(
            "Python's package cryptography is missing, without which anybody on this machine can give orders to these workers "
            f"meanwhile; `{sys.executable} -m pip install cryptography` gets it"
        )
        return None
    return _Unwritten.temporary()


class _Unwritten(Security):
    """Keys and certificates that are on no disk: Dask's own go through a temporary file on their way to OpenSSL, each time,
    which a kill leaves there."""

    def _get_tls_context(self, tls: dict[str, Any], purpose: ssl.Purpose) -> Any:
        with contextlib.ExitStack() as until_read:
            paths = {part: until_read.enter_context(_in_memory(tls[part])) for part in ("cert", "key")}
            return super()._get_tls_context({**tls, **paths}, purpose)


@contextlib.contextmanager
def _in_memory(text: str) -> Iterator[str]:
    """The path of a file in memory, for this process alone, that holds the text."""
    with os.fdopen(os.memfd_create("bytepath-fleet"), "w") as file:
        file.write(text)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


async def _client(scheduler: Any) -> Client:
    try:
        client = Client(scheduler, asynchronous=True, timeout=CONNECT_S, set_as_default=False)
    except OSError as error:
        raise FleetError(_unusable_keys(error)) from error
    try:
        return await client
    except (OSError, TimeoutError, asyncio.TimeoutError, ValueError, TypeError, RuntimeError) as error:
        with contextlib.suppress(Exception):
            await client.close(timeout=1)
        if isinstance(error, RuntimeError):
            raise FleetError(f"{first_line(error)}; with TLS, name the scheduler as tls://HOST:8786") from error
        raise Lost(
            f"no Dask scheduler answers at {scheduler} ({first_line(error)}); is it running, and is the address "
            "one of tcp://HOST:8786, tls://HOST:8786? `dask scheduler` starts one and prints its address, "
            "and --scheduler local:2 needs none"
        ) from error


def _unusable_keys(error: OSError) -> str:
    """Which of the files that Dask's configuration names for TLS cannot be used: OpenSSL does not say."""
    named = {name: dask.config.get(f"distributed.comm.tls.{name}", None) for name in ("ca-file", "client.cert", "client.key")}
    # They may be there as text as well.
    is_text = {name: "\n" in path for name, path in named.items() if path}
    for path in (named[name] for name, here in is_text.items() if not here):
        try:
            open(path, "rb").close()
        except OSError as cannot:
            return f"cannot read {path}, which Dask's configuration names for TLS: {cannot.strerror}"
    shown = [f"the text of {name}" if here else named[name] for name, here in is_text.items()]
    return (
        f"{', '.join(shown)}: one of them is no key or certificate in PEM, or they do not belong together "
        f"({first_line(error)}); Dask's configuration names them for TLS"
    )


async def _closed(client: Client) -> None:
    with contextlib.suppress(Exception):
        await within(CLOSE_S, client.close(timeout=CLOSE_S))


async def _workers(client: Client, scheduler: Any, count: int, workers_s: float) -> None:
    try:
        await client.wait_for_workers(count, timeout=workers_s)
    except (TimeoutError, asyncio.TimeoutError) as error:
        raise Lost(
            f"the scheduler at {client.scheduler.address if client.scheduler else scheduler} has no workers after "
            f"{workers_s:.0f} s; start some with `dask worker ADDRESS` on the machines"
        ) from error
    except OSError as error:
        raise Lost("the scheduler is gone") from error


def _first_cause(error: BaseException) -> BaseException:
    """What Dask's own errors were made of."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def first_line(error: BaseException) -> str:
    """An error in one line, with its kind where it says nothing."""
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
