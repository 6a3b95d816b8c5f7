//! Where processes that are not related find each other.

use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytepath::channel::{Address, Connection, Listener};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::errors::raised;
use super::waiting::Deadline;

/// Waits at an address for others to connect.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Meeting(Mutex<Option<Listener>>);

#[pymethods]
impl Meeting {
    #[new]
    fn new(py: Python<'_>, address: std::ffi::OsString) -> PyResult<Meeting> {
        let bound = Address::parse(address).and_then(|address| Listener::bind(&address));
        Ok(Meeting(Mutex::new(Some(bound.map_err(|error| raised(py, error))?))))
    }

    /// The descriptor of the next connection, the caller's; None where none came in time.
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<i32>> {
        let deadline = Deadline::after(timeout);
        loop {
            let accepted = py.detach(|| {
                let guard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(listener) = &*guard else { return Ok(None) };
                let accepted = listener.try_accept()?;
                if accepted.is_none() {
                    let most = Timespec::try_from(deadline.slice()).unwrap_or_default();
                    let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
                    // However it ends, what came is looked for next.
                    let _ = rustix::event::poll(&mut fds, Some(&most));
                }
                Ok(Some(accepted))
            });
            match accepted.map_err(|error| raised(py, error))? {
                None => return Err(PyValueError::new_err("this listener is closed")),
                Some(Some(connection)) => return Ok(Some(OwnedFd::from(connection).into_raw_fd())),
                Some(None) if deadline.is_over() => return Ok(None),
                Some(None) => py.check_signals()?,
            }
        }
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

/// The descriptor of a connection to whoever listens at an address, the caller's; waits so many seconds for
/// one to come.
#[pyfunction]
pub(crate) fn connect(py: Python<'_>, address: std::ffi::OsString, timeout: f64) -> PyResult<i32> {
    let address = Address::parse(address).map_err(|error| raised(py, error))?;
    let patience = Duration::try_from_secs_f64(timeout.clamp(0.0, 1e9)).unwrap_or_default();
    let connected = py.detach(|| Connection::connect(&address, patience));
    let connection = connected.map_err(|error| raised(py, error))?;
    Ok(OwnedFd::from(connection).into_raw_fd())
}
