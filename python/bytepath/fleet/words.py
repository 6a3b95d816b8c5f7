"""How machines, figures and sizes are put into words."""

import math

SUFFIXES = ("", "k", "M", "G", "T")

NAMES_MAX = 8
"""So many machines are named where others do as well."""


def some(names: list[str]) -> str:
    """The machines by their names, or the first of them where they are many."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def measured(value: float | None, unit: str) -> str:
    """What was measured, or that it is not known."""
    return "–" if value is None else f"{figure(value)} {unit}"


def figure(value: float) -> str:
    """A figure with about three digits, as the tables of a record have it: 0.0975, 0.104, 12.0, 9870, 1.23M."""
    size = abs(value)
    if not math.isfinite(value):
        return "–"
    if size == 0:
        return "0"
    if not 0.0009995 <= size < 999.5e12:
        digits, exponent = f"{value:.2e}".split("e")
        return f"{digits}e{int(exponent)}"
    step = 0
    while size >= 9999.5 and abs(value) >= 999.5 and step + 1 < len(SUFFIXES):
        value, step = value / 1000, step + 1
    return f"{value:.{_decimals(abs(value))}f}{SUFFIXES[step]}"


def _decimals(size: float) -> int:
    """So many make about three digits. The bounds are where rounding would add one: 9.996 is 10.0, not 10.00."""
    return sum(size < bound for bound in (99.95, 9.995, 0.9995, 0.09995, 0.009995))


def size(bytes: int) -> str:
    """A number of bytes, exactly, in the largest unit that divides it."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if bytes and bytes % (1 << shift) == 0:
            return f"{bytes >> shift} {unit}"
    return f"{bytes} bytes"


def about(bytes: int) -> str:
    """A number of bytes to three digits or so."""
    for shift, unit in ((60, "EiB"), (50, "PiB"), (40, "TiB"), (30, "GiB"), (20, "MiB")):
        if bytes >= 1 << shift:
            return f"{bytes / (1 << shift):.4g} {unit}"
    return size(bytes)
