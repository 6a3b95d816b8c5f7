//! A channel: bytes are read into the ring, and looked at or written from there.
//!
//! Costs per piece one copy (file to ring) where nobody looks at the bytes, two where they are
//! looked at or written, and a system call for each of these.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use bytepath::channel::{Connection, Receiver, Sender, Setup};
use bytepath::pages::PageSize;

use super::{PIECE_BYTES, Receives, Sends, Sink, Way, are_in, uninterrupted};

/// A channel with its usual ring, in pages of this size.
pub(super) struct Channel {
    pub(super) name: &'static str,
    pub(super) pages: PageSize,
}

impl Channel {
    fn setup(&self) -> Setup {
        Setup { pages: self.pages, ..Setup::default() }
    }
}

impl Way for Channel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn how(&self) -> &'static str {
        match self.pages {
            PageSize::Base => "a channel whose ring is in 4 KiB pages",
            PageSize::Huge | PageSize::Hugetlb => "a channel whose ring is in 2 MiB pages",
        }
    }

    fn sender(&self, link: OwnedFd, _bytes: u64) -> io::Result<Box<dyn Sends>> {
        let sender = Connection::from_fd(link)?.sender(&self.setup())?;
        let huge = sender.memory().huge_bytes().map_err(io::Error::other)?;
        are_in(self.pages, huge)?;
        Ok(Box::new(Sending(Some(sender))))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Ok(Box::new(Receiving(Connection::from_fd(link)?.receiver(&self.setup())?)))
    }
}

struct Sending(Option<Sender>);

impl Sends for Sending {
    fn send(&mut self, file: &File) -> io::Result<u64> {
        let Some(mut sender) = self.0.take() else { return Ok(0) };
        let mut calls = 0;
        loop {
            let mut space = sender.space(PIECE_BYTES)?;
            let count = uninterrupted(|| space.bytes().read_from(0, file))?;
            calls += 1;
            if count == 0 {
                break;
            }
            space.commit(count);
        }
        calls += sender.meter().read().calls;
        sender.finish();
        Ok(calls)
    }
}

struct Receiving(Receiver);

impl Receives for Receiving {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        let mut calls = 0;
        while let Some(filled) = self.0.filled(PIECE_BYTES)? {
            calls += sink.take_shared(filled.bytes())?;
            let count = filled.len();
            filled.release(count);
        }
        Ok(calls + self.0.meter().read().calls)
    }
}
