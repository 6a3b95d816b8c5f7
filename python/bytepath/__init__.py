"""Moves bytes on Linux by the fastest route that this machine offers."""

from bytepath._bytepath import __version__

__all__ = ["__version__"]
