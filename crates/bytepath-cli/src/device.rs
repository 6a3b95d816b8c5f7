//! What was written, on the device.

use std::os::fd::AsFd;

use rustix::io::Errno;

/// Waits until what was written is on the device; pipes and sockets have none.
///
/// # Errors
/// The device's word: bytes that were written before are lost.
pub(crate) fn settle(written: impl AsFd) -> Result<(), Errno> {
    settled(|| rustix::fs::fdatasync(&written))
}

/// Waits until a file or directory is there, with all that is told of it.
///
/// # Errors
/// As for [`settle`].
pub(crate) fn settle_all(written: impl AsFd) -> Result<(), Errno> {
    settled(|| rustix::fs::fsync(&written))
}

fn settled(sync: impl Fn() -> Result<(), Errno>) -> Result<(), Errno> {
    loop {
        match sync() {
            Err(Errno::INTR) => {}
            // There is no device: pipes, and files of /proc.
            Err(Errno::INVAL | Errno::NOTSUP | Errno::NOSYS) => return Ok(()),
            answer => return answer,
        }
    }
}
