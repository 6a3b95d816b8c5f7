//! Memory that processes share, as a type that owns its mapping.
#![allow(unsafe_code)]

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{Advice, ProtFlags};

use super::place::Place;
use super::shared_bytes::{SharedBytes, SharedSpace};

/// What a receiver has to write in, of a page of its own: the last so many bytes.
pub(crate) const RECEIVER_PAGE_BYTES: usize = 4096;

/// The pages of a file in memory, readable and writable, unmapped on drop; or the end of a file's
/// page that is, and behind it a file that is only read.
///
/// Other processes write to them at any time, so they are seen as atomic words, or as bytes that
/// are only copied.
#[derive(Debug)]
pub(crate) struct SharedMapping {
    start: NonNull<AtomicU64>,
    words: usize,
    /// Keeps it mapped.
    place: Place,
}

// SAFETY: a SharedMapping owns its mapping, and all access goes through atomics or copies.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps all of a file in memory that is sealed against shrinking: else whoever shares it could
    /// take the pages away and end this process by SIGBUS.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<SharedMapping, Errno> {
        let bytes = lasting_bytes(file)?;
        let place = Place::reserve(0, bytes)?;
        place.map(0..bytes, file, 0, ProtFlags::READ | ProtFlags::WRITE)?;
        SharedMapping::from(place, 0, bytes)
    }

    /// Maps all of such a file to be read: whoever writes there ends by SIGSEGV.
    pub(crate) fn to_read(file: BorrowedFd<'_>) -> Result<SharedMapping, Errno> {
        let bytes = lasting_bytes(file)?;
        let place = Place::reserve(0, bytes)?;
        place.map(0..bytes, file, 0, ProtFlags::READ)?;
        SharedMapping::from(place, 0, bytes)
    }

    /// Maps the last [`RECEIVER_PAGE_BYTES`] of a file of one page, to be read and written, and
    /// behind them all of another file, which is only read: whoever writes there ends by SIGSEGV.
    /// Both are sealed against shrinking.
    pub(crate) fn behind_page(
        page: BorrowedFd<'_>,
        file: BorrowedFd<'_>,
    ) -> Result<SharedMapping, Errno> {
        let (lead, bytes) = (rustix::param::page_size(), lasting_bytes(file)?);
        if lasting_bytes(page)? != lead {
            return Err(Errno::INVAL);
        }
        let place = Place::reserve(lead, bytes)?;
        place.map(0..lead, page, 0, ProtFlags::READ | ProtFlags::WRITE)?;
        place.map(lead..lead + bytes, file, 0, ProtFlags::READ)?;
        SharedMapping::from(place, lead - RECEIVER_PAGE_BYTES, lead + bytes)
    }

    /// From one byte of a place to another, which are mapped.
    fn from(place: Place, from: usize, to: usize) -> Result<SharedMapping, Errno> {
        let start = NonNull::new(place.start().wrapping_add(from).cast()).ok_or(Errno::NOMEM)?;
        Ok(SharedMapping { start, words: (to - from) / size_of::<u64>(), place })
    }

    /// Asks for 2 MiB pages when the memory is first touched.
    pub(crate) fn advise_huge(&self) -> Result<(), Errno> {
        self.advise(Advice::LinuxHugepage)
    }

    /// Has all pages there to be written, so that there is none to be missed later.
    pub(crate) fn populate(&self) -> Result<(), Errno> {
        self.advise(Advice::LinuxPopulateWrite)
    }

    /// Has the pages of a range there, to be written or to be read. Linux before 5.14 does not know
    /// the advice: there they come as they are touched.
    pub(crate) fn populate_range(&self, range: Range<usize>, write: bool) -> Result<(), Errno> {
        let page = rustix::param::page_size();
        let from = range.start / page * page;
        let (start, len) = self.place_of(from..range.end);
        let advice = if write { Advice::LinuxPopulateWrite } else { Advice::LinuxPopulateRead };
        // SAFETY: the range is of this mapping; these advices change no content.
        match unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, advice) } {
            Err(Errno::INVAL) => Ok(()),
            answer => answer,
        }
    }

    /// Has all pages there to be read.
    pub(crate) fn populate_to_read(&self) -> Result<(), Errno> {
        self.advise(Advice::LinuxPopulateRead)
    }

    /// Moves its bytes into 2 MiB pages now: see [`Place::collapse`].
    pub(crate) fn collapse(&self) -> Result<(), Errno> {
        let from = self.start.as_ptr().addr() - self.place.start().addr();
        self.place.collapse(from..from + self.words * size_of::<u64>())
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
    pub(crate) fn bytes(&self, range: Range<usize>) -> SharedBytes<'_> {
        let (start, len) = self.place_of(range);
        SharedBytes::new(start, len)
    }

    /// A range of its bytes, to be written. Nobody else in this process may use them meanwhile.
    pub(crate) fn space(&self, range: Range<usize>) -> SharedSpace<'_> {
        let (start, len) = self.place_of(range);
        SharedSpace::new(start, len)
    }

    fn place_of(&self, range: Range<usize>) -> (NonNull<u8>, usize) {
        assert!(range.start <= range.end && range.end <= self.words * 8, "the mapping has it");
        let start = self.start.as_ptr().cast::<u8>().wrapping_add(range.start);
        (NonNull::new(start).unwrap_or(self.start.cast()), range.len())
    }
}

/// The size of a file in memory that stays as large.
fn lasting_bytes(file: BorrowedFd<'_>) -> Result<usize, Errno> {
    if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
        return Err(Errno::PERM);
    }
    let bytes = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
    match bytes / size_of::<u64>() {
        0 => Err(Errno::INVAL),
        words => Ok(words * size_of::<u64>()),
    }
}
