//! `pread` and `preadv2-nowait`: one request at a time, by a system call that does it.
//!
//! Costs per request: one system call and one copy; with `preadv2-nowait` a second call where the
//! page cache does not have the bytes.

use std::io::{IoSlice, IoSliceMut};

use rustix::io::{Errno, ReadWriteFlags};

use super::{Cache, Direction, Done, Engine, Io, Kind, Opening, Span, memory};
use crate::endpoint::place;
use crate::error::Refusal;
use crate::pages::Memory;

/// pread(2) and pwrite(2).
pub(super) const PREAD: Pread = Pread {
    name: "pread",
    summary: "pread(2) and pwrite(2), one at a time",
    waiting: Waiting::Allowed,
};

/// preadv2(2) with RWF_NOWAIT, and pread(2) for what would have to wait.
pub(super) const NOWAIT: Pread = Pread {
    name: "preadv2-nowait",
    summary: "preadv2(2) that does not wait, and pread(2) for what it does not find in the cache",
    waiting: Waiting::OnceRefused,
};

/// See the module.
pub(super) struct Pread {
    name: &'static str,
    summary: &'static str,
    waiting: Waiting,
}

/// Whether a read may wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Allowed,
    /// Only after a call that may not wait has said that it would have to.
    OnceRefused,
}

impl Kind for Pread {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn queues(&self) -> bool {
        false
    }

    fn suits(&self, cache: Cache, writes: bool) -> Result<(), Refusal> {
        match (self.waiting, cache, writes) {
            (Waiting::Allowed, ..) | (_, Cache::Buffered, false) => Ok(()),
            (_, Cache::Direct, _) => Err(Refusal::because(
                "what does not go through the cache always waits for the device",
            )),
            (.., true) => {
                Err(Refusal::because("most file systems take no writes that may not wait"))
            }
        }
    }

    fn open<'fd>(&self, opening: &Opening<'_, 'fd>) -> Result<Box<dyn Engine + 'fd>, Refusal> {
        Ok(Box::new(Sync {
            files: opening.files.to_vec(),
            slots: memory(opening)?,
            waiting: self.waiting,
            pushed: Vec::with_capacity(opening.depth),
            done: Vec::with_capacity(opening.depth),
            calls: 0,
            would_block: 0,
        }))
    }
}

struct Sync<'fd> {
    files: Vec<Span<'fd>>,
    slots: Vec<Memory>,
    waiting: Waiting,
    pushed: Vec<(usize, Io)>,
    done: Vec<Done>,
    calls: u64,
    would_block: u64,
}

impl Sync<'_> {
    fn carry_out(&mut self, slot: usize, io: Io) -> Result<u32, Errno> {
        loop {
            match self.attempt(slot, io) {
                Err(Errno::INTR) => {}
                answer => return answer.map(|count| count as u32),
            }
        }
    }

    #[inline]
    fn attempt(&mut self, slot: usize, io: Io) -> Result<usize, Errno> {
        let file = self.files[io.file].file;
        let bytes = self.slots[slot].as_mut_slice();
        self.calls += 1;
        match (io.direction, self.waiting) {
            (Direction::Read, Waiting::Allowed) => rustix::io::pread(file, bytes, io.at),
            (Direction::Read, Waiting::OnceRefused) => {
                let mut pieces = [IoSliceMut::new(bytes)];
                let at_once = match rustix::io::preadv2(
                    file,
                    &mut pieces,
                    place(io.at),
                    ReadWriteFlags::NOWAIT,
                ) {
                    Err(Errno::AGAIN) => 0,
                    answer => answer?,
                };
                let bytes = self.slots[slot].as_mut_slice();
                if at_once == bytes.len() {
                    return Ok(at_once);
                }
                // Of pages that are there one may be followed by one that is not.
                self.would_block += 1;
                self.calls += 1;
                let at = io.at + at_once as u64;
                rustix::io::pread(file, &mut bytes[at_once..], at).map(|rest| at_once + rest)
            }
            (Direction::Write, Waiting::Allowed) => rustix::io::pwrite(file, bytes, io.at),
            (Direction::Write, Waiting::OnceRefused) => {
                let pieces = [IoSlice::new(bytes)];
                rustix::io::pwritev2(file, &pieces, place(io.at), ReadWriteFlags::empty())
            }
        }
    }
}

impl Engine for Sync<'_> {
    fn push(&mut self, slot: usize, io: Io) {
        assert!(slot < self.slots.len() && io.file < self.files.len(), "there are such");
        self.pushed.push((slot, io));
    }

    fn submit(&mut self) -> Result<(), Errno> {
        for index in 0..self.pushed.len() {
            let (slot, io) = self.pushed[index];
            let answer = self.carry_out(slot, io);
            self.done.push(Done { slot, answer });
        }
        self.pushed.clear();
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Done>) -> Result<(), Errno> {
        self.submit()?;
        done.append(&mut self.done);
        Ok(())
    }

    fn bytes(&self, slot: usize) -> &[u8] {
        self.slots[slot].as_slice()
    }

    fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        self.slots[slot].as_mut_slice()
    }

    fn calls(&self) -> Option<u64> {
        Some(self.calls)
    }

    fn would_block(&self) -> Option<u64> {
        (self.waiting == Waiting::OnceRefused).then_some(self.would_block)
    }
}
