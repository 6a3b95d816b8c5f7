//! Bytes in memory that another process may write to at any moment.
//!
//! A slice of them would be a promise that nobody keeps: code that checks a byte and then uses it
//! may be compiled to read it twice. So they are copied once, looked at as atomic words, or given to
//! the kernel; a slice is to be had by those only who promise that the other process keeps still.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use rustix::io::Errno;

use super::counted;
use super::shared::SharedMapping;

/// A word of shared memory, to be read: the memory may be there for nothing else.
#[derive(Debug)]
#[repr(transparent)]
pub struct SharedWord(AtomicU64);

impl SharedWord {
    /// Its value now.
    #[inline]
    pub fn load(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Bytes of shared memory, to be read.
#[derive(Debug, Clone, Copy)]
pub struct SharedBytes<'m> {
    start: NonNull<u8>,
    len: usize,
    memory: PhantomData<&'m SharedMapping>,
}

impl<'m> SharedBytes<'m> {
    /// Of a range that is mapped for as long as `'m`.
    pub(super) fn new(start: NonNull<u8>, len: usize) -> SharedBytes<'m> {
        SharedBytes { start, len, memory: PhantomData }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where they are, for code that copies them or looks at them by pointer: as the other process may
    /// write to them, nothing that is read through it stays true.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Those in this range of them.
    ///
    /// # Panics
    /// They do not have the range.
    #[must_use]
    pub fn range(&self, range: Range<usize>) -> SharedBytes<'m> {
        assert!(range.start <= range.end && range.end <= self.len, "the bytes have the range");
        let start = self.start.as_ptr().wrapping_add(range.start);
        SharedBytes::new(NonNull::new(start).unwrap_or(self.start), range.len())
    }

    /// Copies all of them. Bytes that the other process changes meanwhile come as they are, as from
    /// read(2).
    ///
    /// # Panics
    /// `into` is not as long.
    pub fn copy_to(&self, into: &mut [u8]) {
        assert_eq!(self.len, into.len(), "as many bytes as there is room for");
        // SAFETY: the range is mapped and readable, and cannot overlap memory that `into` has alone.
        unsafe { std::ptr::copy_nonoverlapping(self.start.as_ptr(), into.as_mut_ptr(), self.len) }
    }

    /// Writes some of them to a descriptor, by one write(2); how many it took.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn write_to(&self, sink: impl AsFd) -> std::io::Result<usize> {
        let (sink, from) = (sink.as_fd().as_raw_fd(), self.start.as_ptr());
        // SAFETY: the range is mapped and readable; the descriptor is open.
        let count = unsafe { libc::write(sink, from.cast(), self.len) };
        Ok(counted(count)?)
    }

    /// Writes all of them to a file at this place, by pwrite(2).
    ///
    /// # Errors
    /// The kernel's word.
    pub fn write_all_at(&self, sink: impl AsFd, at: u64) -> std::io::Result<()> {
        let (sink, mut left, mut at) = (sink.as_fd().as_raw_fd(), *self, at);
        while !left.is_empty() {
            let place = libc::off_t::try_from(at).map_err(|_| std::io::ErrorKind::InvalidInput)?;
            // SAFETY: the range is mapped and readable; the descriptor is open.
            let count = unsafe { libc::pwrite(sink, left.as_ptr().cast(), left.len, place) };
            match counted(count) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => (left, at) = (left.range(count..left.len), at + count as u64),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Bytes of any memory, which others may write to meanwhile.
    ///
    /// # Safety
    /// So many bytes are mapped, readable, from `start` on, for as long as `'m`.
    pub unsafe fn from_raw_parts(start: NonNull<u8>, len: usize) -> SharedBytes<'m> {
        SharedBytes::new(start, len)
    }

    /// The bytes before the first whole word, the words, and the bytes behind them.
    pub fn words(&self) -> (SharedBytes<'m>, &'m [SharedWord], SharedBytes<'m>) {
        let (before, words, behind) = self.in_words();
        let first = before.start.as_ptr().wrapping_add(before.len).cast::<SharedWord>();
        // SAFETY: so many aligned words are mapped for as long as 'm, and seen as atomics that are
        // only loaded.
        let words = unsafe { std::slice::from_raw_parts(first, words) };
        (before, words, behind)
    }

    /// The bytes before the first whole word, how many words there are, and the bytes behind them.
    fn in_words(&self) -> (SharedBytes<'m>, usize, SharedBytes<'m>) {
        let before = self.start.as_ptr().align_offset(size_of::<u64>()).min(self.len);
        let words = (self.len - before) / size_of::<u64>();
        let behind = before + words * size_of::<u64>();
        (self.range(0..before), words, self.range(behind..self.len))
    }

    /// Them as a slice.
    ///
    /// # Safety
    /// No process writes to them while the slice is there: a peer that is trusted writes nothing
    /// that it has committed and that was not released.
    pub unsafe fn as_slice(&self) -> &'m [u8] {
        // SAFETY: the range is mapped and readable for as long as 'm; the caller promises the rest.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

/// Memory that nobody writes to, where any is taken.
impl<'m> From<&'m [u8]> for SharedBytes<'m> {
    fn from(bytes: &'m [u8]) -> SharedBytes<'m> {
        SharedBytes::new(NonNull::from(bytes).cast(), bytes.len())
    }
}

/// Bytes of shared memory, to be written.
#[derive(Debug)]
pub struct SharedSpace<'m>(SharedBytes<'m>);

impl<'m> SharedSpace<'m> {
    /// Of a range that is mapped for as long as `'m`, and that nobody else in this process uses.
    pub(super) fn new(start: NonNull<u8>, len: usize) -> SharedSpace<'m> {
        SharedSpace(SharedBytes::new(start, len))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.0.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Where it is, for code that fills it by pointer.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.0.start.as_ptr()
    }

    /// Writes these bytes to the place `at` of it.
    ///
    /// # Panics
    /// There is no room for them.
    pub fn copy_from(&mut self, at: usize, from: &[u8]) {
        let to = self.0.range(at..at.saturating_add(from.len())).start.as_ptr();
        // SAFETY: the range is mapped and writable, `from` is memory that cannot overlap it, and
        // nobody else in this process uses the range.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) }
    }

    /// Reads bytes from a descriptor to the place `at` of it, by one read(2); how many came, 0 at
    /// the end.
    ///
    /// # Errors
    /// The kernel's word.
    ///
    /// # Panics
    /// There is no such place.
    pub fn read_from(&mut self, at: usize, source: impl AsFd) -> std::io::Result<usize> {
        let room = self.0.range(at..self.0.len);
        let (source, into) = (source.as_fd().as_raw_fd(), room.start.as_ptr());
        // SAFETY: the range is mapped and writable, and nobody else in this process uses it; the
        // descriptor is open.
        let count = unsafe { libc::read(source, into.cast(), room.len) };
        Ok(counted(count)?)
    }

    /// The bytes before the first whole word, the words, and the bytes behind them.
    pub fn words(&mut self) -> (SharedSpace<'_>, &[AtomicU64], SharedSpace<'_>) {
        let (before, words, behind) = self.0.in_words();
        let first = before.start.as_ptr().wrapping_add(before.len).cast::<AtomicU64>();
        // SAFETY: so many aligned words are mapped, writable, for as long as `self` is borrowed, and
        // seen as atomics.
        let words = unsafe { std::slice::from_raw_parts(first, words) };
        (SharedSpace(before), words, SharedSpace(behind))
    }

    /// It as a slice, to be written.
    ///
    /// # Safety
    /// No process reads or writes it while the slice is there: a peer that is trusted keeps away
    /// from what was not committed.
    pub unsafe fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the range is mapped and writable, and is nobody else's in this process while it is
        // borrowed; the caller promises the rest.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
    }
}

/// Memory that is ours alone, where any is taken.
impl<'m> From<&'m mut [u8]> for SharedSpace<'m> {
    fn from(bytes: &'m mut [u8]) -> SharedSpace<'m> {
        SharedSpace::new(NonNull::from(&mut *bytes).cast(), bytes.len())
    }
}
