//! Standard output and standard error, as the kernel has them.
//!
//! The standard library's own take what is written where nothing can be for what was written well.

use std::fmt::Arguments;
use std::io::{Result, Write};
use std::os::fd::BorrowedFd;

use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;

/// One of them. Each write is one of the kernel's, so that lines of several processes do not mix.
pub(crate) struct Stream(BorrowedFd<'static>);

pub(crate) fn stdout() -> Stream {
    Stream(rustix::stdio::stdout())
}

pub(crate) fn stderr() -> Stream {
    Stream(rustix::stdio::stderr())
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(rustix::io::write(self.0, bytes)?)
    }

    fn write_fmt(&mut self, text: Arguments<'_>) -> Result<()> {
        self.write_all(text.to_string().as_bytes())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// Sees that standard output is open for writing. In the place of one that was closed stands what is not.
///
/// # Errors
/// It is not.
pub(crate) fn stdout_is_writable() -> std::result::Result<(), Errno> {
    let access = fcntl_getfl(rustix::stdio::stdout())? & OFlags::RWMODE;
    if [OFlags::WRONLY, OFlags::RDWR].contains(&access) { Ok(()) } else { Err(Errno::BADF) }
}
