//! The first use of an end of a channel: what it is used by is made of its descriptor, once.

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
