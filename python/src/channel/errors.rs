//! What went wrong, as Python's exceptions.

use std::os::fd::OwnedFd;

use bytepath::channel::ChannelError;
use bytepath::pages::{PageSize, PagesError};
use pyo3::exceptions::{PyMemoryError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyType;
use rustix::io::Errno;

use super::waiting::PyError;
use crate::held::Passed;
use crate::sys::modules::imported;

const MODULE: &str = "bytepath._channel_errors";

/// An exception of the package's, which is written in Python: the class that the interpreter has that runs, of which a
/// process may have several. What is raised is often made while an end is locked, and importing lets other threads
/// run, which then wait for that lock with the interpreter held, for ever: so it is there already.
pub(super) fn ours(py: Python<'_>, name: &str, message: String) -> PyErr {
    let kind = imported(py, MODULE).and_then(|it| Ok(it.getattr(name)?.cast_into::<PyType>()?));
    kind.map_or_else(|error| error, |kind| PyErr::from_type(kind, message))
}

/// Has the package's exceptions there.
///
/// # Errors
/// Python's own: the package lacks them.
pub(crate) fn find_exceptions(py: Python<'_>) -> PyResult<()> {
    py.import(MODULE).map(drop)
}

pub(crate) fn raised(py: Python<'_>, error: ChannelError) -> PyErr {
    let message = error.to_string();
    match error {
        ChannelError::Gone { .. } | ChannelError::Closed { .. } | ChannelError::HungUp => {
            ours(py, "PeerGone", message)
        }
        ChannelError::Memory(error) => no_memory(error),
        ChannelError::Socket { errno, .. } => PyOSError::new_err((errno.raw_os_error(), message)),
        ChannelError::Absent { errno, .. } => {
            let made = imported(py, MODULE)
                .and_then(|module| module.call_method1("absent", (errno.raw_os_error(), message)));
            made.map_or_else(|error| error, PyErr::from_value)
        }
        ChannelError::Address { .. } | ChannelError::TooLong { .. } => {
            PyValueError::new_err(message)
        }
        _ => ours(py, "ChannelError", message),
    }
}

/// The same, made into one where the interpreter is held.
pub(super) fn error(error: ChannelError) -> PyError {
    Box::new(move |py| raised(py, error))
}

/// There is no memory, or a limit or a sandbox keeps it.
pub(crate) fn no_memory(error: PagesError) -> PyErr {
    let message = error.to_string();
    match error {
        PagesError::Map { errno: Errno::NOMEM | Errno::AGAIN, .. }
        | PagesError::Lock { errno: Errno::NOMEM | Errno::AGAIN, .. } => {
            PyMemoryError::new_err(message)
        }
        PagesError::Map { errno, .. }
        | PagesError::Lock { errno, .. }
        | PagesError::NoHuge(errno) => PyOSError::new_err((errno.raw_os_error(), message)),
        _ => PyMemoryError::new_err(message),
    }
}

/// Room for so many bytes.
///
/// # Errors
/// There is no memory for them.
pub(super) fn room_for(bytes: usize) -> Result<Vec<u8>, PagesError> {
    let mut room = Vec::new();
    let lacking = |_| PagesError::Map { bytes, size: PageSize::Base.name(), errno: Errno::NOMEM };
    room.try_reserve_exact(bytes).map_err(lacking)?;
    Ok(room)
}

pub(crate) fn os_error(doing: &str, errno: Errno) -> PyErr {
    let message = format!("{doing}: {}", std::io::Error::from(errno));
    PyOSError::new_err((errno.raw_os_error(), message))
}

/// The descriptor that was the caller's, and is ours from now on.
pub(crate) fn taken_fd(passed: Passed<'_>) -> PyResult<OwnedFd> {
    passed.taken().map_err(|errno| os_error("cannot take the descriptor", errno))
}
