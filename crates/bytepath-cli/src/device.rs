//! What was written, on the device.

use std::os::fd::AsFd;

use rustix::io::Errno;

/// Waits until what was written is on the device; pipes and sockets have none.
///
/// # Errors
/// The device's word: bytes that were written before are lost.
pub(crate) fn settle(written: impl AsFd) -> Result<(), Errno> {
    loop {
        match rustix::fs::fdatasync(&written) {
            Err(Errno::INTR) => {}
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP | Errno::ROFS | Errno::NOSYS) => {
                return Ok(());
            }
            Err(errno) => return Err(errno),
        }
    }
}
