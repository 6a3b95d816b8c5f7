//! Pages given away to a pipe, and read from there.
//!
//! Costs per buffer the pages it is made of, a vmsplice and the reads; two copies of its bytes (file
//! to buffer, pipe to receiver).

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};

use bytepath::outlets::{self, Setup};
use bytepath::{Endpoint, Meter};

use super::stream::{Pipe, Reader};
use super::{Receives, Sends, Way, uninterrupted};

/// The outlet `gift` into a pipe, and read out of it.
pub(super) struct GiftPipe;

impl Way for GiftPipe {
    fn name(&self) -> &'static str {
        "gift-pipe"
    }

    fn how(&self) -> &'static str {
        "pages given away to a pipe by vmsplice, and read"
    }

    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        Pipe.link()
    }

    fn sender(&self, link: OwnedFd, _bytes: u64) -> io::Result<Box<dyn Sends>> {
        Ok(Box::new(Giver(link)))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Ok(Box::new(Reader(link.into())))
    }
}

struct Giver(OwnedFd);

impl Sends for Giver {
    fn send(&mut self, mut file: &File) -> io::Result<u64> {
        let sink = Endpoint::sink(self.0.as_fd()).map_err(io::Error::other)?;
        let gift = outlets::by_name("gift").ok_or_else(|| io::Error::other("no outlet gift"))?;
        let meter = Meter::new();
        let stopped = |stop: bytepath::Stop| io::Error::other(stop.to_string());
        let mut producer = gift.open(&sink, &Setup::new(&meter)).map_err(stopped)?;
        let mut calls = 0;
        loop {
            let room = producer.room().map_err(stopped)?;
            let room = room.ok_or_else(|| io::Error::other("the outlet has no room"))?;
            let count = uninterrupted(|| file.read(room))?;
            calls += 1;
            if count == 0 {
                return Ok(calls + meter.read().calls);
            }
            producer.send(count).map_err(stopped)?;
        }
    }
}
