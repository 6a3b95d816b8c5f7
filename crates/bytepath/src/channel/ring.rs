//! What each end of a ring keeps for itself, and the order in which both tell each other: counts,
//! ends, and who sleeps. Makes no system call, so that a model checker can try every order.
//!
//! Costs an end per piece one store that the other sees, a fence, and a load from a line that is
//! rarely written. The other's count is loaded only when what was known of it is used up. A sender
//! with many receivers has an [`End`] for each; the store and the fence are made once for all.
//!
//! The other end may be hostile. Its count is loaded once, held against what is possible, and kept
//! here; positions in the ring come from this end's own numbers alone.

use super::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use super::atomic::{AtomicU32, AtomicU64, fence};

/// How an end sleeps, as the other one has to know to wake it.
pub(crate) const AWAKE: u32 = 0;
/// In futex(2).
pub(crate) const IN_FUTEX: u32 = 1;
/// In poll(2), on the socket.
pub(crate) const IN_POLL: u32 = 2;
/// Not at all: it is done, and whoever would wake it is to notice that. One that does not know the word
/// wakes through the socket, which does no harm.
pub(crate) const DONE: u32 = 3;

/// What one end tells the other.
#[derive(Clone, Copy)]
pub(crate) struct Desk<'m> {
    /// Bytes that it has passed on: committed by the sender, released by the receiver.
    pub(crate) passed: &'m AtomicU64,
    /// 1 once it will pass on no more; stored after the last count.
    pub(crate) ended: &'m AtomicU32,
    /// [`AWAKE`], [`IN_FUTEX`], [`IN_POLL`] or [`DONE`].
    pub(crate) sleep: &'m AtomicU32,
    /// The other's count at which it is to be woken.
    pub(crate) until: &'m AtomicU64,
}

impl Desk<'_> {
    /// Rouses whoever sleeps here: how it slept, if it did.
    pub(crate) fn roused(&self) -> Option<u32> {
        Some(self.sleep.swap(AWAKE, AcqRel)).filter(|&how| how != AWAKE)
    }
}

/// The other's count is none that this end can have led to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Impossible;

/// One end's own numbers.
#[derive(Debug)]
pub(crate) struct End {
    capacity: u64,
    /// How far this end may be ahead of the other: all of the ring for the sender, nothing for the
    /// receiver.
    ahead: u64,
    passed: u64,
    /// The other's count as last seen.
    seen: u64,
    /// Where this end is in the ring.
    at: usize,
}

impl End {
    /// The sender's, of a ring of this many bytes.
    pub(crate) fn sender(capacity: usize) -> End {
        let capacity = capacity as u64;
        End { capacity, ahead: capacity, passed: 0, seen: 0, at: 0 }
    }

    /// The receiver's.
    pub(crate) fn receiver(capacity: usize) -> End {
        End { ahead: 0, ..End::sender(capacity) }
    }

    /// The same end, of a ring through which so many bytes went before.
    pub(crate) fn beginning_at(self, passed: u64) -> End {
        End { passed, seen: passed, at: (passed % self.capacity) as usize, ..self }
    }

    /// Takes on what is known of the slowest of these ends, which are at the same place; where there
    /// are none, nobody is slow.
    pub(crate) fn follow<'e>(&mut self, ends: impl Iterator<Item = &'e End>) {
        self.seen = ends.map(|end| end.seen).min().unwrap_or(self.passed);
    }

    /// Bytes that this end may use, as far as it knows.
    #[inline]
    pub(crate) fn room(&self) -> u64 {
        self.seen + self.ahead - self.passed
    }

    /// Where it is in the ring.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Bytes that this end has passed on.
    pub(crate) fn passed(&self) -> u64 {
        self.passed
    }

    /// Bytes of the ring.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// The next bytes in one piece, at most so many.
    #[inline]
    pub(crate) fn piece(&self, most: usize) -> std::ops::Range<usize> {
        let to_the_end = self.capacity as usize - self.at;
        self.at..self.at + to_the_end.min(most).min(self.room() as usize)
    }

    /// Looks how far the other end is.
    #[inline]
    pub(crate) fn look(&mut self, theirs: Desk<'_>) -> Result<(), Impossible> {
        let count = theirs.passed.load(Acquire);
        let most = self.passed + (self.capacity - self.ahead);
        if count < self.seen || count > most {
            return Err(Impossible);
        }
        self.seen = count;
        Ok(())
    }

    /// Whether the other end will pass on no more than is seen by looking from now on.
    pub(crate) fn other_ended(theirs: Desk<'_>) -> bool {
        theirs.ended.load(Acquire) != 0
    }

    /// Passes bytes on; how the other end sleeps, if it is to be woken.
    #[inline]
    pub(crate) fn pass(&mut self, bytes: usize, ours: Desk<'_>, theirs: Desk<'_>) -> Option<u32> {
        self.advance(bytes);
        self.tell(ours.passed);
        self.rouse(theirs)
    }

    /// Goes on by so many bytes, of which nobody is told yet.
    #[inline]
    pub(crate) fn advance(&mut self, bytes: usize) {
        assert!(bytes as u64 <= self.room(), "what is passed on is this end's");
        self.passed += bytes as u64;
        let at = self.at + bytes;
        self.at = if at >= self.capacity as usize { at - self.capacity as usize } else { at };
    }

    /// Tells how far this end is.
    #[inline]
    pub(crate) fn tell(&self, passed: &AtomicU64) {
        passed.store(self.passed, Release);
        // Either the other end sees the count before it sleeps, or this one sees it asleep.
        fence(SeqCst);
    }

    /// To be called after telling: how the other end sleeps, if it is to be woken.
    #[inline]
    pub(crate) fn rouse(&self, theirs: Desk<'_>) -> Option<u32> {
        let asleep = theirs.sleep.load(Acquire) != AWAKE;
        if asleep && theirs.until.load(Relaxed) <= self.passed { theirs.roused() } else { None }
    }

    /// Says that nothing more comes; how the other end sleeps, if it does.
    pub(crate) fn end(ours: Desk<'_>, theirs: Desk<'_>) -> Option<u32> {
        End::tell_end(ours.ended);
        theirs.roused()
    }

    /// To be called after the end: the other one finds it with the next piece that it passes on, by the
    /// line that it looks at anyway.
    pub(crate) fn have_noticed(ours: Desk<'_>) {
        ours.until.store(0, Relaxed);
        ours.sleep.store(DONE, Release);
    }

    /// Tells that nothing more comes.
    pub(crate) fn tell_end(ended: &AtomicU32) {
        ended.store(1, Release);
        fence(SeqCst);
    }

    /// Lies down until there is room for so many bytes; false where there is meanwhile, or the other
    /// end has ended, and nobody sleeps.
    pub(crate) fn lie_down(
        &mut self,
        room: u64,
        how: u32,
        ours: Desk<'_>,
        theirs: Desk<'_>,
    ) -> Result<bool, Impossible> {
        ours.until.store((self.passed + room).saturating_sub(self.ahead), Relaxed);
        ours.sleep.store(how, Release);
        fence(SeqCst);
        self.look(theirs)?;
        let sleeps = self.room() < room && !End::other_ended(theirs);
        if !sleeps {
            End::get_up(ours);
        }
        Ok(sleeps)
    }

    /// To be called after a sleep.
    pub(crate) fn get_up(ours: Desk<'_>) {
        ours.sleep.store(AWAKE, Release);
    }
}
