//! Addresses that files are mapped at, as a type that owns them.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::BorrowedFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::last_errno;
use super::memory::unmap;
use crate::pages::HUGE_PAGE_BYTES;

/// Addresses, given back on drop with what is mapped there.
#[derive(Debug)]
pub(crate) struct Place {
    start: *mut u8,
    bytes: usize,
}

impl Place {
    /// A stretch of a file, from a page's start on, wherever the kernel puts it.
    pub(crate) fn of(
        file: BorrowedFd<'_>,
        at: u64,
        bytes: usize,
        prot: ProtFlags,
    ) -> Result<Place, Errno> {
        let (none, flags) = (std::ptr::null_mut(), MapFlags::SHARED);
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { rustix::mm::mmap(none, bytes, prot, flags, file, at) }?;
        Ok(Place { start: start.cast(), bytes: bytes.next_multiple_of(rustix::param::page_size()) })
    }

    /// A place for so many bytes, aligned so that large pages fit, and as many pages before them as `lead`
    /// bytes are.
    pub(crate) fn reserve(lead: usize, bytes: usize) -> Result<Place, Errno> {
        let page = rustix::param::page_size();
        let align = if bytes < HUGE_PAGE_BYTES { page } else { HUGE_PAGE_BYTES };
        let bytes = bytes.checked_next_multiple_of(page).and_then(|bytes| bytes.checked_add(lead));
        let wide = bytes.and_then(|bytes| bytes.checked_add(align));
        let (bytes, wide) = bytes.zip(wide).ok_or(Errno::NOMEM)?;
        let (none, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(none, wide, ProtFlags::empty(), flags) }?;
        let start = start.cast::<u8>();
        let before = start.wrapping_add(lead).align_offset(align);
        // `align` bytes more than wanted were mapped, so both cuts lie within.
        unmap(start, before);
        unmap(start.wrapping_add(before + bytes), align - before);
        Ok(Place { start: start.wrapping_add(before), bytes })
    }

    /// Maps a file, from a page's start on, in a range of the place that nothing is mapped in yet.
    pub(crate) fn map(
        &self,
        range: Range<usize>,
        file: BorrowedFd<'_>,
        at: u64,
        prot: ProtFlags,
    ) -> Result<(), Errno> {
        assert!(range.end <= self.bytes, "the place has room for it");
        let (to, flags) = (self.start.wrapping_add(range.start).cast(), MapFlags::SHARED);
        // SAFETY: what is replaced is a part of the place, which nobody uses yet.
        unsafe { rustix::mm::mmap(to, range.len(), prot, flags | MapFlags::FIXED, file, at) }?;
        Ok(())
    }

    /// Its first address.
    pub(crate) fn start(&self) -> *mut u8 {
        self.start
    }

    /// How many bytes it has, in whole pages.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves what is mapped in a range of whole large pages into such pages now (MADV_COLLAPSE, Linux 6.1),
    /// which the settings for transparent huge pages do not forbid: those are about what comes without
    /// being asked for. Of each, the file has to have a page; the others come as zeros.
    pub(crate) fn collapse(&self, range: Range<usize>) -> Result<(), Errno> {
        /// From linux/mman.h; neither rustix nor libc names it.
        const MADV_COLLAPSE: libc::c_int = 25;
        assert!(range.start <= range.end && range.end <= self.bytes, "the place has the range");
        let start = self.start.wrapping_add(range.start).cast();
        // SAFETY: the range is of this place; the advice changes no content.
        match unsafe { libc::madvise(start, range.len(), MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(last_errno()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}
