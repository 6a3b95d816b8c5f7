"""What a handler of a signal raises may come between any two instructions of Python's: here it comes at each."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any


def interrupted_at(number: int, work: Callable[[], object]) -> KeyboardInterrupt | None:
    """What ended the work when so many instructions of Python's were done; None where it was done first."""
    left = number

    def trace(frame: Any, event: str, _: object) -> Any:
        nonlocal left
        if event == "call" and frame.f_code.co_name in ("__del__", "_remove", "close"):
            # Of what goes already, where it would be told, and end nothing.
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            left -= 1
            if left < 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    try:
        sys.settrace(trace)
        done = work()
        sys.settrace(before)
        del done
    except KeyboardInterrupt as error:
        return error
    finally:
        sys.settrace(before)
    return None
