//! Descriptors that are closed when nobody has them any more. What a handler of a signal raises may come between a call
//! that opens one and the assignment of its number, which nobody would close then.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::net::{
    AddressFamily, SocketAddrUnix, SocketFlags, SocketType, bind, getsockname, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::sys::descriptors::{close, taken};

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

    /// Both ends of a new pair of Unix sockets that take packets.
    #[staticmethod]
    fn socket_pair() -> PyResult<(Held, Held)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let (one, other) = socketpair(family, kind, SocketFlags::CLOEXEC, None).map_err(raised)?;
        Ok((Held::new(one), Held::new(other)))
    }

    /// The same once more, under another number.
    pub(crate) fn again(&self) -> PyResult<Held> {
        let fd = self.fd();
        let again = fd.as_ref().ok_or(Errno::BADF).and_then(|fd| fcntl_dupfd_cloexec(fd, 3));
        again.map(Held::new).map_err(raised)
    }

    /// The name that a socket has from now on: this one, unless it had one. None where it can have none, or is closed.
    fn named<'py>(&self, py: Python<'py>, name: &[u8]) -> Option<Bound<'py, PyBytes>> {
        let fd = self.fd();
        let fd = fd.as_ref()?;
        // Refused (EINVAL) where it has one, which is looked at.
        let _ = SocketAddrUnix::new_abstract_name(name).and_then(|name| bind(fd, &name));
        let named = SocketAddrUnix::try_from(getsockname(fd).ok()?).ok()?;
        named.abstract_name().map(|name| PyBytes::new(py, name))
    }

    fn fileno(&self) -> PyResult<i32> {
        let fd = self.fd();
        fd.as_ref().map(OwnedFd::as_raw_fd).ok_or_else(|| PyValueError::new_err("it is closed"))
    }

    /// Closes it, unless it is, and says what was wrong, which may be that what was written is lost.
    pub(crate) fn close(&self, py: Python<'_>) -> PyResult<()> {
        let Some(fd) = self.fd().take() else { return Ok(()) };
        py.detach(|| close(fd)).map_err(raised)
    }
}

impl Held {
    pub(crate) fn new(fd: OwnedFd) -> Held {
        Held(Mutex::new(Some(fd)))
    }

    /// It is the caller's from now on; none where it is closed.
    fn take(&self) -> Option<OwnedFd> {
        self.fd().take()
    }

    pub(crate) fn fd(&self) -> MutexGuard<'_, Option<OwnedFd>> {
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

pub(crate) fn raised(errno: Errno) -> PyErr {
    PyOSError::new_err((errno.raw_os_error(), std::io::Error::from(errno).to_string()))
}
