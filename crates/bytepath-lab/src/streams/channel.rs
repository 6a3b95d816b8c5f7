//! A channel, written and read in place.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::Relaxed;

use bytepath::Wait;
use bytepath::channel::{Connection, Receiver, Setup};
use bytepath::pages::PageSize;

use super::{Count, PIECE_BYTES, Reads, Ready, Stream, WORD_BYTES};

/// A channel with its usual ring, in pages of this size.
pub(super) struct Channel {
    pub(super) name: &'static str,
    pub(super) pages: PageSize,
    pub(super) wait: Wait,
}

impl Channel {
    fn setup(&self) -> Setup {
        Setup { pages: self.pages, wait: self.wait, ..Setup::default() }
    }
}

impl Stream for Channel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn joints(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (ours, theirs) = Connection::pair()?;
        Ok((ours.into(), theirs.into()))
    }

    fn reader(&self, joint: OwnedFd) -> io::Result<Box<dyn Reads>> {
        let receiver = Connection::from_fd(joint)?.receiver(&self.setup())?;
        Ok(Box::new(Reader { receiver, count: Count::default() }))
    }

    fn write(&self, joint: OwnedFd, ready: Ready<'_>) -> io::Result<()> {
        let mut sender = Connection::from_fd(joint)?.sender(&self.setup())?;
        let huge = sender.memory().huge_bytes().map_err(io::Error::other)?;
        crate::passing::are_in(self.pages, huge)?;
        ready()?;
        let mut count = Count::default();
        loop {
            let mut space = sender.space(PIECE_BYTES)?;
            let mut bytes = space.bytes();
            // The ring, and what is committed, are whole words.
            let (_, words, _) = bytes.words();
            for (word, value) in words.iter().zip(count.take(words.len())) {
                word.store(value, Relaxed);
            }
            let written = words.len() * WORD_BYTES;
            space.commit(written);
        }
    }
}

struct Reader {
    receiver: Receiver,
    count: Count,
}

impl Reads for Reader {
    fn read(&mut self) -> io::Result<usize> {
        let Some(filled) = self.receiver.filled(PIECE_BYTES)? else {
            return Err(io::Error::other("the writer has ended"));
        };
        let (_, words, _) = filled.bytes().words();
        let bytes = self.count.check(words.len(), words.iter().map(|word| word.load()))?;
        filled.release(bytes);
        Ok(bytes)
    }
}
