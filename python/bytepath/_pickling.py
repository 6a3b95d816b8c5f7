"""Objects as a pickle and the buffers that go beside it (pickle protocol 5)."""

from __future__ import annotations

import copyreg
import io
import pickle
import sys
from multiprocessing.reduction import ForkingPickler
from typing import Any

# What multiprocessing knows to hand over between processes: sockets, its own locks and connections.
_EXTRA: dict[type, Any] = ForkingPickler._extra_reducers  # type: ignore[attr-defined]
# What both had last, and the table of that.
_table: tuple[tuple[dict[type, Any], dict[type, Any]], dict[type, Any]] = (({}, {}), {})

# What holds no object of another type, and so needs no table.
_PLAIN = frozenset({type(None), bool, int, float, complex, str, bytes})

# Before a plain array's type and shape, where a pickle has its protocol: making an array from them costs a
# tenth of what its pickle does, which counts where arrays are small.
_ARRAY = b"\x01"
_ARRAY_KINDS = frozenset("biufc")
# numpy numbers the types that others add from here on (NPY_USERDEF), or below zero: their names are those of other
# types, or of none.
_ADDED_TYPES = 256


def dumps(obj: Any) -> tuple[Any, list[Any]]:
    """The pickle of an object, and the buffers that it left out."""
    kind = type(obj)
    if kind in _PLAIN:
        return pickle.dumps(obj, 5), []
    # Another thread may be in the middle of importing it.
    if kind is getattr(sys.modules.get("numpy"), "ndarray", None) and obj.dtype.kind in _ARRAY_KINDS:
        flags, dtype = obj.flags, obj.dtype
        # Its name says all of a type of numpy's that nothing was added to.
        is_plain = 0 <= dtype.num < _ADDED_TYPES and dtype.metadata is None
        if is_plain and (flags.c_contiguous or flags.f_contiguous):
            told = (dtype.str, obj.shape, "C" if flags.c_contiguous else "F")
            return _ARRAY + pickle.dumps(told, 5), [obj] if obj.nbytes else []
    buffers: list[Any] = []
    into = io.BytesIO()
    pickler = pickle.Pickler(into, 5, buffer_callback=buffers.append)
    pickler.dispatch_table = _reducers()
    pickler.dump(obj)
    return into.getbuffer(), buffers


def loads(pickled: Any, buffers: list[Any]) -> Any:
    """The object again."""
    # A long one is no bytes, but a view of them.
    first = pickled if type(pickled) is bytes else memoryview(pickled)
    if first[:1] == _ARRAY:
        import numpy

        dtype, shape, order = pickle.loads(first[1:])
        return numpy.ndarray(shape, dtype, buffers[0] if buffers else None, order=order)
    return pickle.loads(pickled, buffers=buffers)


def reduced_view(view: Any, protocol: int) -> tuple[Any, tuple[Any]]:
    """How a view of what was received is handed on: as a buffer, of which whoever gets it has a view again,
    and as bytes where pickles hold no buffers."""
    if protocol < 5:
        return bytes, (bytes(view),)
    return _itself, (pickle.PickleBuffer(view),)


def _itself(buffer: Any) -> Any:
    return buffer


def _reducers() -> dict[type, Any]:
    """What others have told copyreg and multiprocessing; one table, because two are looked up slowly."""
    global _table
    now = (copyreg.dispatch_table, _EXTRA)
    seen, table = _table
    if now != seen:
        seen = (dict(now[0]), dict(now[1]))
        table = {**seen[0], **seen[1]}
        # By one store: another thread takes the one for that of the other.
        _table = seen, table
    return table
