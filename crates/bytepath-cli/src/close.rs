//! Closing what was written, and hearing what is told only then.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;

/// Whether closing it would tell of bytes that are lost, as some file systems (NFS, those with
/// quotas) do only then. It closes a duplicate, if it can have one: the file system flushes at each
/// close.
///
/// # Errors
/// The kernel's word.
pub(crate) fn closed_well(output: BorrowedFd<'_>) -> Result<(), Errno> {
    let Ok(duplicate) = rustix::io::fcntl_dupfd_cloexec(output, 3) else { return Ok(()) };
    close(duplicate)
}

/// Closes it, and hears what some file systems (NFS, those with quotas) tell only now: that bytes are lost.
///
/// # Errors
/// The kernel's word.
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    match nix::unistd::close(file) {
        // It is closed all the same.
        Ok(()) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(errno) => Err(Errno::from_raw_os_error(errno as i32)),
    }
}
