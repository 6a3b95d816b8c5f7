//! A stretch of a file as memory that only the kernel looks at.
//!
//! Somebody may write to the file, or make it shorter, at any moment: so no slice of the mapping is
//! ever made in this process, in which bytes that change or are gone (SIGBUS) would be unsound.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mm::{Advice, ProtFlags};

use super::counted;
use super::place::Place;
use crate::pages::HUGE_PAGE_BYTES;

/// What a sink is mapped for.
const FILLED: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

/// A stretch of a file, mapped; unmapped on drop.
pub(crate) struct FileMapping {
    place: Place,
    /// Bytes before the stretch in its first page.
    before: usize,
    /// Bytes mapped, from the start of that page on.
    mapped: usize,
}

impl FileMapping {
    /// Maps `bytes` (above 0) of the file from `at` on.
    pub(crate) fn of(file: BorrowedFd<'_>, at: u64, bytes: usize) -> Result<FileMapping, Errno> {
        let mapping = FileMapping::map(file, at, bytes, ProtFlags::READ)?;
        let (start, mapped) = (mapping.place.start().cast(), mapping.mapped);
        // Read ahead in larger pieces; a kernel that does not take the hint does as it likes.
        // SAFETY: the range is this mapping; the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(start, mapped, Advice::Sequential) };
        Ok(mapping)
    }

    /// Maps `bytes` (above 0) of a file that is open for reading and writing, to be filled by
    /// [`FileMapping::read_from`].
    pub(crate) fn of_sink(
        file: BorrowedFd<'_>,
        at: u64,
        bytes: usize,
    ) -> Result<FileMapping, Errno> {
        FileMapping::map(file, at, bytes, FILLED)
    }

    /// Likewise from the start of a large page on, so that such pages fit.
    pub(crate) fn of_sink_by_large_pages(
        file: BorrowedFd<'_>,
        at: u64,
        bytes: usize,
    ) -> Result<FileMapping, Errno> {
        if !at.is_multiple_of(HUGE_PAGE_BYTES as u64) || bytes < HUGE_PAGE_BYTES {
            return Err(Errno::INVAL);
        }
        let place = Place::reserve(0, bytes)?;
        place.map(0..bytes, file, at, FILLED)?;
        Ok(FileMapping { place, before: 0, mapped: bytes })
    }

    fn map(
        file: BorrowedFd<'_>,
        at: u64,
        bytes: usize,
        prot: ProtFlags,
    ) -> Result<FileMapping, Errno> {
        let page = rustix::param::page_size();
        let before = (at % page as u64) as usize;
        let mapped = bytes.checked_add(before).filter(|_| bytes > 0).ok_or(Errno::INVAL)?;
        let place = Place::of(file, at - before as u64, mapped, prot)?;
        Ok(FileMapping { place, before, mapped })
    }

    /// Where it begins in memory, and how many bytes are mapped, both of whole pages.
    pub(crate) fn place(&self) -> (usize, usize) {
        (self.place.start().addr(), self.place.bytes())
    }

    /// Moves a range of it, of whole large pages, into such pages: see [`Place::collapse`].
    pub(crate) fn collapse(&self, range: Range<usize>) -> Result<(), Errno> {
        self.place.collapse(range)
    }

    /// Asks for large pages where the file has none yet. A kernel that does not take the hint does as it
    /// likes.
    pub(crate) fn prefer_large_pages(&self) {
        let start = self.place.start().cast();
        // SAFETY: the range is this mapping; the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(start, self.mapped, Advice::LinuxHugepage) };
    }

    /// Has the kernel bring in the pages of this range of the stretch, to be written: zeros where the
    /// file has nothing. EFAULT where it has no room for them.
    pub(crate) fn make_room(&self, range: Range<usize>) -> Result<(), Errno> {
        let page = rustix::param::page_size();
        let (first, end) = (self.before + range.start, self.before + range.end);
        assert!(first <= end && end <= self.mapped, "the mapping has the range");
        let first = first / page * page;
        let start = self.place.start().wrapping_add(first).cast();
        // SAFETY: the range is this mapping; its content stays what it is.
        unsafe { rustix::mm::madvise(start, end - first, Advice::LinuxPopulateWrite) }
    }

    /// One read of the source at an offset into a range of the stretch. EFAULT where the mapped file
    /// does not have the first of these bytes, there is no room for them, or they are not to be
    /// written.
    pub(crate) fn read_from(
        &self,
        source: BorrowedFd<'_>,
        at: u64,
        range: Range<usize>,
    ) -> Result<usize, Errno> {
        let end = range.end.checked_add(self.before).ok_or(Errno::INVAL)?;
        assert!(range.start <= range.end && end <= self.mapped, "the mapping has the range");
        let into = self.place.start().wrapping_add(self.before + range.start);
        let at = i64::try_from(at).map_err(|_| Errno::OVERFLOW)?;
        let source = source.as_raw_fd();
        // SAFETY: the range is of this mapping, which no reference leads into; the kernel answers
        // EFAULT where it may not be written or the file has no page behind it. The descriptor is
        // open.
        let count = unsafe { libc::pread64(source, into.cast(), range.len(), at) };
        counted(count)
    }

    /// One write of a range of the stretch at the sink's position. EFAULT where the file does not
    /// have the first of these bytes any more.
    pub(crate) fn write_to(
        &self,
        sink: BorrowedFd<'_>,
        range: Range<usize>,
    ) -> Result<usize, Errno> {
        let end = range.end.checked_add(self.before).ok_or(Errno::INVAL)?;
        assert!(range.start <= range.end && end <= self.mapped, "the mapping has the range");
        let from = self.place.start().wrapping_add(self.before + range.start);
        let sink = sink.as_raw_fd();
        // SAFETY: the range is mapped to be read, and the kernel answers EFAULT where the file has
        // no byte behind it. The descriptor is open.
        let count = unsafe { libc::write(sink, from.cast(), range.len()) };
        counted(count)
    }
}
