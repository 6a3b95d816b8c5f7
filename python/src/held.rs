//! Descriptors that are closed when nobody has them any more. What a handler of a signal raises may come between a call
//! that opens one and the assignment of its number, which nobody would close then.

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use crate::sys::descriptors::taken;

/// A descriptor of ours.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Held(Mutex<Option<OwnedFd>>);

#[pymethods]
impl Held {
    /// The one that a call gives, as of os.open: handlers of signals run before there is one, or once it is held.
    #[new]
    #[pyo3(signature = (call, *arguments))]
    fn of(call: &Bound<'_, PyAny>, arguments: &Bound<'_, PyTuple>) -> PyResult<Held> {
        let number = call.call1(arguments)?.extract()?;
        taken(number).map(Held::new).map_err(raised)
    }

    /// Both ends of a new pipe: to read, and to write.
    #[staticmethod]
    fn pipe() -> PyResult<(Held, Held)> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(raised)?;
        Ok((Held::new(reader), Held::new(writer)))
    }

    fn fileno(&self) -> PyResult<i32> {
        let fd = self.fd();
        fd.as_ref().map(OwnedFd::as_raw_fd).ok_or_else(|| PyValueError::new_err("it is closed"))
    }

    /// Closes it, unless it is, and says what was wrong, which may be that what was written is lost.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(fd) = self.fd().take() else { return Ok(()) };
        py.import("os")?.getattr("close")?.call1((fd.into_raw_fd(),)).map(drop)
    }
}

impl Held {
    fn new(fd: OwnedFd) -> Held {
        Held(Mutex::new(Some(fd)))
    }

    /// It is the caller's from now on; none where it is closed.
    fn take(&self) -> Option<OwnedFd> {
        self.fd().take()
    }

    fn fd(&self) -> MutexGuard<'_, Option<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A descriptor that a call takes from who has it: held, or as a number.
#[derive(FromPyObject)]
pub(crate) enum Passed<'py> {
    Held(Bound<'py, Held>),
    Number(i32),
}

impl Passed<'_> {
    /// # Errors
    /// It is closed.
    pub(crate) fn taken(self) -> Result<OwnedFd, Errno> {
        match self {
            Passed::Held(held) => held.get().take().ok_or(Errno::BADF),
            Passed::Number(number) => taken(number),
        }
    }
}

fn raised(errno: Errno) -> PyErr {
    PyOSError::new_err((errno.raw_os_error(), std::io::Error::from(errno).to_string()))
}
