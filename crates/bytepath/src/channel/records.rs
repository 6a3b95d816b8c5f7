//! How messages lie in a ring: each in one piece, behind 8 bytes that tell its length.
//!
//! A message that does not fit before the ring's end goes to its beginning, and a record without
//! content fills the gap. So the longest message is a little less than half of the ring.

use std::sync::atomic::Ordering::Relaxed;

use super::broadcast::Broadcast;
use super::error::ChannelError;
use super::link::Link;
use super::ring::End;
use crate::pages::SharedMemory;
use crate::sys::shared_bytes::SharedSpace;

/// Before each message: its length, and above that [`GAP`] if it is none.
pub(super) const HEADER_BYTES: usize = 8;
pub(super) const GAP: u64 = 1 << 32;

/// What a message of this length takes in the ring.
pub(super) fn record_bytes(len: usize) -> usize {
    HEADER_BYTES + len.next_multiple_of(HEADER_BYTES)
}

/// The longest message of a ring.
pub(super) fn longest(end: &End) -> usize {
    let half = end.capacity() / 2 - HEADER_BYTES;
    half.min(u32::MAX as usize) / HEADER_BYTES * HEADER_BYTES
}

/// A record to come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// What is left free before the ring's end.
    gap: usize,
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
        let gap = if record_bytes(len) > to_the_end { to_the_end } else { 0 };
        Ok(Record { gap, len })
    }

    /// What it needs of the ring, with the gap.
    #[inline]
    pub(super) fn needs(self) -> u64 {
        (self.gap + record_bytes(self.len)) as u64
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
    fn memory(&self, at: usize) -> (&SharedMemory, usize) {
        match self {
            Way::One(link) => (link.memory(), link.in_memory(at..at).start),
            Way::All(broadcast) => (broadcast.memory(), broadcast.in_memory(at)),
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

    /// Where the record begins in the ring.
    #[inline]
    fn begins(&self) -> usize {
        if self.record.gap > 0 { 0 } else { self.way.end().at() }
    }

    /// The space, to be filled.
    #[inline]
    pub fn bytes(&mut self) -> SharedSpace<'_> {
        let (memory, begins) = self.way.memory(self.begins() + HEADER_BYTES);
        memory.mapping().space(begins..begins + self.record.len)
    }

    /// Passes the first so many bytes on as a message.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    pub fn commit(self, len: usize) {
        let Record { gap, len: most } = self.record;
        assert!(len <= most, "no more is committed than was borrowed");
        if gap > 0 {
            self.set_header(self.way.end().at(), (gap - HEADER_BYTES) as u64 | GAP);
        }
        self.set_header(self.begins(), len as u64);
        let bytes = gap + record_bytes(len);
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
