//! How messages lie in a ring: each in one piece, behind 8 bytes that tell its length.
//!
//! A message that does not fit before the ring's end goes to its beginning, and a record without
//! content fills the gap. So the longest message is a little less than half of the ring.
//!
//! Content that follows a long message, or is the first in the ring, begins with a cache line: vectors
//! that lie across two lines cost up to a tenth of the speed. For that the first header lies before the
//! ring's memory, in a word that nothing else uses.

use std::sync::atomic::Ordering::Relaxed;

use super::broadcast::Broadcast;
use super::error::ChannelError;
use super::link::Link;
use super::ring::End;
use crate::pages::MappedMemory;
use crate::sys::shared_bytes::SharedSpace;

/// Before each message: its length, and above that [`GAP`] if it is none.
pub(super) const HEADER_BYTES: usize = 8;
pub(super) const GAP: u64 = 1 << 32;

/// Messages of this length and longer end with a cache line, and so the next one begins with one.
const LONG_BYTES: usize = 4096;
const LINE_BYTES: usize = 64;

/// What a message of this length takes in the ring, at this place of it.
#[inline]
pub(super) fn record_bytes(at: usize, len: usize) -> usize {
    let bytes = HEADER_BYTES + len.next_multiple_of(HEADER_BYTES);
    if len < LONG_BYTES { bytes } else { (at + bytes).next_multiple_of(LINE_BYTES) - at }
}

/// The longest message of a ring: it fits wherever the ring's end is, with a gap as long as itself.
pub(super) fn longest(end: &End) -> usize {
    let half = end.capacity() / 2 - HEADER_BYTES;
    let most = if half < LONG_BYTES { half } else { half - LINE_BYTES };
    most.min(u32::MAX as usize) / HEADER_BYTES * HEADER_BYTES
}

/// Where in the link's memory the record at this place of the ring is.
#[inline]
pub(super) fn record_in_memory(link: &Link, at: usize) -> usize {
    link.in_memory(at..at).start - HEADER_BYTES
}

/// A record to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// What is left free before the ring's end.
    gap: usize,
    /// Where it begins in the ring.
    begins: usize,
    len: usize,
}

impl Record {
    /// Of a message of this length, where the end is.
    #[inline]
    pub(super) fn of(len: usize, end: &End) -> Result<Record, ChannelError> {
        let most = longest(end);
        if len > most {
            return Err(ChannelError::TooLong { bytes: len, most });
        }
        let to_the_end = end.capacity() - end.at();
        let fits = record_bytes(end.at(), len) <= to_the_end;
        let (gap, begins) = if fits { (0, end.at()) } else { (to_the_end, 0) };
        Ok(Record { gap, begins, len })
    }

    /// What it needs of the ring, with the gap.
    #[inline]
    pub(super) fn needs(self) -> u64 {
        (self.gap + record_bytes(self.begins, self.len)) as u64
    }
}

/// Space for one message, given back unless it is committed.
#[derive(Debug)]
pub struct MessageSpace<'c> {
    way: Way<'c>,
    record: Record,
}

/// Where messages go.
#[derive(Debug)]
enum Way<'c> {
    /// To one receiver.
    One(&'c mut Link),
    /// To all there are.
    All(&'c mut Broadcast),
}

impl Way<'_> {
    #[inline]
    fn end(&self) -> &End {
        match self {
            Way::One(link) => link.end(),
            Way::All(broadcast) => broadcast.end(),
        }
    }

    /// The memory, and where in it this place of the ring is.
    #[inline]
    fn memory(&self, at: usize) -> (&MappedMemory, usize) {
        match self {
            Way::One(link) => (link.memory(), record_in_memory(link, at)),
            Way::All(broadcast) => (broadcast.memory(), broadcast.in_memory(at) - HEADER_BYTES),
        }
    }
}

impl<'c> MessageSpace<'c> {
    #[inline]
    pub(super) fn to_one(link: &'c mut Link, record: Record) -> MessageSpace<'c> {
        MessageSpace { way: Way::One(link), record }
    }

    #[inline]
    pub(super) fn to_all(broadcast: &'c mut Broadcast, record: Record) -> MessageSpace<'c> {
        MessageSpace { way: Way::All(broadcast), record }
    }

    /// The space, to be filled.
    #[inline]
    pub fn bytes(&mut self) -> SharedSpace<'_> {
        let (memory, begins) = self.way.memory(self.record.begins + HEADER_BYTES);
        memory.mapping().space(begins..begins + self.record.len)
    }

    /// Passes the first so many bytes on as a message.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    pub fn commit(self, len: usize) {
        let Record { gap, begins, len: most } = self.record;
        assert!(len <= most, "no more is committed than was borrowed");
        if gap > 0 {
            self.set_header(self.way.end().at(), (gap - HEADER_BYTES) as u64 | GAP);
        }
        self.set_header(begins, len as u64);
        let bytes = gap + record_bytes(begins, len);
        match self.way {
            Way::One(link) => link.pass(bytes),
            Way::All(broadcast) => broadcast.pass(bytes),
        }
    }

    /// Sets the header of the record at this place of the ring, a multiple of its size.
    #[inline]
    fn set_header(&self, at: usize, header: u64) {
        let (memory, at) = self.way.memory(at);
        memory.words()[at / HEADER_BYTES].store(header, Relaxed);
    }
}
