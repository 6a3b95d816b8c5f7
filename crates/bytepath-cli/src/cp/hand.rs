//! What each thread is copying, told by it and read by whoever has to say how far it is.
//!
//! Costs per file: a lock that nobody else wants, and a copy of the name into memory that is kept.

use std::ffi::{OsStr, OsString};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use bytepath::Meter;

/// One thread's, in cache lines that no other thread writes.
#[derive(Default)]
#[repr(align(128))]
pub(super) struct Hand {
    /// Told by the engine, within files too.
    pub(super) meter: Meter,
    /// Bytes that the engine did not see: of small files, shared, or left out as holes.
    other_bytes: AtomicU64,
    files: AtomicU64,
    file: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Nothing between files.
    name: OsString,
    /// A place in the file, and what the meter said there.
    offset: u64,
    metered: u64,
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
        (held.offset, held.metered) = (0, self.meter.bytes());
    }

    /// The file is copied up to here; what the meter counts from now on comes behind.
    pub(super) fn reached(&self, offset: u64) {
        let mut held = self.held();
        (held.offset, held.metered) = (offset, self.meter.bytes());
    }

    /// It is done.
    pub(super) fn put_down(&self) {
        self.held().name.clear();
    }

    pub(super) fn add(&self, bytes: u64) {
        self.other_bytes.fetch_add(bytes, Relaxed);
    }

    pub(super) fn file_done(&self) {
        self.files.fetch_add(1, Relaxed);
    }

    /// Files that it has copied.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Relaxed)
    }

    /// Bytes that it has copied.
    pub(super) fn bytes(&self) -> u64 {
        self.meter.bytes() + self.other_bytes.load(Relaxed)
    }

    /// The file that is being copied, and the bytes of it that are.
    pub(super) fn holds(&self) -> Option<(OsString, u64)> {
        let held = self.held();
        let metered = self.meter.bytes() - held.metered;
        (!held.name.is_empty()).then(|| (held.name.clone(), held.offset + metered))
    }
}
