"""The command line: `bytepath fleet` executes what `python -m bytepath.fleet` does, wherever it is given."""

import argparse
import asyncio
import contextlib
import importlib
import itertools
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any

from . import files, forks, metrics, signals
from .errors import FleetError, WrongUsage


def parser() -> argparse.ArgumentParser:
    """The arguments of all commands."""
    top = argparse.ArgumentParser(
        prog="bytepath fleet",
        description="Measure and copy by many machines at once, by way of Dask",
        epilog="Docs: docs/fleet.md",
        allow_abbrev=False,
    )
    top.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        default=_scheduler(),
        help="the Dask scheduler, such as tcp://HOST:8786, or local[:N] for N workers on this machine, started for the "
        "command alone. Unless given, DASK_SCHEDULER_ADDRESS, or BYTEPATH_SCHEDULER",
    )
    commands = top.add_subparsers(dest="command", required=True, metavar="COMMAND")
    top.set_defaults(hands_on=False, refuse=lambda _: None)
    for name in ("each", "compare", "copy.command"):
        importlib.import_module(f"{__package__}.{name}").add_to(commands)
    return top


def main(words: list[str] | None = None) -> int:
    """Runs a command; its exit code."""
    try:
        code = _run(words)
    finally:
        files.remove_unused()
    metrics.ended(code)
    return code


def _run(words: list[str] | None) -> int:
    try:
        arguments = _parsed(words)
        # What is wrong on its own needs no scheduler to be told.
        arguments.refuse(arguments)
        if arguments.needs_scheduler and not arguments.scheduler:
            raise WrongUsage(
                "no scheduler is named; --scheduler tcp://HOST:8786 names one, --scheduler local:2 (before the "
                "command) starts two workers here"
            )
        return asyncio.run(_interruptible(arguments.run(arguments)))
    except WrongUsage as error:
        files.say(str(error))
        return 2
    except FleetError as error:
        files.say(str(error))
        return 1
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] == "bytepath":
            raise
        files.say(
            f"Python's package {error.name} is missing, which fleets need; `{sys.executable} -m pip install {error.name}` "
            "gets it"
        )
        return 1
    except (KeyboardInterrupt, signals.Interrupted) as error:
        files.say("interrupted")
        return 128 + (error.number if isinstance(error, signals.Interrupted) else signal.SIGINT)


def _parsed(words: list[str] | None) -> argparse.Namespace:
    if _is_local(sys.argv[1:] if words is None else words):
        # Where the current directory was removed, it can be begun in another one alone, later.
        with contextlib.suppress(FileNotFoundError):
            forks.begin()
    own = parser()
    arguments, others = own.parse_known_args(words)
    if others and not arguments.hands_on:
        own.error(f"unrecognized arguments: {' '.join(others)}")
    if arguments.hands_on:
        # What comes after an option that argparse does not know cannot be had from it in any other way.
        arguments.words = [word for word in others if word != "--"]
    return arguments


def _scheduler() -> str | None:
    """The scheduler, unless one is named."""
    return os.environ.get("DASK_SCHEDULER_ADDRESS") or os.environ.get("BYTEPATH_SCHEDULER")


def _is_local(words: list[str]) -> bool:
    """Whether workers are to be started here, as far as is known before what these words mean is imported."""
    given = [word.removeprefix("--scheduler=") for before, word in itertools.pairwise(["", *words])
             if before == "--scheduler" or word.startswith("--scheduler=")]  # fmt: skip
    return (given or [_scheduler() or ""])[0].startswith("local")


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    """The work's exit code; a signal cancels it, so that all it holds is let go of."""
    task = asyncio.ensure_future(work)
    caught: list[int] = []

    def cancel(number: int) -> None:
        caught.append(number)
        task.cancel()

    for number in signals.ENDING:
        asyncio.get_running_loop().add_signal_handler(number, cancel, number)
    try:
        return await task
    except asyncio.CancelledError:
        if not caught:
            raise
        raise signals.Interrupted(caught[0]) from None


if __name__ == "__main__":
    sys.exit(main())
