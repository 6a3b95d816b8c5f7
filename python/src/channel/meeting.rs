//! Where processes that are not related find each other.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::{Mutex, PoisonError, TryLockError};
use std::time::Duration;

use bytepath::channel::{Address, ChannelError, Connection, Listener, Users};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

use super::errors::{error, raised};
use super::inbox::{TAKING_IN_FDS, make_sure_of_descriptors};
use super::waiting::Deadline;
use crate::held::{Held, raised as raised_errno};
use crate::sys::descriptors::taken;

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

    /// The next connection of this user's, or root's; None where none came in time.
    fn accept(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Option<Held>> {
        let deadline = Deadline::after(timeout);
        loop {
            let accepted = py.detach(|| {
                let guard = self.listener.lock().unwrap_or_else(PoisonError::into_inner);
                let Some(listener) = &*guard else { return Ok(None) };
                let most = Timespec::try_from(deadline.slice()).unwrap_or_default();
                let mut fds = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
                // What interrupts it is looked at before the next one.
                if !poll(&mut fds, Some(&most)).is_ok_and(|ready| ready > 0) {
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
                    return Ok(Some(Held::new(connection.into())));
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

    /// Lets it go in a forked process, whose parent goes on listening.
    fn abandon(slf: &Bound<'_, Meeting>) {
        match slf.get().listener.try_lock() {
            Ok(mut listener) => drop(listener.take()),
            Err(TryLockError::Poisoned(listener)) => drop(listener.into_inner().take()),
            Err(TryLockError::WouldBlock) => {
                // A thread that is not here any more waits with it, and nobody else is to close it.
                std::mem::forget(slf.clone());
                drop(taken(slf.get().fd));
            }
        }
    }
}

/// Says this, with two descriptors, to who listens at an address, this user or root; waits so many seconds for one
/// to come.
#[pyfunction]
pub(crate) fn introduce(
    py: Python<'_>,
    address: std::ffi::OsString,
    timeout: f64,
    hello: &[u8],
    ends: (Bound<'_, Held>, Bound<'_, Held>),
) -> PyResult<()> {
    let connection = connected(py, address, timeout)?;
    connection.check_user(Users::Same).map_err(|error| raised(py, error))?;
    let (one, other) = (ends.0.get().fd(), ends.1.get().fd());
    let (Some(one), Some(other)) = (&*one, &*other) else { return Err(raised_errno(Errno::BADF)) };
    let fds = [one.as_fd(), other.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    with.push(SendAncillaryMessage::ScmRights(&fds));
    let said = retry_on_intr(|| {
        sendmsg(&connection, &[IoSlice::new(hello)], &mut with, SendFlags::NOSIGNAL)
    });
    said.map(drop).map_err(raised_errno)
}

/// What who has connected says, and the descriptors that come with it, two at the most, which programs that are
/// started meanwhile do not inherit; None where it says nothing for so many seconds.
#[pyfunction]
pub(crate) fn hear<'py>(
    py: Python<'py>,
    meeting: &Bound<'py, Held>,
    most_bytes: usize,
    timeout: f64,
) -> PyResult<Option<(Bound<'py, PyBytes>, Vec<Held>)>> {
    let (meeting, deadline) = (meeting.get(), Deadline::after(Some(timeout)));
    loop {
        let heard = py.detach(|| {
            let meeting = meeting.fd();
            let meeting = meeting.as_ref().ok_or(Errno::BADF)?;
            let most = Timespec::try_from(deadline.slice()).unwrap_or_default();
            poll(&mut [PollFd::new(meeting, PollFlags::IN)], Some(&most))?;
            let mut hello = vec![0; most_bytes];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut with = RecvAncillaryBuffer::new(&mut space);
            let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
            let came = recvmsg(meeting, &mut [IoSliceMut::new(&mut hello)], &mut with, flags)?;
            hello.truncate(came.bytes);
            let fds = with.drain().filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(fds) => Some(fds),
                _ => None,
            });
            Ok((hello, fds.flatten().map(Held::new).collect()))
        });
        match heard {
            Ok((hello, fds)) => return Ok(Some((PyBytes::new(py, &hello), fds))),
            Err(Errno::AGAIN | Errno::INTR) => py.check_signals()?,
            Err(errno) => return Err(raised_errno(errno)),
        }
        if deadline.is_over() {
            return Ok(None);
        }
    }
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
