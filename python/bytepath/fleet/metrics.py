"""`--metrics FILE`: how far a long job is, in the text format of Prometheus, by the names that `bytepath`'s own commands have.
The file is replaced once a second and at the end by a thread of its own; nothing that goes wrong with it holds up the job."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from . import files

EVERY_S = 1.0
LAST_S = 2.0
"""What the end of the job waits for its last state to be written, at most."""


@dataclass
class Figures:
    """How far it is."""

    files: int = 0
    bytes: int = 0
    share: float = 0.0
    failed: int = 0
    workers: int = 0


class Job:
    """A job that is told of until it has ended."""

    def __init__(self, path: Path, command: str) -> None:
        from bytepath import __version__

        self.path, self.version = path, __version__
        self.mode = 0o666 & ~files.umask()
        self.labels = f'job="{escaped(path.stem)}",command="{escaped(command)}"'
        self.figures = Figures()
        self.code: int | None = None
        self.started, self.began = time.time(), time.monotonic()
        self.over = threading.Event()
        # One that hangs on a folder of a server's keeps nobody from ending.
        self.thread = threading.Thread(target=self._tell, name="metrics", daemon=True)
        self.thread.start()

    def ended(self, code: int) -> None:
        """Has its last state told."""
        self.code = code
        self.over.set()
        self.thread.join(LAST_S)

    def _tell(self) -> None:
        warned = False
        while True:
            last = self.code is not None
            try:
                replace(self.path, self.text(), self.mode)
            except OSError as error:
                if not warned:
                    files.say(f"--metrics: cannot write {self.path}: {error.strerror}; the job goes on without")
                warned = True
            if last:
                return
            self.over.wait(EVERY_S)

    def text(self) -> str:
        """All that is known."""
        now, code = self.figures, self.code
        families = [
            ("job_info", "gauge", "The job; its value is always 1.", 1),
            ("job_start_time_seconds", "gauge", "When the job began.", self.started),
            ("job_last_update_time_seconds", "gauge",
             "When this was written; a job that ended without a word leaves it behind.", time.time()),
            ("job_duration_seconds", "gauge", "How long the job has been running, or ran.", time.monotonic() - self.began),
            ("job_running", "gauge", "1 while the job runs, 0 once it ended.", int(code is None)),
            ("job_exit_code", "gauge", "How the job ended; 128 and more by a signal.", code),
            ("moved_bytes_total", "counter", "Bytes moved, by route.", now.bytes),
            ("files_total", "counter", "Files copied.", now.files),
            ("done_ratio", "gauge", "Share of the job that is done, as far as that can be told.", round(now.share, 6)),
            ("failed_entries", "gauge", "Entries that failed so far.", now.failed),
            ("workers", "gauge", "Workers that take part.", now.workers),
        ]  # fmt: skip
        told = []
        for name, kind, help, value in families:
            more = f',version="{escaped(self.version)}"' if name == "job_info" else ""
            if value is not None:
                told.append(f"# HELP bytepath_{name} {help}\n# TYPE bytepath_{name} {kind}\n"
                            f"bytepath_{name}{{{self.labels}{more}}} {value}\n")  # fmt: skip
        return "".join(told)


def escaped(value: str) -> str:
    """A label's value."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def replace(path: Path, text: str, mode: int) -> None:
    """Puts a new file in the place of the old one, with its mode if there was one. Who reads it finds either, whole."""
    files.refuse_planted(path)
    path = Path(os.path.realpath(path))
    if path.exists() and not path.is_file():
        raise OSError(0, "it is no regular file")
    mode = path.stat().st_mode & 0o777 if path.exists() else mode
    # A name by which no collector takes it for one of its files.
    file, passing = tempfile.mkstemp(dir=path.parent, prefix=".tmp")
    try:
        with open(file, "w", encoding="utf-8", errors="replace") as written:
            os.fchmod(file, mode)
            written.write(text)
        os.rename(passing, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(passing)
        raise


_job: Job | None = None


def begin(path: Path | None, command: str) -> None:
    """Tells of the job of this process from now on until it has ended, if that is asked for."""
    global _job
    if path is not None:
        _job = Job(path, command)


def job() -> Job | None:
    """The job that is told of."""
    return _job


def ended(code: int) -> None:
    """The job has ended so."""
    global _job
    if _job is not None:
        _job.ended(code)
        _job = None
