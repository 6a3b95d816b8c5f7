//! Shared memory as large as the file: the sender copies the file into it, the receiver out of it.
//!
//! Costs the pages of all of the file, each missed once by either end before the clock runs, and two
//! copies of its bytes; besides, where the ends take turns, a packet a piece.
//!
//! The survey's own program had both copy at once, and nothing that told the receiver what was there
//! already: what it measured is here too, named for what it is.

use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use bytepath::pages::{PageSize, SharedMemory};
use rustix::net::SendFlags;

use super::control::{GAVE_UP, hear, say_with};
use super::{PIECE_BYTES, Receives, Sends, Sink, Way, uninterrupted};

/// Whether the receiver waits for what it copies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turns {
    Taken,
    Ignored,
}

/// Memory of the file's size that both have mapped.
pub(super) struct Mapped {
    pub(super) name: &'static str,
    pub(super) turns: Turns,
}

impl Way for Mapped {
    fn name(&self) -> &'static str {
        self.name
    }

    fn how(&self) -> &'static str {
        match self.turns {
            Turns::Taken => "shared memory as large as the file, and a packet for every 64 KiB",
            Turns::Ignored => {
                "shared memory as large as the file, which both copy at once: what arrives may be \
                 anything"
            }
        }
    }

    fn sender(&self, link: OwnedFd, bytes: u64) -> io::Result<Box<dyn Sends>> {
        let memory = SharedMemory::create(bytes as usize, PageSize::Base);
        let memory = memory.map_err(io::Error::other)?;
        touch(&memory, |word| word.store(0, Ordering::Relaxed));
        say_with(&link, &bytes.to_ne_bytes(), memory.as_fd())?;
        Ok(Box::new(Filling { link, turns: self.turns, memory }))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        let (bytes, file) = told(&link)?;
        let file = file.ok_or_else(|| io::Error::other("no memory came"))?;
        let memory = SharedMemory::open(file).map_err(io::Error::other)?;
        touch(&memory, |word| {
            black_box(word.load(Ordering::Relaxed));
        });
        Ok(Box::new(Emptying { link, turns: self.turns, memory, bytes }))
    }

    fn is_sound(&self) -> bool {
        self.turns == Turns::Taken
    }
}

/// Has every page there and mapped, so that none is missed while the clock runs.
fn touch(memory: &SharedMemory, at: impl FnMut(&AtomicU64)) {
    memory.words().iter().step_by(rustix::param::page_size() / size_of::<u64>()).for_each(at);
}

struct Filling {
    link: OwnedFd,
    turns: Turns,
    memory: SharedMemory,
}

impl Sends for Filling {
    fn send(&mut self, file: &File) -> io::Result<u64> {
        let (mut at, mut calls) = (0, 0);
        loop {
            let end = self.memory.len().min(at + PIECE_BYTES);
            let count = uninterrupted(|| self.memory.space(at..end).read_from(0, file))?;
            calls += 1;
            if count == 0 {
                return Ok(calls);
            }
            at += count;
            if self.turns == Turns::Taken {
                let there = (at as u64).to_ne_bytes();
                uninterrupted(|| Ok(rustix::net::send(&self.link, &there, SendFlags::NOSIGNAL)?))?;
                calls += 1;
            }
        }
    }
}

struct Emptying {
    link: OwnedFd,
    turns: Turns,
    memory: SharedMemory,
    bytes: usize,
}

impl Receives for Emptying {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        let (mut at, mut calls) = (0, 0);
        while at < self.bytes {
            let there = match self.turns {
                Turns::Taken => told(&self.link)?.0,
                Turns::Ignored => self.bytes.min(at + PIECE_BYTES),
            };
            if there <= at || there > self.memory.len() {
                return Err(io::Error::other("the sender tells of what cannot be"));
            }
            calls += u64::from(self.turns == Turns::Taken);
            calls += sink.take_shared(self.memory.bytes(at..there))?;
            at = there;
        }
        Ok(calls)
    }
}

/// A number of bytes that the sender tells of, and the descriptor that comes with it.
fn told(link: &OwnedFd) -> io::Result<(usize, Option<OwnedFd>)> {
    let (packet, file) = uninterrupted(|| hear(link))?;
    let bytes = packet.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes) as usize);
    Ok((bytes.ok_or_else(|| io::Error::other(GAVE_UP))?, file))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use nix::sys::resource::{UsageWho, getrusage};

    use super::super::{Keeps, WAYS};
    use super::*;

    /// So many that what misses each, or each sixteenth, is told from what misses a few.
    const PAGES: usize = 4096;
    const FEW: i64 = 100;

    fn missed<T>(work: impl FnOnce() -> T) -> (i64, T) {
        let so_far =
            || getrusage(UsageWho::RUSAGE_THREAD).expect("it tells of threads").minor_page_faults();
        let before = so_far();
        let done = work();
        (so_far() - before, done)
    }

    #[test]
    fn no_page_is_missed_while_the_clock_runs() {
        let bytes = PAGES * rustix::param::page_size();
        let mut made = tempfile::tempfile().expect("a file");
        made.write_all(&vec![1; bytes]).expect("written");
        for way in WAYS.iter().filter(|way| way.name().starts_with("mmap")) {
            io::Seek::rewind(&mut made).expect("a file");
            let (ours, theirs) = way.link().expect("a link");
            let file = made.try_clone().expect("a file");
            let sent = std::thread::spawn(move || {
                let mut sender = way.sender(theirs, bytes as u64).expect("a sender");
                missed(|| sender.send(&file).expect("sent")).0
            });
            let mut receiver = way.receiver(ours).expect("a receiver");
            let mut sink = Sink::open(Keeps::Checksum, "/tmp".as_ref()).expect("a sink");
            let (received, _) = missed(|| receiver.receive(&mut sink).expect("received"));
            let sent = sent.join().expect("it ended");
            assert!(sent < FEW && received < FEW, "{}: {sent} and {received}", way.name());
            assert_eq!(sink.bytes(), bytes as u64, "{}", way.name());
        }
    }
}
