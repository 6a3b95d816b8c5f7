"""Objects as a pickle and the buffers that go beside it (pickle protocol 5)."""

from __future__ import annotations

import copyreg
import io
import pickle
from collections import ChainMap
from multiprocessing.reduction import ForkingPickler
from typing import Any

loads = pickle.loads

# What multiprocessing knows to hand over between processes (sockets, its locks and connections), and what
# others have told copyreg.
_TABLE = ChainMap(ForkingPickler._extra_reducers, copyreg.dispatch_table)  # type: ignore[attr-defined]

# What holds no object of another type, and so needs no table.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})


def dumps(obj: Any) -> tuple[Any, list[pickle.PickleBuffer]]:
    """The pickle of an object, and the buffers that it left out."""
    buffers: list[pickle.PickleBuffer] = []
    if type(obj) in _PLAIN:
        return pickle.dumps(obj, 5), buffers
    into = io.BytesIO()
    pickler = pickle.Pickler(into, 5, buffer_callback=buffers.append)
    pickler.dispatch_table = _TABLE
    pickler.dump(obj)
    return into.getbuffer(), buffers
