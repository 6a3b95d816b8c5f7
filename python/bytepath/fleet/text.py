"""Functions that are sent to workers as their text, which any Python understands, whatever packages it has. Others are sent by
their names, which are of modules there; or by Dask as compiled code, of which another version of Python dies."""

import inspect
from collections.abc import Callable
from typing import Any


def as_text(function: Callable[..., Any], *arguments: Any) -> tuple[Any, ...]:
    """What Dask is to call, and with what, so that a function that uses nothing outside itself is called there."""
    # What is said of its types is nothing that has to be there.
    source = f"from __future__ import annotations\n{inspect.getsource(function)}"
    call = f"(exec(source), {function.__name__}(*arguments))[1]"
    return eval, call, {"source": source, "arguments": arguments}
