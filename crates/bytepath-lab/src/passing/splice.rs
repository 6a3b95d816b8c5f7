//! Splice into a pipe and out of it.
//!
//! Costs per pipeful a system call an end; the file's pages go through the pipe by reference. They
//! are copied once where they go into a file or are looked at, and never where nobody looks.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::pipe::{SpliceFlags, splice};

use super::stream::{Pipe, Reader};
use super::{PIECE_BYTES, Receives, Sends, Sink, Way, uninterrupted};

/// A pipe of the usual size, by splice at both ends; by read where the receiver looks at the bytes.
pub(crate) struct Splice;

impl Way for Splice {
    fn name(&self) -> &'static str {
        "pipe-splice"
    }

    fn how(&self) -> &'static str {
        "splice into a pipe of the usual size and out of it; read where the receiver looks at the bytes"
    }

    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        Pipe.link()
    }

    fn sender(&self, link: OwnedFd, _bytes: u64) -> io::Result<Box<dyn Sends>> {
        Ok(Box::new(Splicer(link)))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        let null = File::options().write(true).open("/dev/null")?;
        Ok(Box::new(Unsplicer { link, null }))
    }
}

struct Splicer(OwnedFd);

impl Sends for Splicer {
    fn send(&mut self, file: &File) -> io::Result<u64> {
        let mut calls = 0;
        while spliced(file, &self.0)? > 0 {
            calls += 1;
        }
        Ok(calls + 1)
    }
}

struct Unsplicer {
    link: OwnedFd,
    null: File,
}

impl Receives for Unsplicer {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        if sink.file().is_none() && !sink.drops() {
            return Reader(self.link.try_clone()?.into()).receive(sink);
        }
        let mut calls = 0;
        loop {
            let count = spliced(&self.link, sink.file().unwrap_or(&self.null))?;
            calls += 1;
            if count == 0 {
                return Ok(calls);
            }
            sink.moved(count);
        }
    }
}

fn spliced(from: impl std::os::fd::AsFd, to: impl std::os::fd::AsFd) -> io::Result<usize> {
    let flags = SpliceFlags::MOVE;
    uninterrupted(|| Ok(splice(&from, None, &to, None, PIECE_BYTES, flags)?))
}
