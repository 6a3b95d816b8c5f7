//! Slices read into a buffer, with whose bytes pages of a mapping of the sink come into being: for sinks in
//! memory.
//!
//! Costs per slice: a mapping; per MiB four reads and four calls that fill, and two copies, one of them out of a
//! cache. To fill out of a mapping of the source saves that one, and costs more for the mapping.

use std::os::fd::BorrowedFd;

use rustix::io::{Errno, pread};

use super::slices::{Copied, Why};
use crate::pages::{Memory, Pages};
use crate::sys::file_mapping::FileMapping;
use crate::sys::page_filler::PageFiller;

/// What is read and filled at once: a core's cache keeps it.
const BUFFER_BYTES: usize = 256 << 10;

/// One thread's way of it.
pub(super) struct Filled<'a> {
    filler: &'a PageFiller,
    buffer: Memory,
}

impl<'a> Filled<'a> {
    /// Nothing where there is no memory for a buffer.
    pub(super) fn new(filler: &'a PageFiller) -> Option<Filled<'a>> {
        Some(Filled { filler, buffer: Memory::allocate(BUFFER_BYTES, &Pages::default()).ok()? })
    }

    /// Copies so many bytes from a place in the source to one in the sink, which is open for reading as well.
    pub(super) fn copy(
        &mut self,
        (source, sink): (BorrowedFd<'_>, BorrowedFd<'_>),
        (from, to): (u64, u64),
        bytes: usize,
    ) -> Copied {
        let mut copied = Copied { bytes: 0, calls: 2, why: None };
        let page = rustix::param::page_size();
        let refused = |copied| Copied { why: Some(Why::Refused), ..copied };
        if !to.is_multiple_of(page as u64) || !bytes.is_multiple_of(page) {
            return refused(copied);
        }
        let Ok(into) = FileMapping::of_sink(sink, to, bytes) else { return refused(copied) };
        if self.filler.takes(&into).is_err() {
            return refused(copied);
        }
        let buffer = self.buffer.as_mut_slice();
        while copied.bytes < bytes {
            let most = (bytes - copied.bytes).min(buffer.len());
            let mut held = 0;
            while held < most {
                copied.calls += 1;
                let at = from + (copied.bytes + held) as u64;
                match pread(source, &mut buffer[held..most], at) {
                    Ok(0) => break,
                    Ok(count) => held += count,
                    Err(Errno::INTR) => {}
                    Err(_) => return refused(copied),
                }
            }
            // Where the source ends early, the sink is cut within its last page.
            let pages = held.next_multiple_of(page);
            buffer[held..pages].fill(0);
            let mut filled = 0;
            while filled < pages {
                copied.calls += 1;
                match self.filler.fill(&into, copied.bytes + filled, &buffer[filled..pages]) {
                    Ok(count) => filled += count,
                    Err(Errno::INTR | Errno::AGAIN) => {}
                    Err(_) => return refused(copied),
                }
            }
            copied.bytes += held;
            if held < most {
                return Copied { why: Some(Why::End), ..copied };
            }
        }
        copied
    }
}
