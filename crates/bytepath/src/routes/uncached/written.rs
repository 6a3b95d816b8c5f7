//! What was written to a file, brought to the device and dropped from the page cache, window by
//! window: no more than two of them are ever dirty.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Advice;
use rustix::io::Errno;

use super::WINDOW_BYTES;
use crate::endpoint::Endpoint;
use crate::error::{Failed, Refusal, Side, Stop};
use crate::pages::HUGE_PAGE_BYTES;
use crate::routes::Span;
use crate::sys::write_back::{Until, write_back};

/// What a file took.
pub(super) struct Written<'a> {
    file: BorrowedFd<'a>,
    /// Where the writing began.
    start: u64,
    /// The window before the one that is being written: the device is writing it.
    under_way: Range<u64>,
    /// Bytes of the window that is being written.
    window_bytes: u64,
}

impl<'a> Written<'a> {
    /// Of a sink that has pages.
    pub(super) fn of(sink: &'a Endpoint<'_>) -> Option<Written<'a>> {
        if !sink.kind().is_cached() {
            return None;
        }
        let start = match sink.appends() {
            true => rustix::fs::fstat(sink).map_or(0, |stat| stat.st_size.unsigned_abs()),
            false => rustix::fs::tell(sink).unwrap_or(0),
        };
        let file = sink.as_fd();
        Some(Written { file, start, under_way: start..start, window_bytes: 0 })
    }

    /// Notes so many bytes. Where they fill a window, waits for the one before.
    pub(super) fn took(&mut self, span: &Span<'_>, bytes: usize) -> Result<(), Stop> {
        self.window_bytes += bytes as u64;
        if self.window_bytes < WINDOW_BYTES {
            return Ok(());
        }
        self.window_bytes = 0;
        let window = self.under_way.end..self.end()?;
        self.write_back(span, &window, Until::Begun)?;
        let before = std::mem::replace(&mut self.under_way, window);
        self.drop(span, &before)
    }

    /// Brings all of it to the device, and drops it.
    pub(super) fn settle(self, span: &Span<'_>) -> Result<(), Stop> {
        let whole = self.start..self.end()?;
        self.drop(span, &whole)
    }

    /// Where the file stands.
    fn end(&self) -> Result<u64, Stop> {
        rustix::fs::tell(self.file).map_err(|errno| failed("lseek", errno))
    }

    /// Waits for the device, and drops the pages of a range.
    fn drop(&self, span: &Span<'_>, range: &Range<u64>) -> Result<(), Stop> {
        if range.is_empty() {
            return Ok(());
        }
        self.write_back(span, range, Until::Written)?;
        // Whole pages, and the large ones that began in the window before: the kernel drops none of
        // which it is told a part.
        let page = rustix::param::page_size() as u64;
        let from = range.start.saturating_sub(HUGE_PAGE_BYTES as u64).max(self.start);
        let (from, to) = (from - from % page, range.end.next_multiple_of(page));
        let bytes = std::num::NonZeroU64::new(to - from);
        span.meter.called();
        rustix::fs::fadvise(self.file, from, bytes, Advice::DontNeed)
            .map_err(|errno| refused("posix_fadvise", errno))
    }

    fn write_back(&self, span: &Span<'_>, range: &Range<u64>, until: Until) -> Result<(), Stop> {
        span.meter.called();
        write_back(self.file, range, until).map_err(|errno| match errno {
            // Sandboxes, and file systems that cannot.
            Errno::NOSYS | Errno::PERM | Errno::INVAL | Errno::OPNOTSUPP => {
                refused("sync_file_range", errno)
            }
            errno => failed("sync_file_range", errno),
        })
    }
}

fn failed(call: &'static str, errno: Errno) -> Stop {
    Stop::Failed(Failed::new("", Side::Sink, call, errno))
}

fn refused(call: &str, errno: Errno) -> Stop {
    Stop::Declined(Refusal::errno(format!("{call} is refused for the sink"), errno))
}
