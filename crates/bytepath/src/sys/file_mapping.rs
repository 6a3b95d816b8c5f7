//! A stretch of a file as memory that only the kernel looks at.
//!
//! Somebody may write to the file, or make it shorter, at any moment: so no slice of the mapping is
//! ever made in this process, in which bytes that change or are gone (SIGBUS) would be unsound.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A stretch of a file, mapped to be read; unmapped on drop.
pub(crate) struct FileMapping {
    start: NonNull<u8>,
    /// Bytes mapped, from the start of a page on.
    mapped: usize,
    /// Bytes before the stretch in its first page.
    before: usize,
}

impl FileMapping {
    /// Maps `bytes` (above 0) of the file from `at` on.
    pub(crate) fn of(file: impl AsFd, at: u64, bytes: usize) -> Result<FileMapping, Errno> {
        let mapping = FileMapping::map(file, at, bytes, ProtFlags::READ)?;
        let (start, mapped) = (mapping.start.as_ptr().cast(), mapping.mapped);
        // Read ahead in larger pieces; a kernel that does not take the hint does as it likes.
        // SAFETY: the range is this mapping; the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(start, mapped, Advice::Sequential) };
        Ok(mapping)
    }

    /// Maps `bytes` (above 0) of a file that is open for reading and writing, to be filled by
    /// [`FileMapping::read_from`].
    pub(crate) fn of_sink(file: impl AsFd, at: u64, bytes: usize) -> Result<FileMapping, Errno> {
        FileMapping::map(file, at, bytes, ProtFlags::READ | ProtFlags::WRITE)
    }

    fn map(file: impl AsFd, at: u64, bytes: usize, prot: ProtFlags) -> Result<FileMapping, Errno> {
        let page = rustix::param::page_size();
        let before = (at % page as u64) as usize;
        let mapped = bytes.checked_add(before).filter(|_| bytes > 0).ok_or(Errno::INVAL)?;
        let (none, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start =
            unsafe { rustix::mm::mmap(none, mapped, prot, flags, file, at - before as u64) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(FileMapping { start, mapped, before })
    }

    /// Where it begins in memory, and how many bytes are mapped, both of whole pages.
    pub(crate) fn place(&self) -> (usize, usize) {
        let page = rustix::param::page_size();
        (self.start.as_ptr().addr(), self.mapped.next_multiple_of(page))
    }

    /// Asks for large pages where the file has none yet. A kernel that does not take the hint does as it
    /// likes.
    pub(crate) fn prefer_large_pages(&self) {
        let start = self.start.as_ptr().cast();
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
        let start = self.start.as_ptr().wrapping_add(first).cast();
        // SAFETY: the range is this mapping; its content stays what it is.
        unsafe { rustix::mm::madvise(start, end - first, Advice::LinuxPopulateWrite) }
    }

    /// One read of the source at an offset into a range of the stretch. EFAULT where the mapped file
    /// does not have the first of these bytes, there is no room for them, or they are not to be
    /// written.
    pub(crate) fn read_from(
        &self,
        source: impl AsFd,
        at: u64,
        range: Range<usize>,
    ) -> Result<usize, Errno> {
        let end = range.end.checked_add(self.before).ok_or(Errno::INVAL)?;
        assert!(range.start <= range.end && end <= self.mapped, "the mapping has the range");
        let into = self.start.as_ptr().wrapping_add(self.before + range.start);
        let at = i64::try_from(at).map_err(|_| Errno::OVERFLOW)?;
        let source = source.as_fd().as_raw_fd();
        // SAFETY: the range is of this mapping, which no reference leads into; the kernel answers
        // EFAULT where it may not be written or the file has no page behind it. The descriptor is
        // open.
        let count = unsafe { libc::pread64(source, into.cast(), range.len(), at) };
        usize::try_from(count).map_err(|_| {
            Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
        })
    }

    /// One write of a range of the stretch at the sink's position. EFAULT where the file does not
    /// have the first of these bytes any more.
    pub(crate) fn write_to(&self, sink: impl AsFd, range: Range<usize>) -> Result<usize, Errno> {
        let end = range.end.checked_add(self.before).ok_or(Errno::INVAL)?;
        assert!(range.start <= range.end && end <= self.mapped, "the mapping has the range");
        let from = self.start.as_ptr().wrapping_add(self.before + range.start);
        let sink = sink.as_fd().as_raw_fd();
        // SAFETY: the range is mapped to be read, and the kernel answers EFAULT where the file has
        // no byte behind it. The descriptor is open.
        let count = unsafe { libc::write(sink, from.cast(), range.len()) };
        usize::try_from(count).map_err(|_| {
            Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
        })
    }
}

impl Drop for FileMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `of` made, and nothing points into it.
        let gone = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.mapped) };
        debug_assert!(gone.is_ok(), "munmap of our own mapping: {gone:?}");
    }
}
