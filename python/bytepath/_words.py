"""Figures in words, as the command has them."""

from __future__ import annotations


def rate(gib_per_s: float) -> str:
    """A rate in a unit that fits, with about three digits: 9.80 GiB/s, 4.00 MiB/s, 512 KiB/s."""
    value, unit = gib_per_s, "GiB"
    for smaller in ("MiB", "KiB", "B"):
        # What would be shown as 1024 of the smaller unit is 1.00 of this one.
        if value >= 1023.5 / 1024:
            break
        value, unit = value * 1024, smaller
    decimals = 0 if unit == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f} {unit}/s"
