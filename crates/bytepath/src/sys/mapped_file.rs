//! A file as memory that bytes are copied from and to, and that tells which of its pages are in the
//! page cache.
//!
//! Others may write to the file at any moment, so no slice of the mapping is ever made: bytes are
//! copied through raw pointers. A file that becomes shorter ends whoever copies by SIGBUS, so this
//! is for files that nobody makes shorter, in a process that may end so.
#![allow(unsafe_code)]

use std::os::fd::AsFd;
use std::ptr::NonNull;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::last_errno;

/// What a mapping may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    ReadWrite,
}

/// A file from some place on, mapped and shared; unmapped on drop.
pub(crate) struct MappedFile {
    start: NonNull<u8>,
    len: usize,
    access: Access,
}

impl MappedFile {
    /// Maps the first `len` bytes (above 0).
    pub(crate) fn of(file: impl AsFd, len: usize, access: Access) -> Result<MappedFile, Errno> {
        MappedFile::from(file, 0, len, access)
    }

    /// Maps `len` bytes (above 0) from `at` on, which is a multiple of the page size.
    pub(crate) fn from(
        file: impl AsFd,
        at: u64,
        len: usize,
        access: Access,
    ) -> Result<MappedFile, Errno> {
        let prot = match access {
            Access::Read => ProtFlags::READ,
            Access::ReadWrite => ProtFlags::READ | ProtFlags::WRITE,
        };
        let none = std::ptr::null_mut();
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { rustix::mm::mmap(none, len, prot, MapFlags::SHARED, file, at) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(MappedFile { start, len, access })
    }

    /// Copies bytes from `at` on.
    pub(crate) fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.place(at, into.len());
        // SAFETY: the range is mapped and readable, and the two cannot overlap: one is the file's,
        // the other is memory that `into` has alone. Bytes that others change meanwhile come as they
        // are, as from read(2).
        unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
    }

    /// Copies bytes to `at`.
    pub(crate) fn write(&mut self, at: usize, from: &[u8]) {
        assert_eq!(self.access, Access::ReadWrite, "it was mapped to be written");
        let to = self.place(at, from.len());
        // SAFETY: the range is mapped and writable; the rest as in `read`.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    fn place(&self, at: usize, len: usize) -> *mut u8 {
        let end = at.checked_add(len);
        assert!(end.is_some_and(|end| end <= self.len), "the mapping has the range");
        self.start.as_ptr().wrapping_add(at)
    }

    /// Which of its pages are in the page cache, by mincore(2). For files that the caller may
    /// neither own nor write the kernel says that all are (since Linux 5.2).
    pub(crate) fn residency(&self) -> Result<impl Iterator<Item = bool> + use<>, Errno> {
        let mut pages = vec![0_u8; self.len.div_ceil(rustix::param::page_size())];
        // SAFETY: the range is this mapping, and there is a byte for each of its pages.
        let answer =
            unsafe { libc::mincore(self.start.as_ptr().cast(), self.len, pages.as_mut_ptr()) };
        if answer != 0 {
            return Err(last_errno());
        }
        Ok(pages.into_iter().map(|page| page & 1 == 1))
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `from` made, and nothing points into it.
        let gone = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(gone.is_ok(), "munmap of our own mapping: {gone:?}");
    }
}
