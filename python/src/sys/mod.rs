//! The only unsafe code of the bindings: memory that Python lends to us, and that we lend to it;
//! descriptors that it gives by number.
#![allow(unsafe_code)]

pub(crate) mod buffer;
pub(crate) mod view;

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd};

use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

/// The descriptor of this number, which was the caller's, and is no more.
///
/// # Errors
/// There is none.
pub(crate) fn taken_fd(fd: i32) -> PyResult<OwnedFd> {
    let bad = || PyOSError::new_err((9, format!("{fd} is no open descriptor")));
    if fd < 0 {
        return Err(bad());
    }
    // SAFETY: it is looked at for a moment, and may be none.
    let seen = unsafe { BorrowedFd::borrow_raw(fd) };
    rustix::io::fcntl_getfd(seen).map_err(|_| bad())?;
    // SAFETY: it is open, and the package gives it away with this call.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
