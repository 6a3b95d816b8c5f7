//! What is shown, gathered into large writes.

use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Bytes gathered: what is read at a time and about as much again; what grows more is written in
/// several calls.
const BUFFER_BYTES: usize = 256 << 10;

/// See the module.
pub(super) struct Output {
    buffer: Vec<u8>,
    filled: usize,
}

impl Output {
    pub(super) fn new() -> Output {
        Output { buffer: vec![0; BUFFER_BYTES], filled: 0 }
    }

    /// Room for `bytes`, at most a buffer's; say with [`Output::filled`] how many were used.
    #[inline]
    pub(super) fn room(
        &mut self,
        bytes: usize,
        stdout: BorrowedFd<'_>,
    ) -> Result<&mut [u8], Errno> {
        if self.buffer.len() - self.filled < bytes {
            self.flush(stdout)?;
        }
        Ok(&mut self.buffer[self.filled..])
    }

    #[inline]
    pub(super) fn filled(&mut self, bytes: usize) {
        self.filled += bytes;
    }

    #[inline]
    pub(super) fn put(&mut self, bytes: &[u8], stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        for piece in bytes.chunks(BUFFER_BYTES) {
            self.room(piece.len(), stdout)?[..piece.len()].copy_from_slice(piece);
            self.filled(piece.len());
        }
        Ok(())
    }

    /// Writes what was gathered. After an error nothing of it is kept: there is nobody to give it
    /// to.
    pub(super) fn flush(&mut self, stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        let filled = std::mem::take(&mut self.filled);
        write_all(&self.buffer[..filled], stdout)
    }
}

fn write_all(mut rest: &[u8], stdout: BorrowedFd<'_>) -> Result<(), Errno> {
    while !rest.is_empty() {
        match rustix::io::write(stdout, rest) {
            // Linux never answers a write of some bytes with 0 unless the device is full.
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_for(stdout)?,
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Sleeps until there may be room. An interruption is as good as an answer: the write is tried
/// again.
fn wait_for(stdout: BorrowedFd<'_>) -> Result<(), Errno> {
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(stdout, PollFlags::OUT)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
