//! Slices whose pages come into being with the bytes of a mapping of the source: for sinks in memory.
//!
//! Costs per slice: two mappings; per MiB two calls.

use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::is_in_memory;
use super::slices::{Copied, Why};
use crate::sys::file_mapping::FileMapping;
use crate::sys::page_filler::PageFiller;

/// What one call fills.
const CHUNK_BYTES: usize = 1 << 20;

/// One thread's way of it.
pub(super) struct Filled {
    filler: PageFiller,
    /// Up to where the source has no hole, as far as was asked.
    full_until: u64,
}

impl Filled {
    /// Nothing where the kernel lets no pages come into being so.
    pub(super) fn open() -> Option<Filled> {
        PageFiller::open().ok().map(|filler| Filled { filler, full_until: 0 })
    }

    /// Copies so many bytes from a place in the source to one in the sink, which is open for both.
    pub(super) fn copy(
        &mut self,
        (source, sink): (BorrowedFd<'_>, BorrowedFd<'_>),
        (from, to): (u64, u64),
        bytes: usize,
    ) -> Copied {
        let mut copied = Copied { bytes: 0, calls: 3, why: None };
        let page = rustix::param::page_size() as u64;
        let refused = Copied { why: Some(Why::Refused), ..copied };
        if !(from | to | bytes as u64).is_multiple_of(page) {
            return refused;
        }
        let mapped = FileMapping::of_sink(sink, to, bytes);
        let (Ok(into), Ok(out_of)) = (mapped, FileMapping::of(source, from, bytes)) else {
            return refused;
        };
        let has_hole = self.has_hole(source, from, from + bytes as u64);
        if has_hole || self.filler.takes(&into).is_err() {
            return refused;
        }
        while copied.bytes < bytes {
            let range = copied.bytes..bytes.min(copied.bytes + CHUNK_BYTES);
            copied.calls += 2;
            // A kernel that cannot (before 5.14) brings them in one by one.
            if !matches!(out_of.bring_in(range.clone()), Ok(()) | Err(Errno::INVAL)) {
                return refused;
            }
            match self.filler.fill(&into, &out_of, range) {
                Ok(count) => copied.bytes += count,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return refused,
            }
        }
        // A page that was cut meanwhile has zeros where the source has ended.
        copied.calls += 1;
        let Ok(stat) = rustix::fs::fstat(source) else { return refused };
        let has = u64::try_from(stat.st_size).unwrap_or(0).saturating_sub(from);
        if has < bytes as u64 {
            return Copied { bytes: has as usize, why: Some(Why::End), ..copied };
        }
        copied
    }

    /// Whether a source in memory has a hole there, to which looking at it by a mapping would give memory.
    /// Asking takes the kernel through all pages up to the next one, so it is remembered.
    fn has_hole(&mut self, source: BorrowedFd<'_>, from: u64, to: u64) -> bool {
        if to <= self.full_until || !is_in_memory(source) {
            return false;
        }
        self.full_until = rustix::fs::seek(source, SeekFrom::Hole(from)).unwrap_or(to);
        self.full_until < to
    }
}
