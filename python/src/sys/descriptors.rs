//! Descriptors that Python names by number.

use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};

use rustix::io::{Errno, FdFlags};

/// A descriptor of ours on what the number is open on: it stays open whatever becomes of the number,
/// which another thread may close and get back for another file.
///
/// # Errors
/// The number is open on nothing, or the process is out of descriptors.
pub(crate) fn own(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is not -1, and it is used for one system call alone, which answers EBADF for a
    // number that is not open. The interpreter's lock is held, so no Python code closes it meanwhile.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 3)
}

/// The descriptor of this number, which was the caller's, and is ours from now on. Programs that are started do
/// not inherit it.
///
/// # Errors
/// The number is open on nothing.
pub(crate) fn taken(number: RawFd) -> Result<OwnedFd, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: as in `own`.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and the package gives it away with this call.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}
