//! Reading ahead from file to file, where a thread waits for a device.
//!
//! The kernel reads ahead within a file, but small ones are over before that begins: each is waited for
//! in turn. What is asked for of the next ones meanwhile comes in one go (posix_fadvise(2)).

use std::cell::RefCell;
use std::os::fd::OwnedFd;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::fs::{Advice, Mode, OFlags, fadvise, openat};

use super::entries::Entries;
use super::pair::Within;
use super::settings::Reflink;
use super::shared::Shared;

/// Files that are copied until it is looked again whether the thread waits.
const FILES_BETWEEN: usize = 8;

/// Files that are asked for ahead.
const FILES_AHEAD: usize = 32;

/// Of each, so much: the kernel reads ahead of what comes behind.
const BYTES_AHEAD: u64 = 256 << 10;

impl Shared<'_> {
    /// Whether the data of files that are copied to there are read, as far as is known.
    pub(super) fn reads_to(&self, within: Within) -> bool {
        match self.settings.reflink {
            Reflink::Never => true,
            Reflink::Auto => matches!(self.tally.known_to(within.device), Some((_, false))),
            Reflink::Always => false,
        }
    }
}

thread_local! {
    static WAITS: RefCell<Waits> = RefCell::default();
}

/// Whether this thread has to wait for a device.
#[derive(Default)]
struct Waits {
    waits: bool,
    files: usize,
    /// Blocks that devices read for it so far.
    blocks: Option<i64>,
}

impl Waits {
    /// Takes note of another file.
    fn now(&mut self) -> bool {
        if self.files.is_multiple_of(FILES_BETWEEN) {
            let blocks = getrusage(UsageWho::RUSAGE_THREAD).ok().map(|usage| usage.block_reads());
            self.waits = self.blocks.is_some() && blocks > self.blocks;
            self.blocks = blocks;
        }
        self.files += 1;
        self.waits
    }
}

/// Another file is to be copied by this thread: whether it has to wait for a device.
pub(super) fn waits() -> bool {
    WAITS.with_borrow_mut(Waits::now)
}

/// The files of a directory, or of a part of it, that were asked for.
pub(super) struct Ahead<'a> {
    source: &'a OwnedFd,
    entries: &'a Entries,
    /// Up to here.
    reached: usize,
    end: usize,
}

impl<'a> Ahead<'a> {
    pub(super) fn new(source: &'a OwnedFd, entries: &'a Entries, end: usize) -> Ahead<'a> {
        Ahead { source, entries, reached: 0, end }
    }

    /// This file is to be copied, and those behind it soon.
    pub(super) fn is_at(&mut self, at: usize) {
        if !waits() {
            return;
        }
        let until = self.end.min(at + FILES_AHEAD);
        for next in (self.reached.max(at)..until).filter(|next| self.entries.is_file(*next)) {
            self.ask_for(next);
        }
        self.reached = until;
    }

    /// Whatever is in the way of this is told of when the file is copied.
    fn ask_for(&self, at: usize) {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let name = self.entries.c_name(at);
        if let Ok(file) = openat(self.source, name, flags | OFlags::CLOEXEC, Mode::empty()) {
            let _ = fadvise(&file, 0, BYTES_AHEAD.try_into().ok(), Advice::WillNeed);
        }
    }
}
