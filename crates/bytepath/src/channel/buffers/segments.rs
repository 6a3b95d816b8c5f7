//! A segment as its sender sees it: memory, and what of it is free.

use std::ops::Range;
use std::sync::Arc;

use crate::pages::{PagesError, look_for_room};
use crate::sys::shared::SharedMapping;

/// Buffers begin at multiples of this, so that none shares a page with another.
const STEP: usize = 4096;

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) mapping: Arc<SharedMapping>,
    pub(super) bytes: usize,
    /// It is for small buffers, many at once.
    pub(super) is_shared: bool,
    /// Free ranges in their order, none beside another.
    holes: Vec<Range<usize>>,
    /// No page beyond has been there yet.
    fresh_from: usize,
}

impl Segment {
    pub(super) fn new(id: u32, mapping: SharedMapping, bytes: usize) -> Segment {
        let whole = 0..bytes;
        let (mapping, holes) = (Arc::new(mapping), vec![whole]);
        Segment { id, mapping, bytes, is_shared: false, holes, fresh_from: 0 }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.holes.first().is_some_and(|hole| hole.len() == self.bytes)
    }

    /// The first hole of so many bytes, taken. Low ones first: they were used last, and their pages
    /// are there.
    pub(super) fn take(&mut self, bytes: usize) -> Option<Range<usize>> {
        let bytes = bytes.checked_next_multiple_of(STEP)?;
        let at = self.holes.iter().position(|hole| hole.len() >= bytes)?;
        let from = self.holes[at].start;
        self.holes[at].start += bytes;
        if self.holes[at].is_empty() {
            self.holes.remove(at);
        }
        Some(from..from + bytes)
    }

    /// Has all pages of a range there, so that memory that is not to be had is an error, and no end.
    pub(super) fn populate(&mut self, range: &Range<usize>) -> Result<(), PagesError> {
        let fresh = range.start.max(self.fresh_from)..range.end;
        if fresh.is_empty() {
            return Ok(());
        }
        let bytes = fresh.len();
        look_for_room(bytes)?;
        let populated = self.mapping.populate_range(fresh.clone(), true);
        populated.map_err(|errno| PagesError::Map { bytes, size: "shared", errno })?;
        self.fresh_from = fresh.end;
        Ok(())
    }

    pub(super) fn give_back(&mut self, range: Range<usize>) {
        let at = self.holes.partition_point(|hole| hole.start < range.start);
        self.holes.insert(at, range);
        if self.holes.get(at + 1).is_some_and(|next| next.start == self.holes[at].end) {
            self.holes[at].end = self.holes.remove(at + 1).end;
        }
        if at > 0 && self.holes[at - 1].end == self.holes[at].start {
            self.holes[at - 1].end = self.holes.remove(at).end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{PageSize, SharedMemory};

    #[test]
    fn what_comes_back_in_any_order_is_one_hole_again() {
        let memory = SharedMemory::create(1 << 20, PageSize::Base).expect("memory");
        let mut segment = Segment::new(0, memory.into_parts().0, 1 << 20);
        let lens = [1, 4096, 5000, 100_000];
        let taken = lens.map(|bytes| segment.take(bytes).expect("room"));
        for (one, next) in taken.iter().zip(&taken[1..]) {
            assert_eq!(one.end, next.start);
        }
        assert_eq!(taken.clone().map(|range| range.len()), [4096, 4096, 8192, 102_400]);
        assert!(segment.take(1 << 20).is_none());
        for at in [2, 0, 3, 1] {
            assert!(!segment.is_idle());
            segment.give_back(taken[at].clone());
        }
        assert!(segment.is_idle());
        assert_eq!(segment.take(1 << 20), Some(0..1 << 20));
    }
}
