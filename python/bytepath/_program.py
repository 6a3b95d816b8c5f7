"""The command `bytepath`: where it is, and how it is run."""

from __future__ import annotations

import _thread
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
from typing import Any

from bytepath._errors import ProgramError

#: How long a program that was told to stop may take for it.
_STOP_SECONDS = 10.0


def program() -> str:
    """The path of the command that came with this package, or of the one on PATH.

    The environment variable BYTEPATH_PROGRAM names another.
    """
    named = os.environ.get("BYTEPATH_PROGRAM")
    if named:
        if not os.access(named, os.X_OK):
            raise ProgramError(f"BYTEPATH_PROGRAM names no program: {named}")
        return named
    folders = [sysconfig.get_path("scripts")]
    # pip install --user, --target
    folders.append(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))
    folders.append(os.path.join(os.path.dirname(os.path.dirname(__file__)), "bin"))
    for folder in folders:
        path = os.path.join(folder, "bytepath")
        if os.access(path, os.X_OK) and not os.path.isdir(path):
            return path
    found = shutil.which("bytepath")
    if found is None:
        raise ProgramError(
            "the command bytepath is missing: wheels bring it along; with a package that was built"
            " without it, put it on PATH, or name it in BYTEPATH_PROGRAM"
        )
    return found


def run(
    arguments: list[Any],
    *,
    given: str | None = None,
    show: bool = False,
    folder: str | None = None,
    restore_signals: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end, in a folder if one is given. With `show`, what it says on standard
    error is shown as it comes. `restore_signals`: see subprocess.Popen.

    An exception meanwhile (Ctrl-C) stops the command, which leaves nothing behind, before it goes on.
    """
    # From the folder, a relative name would be another.
    command = [os.path.abspath(program()), *arguments]
    started = _Started(
        command,
        stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=None if show and _is_real(sys.stderr) else subprocess.PIPE,
        encoding="utf-8",
        errors="surrogateescape",
        cwd=folder,
        restore_signals=restore_signals,
    )
    said = None
    try:
        process = started.process()
        if show and process.stderr is not None:
            said = _Shown(process)
        out, err = process.communicate(given)
    except BaseException:
        started.stop()
        raise
    finally:
        if said is not None:
            # What it has started, and left, may still have its standard error.
            said.join(_STOP_SECONDS)
    return subprocess.CompletedProcess(command, process.returncode, out, said.text if said else err or "")


class _Started:
    """Starts a program in a thread, where no handler of a signal runs: what one raises between the program's start and
    its having a name here would leave it to itself."""

    def __init__(self, command: list[Any], **options: Any) -> None:
        self._command, self._options = command, options
        self._process: subprocess.Popen[str] | BaseException | None = None
        self._is_wanted = True
        # Held while it is being started, and until it was.
        self._starting, self._to_be_started = threading.Lock(), threading.Lock()

    def process(self) -> subprocess.Popen[str]:
        """The program, once it runs."""
        self._to_be_started.acquire()
        # A Thread's own words for this may be interrupted in their middle, and are other errors then.
        try:
            _thread.start_new_thread(self._start, ())
        except RuntimeError:
            # While Python ends there are no new threads, nor where a limit on them is reached.
            self._start()
        self._to_be_started.acquire()
        if isinstance(self._process, BaseException):
            raise self._process
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        try:
            with self._starting:
                if self._is_wanted:
                    self._process = subprocess.Popen(self._command, **self._options)
        except BaseException as error:
            self._process = error
        finally:
            self._to_be_started.release()

    def stop(self) -> None:
        """Stops it, also where this thread is about to start it."""
        self._is_wanted = False
        with self._starting:
            process = self._process
        if isinstance(process, subprocess.Popen):
            _stop(process)


class _Shown(threading.Thread):
    """Passes on what a program says to what Python has for its standard error, line by line: a notebook's cell."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__(daemon=True)
        self.text = ""
        # From here on it is this thread's, and nobody else waits for it.
        self._lines, process.stderr = process.stderr, None
        self._into = sys.stderr
        self.start()

    def run(self) -> None:
        assert self._lines is not None
        with self._lines as lines:
            for line in lines:
                self.text += line
                # It may be closed, and there may be none: the program goes on all the same.
                with contextlib.suppress(Exception):
                    self._into.write(line)
                    self._into.flush()


def checked(arguments: list[Any], *, given: str | None = None, show: bool = False) -> str:
    """Runs the command, which has to succeed; what it wrote to standard output."""
    done = run(arguments, given=given, show=show)
    if done.returncode != 0:
        raise failed(arguments, done)
    return done.stdout


def failed(arguments: list[Any], done: subprocess.CompletedProcess[str]) -> ProgramError:
    """The exception for a command that did not succeed."""
    said = done.stderr.strip()
    if not said and done.returncode > 0:
        said = "it said why above"
    return ProgramError(f"bytepath {arguments[0]} failed ({_how(done.returncode)}){said and ': '}{said}")


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return f"killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"killed by signal {-code}"


def _is_real(stream: Any) -> bool:
    """Whether a program can write to it: in a notebook it is none of the kernel's files."""
    try:
        return bool(stream.fileno() == 2)
    except (AttributeError, OSError, ValueError):
        return False


def _stop(process: subprocess.Popen[str]) -> None:
    # Under a terminal it has had SIGINT already.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
        process.send_signal(number)
        try:
            process.wait(_STOP_SECONDS)
            break
        except subprocess.TimeoutExpired:
            continue
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
