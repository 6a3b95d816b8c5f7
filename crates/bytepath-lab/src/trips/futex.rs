//! By a word of shared memory that the other end sleeps on: the least that waking somebody costs.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Release};

use bytepath::pages::{PageSize, SharedMemory};

use super::{Medium, Side, Trips};

pub(super) struct Futex;

/// The words, in cache lines of their own: what the end that begins stores, and what the other does.
const BEGINS: usize = 0;
const ANSWERS: usize = 64;

/// A word holds the low half of the trip's number, which is all that it carries.
const CARRIED_BYTES: usize = 8;

impl Medium for Futex {
    fn name(&self) -> &'static str {
        "futex"
    }

    fn carries(&self, bytes: usize) -> bool {
        bytes == CARRIED_BYTES
    }

    fn joints(&self) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
        let memory = SharedMemory::create(4096, PageSize::Base).map_err(io::Error::other)?;
        let joint = || memory.as_fd().try_clone_to_owned();
        Ok((vec![joint()?], vec![joint()?]))
    }

    fn joints_an_end(&self) -> usize {
        1
    }

    fn end(&self, joints: Vec<OwnedFd>, side: Side) -> io::Result<Box<dyn Trips>> {
        let joint = joints.into_iter().next();
        let joint = joint.ok_or_else(|| io::Error::other("an end has a descriptor"))?;
        let memory = SharedMemory::open(joint).map_err(io::Error::other)?;
        let (ours, theirs) = match side {
            Side::Begins => (BEGINS, ANSWERS),
            Side::Answers => (ANSWERS, BEGINS),
        };
        Ok(Box::new(Words { memory, ours, theirs, seen: 0 }))
    }
}

struct Words {
    memory: SharedMemory,
    ours: usize,
    theirs: usize,
    seen: u32,
}

impl Trips for Words {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let number = bytes.first_chunk().map_or(0, |number| u64::from_ne_bytes(*number));
        let word = self.memory.half_word(self.ours);
        word.store(number as u32, Release);
        word.wake(1);
        Ok(())
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<()> {
        let word = self.memory.half_word(self.theirs);
        while word.load(Acquire) == self.seen {
            word.sleep(self.seen, None);
        }
        self.seen = word.load(Acquire);
        into.copy_from_slice(&u64::from(self.seen).to_ne_bytes());
        Ok(())
    }
}
