//! Whether two descriptors are one open file (kcmp), which rustix does not have.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use super::last_errno;

/// Of the kernel's `enum kcmp_type`.
const KCMP_FILE: libc::c_int = 0;

/// Whether both are one open file, with one position. Takes a kernel with CONFIG_KCMP, and a sandbox
/// that allows the call.
pub(crate) fn is_one(one: impl AsFd, other: impl AsFd) -> Result<bool, Errno> {
    let own = std::process::id();
    let number = |fd: &dyn AsFd| libc::c_ulong::try_from(fd.as_fd().as_raw_fd()).unwrap_or(0);
    let (one, other) = (number(&one), number(&other));
    // SAFETY: both descriptors are open, and no memory is passed.
    match unsafe { libc::syscall(libc::SYS_kcmp, own, own, KCMP_FILE, one, other) } {
        // Others are orders.
        order if order >= 0 => Ok(order == 0),
        _ => Err(last_errno()),
    }
}
