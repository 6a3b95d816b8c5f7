//! Descriptors that Python names by number.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use rustix::fs::FileType;
use rustix::io::{Errno, FdFlags};

/// What a number is open on.
#[derive(Debug)]
pub(crate) enum Given {
    /// The caller's descriptor of a file, or of a device.
    Borrowed(BorrowedFd<'static>),
    /// A descriptor of ours, on the caller's pipe or socket.
    Own(OwnedFd),
}

impl AsFd for Given {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Given::Borrowed(fd) => fd.as_fd(),
            Given::Own(fd) => fd.as_fd(),
        }
    }
}

/// What the number is open on. A pipe or socket, on which much is waited for, stays open whatever becomes
/// of the number, which another thread may close and get back for another one. A file must not be closed
/// by us under any number: that would take all locks of the process (F_SETLK) from it. Its number is to
/// stay open, as in a call of os.read; where it does not, the calls fail, or go where it is open then.
///
/// # Errors
/// The number is open on nothing, or the process is out of descriptors.
pub(crate) fn given(number: RawFd) -> Result<Given, Errno> {
    if number < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is not -1, and goes to system calls alone, which answer EBADF for a number that is not
    // open. Whoever called keeps it open until the answer, and nothing borrows it for longer.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    match FileType::from_raw_mode(rustix::fs::fstat(borrowed)?.st_mode) {
        FileType::Fifo | FileType::Socket => {
            rustix::io::fcntl_dupfd_cloexec(borrowed, 3).map(Given::Own)
        }
        _ => Ok(Given::Borrowed(borrowed)),
    }
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
    // SAFETY: it is not -1, and it is used for one system call alone, which answers EBADF for a
    // number that is not open. The interpreter's lock is held, so no Python code closes it meanwhile.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_setfd(borrowed, FdFlags::CLOEXEC)?;
    // SAFETY: it is open, and the package gives it away with this call.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Closes it, and hears what some file systems (NFS, those with quotas) tell only now.
///
/// # Errors
/// The kernel's word: what was written may be lost.
pub(crate) fn close(file: OwnedFd) -> Result<(), Errno> {
    // SAFETY: the descriptor was this value's alone, which is no more.
    match unsafe { rustix::io::try_close(file.into_raw_fd()) } {
        // It is closed all the same.
        Ok(()) | Err(Errno::INTR) => Ok(()),
        answer => answer,
    }
}
