//! The receiver reads the sender's memory (process_vm_readv).
//!
//! Costs per buffer two copies of its bytes (file to sender, sender to receiver), the system calls
//! for them, and two packets by which the ends take turns; two buffers keep both at work.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use bytepath::channel::{Connection, MemoryOwner, MemoryVisitor, Setup, ShownTo};

use super::{Receives, Sends, Sink, Way, uninterrupted};

/// Buffers that the sender shows where they are.
pub(super) struct ProcessVm;

/// Buffers that the sender fills in turn, and what each holds.
const BUFFERS: usize = 2;
const BUFFER_BYTES: usize = 256 << 10;

impl Way for ProcessVm {
    fn name(&self) -> &'static str {
        "process-vm"
    }

    fn how(&self) -> &'static str {
        "process_vm_readv of 256 KiB from the sender's memory"
    }

    fn sender(&self, link: OwnedFd, _bytes: u64) -> io::Result<Box<dyn Sends>> {
        let owner = Connection::from_fd(link)?.memory_owner(&Setup::default())?;
        Ok(Box::new(Shows(Some(owner))))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Ok(Box::new(Visits(Connection::from_fd(link)?.memory_visitor(&Setup::default())?)))
    }
}

struct Shows(Option<MemoryOwner>);

impl Sends for Shows {
    fn send(&mut self, mut file: &File) -> io::Result<u64> {
        let Some(mut owner) = self.0.take() else { return Ok(0) };
        let mut calls = 0;
        loop {
            let mut buffer = match owner.shown() {
                BUFFERS => owner.take_back()?.map(|(buffer, _)| buffer).unwrap_or_default(),
                _ => vec![0; BUFFER_BYTES],
            };
            let count = uninterrupted(|| file.read(&mut buffer))?;
            calls += 1;
            if count == 0 {
                break;
            }
            owner.show(buffer, count, ShownTo::BeRead)?;
        }
        calls += owner.meter().read().calls;
        // The last of them are looked at while they are still there.
        owner.finish()?;
        Ok(calls)
    }
}

struct Visits(MemoryVisitor);

impl Receives for Visits {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        let (mut buffer, mut calls) = (vec![0; BUFFER_BYTES], 0);
        while let Some(mut visit) = self.0.visit()? {
            let bytes = visit.len();
            let into = usize::try_from(bytes).ok().and_then(|bytes| buffer.get_mut(..bytes));
            let into = into.ok_or_else(|| io::Error::other("the sender shows too much"))?;
            visit.copy_to(0, into)?;
            calls += sink.take(into)?;
            visit.done(bytes)?;
        }
        Ok(calls + self.0.meter().read().calls)
    }
}
