"""How far a copying is, as a line that is drawn again and again: files, bytes, the recent rate, the time left.

Nobody counts the tree beforehand. Each directory passes its share of the whole on to what is found in it (Knuth,
Estimating the efficiency of backtrack programs, 1975), so that the shares of what is done sum up to how far it is."""

import sys
import time
from collections import deque

from ..files import write_error

EVERY_S = 0.2
RATE_S = 5.0

_UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]


def size(count: float) -> str:
    """So many bytes, in three digits."""
    at = 0
    while count >= 1000 and at < len(_UNITS) - 1:
        count, at = count / 1024, at + 1
    return f"{count:.0f} {_UNITS[at]}" if at == 0 or count >= 100 else f"{count:.3g} {_UNITS[at]}"


def clock(seconds: float) -> str:
    whole = round(seconds)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Progress:
    """The line, on standard error."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self.seen: deque[tuple[float, int, float]] = deque()
        self.drawn = 0.0
        self.columns = 0

    def look(self, files: int, bytes: int, share: float, workers: int) -> None:
        """Takes note of how far it is, and draws it if it is time."""
        now = time.monotonic()
        if not self.wanted or now - self.drawn < (EVERY_S if self.terminal else 2.0):
            return
        self.drawn = now
        self.seen.append((now, bytes, share))
        while now - self.seen[0][0] > RATE_S and len(self.seen) > 2:
            self.seen.popleft()
        self._draw(text(files, bytes, share, workers, self.seen))

    def _draw(self, line: str) -> None:
        if self.terminal:
            write_error("\r" + line.ljust(self.columns))
            self.columns = len(line)
        else:
            write_error(line + "\n")

    def end(self) -> None:
        if self.wanted and self.terminal and self.columns:
            write_error("\r" + " " * self.columns + "\r")


def text(files: int, bytes: int, share: float, workers: int, seen: deque[tuple[float, int, float]]) -> str:
    """The line."""
    began, first_bytes, first_share = seen[0]
    now = seen[-1][0]
    # Of a large file that is begun anew nothing counts any more.
    rate = max(0, bytes - first_bytes) / (now - began) if now > began else 0.0
    # Where all is done but little, shares that were rounded on their way are nothing to go by.
    done = min(max(share, 0.0), 1.0)
    pace = (share - first_share) / (now - began) if now > began else 0.0
    left = f"about {clock((1 - done) / pace)} left" if pace > 0 and done < 1 else "time left unknown"
    return f"{files} files, {size(bytes)}, {size(rate)}/s, about {done:.0%}, {left}, {workers} workers"
