//! The first use of an end: what it is used by is made once.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use crate::held::Held;

/// Has `make` make what is to be at `place` of a channel out of the descriptor at `descriptor`, which is closed
/// then, unless there is one. All by one call, in the middle of which no handler of a signal can use the channel.
#[pyfunction]
#[pyo3(signature = (channel, place, descriptor, make, *sizes))]
pub(crate) fn make_first(
    channel: &Bound<'_, PyAny>,
    place: &str,
    descriptor: &str,
    make: &Bound<'_, PyAny>,
    sizes: &Bound<'_, PyTuple>,
) -> PyResult<()> {
    if !channel.getattr(place)?.is_none() {
        return Ok(());
    }
    let connection = channel.getattr(descriptor)?.cast_into::<Held>()?;
    let arguments = PyTuple::new(channel.py(), [connection.get().again()?])?.add(sizes)?;
    channel.setattr(place, make.call1(arguments.cast::<PyTuple>()?)?)?;
    connection.get().close(channel.py())
}

/// Has `make` make what is to be at `place` of a queue, if there is nothing. That may last: where a handler of a signal
/// raises what ends the wait for it, it is there for the next use all the same.
#[pyfunction]
#[pyo3(signature = (queue, place, make, *arguments))]
pub(crate) fn make_once(
    queue: &Bound<'_, PyAny>,
    place: &str,
    make: &Bound<'_, PyAny>,
    arguments: &Bound<'_, PyTuple>,
) -> PyResult<()> {
    if !queue.getattr(place)?.is_none() {
        return Ok(());
    }
    let made = make.call1(arguments)?;
    // A handler of a signal may have made one meanwhile, and put into it.
    if queue.getattr(place)?.is_none() {
        queue.setattr(place, made)
    } else if made.is_none() {
        Ok(())
    } else {
        made.call_method0("close").map(drop)
    }
}
