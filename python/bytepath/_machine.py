"""What is true of this machine."""

from __future__ import annotations

from bytepath import _bytepath


class Machine(dict[str, str]):
    """Facts about this machine by name, in reading order. `print` shows them."""

    def __str__(self) -> str:
        return "\n".join(f"{name}: {value}" for name, value in self.items())

    def _repr_html_(self) -> str:
        import html

        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(name)}</th>"
            f"<td style='text-align:left'>{html.escape(value)}</td></tr>"
            for name, value in self.items()
        )
        return f"<table>{rows}</table>"


def machine() -> Machine:
    """Kernel, CPUs, memory, limits, and which calls answer: found by trying, never by version."""
    return Machine(_bytepath.machine())
