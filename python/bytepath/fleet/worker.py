"""What runs on the workers: pieces of a copying by a `bytepath` that stays, and commands of it."""

import contextlib
import errno
import fcntl
import json
import os
import platform
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from bytepath import _program
from bytepath._errors import ProgramError

from . import files, storage

PROTOCOL = 16
"""Changes whenever what is sent to workers does."""

SLOT_WAIT_S = 0.02
TURN_WAIT_S = 0.1
SAID_BYTES = 4096
PROFILE_S = 10
WANTED_S = 10
"""So long the scheduler may take to say whether somebody still waits."""

OVER = "it is over"
DOUBT = "its source does not look as it did at the beginning"
"""Somebody may have changed it since: who hands out the pieces finds out, and they are done by others until then."""

ELSEWHERE = "start the worker with XDG_RUNTIME_DIR (or TMPDIR) set to a directory of its user"
MARK_MAX = 256
"""No word that is left for others is longer."""


def program() -> str | None:
    """The `bytepath` program of this machine."""
    try:
        return _program.program()
    except ProgramError:
        return None


def python() -> str:
    """The minor version of this Python, as 3.11."""
    return ".".join(platform.python_version_tuple()[:2])


_versions: dict[tuple[str, int, int], str] = {}


def _version(path: str) -> str:
    """What the program says it is. That is kept as long as it is the same file; that it said nothing may be over soon."""
    try:
        file = os.stat(path)
        key = path, file.st_ino, file.st_mtime_ns
        if key not in _versions:
            run = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20)
            said = run.stdout.strip()
            if run.returncode != 0 or not said:
                return f"{path}: exit code {run.returncode}"
            _versions[key] = said
        return _versions[key]
    except (OSError, subprocess.SubprocessError) as error:
        return f"{path}: {error}"


def about() -> dict[str, Any]:
    """This process's bytepath."""
    found = program()
    return {"program": found, "version": _version(found) if found else None, "protocol": PROTOCOL}


# -- pieces of a copying --


class Engine:
    """A `bytepath piece` that answers requests until it is closed, or this process ends."""

    def __init__(self, setup: dict[str, Any], root: str) -> None:
        self.id = setup["id"]
        path = program()
        if path is None:
            raise FileNotFoundError("no program bytepath")
        words = [path, "piece", "--source", setup["source"], "--destination", setup["destination"]]
        words += ["--root", root, "--run", setup["run"], "--token", uuid.uuid4().hex[:12], "--", *setup["options"]]
        self.said = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [os.fsencode(word) for word in words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.said,
            # New files are as they would be where the command was given, whatever this worker was started by.
            umask=setup["umask"],
            # Signals that the terminal sends are the submitter's to answer.
            start_new_session=True,
        )

    def ask(self, request: bytes) -> bytes:
        assert self.process.stdin and self.process.stdout
        try:
            self.process.stdin.write(request + b"\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except BrokenPipeError:
            answer = b""
        if not answer.endswith(b"\n"):
            code = self.process.wait()
            raise EngineDied(f"bytepath piece ended with {code}: {self.last_words()}")
        return answer

    def last_words(self) -> str:
        return _end_of(self.said) or "without a word"

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        with contextlib.suppress(OSError):
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.said.close()


class EngineDied(Exception):
    """The program ended in the middle of a piece: its words."""


_idle: dict[tuple[str, int, str], list[Engine]] = {}
_busy: set[Engine] = set()
_lock = threading.Lock()


def piece(setup: dict[str, Any], request: bytes) -> bytes:
    """Does a piece of a copying; its answer, and whose that is."""
    from distributed import get_worker

    return json.dumps({**_answer(setup, request), "worker": get_worker().address}).encode()


def _answer(setup: dict[str, Any], request: bytes) -> dict[str, Any]:
    """The answer. Engines that wait are kept for the next piece."""
    why = _unfit(setup)
    if why:
        return {"doubted" if why == DOUBT else "refused": why}
    with contextlib.ExitStack() as stack:
        if setup.get("per_machine"):
            stack.enter_context(_slot(setup["id"], setup["per_machine"], setup["late_s"]))
        # Nothing in the destination tells whoever woke late that it is over, as the mark does later.
        unwanted = _unwanted() if setup["word"] is None else None
        if unwanted:
            return {"died": unwanted}
        with _lock:
            if setup["session"] in _over:
                # Nobody waits for it any more, and nobody would end what it begins.
                return {"died": OVER}
            # Those of a copying that is over end here; there is one at a time.
            own = setup["id"], setup["umask"], _fit.get((setup["id"], setup["word"]), "")
            for other in [key for key in _idle if key != own]:
                for engine in _idle.pop(other):
                    engine.close()
            waiting = _idle.setdefault(own, [])
            found = waiting.pop() if waiting else None
        if found is not None and found.process.poll() is not None:
            found.close()
            found = None
        engine = found or Engine(setup, own[2])
        try:
            with _at_work(engine):
                answer = engine.ask(request)
        except BaseException as error:
            engine.close()
            if isinstance(error, EngineDied):
                return {"died": str(error)}
            raise
        with _lock:
            if own in _idle:
                _idle[own].append(engine)
            else:
                engine.close()
        return dict(json.loads(answer))


def _unwanted() -> str | None:
    """Why the task that this thread is at needs not be done: the scheduler no longer has this worker do it."""
    from distributed import get_worker
    from distributed.utils import sync

    from .cluster import first_line

    worker = get_worker()
    key = worker.get_current_task()
    try:
        wanted = sync(worker.loop, worker.scheduler.processing, workers=[worker.address], callback_timeout=WANTED_S)
    except Exception as error:
        # It is gone, has given this worker up, or has no time: who waits for the answer asks somebody else.
        return f"the scheduler did not say whether this is still wanted: {first_line(error)}"
    return None if key in wanted[worker.address] else OVER


@contextlib.contextmanager
def _at_work(engine: Engine) -> Iterator[None]:
    with _lock:
        _busy.add(engine)
    try:
        yield
    finally:
        with _lock:
            _busy.discard(engine)


def want(id: str) -> None:
    """Asks the engines of a copying that are at work here for what they have not begun: others have nothing to do."""
    with _lock:
        for engine in _busy:
            if engine.id == id:
                engine.process.send_signal(signal.SIGURG)


def _unfit(setup: dict[str, Any]) -> str | None:
    """Why this worker cannot do the pieces of a copying. It may have come when that had long begun."""
    # What is not known yet when it begins is looked at once it is.
    asked = (setup["id"], setup["word"])
    if asked not in _fit and (why := _unlike(setup)):
        return why
    try:
        # Its source may have been unmounted since, or be mounted anew.
        root = storage.root(setup["source"])
        if _fit.get(asked) == root:
            return None
        if (setup["id"], root) not in _trusted and setup["source_look"]:
            look = storage.look(setup["source"])
            if storage.is_another(setup["source_look"], look):
                return f"its {setup['source']} is not the directory that the others see"
            if not storage.is_same(setup["source_look"], look):
                return DOUBT
    except OSError as error:
        return f"it cannot read {setup['source']} ({_unseen(error)})"
    if setup["word"] is not None:
        word, number = marked(setup["mark"])
        if number in (errno.EACCES, errno.EPERM):
            return no_entry("it", os.getuid(), os.path.dirname(setup["mark"]))
        if word != setup["word"]:
            return f"its {setup['destination']} is another storage than that of the others"
    _fit[asked] = root
    return None


def _unlike(setup: dict[str, Any]) -> str | None:
    """Why this process is none that can do the pieces of a copying."""
    if python() != setup["python"]:
        return f"it has Python {python()}, and the others have {setup['python']}: Dask needs one minor version on all machines"
    own = about()["version"]
    if own != setup["version"]:
        return f"it has {own}, and the copying is done by {setup['version']}"
    if os.getuid() != setup["uid"]:
        return f"it runs as uid {os.getuid()}, and the others as uid {setup['uid']}: start all workers as one user"
    return None


def no_entry(who: str, uid: int, folder: str) -> str:
    """Somebody may not look into the directory for the work, which is of whoever made it."""
    remedy = "start all workers as one user whom the storage lets in there"
    return f"{who} runs as uid {uid} and may not look into {folder}: {remedy}"


_fit: dict[tuple[str, str | None], str] = {}
"""What the source was then."""


def trust(id: str, source: str) -> None:
    """The source of a copying is here that of the others, however it looks by now."""
    _trusted.add((id, storage.root(source)))


_trusted: set[tuple[str, str]] = set()


_over: deque[str] = deque(maxlen=64)
"""What pieces may still come of that are not to be begun."""


def release(id: str, session: str) -> None:
    """Ends the engines in this process, and with them all there is of a copying, until it goes on in another session."""
    _fit.clear()
    _trusted.clear()
    with _lock:
        _over.append(session)
        for engine in _busy:
            if engine.id == id:
                # Others did what it is late with. It may be stopped, and see nothing of its end.
                engine.process.kill()
        for engines in _idle.values():
            for engine in engines:
                engine.close()
        _idle.clear()
    for path in machine_folder().glob(f"{id}-*"):
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _slot(run: str, count: int, late_s: float) -> Iterator[None]:
    """One of so many places on this machine, whichever workers share it. Who dies leaves its place; one who has it for longer
    than any piece takes, as if stopped, keeps it, and another place counts instead."""
    folder = machine_folder()
    while True:
        number = late = 0
        while number < count + late:
            file = os.open(folder / f"{run}-{number}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                late += time.time() - os.fstat(file).st_mtime > late_s
                os.close(file)
                number += 1
                continue
            try:
                os.utime(file)
                yield
            finally:
                os.close(file)
            return
        time.sleep(SLOT_WAIT_S)


def machine_folder() -> Path:
    """A folder of this user on this machine, for locks."""
    base = os.environ.get("XDG_RUNTIME_DIR", "")
    if not os.path.isdir(base):
        # It is of another machine, or its session is over.
        base = tempfile.gettempdir()
    machine = files.name_of(os.environ.get("BYTEPATH_MACHINE", ""))
    folder = Path(base) / f"bytepath-fleet-{os.getuid()}{machine and '-' + machine}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise OSError(f"cannot make {folder}, for locks ({error.strerror}): {ELSEWHERE}") from error
    # Not where a link of somebody else's leads to, either.
    if folder.lstat().st_uid != os.getuid():
        raise PermissionError(f"{folder}, for locks, belongs to somebody else: remove it, or {ELSEWHERE}")
    return folder


def sees(source: str, destination: str) -> dict[str, Any]:
    """What this machine sees of the paths of a copying."""
    found: dict[str, Any] = {}
    try:
        directory = stat.S_ISDIR(os.stat(source).st_mode)
        found["source"] = {"directory": directory, "real": os.path.realpath(source)}
        if directory:
            found["source"]["look"] = storage.look(source)
    except OSError as error:
        found["source_error"] = _unseen(error)
    parent = os.path.dirname(os.path.abspath(destination))
    there = destination if os.path.lexists(destination) else parent
    try:
        found["destination"] = {
            "exists": there == destination,
            "directory": stat.S_ISDIR(os.stat(there).st_mode),
            "real": os.path.realpath(destination),
        }
    except OSError as error:
        found["destination_error"] = _unseen(error)
    return found


def _unseen(error: OSError) -> str:
    """Why there is nothing to be seen of a path."""
    return f"{error.filename} does not exist" if isinstance(error, FileNotFoundError) and error.filename else str(error)


def is_directory(path: str) -> bool:
    """Whether there is a directory of this name."""
    return os.path.isdir(path)


def beginning(folder: str, start: str) -> list[str]:
    """The names in a directory that begin so."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if entry.name.startswith(start)]


def there(folder: str, names: list[str]) -> list[str]:
    """Those of these names that are in a directory."""
    return [name for name in names if os.path.lexists(os.path.join(folder, name))]


def remove_tree(path: str) -> None:
    """Removes a directory with all in it, if it is there."""
    shutil.rmtree(path, ignore_errors=True)


def mark(path: str, text: str) -> tuple[int | None, str | None] | None:
    """Leaves a word in a file, for others to find; the error's number and word where it cannot. Who owns the directory above
    can put one of their own in the place of that of the file, and in it a link to a file of ours."""
    name = os.path.basename(path)
    try:
        with _folder_of(path) as folder:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=folder)
            file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
            with open(file, "w") as written:
                if os.fstat(file).st_uid != os.fstat(folder).st_uid:
                    return errno.EPERM, f"{os.path.dirname(path)} belongs to somebody else"
                written.write(text)
    except OSError as error:
        return error.errno, error.strerror
    return None


def marked(path: str) -> tuple[str | None, int | None]:
    """The word that somebody left in a file; else the error's number."""
    try:
        with _folder_of(path) as folder:
            # Some file systems tell of new names only once the directory is looked at.
            os.listdir(folder)
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
            mark = os.open(os.path.basename(path), flags, dir_fd=folder)
            try:
                # Of a directory open makes no file, nor closes it.
                with open(mark, errors="replace", closefd=False) as file:
                    return file.read(MARK_MAX), None
            finally:
                os.close(mark)
    except OSError as error:
        return None, error.errno


@contextlib.contextmanager
def _folder_of(path: str) -> Iterator[int]:
    """The directory of a file, open, whatever comes to stand in its place; no link is followed there."""
    folder = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        yield folder
    finally:
        os.close(folder)


# -- commands of bytepath --


@dataclass
class Turn:
    """A command that was begun here: who has the machine as long as it waits, and how it is ended."""

    waits_for: str | None = ""
    stopped: bool = False
    guard: subprocess.Popen[bytes] | None = None


_turns: dict[str, Turn] = {}
_stopped: deque[str] = deque(maxlen=64)
"""Commands that are not to be begun any more."""


class Stopped(Exception):
    """Nobody waits for the command any more."""


def command(id: str, words: list[str], record: bool) -> dict[str, Any]:
    """Runs a command of `bytepath`, one at a time on this machine; it ends with this process, or once it is stopped."""
    path = program()
    if path is None:
        raise FileNotFoundError("no program bytepath")
    with _lock:
        turn = _turns[id] = Turn(stopped=id in _stopped)
    lock = os.open(machine_folder() / "measuring", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _await_turn(lock, turn)
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"process {os.getpid()}: bytepath {' '.join(words)}".encode(errors="replace"), 0)
        return _command(path, words, record, turn)
    finally:
        os.close(lock)
        with _lock:
            del _turns[id]


def profile(words: list[str]) -> Any:
    """The profile that is kept on this machine, whoever measures there meanwhile."""
    path = program()
    if path is None:
        raise FileNotFoundError("no program bytepath")
    run = subprocess.run(
        [path, "tune", "--show", *words, "--json", "-"],
        stdin=subprocess.DEVNULL, capture_output=True, timeout=PROFILE_S,
    )  # fmt: skip
    if run.returncode != 0:
        first = run.stderr.decode(errors="replace").strip().splitlines() or ["without a word"]
        raise ProgramError(f"exit code {run.returncode}: {first[0]}")
    return json.loads(run.stdout)


def _await_turn(lock: int, turn: Turn) -> None:
    while not turn.stopped:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            turn.waits_for = None
            return
        except BlockingIOError:
            turn.waits_for = os.pread(lock, SAID_BYTES, 0).decode(errors="replace") or "somebody"
        time.sleep(TURN_WAIT_S)
    raise Stopped


def waits_for(id: str) -> str | None:
    """Who is at the machine that a command waits for; None once it has it, and nothing where it was not begun here."""
    with _lock:
        turn = _turns.get(id)
    return turn.waits_for if turn else ""


def stop(id: str) -> None:
    """Ends a command, or keeps it from being begun."""
    with _lock:
        _stopped.append(id)
        turn = _turns.get(id)
        if turn is not None:
            turn.stopped = True
            if turn.guard is not None and turn.guard.stdin is not None:
                turn.guard.stdin.close()


def _command(path: str, words: list[str], record: bool, turn: Turn) -> dict[str, Any]:
    guard = str(Path(__file__).with_name("guard.py"))
    # Who has the lock has these files; what a killed worker left in them is overwritten.
    file, said = (str(machine_folder() / name) for name in ("record.json", "said"))
    with contextlib.suppress(FileNotFoundError):
        os.unlink(file)
    if record:
        # What stands behind an experiment and `--` is a command's own.
        at = 2 if words[0] == "bench" else len(words)
        words = [*words[:at], "--json", file, *words[at:]]
    began = time.time()
    with open(said, "wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-I", guard, path, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=err,
        )
    assert process.stdin and process.stdout
    with _lock:
        turn.guard = process
        if turn.stopped:
            process.stdin.close()
    with process.stdin, process.stdout:
        out = process.stdout.read()
        code = process.wait()
    with open(said, "rb") as written:
        found: dict[str, Any] = {
            "code": code,
            "out": out.decode(errors="replace"),
            "said": _end_of(written),
            "began": began,
            "seconds": time.time() - began,
        }
    if record and os.path.exists(file) and os.path.getsize(file):
        with open(file) as opened:
            found["record"] = json.load(opened)
    for path in (file, said):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
    return found


def _end_of(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - SAID_BYTES))
    return file.read().decode(errors="replace").strip()
