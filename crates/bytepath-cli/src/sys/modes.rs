//! The mode of a name in a directory that is open, or of what is open for no more than being named.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{AtFlags, Mode};
use rustix::io::Errno;

/// The call has this number on every architecture.
const SYS_FCHMODAT2: libc::c_long = 452;

/// Sets it by fchmodat2(2), of Linux 6.6, which has the flags that fchmodat(2) has not.
pub(crate) fn chmod_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    mode: Mode,
    flags: AtFlags,
) -> Result<(), Errno> {
    let (fd, mode, flags) = (directory.as_raw_fd(), mode.as_raw_mode(), flags.bits());
    // SAFETY: the name ends with a zero, and nothing is written.
    match unsafe { libc::syscall(SYS_FCHMODAT2, fd, name.as_ptr(), mode, flags) } {
        0 => Ok(()),
        _ => Err(super::last_error()),
    }
}
