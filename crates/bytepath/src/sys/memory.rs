//! Anonymous memory as a type that owns its mapping.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};
use rustix::pipe::{IoSliceRaw, SpliceFlags};

/// Anonymous, private, readable and writable pages, unmapped on drop.
///
/// Never handed to an allocator, so that pages which a pipe still holds after the mapping is gone
/// cannot come back as somebody else's memory in this process.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapping owns its pages; nothing in it belongs to a thread.
unsafe impl Send for Mapping {}
// SAFETY: shared access only reads.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes (a multiple of the page size, above 0), starting at a multiple of
    /// `align` (a power of two).
    pub(crate) fn anonymous(len: usize, align: usize, flags: MapFlags) -> Result<Mapping, Errno> {
        assert!(len > 0 && align.is_power_of_two());
        let page = rustix::param::page_size();
        if align <= page || flags.contains(MapFlags::HUGETLB) {
            return Mapping::map(len, flags);
        }
        let wide = Mapping::map(len.checked_add(align).ok_or(Errno::NOMEM)?, flags)?;
        Ok(wide.cut_to(align, len))
    }

    fn map(len: usize, flags: MapFlags) -> Result<Mapping, Errno> {
        let flags = flags | MapFlags::PRIVATE;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), len, prot, flags) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Mapping { start, len })
    }

    /// Gives back what lies before the first aligned byte and after `len` bytes from there.
    fn cut_to(self, align: usize, len: usize) -> Mapping {
        let wide = std::mem::ManuallyDrop::new(self);
        let start = wide.start.as_ptr();
        let before = start.align_offset(align);
        // `align` bytes more than `len` were mapped, so both cuts lie within.
        unmap(start, before);
        let aligned = start.wrapping_add(before);
        unmap(aligned.wrapping_add(len), wide.len - before - len);
        let start = NonNull::new(aligned).unwrap_or(wide.start);
        Mapping { start, len }
    }

    /// Its length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where it starts, for /proc/self/pagemap.
    pub(crate) fn address(&self) -> usize {
        self.start.as_ptr() as usize
    }

    /// Where a range of it starts, for the kernel: nothing of it may be looked at in this process
    /// while the kernel may write there.
    pub(crate) fn pointer_to(&self, range: std::ops::Range<usize>) -> *mut u8 {
        assert!(range.start <= range.end && range.end <= self.len, "the mapping has the range");
        self.start.as_ptr().wrapping_add(range.start)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: the mapping is `len` readable bytes, zeroed by the kernel, and shared access
        // only reads.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is `len` writable bytes, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    /// Asks for 2 MiB pages when the memory is first touched.
    pub(crate) fn advise_huge(&mut self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping; the advice changes no content.
        unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxHugepage) }
    }

    /// Gives the pages away: this process reads zeros from here on, and whoever else holds them
    /// keeps them as they are.
    pub(crate) fn discard(&mut self) -> Result<(), Errno> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is this private anonymous mapping, which reads as zeros afterwards;
        // `&mut self` means that no slice of it is alive.
        unsafe { rustix::mm::madvise(start, self.len, Advice::LinuxDontNeed) }
    }

    /// Faults all pages in, to be written, in one call.
    pub(crate) fn populate(&mut self) -> Result<(), Errno> {
        let start = self.start.as_ptr().cast();
        // SAFETY: the range is this mapping; populating changes no content.
        unsafe { rustix::mm::madvise(start, self.len, Advice::LinuxPopulateWrite) }
    }

    /// Keeps the pages in memory (and faults them in).
    pub(crate) fn lock(&mut self) -> Result<(), Errno> {
        // SAFETY: the range is this mapping; locking changes no content.
        unsafe { rustix::mm::mlock(self.start.as_ptr().cast(), self.len) }
    }

    /// The pages of `range`, to be lent.
    ///
    /// The bytes in the pipe are whatever the memory holds when they are read, so the caller
    /// must not write to the range until nobody can hold its pages any more, or must discard it.
    pub(crate) fn loan(&self, range: std::ops::Range<usize>) -> Loan<'_> {
        Loan(&self.as_slice()[range])
    }
}

/// Memory of a mapping that a pipe may hold on to. Only a [`Mapping`] makes it: memory of an
/// allocator would come to be used for something else.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Loan<'a>(&'a [u8]);

/// Lends pages to a pipe by vmsplice(2): the pipe holds the pages, not copies.
#[inline(always)]
pub(crate) fn vmsplice(
    pipe: BorrowedFd<'_>,
    loan: Loan<'_>,
    flags: SpliceFlags,
) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads the pages, and takes references of its own to them; the memory
    // belongs to mappings and is never given to an allocator.
    unsafe { rustix::pipe::vmsplice(pipe, &[IoSliceRaw::from_slice(loan.0)], flags) }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        unmap(self.start.as_ptr(), self.len);
    }
}

/// Gives back whole pages of a mapping that the caller owns, and that no slice leads into any more.
pub(super) fn unmap(start: *mut u8, len: usize) {
    if len > 0 {
        // SAFETY: callers pass page-aligned parts of mappings that they own and give up, and no
        // slice of them outlives their owner.
        let gone = unsafe { rustix::mm::munmap(start.cast(), len) };
        debug_assert!(gone.is_ok(), "munmap of our own mapping: {gone:?}");
    }
}
