//! Shared memory as large as the file: the sender copies the file into it, the receiver out of it.
//!
//! Costs the pages of all of the file, each missed once by either end, and two copies of its bytes;
//! besides, where the ends take turns, a packet a piece.
//!
//! The survey's own program had both copy at once, and nothing that told the receiver what was there
//! already: what it measured is here too, named for what it is.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use bytepath::channel::Connection;
use bytepath::pages::{PageSize, SharedMemory};
use rustix::net::SendFlags;

use super::control::{hear, say_with};
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

    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (ours, theirs) = Connection::pair()?;
        Ok((ours.into(), theirs.into()))
    }

    fn sender(&self, link: OwnedFd) -> io::Result<Box<dyn Sends>> {
        Ok(Box::new(Filling { link, turns: self.turns }))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Ok(Box::new(Emptying { link, turns: self.turns }))
    }

    fn is_sound(&self) -> bool {
        self.turns == Turns::Taken
    }
}

struct Filling {
    link: OwnedFd,
    turns: Turns,
}

impl Sends for Filling {
    fn send(&mut self, file: &File) -> io::Result<u64> {
        let bytes = file.metadata()?.len();
        let mut memory =
            SharedMemory::create(bytes as usize, PageSize::Base).map_err(io::Error::other)?;
        say_with(&self.link, &bytes.to_ne_bytes(), memory.as_fd())?;
        let (mut at, mut calls) = (0, 1);
        loop {
            let end = memory.len().min(at + PIECE_BYTES);
            let count = uninterrupted(|| memory.space(at..end).read_from(0, file))?;
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
}

impl Receives for Emptying {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        let (bytes, file) = self.told()?;
        let file = file.ok_or_else(|| io::Error::other("no memory came"))?;
        let mut memory = SharedMemory::open(file).map_err(io::Error::other)?;
        let (mut at, mut calls) = (0, 1);
        while at < bytes {
            let there = match self.turns {
                Turns::Taken => self.told()?.0,
                Turns::Ignored => bytes.min(at + PIECE_BYTES),
            };
            if there <= at || there > memory.len() {
                return Err(io::Error::other("the sender tells of what cannot be"));
            }
            calls += u64::from(self.turns == Turns::Taken);
            calls += sink.take_shared(memory.bytes(at..there))?;
            at = there;
        }
        Ok(calls)
    }
}

impl Emptying {
    /// A number of bytes that the sender tells of, and the descriptor that comes with it.
    fn told(&self) -> io::Result<(usize, Option<OwnedFd>)> {
        let (packet, file) = uninterrupted(|| hear(&self.link))?;
        let bytes = packet.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes) as usize);
        Ok((bytes.ok_or_else(|| io::Error::other("the sender is gone"))?, file))
    }
}
