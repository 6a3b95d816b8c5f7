//! Read and write: through a pipe, a Unix socket, or TCP on the loopback device.
//!
//! Costs per piece four copies of its bytes (file to sender, sender to kernel, kernel to receiver,
//! and where they go), and four system calls.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use bytepath::pages::AlignedBuffer;
use rustix::net::AddressFamily;

use crate::pipe_work::{full_pipe, tcp_pair, unix_pair};

use super::{PIECE_BYTES, Receives, Sends, Sink, Way, uninterrupted};

/// A pipe of the usual size.
pub(super) struct Pipe;

impl Way for Pipe {
    fn name(&self) -> &'static str {
        "pipe-read-write"
    }

    fn how(&self) -> &'static str {
        "read and write of 64 KiB, through a pipe of the usual size"
    }

    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        full_pipe().map_err(io::Error::other)
    }

    fn sender(&self, link: OwnedFd, _bytes: u64) -> io::Result<Box<dyn Sends>> {
        Ok(Box::new(Writer(link.into())))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Ok(Box::new(Reader(link.into())))
    }
}

/// Two connected stream sockets.
pub(super) struct Socket {
    pub(super) name: &'static str,
    pub(super) family: AddressFamily,
}

impl Way for Socket {
    fn name(&self) -> &'static str {
        self.name
    }

    fn how(&self) -> &'static str {
        "read and write of 64 KiB, through connected stream sockets"
    }

    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        if self.family == AddressFamily::UNIX {
            return unix_pair();
        }
        let (near, far) = tcp_pair()?;
        Ok((near.into(), far.into()))
    }

    fn sender(&self, link: OwnedFd, bytes: u64) -> io::Result<Box<dyn Sends>> {
        Pipe.sender(link, bytes)
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Pipe.receiver(link)
    }
}

struct Writer(File);

impl Sends for Writer {
    fn send(&mut self, mut file: &File) -> io::Result<u64> {
        let (mut buffer, mut calls) = (AlignedBuffer::new(PIECE_BYTES), 0);
        loop {
            let count = uninterrupted(|| file.read(&mut buffer))?;
            calls += 2;
            if count == 0 {
                return Ok(calls);
            }
            self.0.write_all(&buffer[..count])?;
        }
    }
}

/// Reads a link to its end.
pub(super) struct Reader(pub(super) File);

impl Receives for Reader {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        let (mut buffer, mut calls) = (AlignedBuffer::new(PIECE_BYTES), 0);
        loop {
            let count = uninterrupted(|| self.0.read(&mut buffer))?;
            calls += 1;
            if count == 0 {
                return Ok(calls);
            }
            calls += sink.take(&buffer[..count])?;
        }
    }
}
