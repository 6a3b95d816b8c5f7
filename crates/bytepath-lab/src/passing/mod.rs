//! Ways to pass a file's bytes from one process to another, each a file here, and the two processes
//! that do it: `bytepath pass`.
//!
//! The receiver makes what joins them and hands the sender its end; both set themselves up; the
//! clock runs from the moment at which the sender may begin until the receiver has all bytes where
//! they are to go.

mod channel;
pub(crate) mod control;
mod gift;
mod mapped;
mod parcels;
mod process_vm;
mod sink;
pub(crate) mod splice;
mod stream;
mod zero_copy;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

use bytepath::channel::Connection;
use bytepath::pages::PageSize;
use rustix::net::AddressFamily;
use serde_json::Value;

use crate::ends::{EndReport, Usage};
use control::Control;
pub use control::controls;
pub use sink::{Keeps, Sink, checksum};

/// Bytes that are taken, or handed over, at once, unless the way says otherwise: what a pipe holds.
pub(crate) const PIECE_BYTES: usize = 64 << 10;

/// A way to pass bytes from one process to another.
pub trait Way: Sync {
    /// Its name, which is the arm's.
    fn name(&self) -> &'static str;

    /// How it does it, as a clause.
    fn how(&self) -> &'static str;

    /// Makes what joins the ends: the receiver's end, and the sender's. A connection, as of channels,
    /// unless the way says otherwise.
    ///
    /// # Errors
    /// It is not to be had here.
    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (ours, theirs) = Connection::pair()?;
        Ok((ours.into(), theirs.into()))
    }

    /// Makes the sender of its end, which is to send so many bytes.
    ///
    /// # Errors
    /// As of [`Way::link`].
    fn sender(&self, link: OwnedFd, bytes: u64) -> io::Result<Box<dyn Sends>>;

    /// Whether every byte arrives as it was sent. Where not, the run tells whether they did.
    fn is_sound(&self) -> bool {
        true
    }

    /// Makes the receiver of its end.
    ///
    /// # Errors
    /// As of [`Way::link`].
    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>>;
}

/// A sender that is ready.
pub trait Sends {
    /// Sends all of a file; how many system calls that took, where it is known. That it was all is
    /// known to the receiver when this is dropped.
    ///
    /// # Errors
    /// The kernel's word.
    fn send(&mut self, file: &File) -> io::Result<u64>;

    /// What it turned out to be made of, once all is sent.
    fn found(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }
}

/// A receiver that is ready.
pub trait Receives {
    /// Receives until the sender is done; how many system calls that took, where it is known.
    ///
    /// # Errors
    /// The kernel's word.
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64>;
}

/// Every way.
pub const WAYS: &[&dyn Way] = &[
    &stream::Pipe,
    &splice::Splice,
    &channel::Channel { name: "channel", pages: PageSize::Huge },
    &channel::Channel { name: "channel-4k-pages", pages: PageSize::Base },
    &stream::Socket { name: "unix-socket", family: AddressFamily::UNIX },
    &stream::Socket { name: "tcp-loopback", family: AddressFamily::INET },
    &zero_copy::ZeroCopy,
    &parcels::MemfdPass,
    &mapped::Mapped { name: "mmap-shared-memory", turns: mapped::Turns::Taken },
    &mapped::Mapped { name: "mmap-shared-memory-unsynchronised", turns: mapped::Turns::Ignored },
    &process_vm::ProcessVm,
    &gift::GiftPipe,
];

/// The way of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Way> {
    WAYS.iter().copied().find(|way| way.name() == name)
}

/// What a receiver is to do.
pub struct Receiving {
    /// By what way.
    pub way: &'static dyn Way,
    /// What becomes of the bytes.
    pub keeps: Keeps,
    /// Where the file is made if they are kept in one.
    pub directory: PathBuf,
}

/// Receives what the process at the other end of the control socket sends.
///
/// # Errors
/// The way is not to be had, or failed.
pub fn receive(job: &Receiving, control: OwnedFd) -> io::Result<EndReport> {
    let mut control = Control::new(control);
    let (ours, theirs) = job.way.link()?;
    control.hand(theirs)?;
    let mut receiver = job.way.receiver(ours)?;
    let kept = |error: io::Error| {
        let directory = job.directory.display();
        io::Error::other(format!("cannot write to a file in {directory}: {error}; see --dir"))
    };
    let mut sink = Sink::open(job.keeps, &job.directory).map_err(kept)?;
    control.until_ready()?;
    let (began, before) = (Instant::now(), Usage::of_this_process());
    control.go()?;
    let calls = receiver.receive(&mut sink).map_err(|error| {
        let no_room = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::FileTooLarge];
        let is_files = job.keeps == Keeps::File && no_room.contains(&error.kind());
        if is_files { kept(error) } else { error }
    })?;
    let seconds = began.elapsed().as_secs_f64();
    let usage = Usage::of_this_process().since(before);
    Ok(EndReport {
        mechanism: job.way.name().into(),
        bytes: sink.bytes(),
        seconds,
        calls,
        usage,
        touched: job.keeps != Keeps::Nothing,
        checksum: sink.checksum()?,
        ..EndReport::default()
    })
}

/// Sends a file to the process at the other end of the control socket.
///
/// # Errors
/// The way is not to be had, or failed.
pub fn send(way: &dyn Way, file: &File, control: OwnedFd) -> io::Result<EndReport> {
    let mut control = Control::new(control);
    let bytes = file.metadata()?.len();
    let mut sender = way.sender(control.taken()?, bytes)?;
    control.ready()?;
    control.until_go()?;
    let (began, before) = (Instant::now(), Usage::of_this_process());
    let calls = sender.send(file)?;
    let found = sender.found();
    drop(sender);
    Ok(EndReport {
        mechanism: way.name().into(),
        bytes,
        seconds: began.elapsed().as_secs_f64(),
        found,
        calls,
        usage: Usage::of_this_process().since(before),
        ..EndReport::default()
    })
}

/// Calls again what a signal interrupted.
fn uninterrupted<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

/// Whether memory that was asked for in pages of one size is in such, by how much of it is in large
/// ones.
///
/// # Errors
/// It is not; with what would change that.
pub(crate) fn are_in(pages: PageSize, huge_bytes: usize) -> io::Result<()> {
    match (pages, huge_bytes) {
        (PageSize::Base, 0) => Ok(()),
        (PageSize::Base, _) => Err(io::Error::other(ALWAYS_HUGE)),
        (_, 0) => Err(io::Error::other(NEVER_HUGE)),
        _ => Ok(()),
    }
}

const ALWAYS_HUGE: &str = "shared memory is always given 2 MiB pages here; write advise to \
                           /sys/kernel/mm/transparent_hugepage/shmem_enabled as root";
const NEVER_HUGE: &str = "shared memory has no 2 MiB pages here; memory may be fragmented, or \
                          /sys/kernel/mm/transparent_hugepage/shmem_enabled is deny (root may write \
                          advise to it, or fill the pool of /proc/sys/vm/nr_hugepages)";
