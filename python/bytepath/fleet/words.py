"""How machines, figures and sizes are put into words."""

NAMES_MAX = 8
"""So many machines are named where others do as well."""


def some(names: list[str]) -> str:
    """The machines by their names, or the first of them where they are many."""
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return ", ".join(names[:NAMES_MAX]) + more


def figure(value: float | None, unit: str) -> str:
    """What was measured, to three digits."""
    return "–" if value is None else f"{value:.3g} {unit}"


def times(value: float) -> str:
    """A multiple to three digits, or to the whole where it has more."""
    if 999.5 <= value < 1e6:
        return f"{value:.0f}"
    return f"{value:.2f}" if 0.1 <= value < 9.995 else f"{value:.3g}"


def size(bytes: int) -> str:
    """A number of bytes, exactly, in the largest unit that divides it."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if bytes and bytes % (1 << shift) == 0:
            return f"{bytes >> shift} {unit}"
    return f"{bytes} bytes"


def about(bytes: int) -> str:
    """A number of bytes to three digits or so."""
    for shift, unit in ((30, "GiB"), (20, "MiB")):
        if bytes >= 1 << shift:
            return f"{bytes / (1 << shift):.4g} {unit}"
    return size(bytes)
