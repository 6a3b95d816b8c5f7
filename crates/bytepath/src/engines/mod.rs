//! Ways to keep requests on files in flight, one file each, and the list of them.
//!
//! An engine has slots, each with memory for one request. A slot that is free takes a request
//! ([`Engine::push`]); what was pushed is handed over together ([`Engine::submit`]); what is done
//! frees its slot again ([`Engine::wait`]). While a request is in flight its memory cannot be
//! looked at. Engines know neither clocks nor patterns: who drives them does.

mod linux_aio;
mod mapped;
mod posix_aio;
mod sync;
mod uring;

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;

use crate::error::Refusal;
use crate::pages::{Memory, Pages};

/// What is asked of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Bytes of the file into the slot's memory.
    Read,
    /// The slot's memory into the file.
    Write,
}

/// A request for as many bytes as a slot has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Io {
    /// The place of the file among those that the engine was opened with.
    pub file: usize,
    /// Where in the file, in bytes.
    pub at: u64,
    /// Which way.
    pub direction: Direction,
}

/// A request that is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Done {
    /// The slot, which is free again.
    pub slot: usize,
    /// How many bytes, or the kernel's word.
    pub answer: Result<u32, Errno>,
}

/// Requests in flight on one thread, the one that opened it: a ring takes them from no other, so it is not
/// [`Send`].
pub trait Engine {
    /// Takes a request into a free slot, with the slot's memory.
    ///
    /// # Panics
    /// If the slot is not free, or there is no such slot or file; by a mapping, also if the file has
    /// no such range. One that becomes shorter while it is mapped ends the process by SIGBUS.
    fn push(&mut self, slot: usize, io: Io);

    /// Hands over what was pushed.
    ///
    /// # Errors
    /// The kernel's word where it takes nothing at all.
    fn submit(&mut self) -> Result<(), Errno>;

    /// Waits until at least one request is done, and adds all that are to `done`. Adds none where
    /// none is in flight.
    ///
    /// # Errors
    /// The kernel's word where it does not let anybody wait.
    fn wait(&mut self, done: &mut Vec<Done>) -> Result<(), Errno>;

    /// The memory of a free slot.
    ///
    /// # Panics
    /// If the slot is not free.
    fn bytes(&self, slot: usize) -> &[u8];

    /// The memory of a free slot, to be filled.
    ///
    /// # Panics
    /// If the slot is not free.
    fn bytes_mut(&mut self, slot: usize) -> &mut [u8];

    /// System calls made so far by this thread, where the engine knows them.
    fn calls(&self) -> Option<u64>;

    /// Requests that could not be answered at once and were made again by a call that waits, where the
    /// engine asks for answers at once.
    fn would_block(&self) -> Option<u64> {
        None
    }

    /// What a request's errno says about this engine and the file, for people.
    fn refusal(&self, errno: Errno) -> Refusal {
        refusal(errno)
    }
}

/// A file, and how much of it may be asked for.
#[derive(Debug, Clone, Copy)]
pub struct Span<'fd> {
    /// The file, or device.
    pub file: BorrowedFd<'fd>,
    /// Bytes from its start on.
    pub bytes: u64,
}

/// What an engine is opened for.
#[derive(Debug, Clone, Copy)]
pub struct Opening<'a, 'fd> {
    /// The files, by the places that requests name.
    pub files: &'a [Span<'fd>],
    /// Bytes of each request, less than 4 GiB.
    pub io_bytes: usize,
    /// How many slots: requests in flight at most.
    pub depth: usize,
    /// Whether any request writes.
    pub writes: bool,
    /// How long the kernel's submitting thread watches an empty queue, where there is one.
    pub idle: Duration,
}

/// An engine that can be opened.
pub trait Kind: Sync {
    /// Its name, as people write it.
    fn name(&self) -> &'static str;

    /// What it is, in a few words.
    fn summary(&self) -> &'static str;

    /// Whether one thread can have more than one request in flight.
    fn queues(&self) -> bool;

    /// Whether it can do the work at all: on files opened with O_DIRECT or not, for requests that
    /// all read, or not.
    ///
    /// # Errors
    /// Why it cannot.
    fn suits(&self, cache: Cache, writes: bool) -> Result<(), Refusal>;

    /// Opens it.
    ///
    /// # Errors
    /// Who or what stands in the way, with the remedy.
    fn open<'fd>(&self, opening: &Opening<'_, 'fd>) -> Result<Box<dyn Engine + 'fd>, Refusal>;
}

/// Whether requests go through the page cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// They do.
    Buffered,
    /// They go to the device: the file is opened with O_DIRECT.
    Direct,
}

/// Every engine, in the order of the published table.
pub const ENGINES: &[&dyn Kind] = &[
    &sync::PREAD,
    &posix_aio::PosixAio,
    &linux_aio::LinuxAio,
    &uring::URING,
    &uring::REGISTERED,
    &uring::SQPOLL,
    &uring::IOPOLL,
    &mapped::Mapped,
    &sync::NOWAIT,
];

/// The engine of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Kind> {
    ENGINES.iter().copied().find(|engine| engine.name() == name)
}

/// The memory of the slots.
fn memory(opening: &Opening<'_, '_>) -> Result<Vec<Memory>, Refusal> {
    let one = |_| Memory::allocate(opening.io_bytes, &Pages::default());
    let all: Result<_, _> = (0..opening.depth).map(one).collect();
    all.map_err(|error| Refusal::because(error.to_string()))
}

/// What a request's errno says where the engine has nothing to add.
fn refusal(errno: Errno) -> Refusal {
    match errno {
        Errno::INVAL => Refusal::errno("this file or device does not take such requests", errno)
            .remedy("with --direct, take a --bs that is a multiple of the device's blocks"),
        Errno::OPNOTSUPP => Refusal::errno("this file cannot do that", errno),
        Errno::NOSPC => Refusal::errno("the file system is full", errno).remedy("free some space"),
        Errno::IO => Refusal::errno("the device or file system reports a fault", errno)
            .remedy("look at the kernel's log (dmesg)"),
        _ => Refusal::errno("the request failed", errno),
    }
}
