//! Closing a file and hearing what the kernel says to it, in one call of the kernel's and no other.
#![allow(unsafe_code)]

use std::os::fd::{IntoRawFd, OwnedFd};

use rustix::io::Errno;

/// Closes it. Some file systems (NFS, those with quotas) tell only now that bytes are lost.
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was this value's alone, which is no more.
    match unsafe { rustix::io::try_close(file.into_raw_fd()) } {
        // It is closed all the same.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        answer => answer,
    }
}
