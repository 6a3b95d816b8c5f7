//! Bringing a range of a file to the device (sync_file_range), which rustix does not have.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;

use super::last_errno;

/// How far it is brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// The writing has begun.
    Begun,
    /// It is over. What the device says of it is in the answer.
    Written,
}

/// Writes the dirty pages of a range back; not what the file system has to note of them.
pub(crate) fn write_back(file: impl AsFd, range: &Range<u64>, until: Until) -> Result<(), Errno> {
    let offset = |at: u64| i64::try_from(at).map_err(|_| Errno::OVERFLOW);
    let (at, end) = (offset(range.start)?, offset(range.end)?);
    // A length of 0 would mean all that follows.
    if end <= at {
        return Ok(());
    }
    let flags = match until {
        Until::Begun => libc::SYNC_FILE_RANGE_WRITE,
        Until::Written => {
            libc::SYNC_FILE_RANGE_WAIT_BEFORE
                | libc::SYNC_FILE_RANGE_WRITE
                | libc::SYNC_FILE_RANGE_WAIT_AFTER
        }
    };
    loop {
        let file = file.as_fd().as_raw_fd();
        // SAFETY: the descriptor is open, and no memory is passed.
        let answer = unsafe { libc::sync_file_range(file, at, end - at, flags) };
        match answer {
            0 => return Ok(()),
            _ => match last_errno() {
                Errno::INTR => {}
                errno => return Err(errno),
            },
        }
    }
}
