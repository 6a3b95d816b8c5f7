//! The first use of an end of a channel: what it is used by is made of its descriptor, once.

use std::os::fd::IntoRawFd;

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustix::io::Errno;

use super::errors::os_error;
use crate::sys::descriptors::{Given, given, taken};

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
    let number = || channel.getattr(descriptor)?.extract::<i32>();
    let connection = number()?;
    let again = match given(connection) {
        Ok(Given::Own(again)) => Ok(again),
        Ok(Given::Borrowed(_)) => Err(Errno::NOTSOCK),
        Err(errno) => Err(errno),
    };
    let again = again.map_err(|errno| os_error("cannot take the descriptor", errno))?;
    let arguments = PyTuple::new(channel.py(), [again.into_raw_fd()])?.add(sizes)?;
    channel.setattr(place, make.call1(arguments.cast::<PyTuple>()?)?)?;
    if number()? == connection {
        channel.setattr(descriptor, -1)?;
        drop(taken(connection));
    }
    Ok(())
}
