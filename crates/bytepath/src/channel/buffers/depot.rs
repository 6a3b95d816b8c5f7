//! The sender's memory for buffers: what is lent, what came back, and when a segment is made or let
//! go.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use super::super::error::ChannelError;
use super::Place;
use super::segments::Segment;
use super::slots::{SLOTS, Slots, asked_at};
use crate::pages::{PageSize, PagesError, SharedMemory};
use crate::sys::shared::SharedMapping;
use crate::sys::shared_bytes::SharedSpace;

/// Small buffers share segments of this size, or of as much as there may be in all, or yet.
const SHARED_SEGMENT_BYTES: usize = 16 << 20;
const SHARED_SEGMENT_BYTES_MIN: usize = 64 << 10;
/// Those that are more than this part of it have a segment to themselves.
const SHARED_PART: usize = 4;
/// The size of such a segment is a multiple of this part of it.
const STEP_PART: usize = 16;
/// A segment is taken for a buffer that is at least this part of it.
const OWN_SEGMENT_PART_MIN: usize = 4;

/// What is under way stays in the caches of both ends if it is no more than this, or no more buffers: the
/// receiver reads one while the next is written.
const WARM_BYTES: usize = 8 << 20;
const WARM_BUFFERS_MIN: usize = 2;

/// Of which memory is lent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    Warm,
    All,
}

/// A buffer to be filled and sent. Dropped unsent, its memory is the sender's again.
#[derive(Debug)]
pub struct Draft {
    mapping: Arc<SharedMapping>,
    slots: Arc<Slots>,
    pub(super) place: Place,
    sent: bool,
    /// Gone with this, which the depot looks at: the receiver's word alone says nothing of a draft.
    held: Option<Arc<()>>,
}

impl Draft {
    /// The buffer, to be filled.
    pub fn space(&mut self) -> SharedSpace<'_> {
        let from = self.place.from as usize;
        self.mapping.space(from..from + self.place.len as usize)
    }

    pub(super) fn sent(mut self) -> Place {
        self.sent = true;
        self.place
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        self.held = None;
        if !self.sent {
            self.slots.give_back(self.place.slot);
        }
    }
}

/// What the receiver is to be told of before a message.
#[derive(Debug)]
pub(super) enum Told {
    /// A segment, by its descriptor.
    Made { id: u32, file: OwnedFd },
    /// That it is needed no more.
    LetGo { id: u32 },
}

impl Told {
    pub(super) fn packet(&self) -> ([u8; 5], Option<BorrowedFd<'_>>) {
        let (kind, id, file) = match self {
            Told::Made { id, file } => (b'+', id, Some(file.as_fd())),
            Told::LetGo { id } => (b'-', id, None),
        };
        let [a, b, c, d] = id.to_le_bytes();
        ([kind, a, b, c, d], file)
    }
}

#[derive(Debug)]
struct Lent {
    slot: u32,
    segment: u32,
    range: Range<usize>,
    held: Arc<()>,
}

#[derive(Debug)]
pub(super) struct Depot {
    pub(super) slots: Arc<Slots>,
    /// Bytes that are lent, at the most; but one buffer may go beyond.
    most: usize,
    /// Bytes of a segment that small buffers share.
    shared_bytes: usize,
    segments: Vec<Segment>,
    lent: Vec<Lent>,
    free_slots: Vec<u32>,
    /// How many had come back when that was last looked at.
    returned: u64,
    /// Where the receiver had asked in vain then.
    asked: u64,
    newest: u32,
    /// What is still to be told, in its order.
    pub(super) to_tell: Vec<Told>,
}

impl Depot {
    pub(super) fn new(slots: Slots, most: usize) -> Depot {
        let free_slots = (0..SLOTS as u32).rev().collect();
        let shared_bytes = most.clamp(SHARED_SEGMENT_BYTES_MIN, SHARED_SEGMENT_BYTES);
        Depot {
            slots: Arc::new(slots),
            most,
            shared_bytes: shared_bytes.next_multiple_of(SHARED_SEGMENT_BYTES_MIN),
            segments: Vec::new(),
            lent: Vec::new(),
            free_slots,
            returned: 0,
            asked: 0,
            newest: 0,
            to_tell: Vec::new(),
        }
    }

    /// A buffer of so many bytes (above 0); none while the receiver has too much, be it of all memory,
    /// or of what stays warm. So much of the ring was passed on to it.
    pub(super) fn lend(
        &mut self,
        bytes: usize,
        of: Memory,
        passed: u64,
    ) -> Result<Option<Draft>, ChannelError> {
        if !self.may_lend(bytes, passed) || (of == Memory::Warm && self.lends_enough(bytes)) {
            return Ok(None);
        }
        let Some((at, range)) = self.found(bytes)? else { return Ok(None) };
        let segment = &mut self.segments[at];
        if let Err(error) = segment.populate(&range) {
            segment.give_back(range);
            if segment.is_idle() {
                // A receiver would map it for nothing, or fail to and get no further.
                self.let_go(at);
            }
            return Err(error.into());
        }
        let slot = self.free_slots.pop().expect("there is one");
        self.slots.lend(slot);
        let place =
            Place { segment: segment.id, slot, from: range.start as u64, len: bytes as u64 };
        let mapping = Arc::clone(&segment.mapping);
        let held = Arc::new(());
        let draft = Some(Arc::clone(&held));
        self.lent.push(Lent { slot, segment: segment.id, range, held });
        self.let_go_for(0);
        let slots = Arc::clone(&self.slots);
        Ok(Some(Draft { mapping, slots, place, sent: false, held: draft }))
    }

    /// Whether a buffer of so many bytes would be lent now, of all memory. Who waits for one has not looked by that,
    /// and is still woken.
    pub(super) fn would_lend(&mut self, bytes: usize, passed: u64) -> bool {
        let seen = (self.returned, self.asked);
        let would = self.may_lend(bytes, passed);
        (self.returned, self.asked) = seen;
        would
    }

    fn may_lend(&mut self, bytes: usize, passed: u64) -> bool {
        // First: what came back before it asked is seen, then.
        self.asked = self.slots.asked();
        self.take_back();
        let is_wanted = self.asked == asked_at(passed);
        let has_memory = self.has_room(bytes) || (is_wanted && self.may_go_beyond());
        has_memory && !self.free_slots.is_empty()
    }

    /// Whether a draft is of this memory.
    pub(super) fn has_lent(&self, draft: &Draft) -> bool {
        Arc::ptr_eq(&draft.slots, &self.slots)
    }

    /// Whether nothing is lent.
    pub(super) fn is_whole(&mut self) -> bool {
        self.take_back();
        self.lent.is_empty()
    }

    /// Bytes of all segments.
    pub(super) fn bytes(&self) -> usize {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    /// How many had come back when a buffer was last asked for.
    pub(super) fn returned(&self) -> u64 {
        self.returned
    }

    fn lent_bytes(&self) -> usize {
        self.lent.iter().map(|lent| lent.range.len()).sum()
    }

    fn has_room(&self, bytes: usize) -> bool {
        self.lent.is_empty() || self.lent_bytes().saturating_add(bytes) <= self.most
    }

    /// Whether one buffer more may be lent than there is room for, to a receiver that asks for it and may
    /// give nothing back before it has it: who gets the next object mostly still has the last one.
    fn may_go_beyond(&self) -> bool {
        self.lent.len() == 1 || self.lent_bytes() <= self.most
    }

    /// Whether with so many bytes more than what stays warm is lent.
    fn lends_enough(&self, bytes: usize) -> bool {
        let lent_bytes = self.lent_bytes().saturating_add(bytes);
        self.lent.len() >= WARM_BUFFERS_MIN && lent_bytes > WARM_BYTES
    }

    /// To be called where a buffer could not be lent: has the socket become readable once it may be
    /// otherwise; false where it may already.
    pub(super) fn lie_down(&self) -> bool {
        self.slots.lie_down(self.returned, self.asked)
    }

    fn take_back(&mut self) {
        let returned = self.slots.returned();
        if returned == self.returned {
            return;
        }
        self.returned = returned;
        let mut at = 0;
        while at < self.lent.len() {
            let Lent { slot, held, .. } = &self.lent[at];
            if !self.slots.is_back(*slot) || Arc::strong_count(held) > 1 {
                at += 1;
                continue;
            }
            let Lent { slot, segment, range, .. } = self.lent.swap_remove(at);
            self.free_slots.push(slot);
            let segment = self.segments.iter_mut().find(|it| it.id == segment);
            segment.expect("it is kept while some of it is lent").give_back(range);
        }
    }

    /// Room in a segment that is there, or that is made.
    fn found(&mut self, bytes: usize) -> Result<Option<(usize, Range<usize>)>, ChannelError> {
        let is_small = bytes <= self.shared_bytes / SHARED_PART;
        let step = if is_small { self.shared_bytes } else { self.shared_bytes / STEP_PART };
        let mut whole = bytes.checked_next_multiple_of(step).ok_or(PagesError::Map {
            bytes,
            size: "shared",
            errno: rustix::io::Errno::NOMEM,
        })?;
        if let Some(found) = self.found_here(bytes, whole, is_small) {
            return Ok(Some(found));
        }
        self.let_go_for(whole);
        if is_small {
            let left = self.most.saturating_sub(self.bytes());
            whole = left.clamp(bytes, whole).next_multiple_of(SHARED_SEGMENT_BYTES_MIN);
        }
        self.make(whole, is_small)?;
        Ok(self.found_here(bytes, whole, is_small))
    }

    /// Room in a segment that is there, for what would have one of `whole` bytes made for it.
    fn found_here(
        &mut self,
        bytes: usize,
        whole: usize,
        is_small: bool,
    ) -> Option<(usize, Range<usize>)> {
        // What is beyond all that there may be is no larger than its buffers.
        let is_beyond = self.bytes() > self.most && !self.lent.is_empty();
        let own_bytes_max =
            if is_beyond { whole } else { bytes.saturating_mul(OWN_SEGMENT_PART_MIN) };
        let fits = |segment: &Segment| match is_small {
            true => segment.is_shared,
            false => segment.is_idle() && segment.bytes <= own_bytes_max,
        };
        let mut candidates: Vec<usize> =
            (0..self.segments.len()).filter(|&at| fits(&self.segments[at])).collect();
        if !is_small {
            candidates.sort_by_key(|&at| self.segments[at].bytes);
        }
        candidates.into_iter().find_map(|at| Some((at, self.segments[at].take(bytes)?)))
    }

    /// Lets idle segments go, the largest first, until there may be one of so many bytes.
    fn let_go_for(&mut self, whole: usize) {
        let is_much = |it: &Depot| it.bytes().saturating_add(whole) > it.most;
        while is_much(self) || self.segments.len() >= SLOTS {
            let idle = (0..self.segments.len()).filter(|&at| self.segments[at].is_idle());
            let Some(at) = idle.max_by_key(|&at| self.segments[at].bytes) else { return };
            self.let_go(at);
        }
    }

    /// One that the receiver was not told of goes without a word.
    fn let_go(&mut self, at: usize) {
        let Segment { id, .. } = self.segments.swap_remove(at);
        let is_it = |told: &Told| matches!(told, Told::Made { id: made, .. } if *made == id);
        match self.to_tell.iter().position(is_it) {
            Some(untold) => drop(self.to_tell.remove(untold)),
            None => self.to_tell.push(Told::LetGo { id }),
        }
    }

    fn make(&mut self, whole: usize, is_shared: bool) -> Result<(), ChannelError> {
        let memory = SharedMemory::create_for_readers(whole, PageSize::Base)?;
        let (mapping, file) = memory.into_parts();
        self.newest += 1;
        let id = self.newest;
        self.to_tell.push(Told::Made { id, file });
        let mut segment = Segment::new(id, mapping, whole);
        segment.is_shared = is_shared;
        self.segments.push(segment);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_draft_is_lent_to_nobody_else_whatever_the_receiver_says() {
        let mut depot = Depot::new(Slots::create().expect("memory").0, 1 << 20);
        let mut lend = || depot.lend(5000, Memory::All, 0).expect("memory").expect("room");
        let draft = lend();
        draft.slots.give_back(draft.place.slot);
        let other = lend();
        let (from, len) = (draft.place.from, draft.place.len);
        assert!(other.place.from >= from + len || other.place.from + other.place.len <= from);
        drop(draft);
        drop(other);
        assert!(depot.is_whole());
    }

    #[test]
    fn a_segment_that_nobody_was_told_of_is_let_go_without_a_word() {
        const MOST: usize = 64 << 10;
        let mut depot = Depot::new(Slots::create().expect("memory").0, MOST);
        for bytes in [2 * MOST, 100].repeat(50) {
            drop(depot.lend(bytes, Memory::All, 0).expect("memory").expect("nothing is lent"));
        }
        assert!(matches!(depot.to_tell[..], [Told::Made { .. }]), "{:?}", depot.to_tell);
        depot.to_tell.clear();
        drop(depot.lend(2 * MOST, Memory::All, 0).expect("memory").expect("nothing is lent"));
        let told = &depot.to_tell[..];
        assert!(matches!(told, [Told::LetGo { .. }, Told::Made { .. }]), "{told:?}");
    }

    #[test]
    fn of_a_buffer_that_there_is_no_memory_for_the_receiver_is_told_nothing() {
        const TOO_MUCH: usize = 1 << 40;
        let mut depot = Depot::new(Slots::create().expect("memory").0, 1 << 20);
        for _ in 0..2 {
            depot.lend(TOO_MUCH, Memory::All, 0).map(drop).expect_err("there is not so much");
            assert!(depot.to_tell.is_empty() && depot.bytes() == 0, "{:?}", depot.to_tell);
        }
        let draft = depot.lend(100, Memory::All, 0).expect("memory").expect("nothing is lent");
        assert!(matches!(depot.to_tell[..], [Told::Made { id, .. }] if id == draft.place.segment));
    }
}
