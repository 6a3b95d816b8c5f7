//! Memory that processes share, as a type that owns its mapping.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::shared_bytes::{SharedBytes, SharedSpace};
use crate::pages::HUGE_PAGE_BYTES;

/// The pages of a file in memory, readable and writable, unmapped on drop.
///
/// Other processes write to them at any time, so they are seen as atomic words, or as bytes that
/// are only copied.
#[derive(Debug)]
pub(crate) struct SharedMapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: a SharedMapping owns its mapping, and all access goes through atomics or copies.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps all of a file in memory that is sealed against shrinking: else whoever shares it could
    /// take the pages away and end this process by SIGBUS.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<SharedMapping, Errno> {
        if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(Errno::PERM);
        }
        let bytes = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        let words = bytes / size_of::<u64>();
        if words == 0 {
            return Err(Errno::INVAL);
        }
        let place = Place::reserve(words * size_of::<u64>())?;
        let (prot, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED);
        let (at, len) = (place.start.cast(), place.bytes);
        // SAFETY: what is replaced is the place that was just reserved, which nobody uses.
        let start = unsafe { rustix::mm::mmap(at, len, prot, flags | MapFlags::FIXED, file, 0) }?;
        std::mem::forget(place);
        let start = NonNull::new(start.cast::<AtomicU64>()).ok_or(Errno::NOMEM)?;
        Ok(SharedMapping { start, words })
    }

    /// Asks for 2 MiB pages when the memory is first touched.
    pub(crate) fn advise_huge(&self) -> Result<(), Errno> {
        self.advise(Advice::LinuxHugepage)
    }

    /// Has all pages there, so that there is none to be missed later.
    pub(crate) fn populate(&self) -> Result<(), Errno> {
        self.advise(Advice::LinuxPopulateWrite)
    }

    /// Moves its bytes into 2 MiB pages now (MADV_COLLAPSE, Linux 6.1), which the settings for
    /// transparent huge pages do not forbid: those are about what comes without being asked for.
    pub(crate) fn collapse(&self) -> Result<(), Errno> {
        /// From linux/mman.h; neither rustix nor libc names it.
        const MADV_COLLAPSE: libc::c_int = 25;
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is this mapping; the advice changes no content.
        match unsafe { libc::madvise(start, self.words * 8, MADV_COLLAPSE) } {
            0 => Ok(()),
            _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        }
    }

    fn advise(&self, advice: Advice) -> Result<(), Errno> {
        // SAFETY: the range is this mapping; these advices change no content.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.words * 8, advice) }
    }

    /// Where it starts, for /proc/self/smaps.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// All of it.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so many words, page-aligned, backed by a file that cannot shrink,
        // and every process sees them as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// The first half of a word, which is used as nothing else, for futex(2).
    pub(crate) fn half_word(&self, index: usize) -> &AtomicU32 {
        let word: *const AtomicU64 = &raw const self.words()[index];
        // SAFETY: the word is in the mapping for as long as `self` is borrowed, and is aligned for
        // its half.
        unsafe { &*word.cast::<AtomicU32>() }
    }

    /// A range of its bytes, to be read.
    pub(crate) fn bytes(&self, range: std::ops::Range<usize>) -> SharedBytes<'_> {
        let (start, len) = self.place_of(range);
        SharedBytes::new(start, len)
    }

    /// A range of its bytes, to be written. Nobody else in this process may use them meanwhile.
    pub(crate) fn space(&self, range: std::ops::Range<usize>) -> SharedSpace<'_> {
        let (start, len) = self.place_of(range);
        SharedSpace::new(start, len)
    }

    fn place_of(&self, range: std::ops::Range<usize>) -> (NonNull<u8>, usize) {
        assert!(range.start <= range.end && range.end <= self.words * 8, "the mapping has it");
        let start = self.start.as_ptr().cast::<u8>().wrapping_add(range.start);
        (NonNull::new(start).unwrap_or(self.start.cast()), range.len())
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        unmap(self.start.as_ptr().cast(), self.words * 8);
    }
}

/// Addresses that nothing is mapped at yet, aligned so that huge pages fit; given back on drop.
struct Place {
    start: *mut u8,
    bytes: usize,
}

impl Place {
    fn reserve(bytes: usize) -> Result<Place, Errno> {
        let page = rustix::param::page_size();
        let bytes = bytes.checked_next_multiple_of(page).ok_or(Errno::NOMEM)?;
        let align = if bytes < HUGE_PAGE_BYTES { page } else { HUGE_PAGE_BYTES };
        let wide = bytes.checked_add(align).ok_or(Errno::NOMEM)?;
        let (none, flags) = (std::ptr::null_mut(), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start =
            unsafe { rustix::mm::mmap_anonymous(none, wide, ProtFlags::empty(), flags) }?.cast();
        let before = <*mut u8>::align_offset(start, align);
        // `align` bytes more than wanted were mapped, so both cuts lie within.
        unmap(start, before);
        unmap(start.wrapping_add(before + bytes), align - before);
        Ok(Place { start: start.wrapping_add(before), bytes })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        unmap(self.start, self.bytes);
    }
}

fn unmap(start: *mut u8, bytes: usize) {
    if bytes > 0 {
        // SAFETY: callers pass page-aligned parts of mappings that they own and give up, and no
        // slice of them outlives their owner.
        let gone = unsafe { rustix::mm::munmap(start.cast(), bytes) };
        debug_assert!(gone.is_ok(), "munmap of our own mapping: {gone:?}");
    }
}
