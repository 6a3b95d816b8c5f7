//! Slices spliced through a pipe of our own: one copy, in the kernel, which never shares blocks.
//!
//! Costs per MiB: two system calls, and one more for each piece that the sink takes by itself.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, splice};

use super::slices::{Copied, Why};
use crate::outlets::own_pipe;
use crate::routes::pieces::Pieces;

/// The size asked for the pipe: what fs.pipe-max-size allows everybody by default.
const PIPE_BYTES: usize = 1 << 20;

/// The pipe. What an error leaves in it is in neither end, and counts for nothing.
pub(super) struct Piped {
    reader: OwnedFd,
    writer: OwnedFd,
    bytes: usize,
}

impl Piped {
    /// Nothing where there is no pipe to be had.
    pub(super) fn open() -> Option<Piped> {
        let (reader, writer, bytes) = own_pipe(PIPE_BYTES).ok()?;
        Some(Piped { reader, writer, bytes })
    }

    /// Copies so many bytes from a place in the source to one in the sink, wherever both stand, and gives it by
    /// pieces, if there are any.
    pub(super) fn copy(
        &self,
        pieces: Option<&Mutex<Pieces>>,
        (source, sink): (BorrowedFd<'_>, BorrowedFd<'_>),
        (mut from, mut to): (u64, u64),
        bytes: usize,
    ) -> Copied {
        let mut copied = Copied { bytes: 0, calls: 0, why: None };
        let none = SpliceFlags::empty();
        while copied.bytes < bytes {
            let most = (bytes - copied.bytes).min(self.bytes);
            let piece = pieces.map(|pieces| (locked(pieces).bytes(), Instant::now()));
            copied.calls += 1;
            let count = match splice(source, Some(&mut from), &self.writer, None, most, none) {
                Ok(0) => return Copied { why: Some(Why::End), ..copied },
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(_) => return Copied { why: Some(Why::Refused), ..copied },
            };
            let mut held = count;
            while held > 0 {
                copied.calls += 1;
                let most = piece.map_or(held, |(bytes, _)| held.min(bytes));
                match splice(&self.reader, None, sink, Some(&mut to), most, none) {
                    Ok(0) => return Copied { why: Some(Why::Writing(Errno::NOSPC)), ..copied },
                    Ok(count) => {
                        copied.bytes += count;
                        held -= count;
                    }
                    Err(Errno::INTR) => {}
                    Err(errno) => return Copied { why: Some(Why::Writing(errno)), ..copied },
                }
            }
            if let (Some(pieces), Some((bytes, began))) = (pieces, piece) {
                locked(pieces).took(bytes, count as u64, began.elapsed());
            }
        }
        copied
    }
}

fn locked(pieces: &Mutex<Pieces>) -> MutexGuard<'_, Pieces> {
    pieces.lock().expect("nobody panics holding it")
}
