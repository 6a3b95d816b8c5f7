//! What each thread is copying, told by it and read by whoever has to say how far it is.
//!
//! Costs per file: a lock that nobody else wants, and a copy of the name into memory that is kept; of small
//! files that are copied one after the other, a number.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};

use bytepath::Meter;
use bytepath_report::numbers;

use super::entries::Entries;
use super::pair::Pair;
use super::place::joined;
use crate::metrics::Figures;

/// One thread's, in cache lines that no other thread writes.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Hand {
    /// Told by the engine, within files too.
    pub(super) meter: Meter,
    /// Bytes that the engine did not see, by the way they went.
    other_bytes: [AtomicU64; Other::ALL.len()],
    files: AtomicU64,
    file: Mutex<Held>,
    /// Which of the entries that it goes through it is at.
    at: AtomicUsize,
}

/// Ways of bytes that the engine does not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Other {
    /// Of small files and between holes, through memory.
    ReadWrite,
    /// Of small files, inside the kernel.
    CopyFileRange,
    /// Blocks were shared.
    Reflink,
    /// An earlier run had copied them.
    Kept,
}

impl Other {
    const ALL: [Other; 4] = [Other::ReadWrite, Other::CopyFileRange, Other::Reflink, Other::Kept];

    /// As a route; none for what was not moved.
    pub(super) fn route(self) -> Option<&'static str> {
        match self {
            Other::ReadWrite => Some("read-write"),
            Other::CopyFileRange => Some("copy-file-range"),
            Other::Reflink => Some("reflink"),
            Other::Kept => None,
        }
    }
}

/// Files that are read again, and how far that is.
#[derive(Clone, Copy)]
pub(super) struct Rereading {
    pub(super) why: Why,
    pub(super) at: u64,
    pub(super) of_bytes: u64,
    /// Those before that are no holes.
    data_bytes: u64,
}

impl Rereading {
    /// Both together.
    pub(super) fn with(self, other: Rereading) -> Rereading {
        Rereading {
            at: self.at + other.at,
            of_bytes: self.of_bytes + other.of_bytes,
            data_bytes: self.data_bytes + other.data_bytes,
            ..self
        }
    }

    /// How far it is, behind others.
    pub(super) fn shown(&self) -> String {
        let (at, of_bytes) = (self.at, self.of_bytes.max(self.at).max(1));
        match self.why {
            Why::Resume | Why::Whole => {
                format!(", compared {} of {}", numbers::bytes(at), numbers::bytes(of_bytes))
            }
            Why::Verify => format!(", verifying {}%", (100.0 * at as f64 / of_bytes as f64) as u64),
        }
    }
}

/// Why files are read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// To find how much an earlier run copied, all of which is kept.
    Resume,
    /// To find whether it copied all: less is not kept.
    Whole,
    /// To see that the copy is right.
    Verify,
}

#[derive(Default)]
struct Held {
    /// Nothing between files.
    name: OsString,
    /// The entries of a directory, and its names.
    entries: Option<(Arc<Pair>, Arc<Entries>)>,
    /// Whether another run would copy it from its beginning.
    begins_anew: bool,
    /// A place in the file, and what the meter said there.
    offset: u64,
    metered: u64,
    rereading: Option<Rereading>,
}

impl Hand {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.file.lock().expect("nobody panics holding it")
    }

    /// This file is copied from now on.
    pub(super) fn take(&self, name: &OsStr) {
        let mut held = self.held();
        held.name.clear();
        held.name.push(name);
        held.begins_anew = false;
        (held.offset, held.metered) = (0, self.meter.bytes());
    }

    /// Another run would copy this file from its beginning.
    pub(super) fn holds_what_begins_anew(&self) {
        self.held().begins_anew = true;
    }

    /// Whether it copies such a file.
    pub(super) fn begins_anew(&self) -> bool {
        let held = self.held();
        !held.name.is_empty() && held.begins_anew
    }

    /// Small files of this directory are copied from now on, one after the other.
    pub(super) fn goes_through(&self, directory: &Arc<Pair>, entries: &Arc<Entries>) {
        self.at.store(usize::MAX, Relaxed);
        self.held().entries = Some((directory.clone(), entries.clone()));
    }

    /// It is at this one.
    pub(super) fn is_at(&self, at: usize) {
        self.at.store(at, Relaxed);
    }

    /// They are done.
    pub(super) fn is_through(&self) {
        self.held().entries = None;
    }

    /// The file is copied up to here; what the meter counts from now on comes behind.
    pub(super) fn reached(&self, offset: u64) {
        let mut held = self.held();
        (held.offset, held.metered) = (offset, self.meter.bytes());
    }

    /// The file and its copy are read again from now on, so many bytes of them.
    pub(super) fn rereads(&self, why: Why, of_bytes: u64) {
        self.held().rereading = Some(Rereading { why, at: 0, of_bytes, data_bytes: 0 });
    }

    /// They are the same up to here; so many bytes before are no holes.
    pub(super) fn reread(&self, at: u64, data_bytes: u64) {
        if let Some(rereading) = &mut self.held().rereading {
            rereading.at = at;
            rereading.data_bytes += data_bytes;
        }
    }

    /// That is over.
    pub(super) fn has_reread(&self) {
        self.held().rereading = None;
    }

    /// What is read again just now.
    pub(super) fn rereading(&self) -> Option<Rereading> {
        self.held().rereading
    }

    /// Bytes that an earlier run copied.
    pub(super) fn bytes_kept(&self) -> u64 {
        self.other_bytes[Other::Kept as usize].load(Relaxed)
    }

    /// Bytes of which just now is found that an earlier run copied them.
    pub(super) fn bytes_compared(&self) -> u64 {
        let compared = self.rereading().filter(|it| it.why == Why::Resume);
        compared.map_or(0, |it| it.data_bytes)
    }

    /// It is done.
    pub(super) fn put_down(&self) {
        self.held().name.clear();
    }

    pub(super) fn add(&self, way: Other, bytes: u64) {
        add(&self.other_bytes[way as usize], bytes);
    }

    pub(super) fn file_done(&self) {
        add(&self.files, 1);
    }

    /// Files that it has copied.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Relaxed)
    }

    /// Bytes that it has copied.
    pub(super) fn bytes(&self) -> u64 {
        let other = self.other_bytes.iter().map(|bytes| bytes.load(Relaxed));
        self.meter.bytes() + other.sum::<u64>()
    }

    /// Those of them that took a copy.
    pub(super) fn bytes_copied(&self) -> u64 {
        let other = |way: Other| self.other_bytes[way as usize].load(Relaxed);
        self.meter.bytes() + other(Other::ReadWrite) + other(Other::CopyFileRange)
    }

    /// What it has moved, for whoever measures.
    pub(super) fn figures(&self) -> Figures {
        let mut figures = Figures::of(&self.meter);
        for way in Other::ALL {
            let bytes = self.other_bytes[way as usize].load(Relaxed);
            way.route().inspect(|route| figures.add_uncounted(route, bytes));
        }
        figures
    }

    /// The file that is being copied, and the bytes of it that are.
    pub(super) fn holds(&self) -> Option<(OsString, u64)> {
        let held = self.held();
        if !held.name.is_empty() {
            let compared = held.rereading.filter(|it| it.why == Why::Resume);
            let reached = || held.offset + self.meter.bytes() - held.metered;
            return Some((held.name.clone(), compared.map_or_else(reached, |it| it.at)));
        }
        let (directory, entries) = held.entries.as_ref()?;
        let at = self.at.load(Relaxed);
        (at < entries.len()).then(|| (joined(&directory.source.shown, entries.name(at)), 0))
    }
}

/// Adds to what no other thread adds to.
fn add(count: &AtomicU64, more: u64) {
    count.store(count.load(Relaxed) + more, Relaxed);
}
