//! A descriptor that a person names by its number, as /dev/fd/3 does.

#![allow(unsafe_code)]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Another descriptor of what is open under this number, with the same offset and flags.
///
/// # Errors
/// Nothing is, or as many files are open as may be.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    /// The first descriptor that is none of the standard ones.
    const FIRST: libc::c_int = 3;
    // SAFETY: it changes nothing that is open, and says so where the number stands for nothing.
    let other = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, FIRST) };
    if other < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel just gave it, and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(other) })
}
