//! The words by which the receiver gives buffers back: one for each that it may have, and how many
//! came back in all, so that the sender need not look at each. One more tells that it asks for more.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::fence;
use std::sync::{Arc, Mutex};

use rustix::net::SendFlags;

use super::super::error::ChannelError;
use super::super::packets::WAKE;
use crate::pages::{PageSize, SharedMemory, unmapped};
use crate::sys::forks;
use crate::sys::shared::SharedMapping;

/// Buffers that a receiver may have at once.
pub(super) const SLOTS: usize = 4096 - FIRST;

/// Words of the table: how many came back, and how far the receiver was, and 1, when it last asked for a
/// message in vain; in a pair of cache lines of its own the sender's sleep, and then a word a slot.
const RETURNED: usize = 0;
const ASKED: usize = 8;
const SLEEP: usize = 16;
const FIRST: usize = 32;
const TABLE_BYTES: usize = (FIRST + SLOTS) * size_of::<u64>();

/// What tells that the receiver asked when it had passed so many bytes of the ring; 0 is never.
pub(super) fn asked_at(passed: u64) -> u64 {
    passed.wrapping_add(1)
}

const HERE: u64 = 0;
const LENT: u64 = 1;

/// The sender sleeps in poll(2).
const ASLEEP: u32 = 2;

#[derive(Debug)]
pub(super) struct Slots {
    memory: SharedMapping,
    /// Whose they are: what a forked process has of them is its parent's to give back.
    forks: u32,
    /// The receiver's, to wake the sender; gone once the channel is.
    bell: Mutex<Option<Arc<OwnedFd>>>,
}

impl Slots {
    /// A table, and its file, to be handed to the receiver.
    pub(super) fn create() -> Result<(Slots, OwnedFd), ChannelError> {
        let (memory, file) = SharedMemory::create(TABLE_BYTES, PageSize::Base)?.into_parts();
        Ok((Slots { memory, forks: forks::count(), bell: Mutex::new(None) }, file))
    }

    pub(super) fn open(file: BorrowedFd<'_>, bell: Arc<OwnedFd>) -> Result<Slots, ChannelError> {
        let memory = SharedMapping::of(file)
            .map_err(|errno| unmapped(file, errno))
            .map_err(ChannelError::refused("its table could be made shorter"))?;
        match size_of_val(memory.words()) >= TABLE_BYTES {
            true => Ok(Slots { memory, forks: forks::count(), bell: Mutex::new(Some(bell)) }),
            false => Err(ChannelError::Unsafe("its table is too short")),
        }
    }

    pub(super) fn lend(&self, slot: u32) {
        self.memory.words()[FIRST + slot as usize].store(LENT, Relaxed);
    }

    pub(super) fn is_back(&self, slot: u32) -> bool {
        self.memory.words()[FIRST + slot as usize].load(Acquire) == HERE
    }

    /// How many came back; only whether it changes counts.
    pub(super) fn returned(&self) -> u64 {
        self.memory.words()[RETURNED].load(Acquire)
    }

    /// Gives a buffer back, and wakes the sender if it sleeps for one. Does nothing in a forked process.
    pub(super) fn give_back(&self, slot: u32) {
        if self.forks != forks::count() {
            return;
        }
        self.memory.words()[FIRST + slot as usize].store(HERE, Release);
        self.memory.words()[RETURNED].fetch_add(1, AcqRel);
        self.wake_if_asleep();
    }

    /// Tells that the receiver has passed so many bytes of the ring, all that there were, and asks for more;
    /// and wakes the sender if it sleeps for a buffer.
    pub(super) fn ask(&self, passed: u64) {
        let word = &self.memory.words()[ASKED];
        let asked = asked_at(passed);
        // Who looks again and again tells it once.
        if word.load(Relaxed) != asked {
            word.store(asked, Release);
            self.wake_if_asleep();
        }
    }

    /// Where the receiver last asked in vain: [`asked_at`] what it had passed.
    pub(super) fn asked(&self) -> u64 {
        self.memory.words()[ASKED].load(Acquire)
    }

    fn wake_if_asleep(&self) {
        // Either the sender sees it before it sleeps, or this end sees the sender asleep.
        fence(SeqCst);
        if self.memory.half_word(SLEEP).load(Acquire) == ASLEEP {
            self.wake();
        }
    }

    /// The sender's own drafts wake nobody, and leave it to the receiver to.
    fn wake(&self) {
        let bell = self.bell.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(bell) = &*bell
            && self.memory.half_word(SLEEP).swap(0, AcqRel) == ASLEEP
        {
            // A socket that is full is readable already; one that is closed needs no wake.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
            let _ = rustix::net::send(bell, WAKE, flags);
        }
    }

    /// Wakes nobody from now on.
    pub(super) fn hang_up(&self) {
        *self.bell.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = None;
    }

    /// Has the socket become readable once more came back than so many, or the receiver has asked since it
    /// did there; false where that is so already.
    pub(super) fn lie_down(&self, returned: u64, asked: u64) -> bool {
        let sleep = self.memory.half_word(SLEEP);
        sleep.store(ASLEEP, Release);
        fence(SeqCst);
        let sleeps = self.returned() == returned && self.asked() == asked;
        if !sleeps {
            self.get_up();
        }
        sleeps
    }

    pub(super) fn get_up(&self) {
        self.memory.half_word(SLEEP).store(0, Release);
    }
}
