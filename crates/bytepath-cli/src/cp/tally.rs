//! What was copied so far, and what there is to copy: counted by every thread, read by whoever has to
//! say how far it is.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::data::LARGE_BYTES;
use super::hand::{Hand, Rereading};
use super::holes::{data_before, data_bytes, has_holes, length};
use super::place::kind;
use super::seen::{Identity, identity};
use super::settings::{Settings, Sparse};
use super::stopping::Stopping;
use crate::metrics::Figures;

/// What was copied so far.
#[derive(Default)]
pub(super) struct Tally {
    /// What each thread that copies is at; the first goes through the tree.
    pub(super) hands: Vec<Hand>,
    /// Threads that copy, or look for what to copy, beside that one.
    others_at_work: AtomicUsize,
    /// Whether that one waits for them.
    waits: AtomicBool,
    /// Whether signals that end the program are caught by now.
    pub(super) watched: AtomicBool,
    /// How movements are stopped when a signal ends the program.
    pub(super) stopping: Stopping,
    /// Bytes that are on the device, where that is what counts.
    pub(super) durable_bytes: AtomicU64,
    /// Whether it was said that something is not copied past the page cache.
    pub(super) said_cached: AtomicBool,
    /// Whether it was said that the copies are in memory.
    pub(super) said_memory: AtomicBool,
    /// The devices of source and sink between which blocks could not be shared last, in one number,
    /// which every thread reads for every file; 0 for none.
    unshared: AtomicU64,
    /// Those between which they could.
    shared: AtomicU64,
    pub(super) total: Total,
}

impl Tally {
    /// Of nothing yet, for so many threads.
    pub(super) fn for_threads(threads: usize) -> Tally {
        let hands = std::iter::repeat_with(Hand::default).take(threads).collect();
        Tally { hands, ..Tally::default() }
    }

    /// How many threads copy just now, about.
    pub(super) fn at_work(&self) -> usize {
        self.others_at_work.load(Relaxed) + usize::from(!self.waits.load(Relaxed))
    }

    /// Another thread is there, and at work.
    pub(super) fn begins(&self) {
        self.others_at_work.fetch_add(1, Relaxed);
    }

    /// It has nothing to do, or is gone.
    pub(super) fn rests(&self) {
        self.others_at_work.fetch_sub(1, Relaxed);
    }

    /// The one who goes through the tree waits for the others meanwhile.
    pub(super) fn while_waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waits.store(true, Relaxed);
        let waited = wait();
        self.waits.store(false, Relaxed);
        waited
    }

    /// Whether sharing blocks between these devices was refused before: it is not asked for again
    /// for each file of a tree.
    pub(super) fn is_unshared(&self, devices: (u64, u64)) -> bool {
        in_one(devices).is_some_and(|devices| self.unshared.load(Relaxed) == devices)
    }

    /// The device of sources of which it is known whether they share blocks with this one; whether
    /// they do.
    pub(super) fn known_to(&self, sink: u64) -> Option<(u64, bool)> {
        let of = |kept: &AtomicU64| {
            let devices = kept.load(Relaxed);
            (devices != 0 && devices & u64::from(u32::MAX) == sink).then_some(devices >> 32)
        };
        let unshared = of(&self.unshared).map(|source| (source, false));
        unshared.or_else(|| of(&self.shared).map(|source| (source, true)))
    }

    /// Notes whether blocks can be shared between these devices.
    pub(super) fn note_sharing(&self, devices: (u64, u64), shared: bool) {
        let kept = if shared { &self.shared } else { &self.unshared };
        // Nobody takes a cache line from the others for what is known.
        if let Some(devices) = in_one(devices)
            && kept.load(Relaxed) != devices
        {
            kept.store(devices, Relaxed);
        }
    }

    pub(super) fn settled(&self, bytes: u64) {
        self.durable_bytes.fetch_add(bytes, Relaxed);
    }

    /// Files and bytes.
    pub(super) fn copied(&self) -> (u64, u64) {
        (self.files(), self.bytes())
    }

    /// How far it is, for whoever measures.
    pub(super) fn figures(&self, durable: bool) -> Figures {
        let hands = self.hands.iter().map(Hand::figures);
        let durable_bytes = durable.then(|| self.durable_bytes.load(Relaxed));
        let (_, left_bytes) = self.total.skipped.so_far();
        let compared: u64 = self.hands.iter().map(Hand::bytes_compared).sum();
        let skipped_bytes = left_bytes + self.bytes_kept() + compared;
        let known = self.total.known().map(|(_, bytes)| bytes);
        // What is done before it was counted is all that there was.
        let known = known.or(self.total.done.load(Relaxed).then_some(0));
        Figures {
            files: Some(self.files()),
            expected_bytes: known.map(|bytes| bytes.max(self.bytes() + left_bytes)),
            skipped_bytes: Some(skipped_bytes),
            durable_bytes,
            ..hands.reduce(Figures::with).unwrap_or_default()
        }
    }

    pub(super) fn files(&self) -> u64 {
        self.hands.iter().map(Hand::files).sum()
    }

    /// What is read again just now, by all threads together, of files that this takes long for; and whether
    /// no thread does anything else.
    pub(super) fn rereading(&self) -> Option<(Rereading, bool)> {
        let all = self.hands.iter().filter_map(Hand::rereading);
        let long = all.filter(|it| it.of_bytes >= LARGE_BYTES.unsigned_abs());
        let each = long.map(|it| (it, 1));
        let (together, threads) = each.reduce(|(a, n), (b, m)| (a.with(b), n + m))?;
        Some((together, threads >= self.at_work()))
    }

    /// Bytes whose copying took no time, as an earlier run had done it.
    pub(super) fn bytes_kept(&self) -> u64 {
        self.hands.iter().map(Hand::bytes_kept).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.hands.iter().map(Hand::bytes).sum()
    }
}

/// Two devices as one number, if the kernel's numbers of them are as small as Linux has them.
fn in_one((source, sink): (u64, u64)) -> Option<u64> {
    let (source, sink) = (u32::try_from(source).ok()?, u32::try_from(sink).ok()?);
    Some(u64::from(source) << 32 | u64::from(sink))
}

/// What there is to copy, as far as it was counted.
#[derive(Default)]
pub(super) struct Total {
    pub(super) found: Sum,
    /// What of it is left as it is.
    pub(super) skipped: Sum,
    pub(super) complete: AtomicBool,
    /// Nobody needs it any more.
    pub(super) over: AtomicBool,
    /// All was copied, or left as it is, and nothing failed.
    pub(super) done: AtomicBool,
}

impl Total {
    /// Files and bytes, those that are left as they are among them, once they are counted, and where
    /// all have an end that can be known.
    pub(super) fn known(&self) -> Option<(u64, u64)> {
        let is_known = self.complete.load(Relaxed) && !self.found.is_endless.load(Relaxed);
        is_known.then(|| self.found.so_far())
    }
}

/// So many files, and so many bytes of them.
#[derive(Default)]
pub(super) struct Sum {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Nobody knows how much will come of one: a FIFO or a terminal.
    is_endless: AtomicBool,
    /// Files that may have more names, of which the first is copied and the others are linked; with their bytes.
    named: Mutex<BTreeMap<Identity, u64>>,
}

impl Sum {
    /// Files and bytes.
    pub(super) fn so_far(&self) -> (u64, u64) {
        (self.files.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Adds a file that was named by the user or found below, if it is copied by this name.
    pub(super) fn add(
        &self,
        (stat, named): (&Stat, bool),
        (settings, holes): (&Settings, Holes),
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) {
        let linked = settings.preserve.links && (stat.st_nlink > 1 || settings.follows(named));
        let is_known = || self.named().contains_key(&identity(stat));
        if !is_read(stat, settings) || linked && is_known() {
            return;
        }
        let bytes = match kind(stat) {
            FileType::RegularFile => bytes_to_copy(stat, (settings, holes), open),
            FileType::BlockDevice => open().map_or(0, |device| length(&device, stat)),
            _ => {
                self.is_endless.store(true, Relaxed);
                0
            }
        };
        self.files.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        if linked {
            self.named().insert(identity(stat), bytes);
        }
    }

    /// Takes a file out again that was added by another of its names.
    pub(super) fn take_out(&self, file: Identity) {
        if let Some(bytes) = self.named().remove(&file) {
            self.files.fetch_sub(1, Relaxed);
            self.bytes.fetch_sub(bytes, Relaxed);
        }
    }

    fn named(&self) -> MutexGuard<'_, BTreeMap<Identity, u64>> {
        self.named.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether it is a file, or read like one.
fn is_read(stat: &Stat, settings: &Settings) -> bool {
    match kind(stat) {
        FileType::RegularFile => true,
        FileType::BlockDevice | FileType::CharacterDevice | FileType::Fifo => {
            settings.special_as_file
        }
        _ => false,
    }
}

/// What becomes of holes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Holes {
    /// They are left out.
    Kept,
    /// They are written as zeros, as onto a device.
    Written,
}

/// What is copied of a file: its holes are not, which it is opened to find.
fn bytes_to_copy(
    stat: &Stat,
    (settings, holes): (&Settings, Holes),
    open: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> u64 {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if holes == Holes::Written || settings.sparse == Sparse::Never || !has_holes(stat) {
        return size;
    }
    open().map_or(data_bytes(stat).unsigned_abs(), |file| data_before(file, size))
}

/// How a file is opened for its holes to be found: should it have become a FIFO meanwhile, nobody
/// waits for its other end.
pub(super) const TO_LOOK: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

#[cfg(test)]
mod tests {
    use super::super::hand::Why;
    use super::*;

    #[test]
    fn what_threads_read_again_is_told_of_all_together() {
        let tally = Tally::for_threads(2);
        tally.begins();
        let told = || {
            let (it, all) = tally.rereading()?;
            Some((it.at >> 20, it.of_bytes >> 20, all))
        };
        // What takes no time is not told.
        tally.hands[0].rereads(Why::Verify, 1 << 20);
        assert_eq!(told(), None);
        tally.hands[0].rereads(Why::Verify, 100 << 20);
        tally.hands[0].reread(90 << 20, 90 << 20);
        assert_eq!(told(), Some((90, 100, false)));
        tally.hands[1].rereads(Why::Verify, 300 << 20);
        assert_eq!(told(), Some((90, 400, true)));
        tally.hands[1].has_reread();
        tally.rests();
        assert_eq!(told(), Some((90, 100, true)));
    }
}
