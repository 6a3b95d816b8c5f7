//! Where processes that are not related find each other.

use std::os::fd::{AsFd, AsRawFd, IntoRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use bytepath::channel::{Address, ChannelError, Connection, Listener, Users};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::errors::{error, raised};
use super::inbox::{TAKING_IN_FDS, make_sure_of_descriptors};
use super::waiting::Deadline;

/// Waits at an address for others to connect.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Meeting {
    listener: Mutex<Option<Listener>>,
    fd: i32,
}

#[pymethods]
impl Meeting {
    #[new]
    fn new(py: Python<'_>, address: std::ffi::OsString) -> PyResult<Meeting> {
        let bound = Address::parse(address).and_then(|address| Listener::bind(&address));
        let listener = bound.map_err(|error| raised(py, error))?;
        let fd = listener.as_fd().as_raw_fd();
        Ok(Meeting { listener: Mutex::new(Some(listener)), fd })
    }

    /// The descriptor of the next connection of this user's, or root's, the caller's; None where none came in time.
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<i32>> {
        let deadline = Deadline::after(timeout);
        loop {
            let accepted = py.detach(|| {
                let guard = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(listener) = &*guard else { return Ok(None) };
                let most = Timespec::try_from(deadline.slice()).unwrap_or_default();
                let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
                // What interrupts it is looked at before the next one.
                if !rustix::event::poll(&mut fds, Some(&most)).is_ok_and(|ready| ready > 0) {
                    return Ok(Some(None));
                }
                // Of the connection, and of the two directions that come with what it says. Until then who has
                // connected waits here.
                make_sure_of_descriptors(listener, TAKING_IN_FDS)?;
                listener.try_accept().map(Some).map_err(error)
            });
            match accepted.map_err(|error| error(py))? {
                None => return Err(PyValueError::new_err("this listener is closed")),
                Some(Some(connection)) if connection.check_user(Users::Same).is_ok() => {
                    return Ok(Some(OwnedFd::from(connection).into_raw_fd()));
                }
                // Once the time is over, no more are looked at, however many come.
                Some(_) if deadline.is_over() => return Ok(None),
                Some(_) => py.check_signals()?,
            }
        }
    }

    fn close(&self, py: Python<'_>) {
        py.detach(|| self.listener.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Lets it go in a forked process, whose parent goes on listening: a descriptor that is still to be closed, where
    /// a thread that is not here any more waits with it.
    fn abandon(slf: &Bound<'_, Meeting>) -> Option<i32> {
        match slf.get().listener.try_lock() {
            Ok(mut listener) => drop(listener.take()),
            Err(TryLockError::Poisoned(listener)) => drop(listener.into_inner().take()),
            Err(TryLockError::WouldBlock) => {
                // Nobody else is to close it.
                std::mem::forget(slf.clone());
                return Some(slf.get().fd);
            }
        }
        None
    }
}

/// The descriptor of a connection to who listens at an address, this user or root, the caller's; waits so many
/// seconds for one to come.
#[pyfunction]
pub(crate) fn connect(py: Python<'_>, address: std::ffi::OsString, timeout: f64) -> PyResult<i32> {
    let connection = connected(py, address, timeout)?;
    connection.check_user(Users::Same).map_err(|error| raised(py, error))?;
    Ok(OwnedFd::from(connection).into_raw_fd())
}

/// A connection to whoever listens at an address, or will within so many seconds. It waits in slices,
/// between which Python's signals are seen.
pub(super) fn connected(
    py: Python<'_>,
    address: std::ffi::OsString,
    patience: f64,
) -> PyResult<Connection> {
    connected_in_time(py, address, patience)?.ok_or_else(|| {
        let patience = Duration::try_from_secs_f64(patience).unwrap_or_default();
        raised(py, ChannelError::Silent(patience))
    })
}

/// The same; none where as many waited all the time to be taken as may.
pub(super) fn connected_in_time(
    py: Python<'_>,
    address: std::ffi::OsString,
    patience: f64,
) -> PyResult<Option<Connection>> {
    let address = Address::parse(address).map_err(|error| raised(py, error))?;
    // One that is no time at all still tries once.
    let deadline = Deadline::after(Some(patience.clamp(0.0, 1e9)));
    loop {
        match py.detach(|| Connection::connect(&address, deadline.slice())) {
            Err(error) if is_not_there_yet(&error) && !deadline.is_over() => py.check_signals()?,
            Err(ChannelError::Silent(_)) => return Ok(None),
            // A signal came in the last moment, or in the only one.
            Err(ChannelError::Absent { errno: Errno::INTR, .. }) => {
                return py.check_signals().map(|()| None);
            }
            connected => return connected.map(Some).map_err(|error| raised(py, error)),
        }
    }
}

/// Whether it may be otherwise in a moment: nobody listens yet, or too many wait to be taken.
fn is_not_there_yet(error: &ChannelError) -> bool {
    match error {
        ChannelError::Absent { errno, .. } => {
            matches!(*errno, Errno::NOENT | Errno::CONNREFUSED | Errno::INTR)
        }
        ChannelError::Silent(_) => true,
        _ => false,
    }
}
