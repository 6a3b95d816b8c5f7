//! Which slices were given out, which are copied, and where the work ends early.

use std::collections::VecDeque;

use rustix::io::Errno;

use super::NAME;
use crate::error::{Failed, Refusal, Side, Stop};

/// A stretch's slices. Offsets are from the stretch's start.
pub(super) struct Slices {
    bytes: u64,
    slice_bytes: u64,
    /// Where the next slice begins.
    next: u64,
    /// How far the sink was made longer.
    pub(super) room: u64,
    /// Where what was copied without a gap ends.
    gapless: u64,
    /// From there on, which slices are copied.
    done: VecDeque<bool>,
    calls: u64,
    told: (u64, u64),
    barrier: Option<(u64, Why)>,
}

/// A slice that was given out.
pub(super) struct Slice {
    pub(super) at: u64,
    pub(super) bytes: u64,
}

/// What became of a slice.
pub(super) struct Copied {
    pub(super) bytes: usize,
    pub(super) calls: u64,
    pub(super) why: Option<Why>,
}

impl Slice {
    /// What of it is behind its first so many bytes.
    pub(super) fn behind(&self, done: usize) -> Slice {
        Slice { at: self.at + done as u64, bytes: self.bytes - done as u64 }
    }
}

impl Copied {
    /// This, and what comes of the bytes behind it.
    pub(super) fn then(self, rest: impl FnOnce(usize) -> Copied) -> Copied {
        let rest = rest(self.bytes);
        let (bytes, calls) = (self.bytes + rest.bytes, self.calls + rest.calls);
        Copied { bytes, calls, why: rest.why }
    }
}

/// Why the work ends early.
#[derive(Clone, Copy)]
pub(super) enum Why {
    /// The source does.
    End,
    Cancelled,
    /// The sink cannot become longer.
    Room(Errno),
    Mapping(Errno),
    Reading(Errno),
    /// The kernel does not do it this way; nothing is said of reading the source into a mapping.
    Refused,
    Writing(Errno),
    /// A mapping has small pages, or memory for large ones is slow to be had.
    Slow,
    /// This part takes no large page, which are made of others.
    Small,
}

impl Slices {
    pub(super) fn new(bytes: u64, slice_bytes: u64) -> Slices {
        let done = VecDeque::new();
        let told = (0, 0);
        Slices {
            bytes,
            slice_bytes,
            next: 0,
            room: 0,
            gapless: 0,
            done,
            calls: 0,
            told,
            barrier: None,
        }
    }

    pub(super) fn count(&self) -> usize {
        usize::try_from(self.bytes.div_ceil(self.slice_bytes)).unwrap_or(usize::MAX)
    }

    /// Gives out the next slice, while the work has not ended.
    pub(super) fn next(&mut self) -> Option<Slice> {
        if self.barrier.is_some() || self.next == self.bytes {
            return None;
        }
        let slice = Slice { at: self.next, bytes: self.slice_bytes.min(self.bytes - self.next) };
        self.next += slice.bytes;
        self.done.push_back(false);
        Some(slice)
    }

    /// Takes note of what became of a slice.
    pub(super) fn copied(&mut self, slice: &Slice, copied: Copied) {
        self.calls += copied.calls;
        if let Some(why) = copied.why {
            return self.end(slice.at + copied.bytes as u64, why);
        }
        let place = (slice.at - self.gapless) / self.slice_bytes;
        self.done[place as usize] = true;
        while self.done.front() == Some(&true) {
            self.done.pop_front();
            self.gapless = (self.gapless + self.slice_bytes).min(self.bytes);
        }
    }

    /// Ends the work there, unless it has ended before.
    pub(super) fn end(&mut self, at: u64, why: Why) {
        if self.barrier.is_none_or(|(before, _)| at < before) {
            self.barrier = Some((at, why));
        }
    }

    /// What is there without a gap now that no slice is under way any more: all up to the barrier.
    pub(super) fn settle(&mut self) -> u64 {
        self.gapless = self.barrier.map_or(self.gapless, |(at, _)| at);
        self.gapless
    }

    /// Bytes and calls since this was asked last.
    pub(super) fn untold(&mut self) -> (u64, u64) {
        let now = (self.gapless, self.calls);
        let before = std::mem::replace(&mut self.told, now);
        (now.0 - before.0, now.1 - before.1)
    }

    /// Whether a mapping did not take what it was to: of the sink, or of memory.
    pub(super) fn is_fault(&self) -> bool {
        matches!(self.barrier, Some((_, Why::Reading(Errno::FAULT))))
    }

    /// Why the work ended before the source did, if so.
    pub(super) fn ended(&self) -> Result<(), Stop> {
        let declined =
            |reason: &'static str, errno| Err(Stop::Declined(Refusal::errno(reason, errno)));
        let left = |reason: &'static str| Err(Stop::Declined(Refusal::because(reason)));
        match self.barrier.map(|(_, why)| why) {
            None | Some(Why::End) => Ok(()),
            Some(Why::Cancelled) => Err(Stop::Cancelled { stranded: Vec::new() }),
            Some(Why::Room(errno)) => declined("the sink cannot be made longer", errno),
            Some(Why::Mapping(errno)) => declined("the sink cannot be mapped", errno),
            // What is wrong with the mapping is EFAULT.
            Some(Why::Reading(Errno::IO)) => {
                Err(Stop::Failed(Failed::new(NAME, Side::Source, "pread", Errno::IO)))
            }
            Some(Why::Reading(errno)) => {
                declined("the kernel cannot read into the mapping of the sink", errno)
            }
            Some(Why::Writing(errno)) => declined("the sink takes no more", errno),
            Some(Why::Refused) => left("the kernel does not copy between these so"),
            Some(Why::Slow | Why::Small) => left("large pages are slow to be had"),
        }
    }
}
