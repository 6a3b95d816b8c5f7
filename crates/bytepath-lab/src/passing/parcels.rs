//! Whole buffers by descriptor: memory in files without names, sealed and handed over.
//!
//! Costs per buffer the pages it is made of and the calls to make, seal, hand over and map it; one
//! copy (file to buffer) where nobody looks at the bytes.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use bytepath::channel::{Connection, Parcel};
use bytepath::pages::PageSize;

use super::{Receives, Sends, Sink, Way, uninterrupted};

/// Buffers large enough to be one huge page.
const PARCEL_BYTES: usize = bytepath::pages::HUGE_PAGE_BYTES;

const PATIENCE: Duration = Duration::from_secs(60);

/// memfd_create, sealed, by SCM_RIGHTS.
pub(super) struct MemfdPass;

impl Way for MemfdPass {
    fn name(&self) -> &'static str {
        "memfd-pass"
    }

    fn how(&self) -> &'static str {
        "a sealed memfd of 2 MiB a piece, handed over a Unix socket"
    }

    fn sender(&self, link: OwnedFd, _bytes: u64) -> io::Result<Box<dyn Sends>> {
        Ok(Box::new(Passing(Connection::from_fd(link)?)))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Ok(Box::new(Passing(Connection::from_fd(link)?)))
    }
}

struct Passing(Connection);

/// System calls to make, size, map, advise, seal (with unmapping and mapping anew, and looking at
/// the seals and the size), hand over and let go of a buffer, besides those that fill it.
const CALLS_SENT: u64 = 14;
/// To take, look at, map and let go of one.
const CALLS_TAKEN: u64 = 6;

impl Sends for Passing {
    fn send(&mut self, mut file: &File) -> io::Result<u64> {
        let mut calls = 0;
        loop {
            let mut parcel =
                Parcel::allocate(PARCEL_BYTES, PageSize::Huge).map_err(io::Error::other)?;
            let mut filled = 0;
            while filled < PARCEL_BYTES {
                let room = &mut parcel.as_mut_slice()[filled..];
                let count = uninterrupted(|| file.read(room))?;
                calls += 1;
                if count == 0 {
                    break;
                }
                filled += count;
            }
            if filled == 0 {
                return Ok(calls);
            }
            self.0.give(&parcel.seal(filled).map_err(io::Error::other)?)?;
            calls += CALLS_SENT;
        }
    }
}

impl Receives for Passing {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        let mut calls = 0;
        while let Some(parcel) = self.0.take(PATIENCE)? {
            calls += CALLS_TAKEN + sink.take(parcel.as_slice())?;
        }
        Ok(calls)
    }
}
