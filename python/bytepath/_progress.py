"""What a copy tells while it goes on: a function that is called, or a bar that moves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, Union


class Bar(Protocol):
    """A bar as tqdm makes them."""

    total: Any

    def update(self, n: Any = 1) -> Any:
        """Moves the bar on by `n`."""


#: A function of the bytes so far and of all of them (None where nobody knows), a bar, or True for a
#: bar of tqdm's.
Progress = Union[Callable[[int, Union[int, None]], Any], Bar, bool, None]


def check(progress: Progress) -> None:
    """Refuses what cannot be told anything, before there is anything to tell."""
    if progress is True:
        _bars()
    if progress is None or isinstance(progress, bool) or callable(progress) or _is_bar(progress):
        return
    raise TypeError(
        f"progress cannot be {type(progress).__name__}: a function of (done, total), a bar of tqdm's,"
        " or True is wanted"
    )


def _is_bar(progress: Progress) -> bool:
    return hasattr(progress, "update") and hasattr(progress, "total")


@contextmanager
def teller(
    progress: Progress, known: Callable[[], int | None]
) -> Iterator[Callable[[int], None] | None]:
    """A function to be called with the bytes so far; None where nobody wants to know."""
    if progress is None or progress is False:
        yield None
        return
    total = known()
    if progress is True:
        with _tqdm(total) as own:
            yield _mover(own)
    elif _is_bar(progress):
        bar: Any = progress
        if bar.total is None:
            bar.total = total
        yield _mover(bar)
    else:
        function: Any = progress
        yield lambda done: function(done, total)


def _tqdm(total: int | None) -> Any:
    return _bars()(total=total, unit="B", unit_scale=True, unit_divisor=1024)


def _bars() -> Any:
    try:
        from tqdm.auto import tqdm  # type: ignore[import-untyped,unused-ignore]
    except ImportError:
        raise ImportError("progress=True draws with tqdm: pip install tqdm") from None
    return tqdm


def _mover(bar: Any) -> Callable[[int], None]:
    told = 0

    def move(done: int) -> None:
        nonlocal told
        bar.update(done - told)
        told = done

    return move
