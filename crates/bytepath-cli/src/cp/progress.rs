//! How far the copying is: files, bytes, the recent rate, the time left; as a line that is drawn
//! again and again, or when SIGUSR1 asks for it.

use std::collections::HashSet;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytepath_report::{Outcome, numbers};
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::crew;
use super::data::{data_before, data_bytes, has_holes};
use super::entry::{Pair, Shared};
use super::extras::Progress;
use super::hand::Hand;
use super::interrupted::{Interrupts, Reached, Stopping};
use super::place::{is_directory, kind};
use super::seen::{Identity, identity};
use super::settings::{Make, Settings, Sparse};
use crate::live::{self, EVERY, Lines, Rate};
use crate::metrics::Figures;

/// A copying is watched, for signals, once it has taken so long.
pub(super) const WATCHED_AFTER: Duration = Duration::from_millis(50);

/// Nobody asks how far a copying is that is over before this.
const ANSWERS_AFTER: Duration = Duration::from_millis(50);

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
    durable_bytes: AtomicU64,
    /// Whether it was said that something is not copied past the page cache.
    pub(super) said_cached: AtomicBool,
    /// Whether it was said that the copies are in memory.
    pub(super) said_memory: AtomicBool,
    /// The devices of source and sink between which blocks could not be shared last, in one number,
    /// which every thread reads for every file; 0 for none.
    unshared: AtomicU64,
    /// Those between which they could.
    shared: AtomicU64,
    total: Total,
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
        Figures {
            files: Some(self.files()),
            expected_bytes: self.total.known().map(|(_, bytes)| {
                bytes.saturating_sub(self.total.skipped.so_far().1).max(self.bytes())
            }),
            durable_bytes,
            ..hands.reduce(Figures::with).unwrap_or_default()
        }
    }

    fn files(&self) -> u64 {
        self.hands.iter().map(Hand::files).sum()
    }

    fn bytes(&self) -> u64 {
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
struct Total {
    found: Sum,
    /// What of it is left as it is.
    skipped: Sum,
    complete: AtomicBool,
    /// Nobody needs it any more.
    over: AtomicBool,
}

impl Total {
    /// Files and bytes, those that are left as they are among them, once they are counted.
    fn known(&self) -> Option<(u64, u64)> {
        self.complete.load(Relaxed).then(|| self.found.so_far())
    }
}

/// So many files, and so many bytes of them.
#[derive(Default)]
struct Sum {
    files: AtomicU64,
    bytes: AtomicU64,
    /// Files that may have more names, of which the first is copied and the others are linked.
    named: Mutex<HashSet<Identity>>,
}

impl Sum {
    /// Files and bytes.
    fn so_far(&self) -> (u64, u64) {
        (self.files.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Adds a file that was named by the user or found below, if it is copied by this name.
    fn add(
        &self,
        (stat, named): (&Stat, bool),
        settings: &Settings,
        open: impl FnOnce() -> Result<OwnedFd, Errno>,
    ) {
        let linked = settings.preserve.links && (stat.st_nlink > 1 || settings.follows(named));
        let known = || self.named.lock().unwrap_or_else(PoisonError::into_inner);
        if kind(stat) != FileType::RegularFile || linked && !known().insert(identity(stat)) {
            return;
        }
        self.files.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes_to_copy(stat, settings, open), Relaxed);
    }
}

/// What is copied of a file: its holes are not, which it is opened to find.
fn bytes_to_copy(
    stat: &Stat,
    settings: &Settings,
    open: impl FnOnce() -> Result<OwnedFd, Errno>,
) -> u64 {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if settings.sparse == Sparse::Never || !has_holes(stat) {
        return size;
    }
    open().map_or(data_bytes(stat).unsigned_abs(), |file| data_before(file, size))
}

/// How a file is opened for its holes to be found: should it have become a FIFO meanwhile, nobody
/// waits for its other end.
const TO_LOOK: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// What begins what answers signals: a thread, which most copyings are over without.
pub(super) struct Watch<'a> {
    begin: &'a (dyn Fn() + Sync),
    since: Instant,
    begun: AtomicBool,
}

impl Shared<'_> {
    /// From now on it may take so long that somebody asks how far it is, or interrupts it.
    pub(super) fn takes_long(&self) {
        if let Some(watch) = self.watch
            && !watch.begun.swap(true, Relaxed)
        {
            (watch.begin)();
        }
    }

    /// The same, if it has taken long by now.
    pub(super) fn goes_on(&self) {
        let begins = |watch: &Watch<'_>| {
            !watch.begun.load(Relaxed) && watch.since.elapsed() >= WATCHED_AFTER
        };
        if self.watch.is_some_and(begins) {
            self.takes_long();
        }
    }

    /// Whether it is counted how much there is to copy.
    fn is_counted(&self) -> bool {
        let extras = self.extras;
        let wanted = extras.progress.is_some() || extras.metrics.metrics.is_some();
        wanted && self.settings.make == Make::Copy
    }

    /// Notes that a source is not copied, as what is there stays as it is.
    pub(super) fn skipped(&self, pair: &Pair, stat: &Stat) {
        self.voice.ledger.outcome(Outcome::Skipped);
        if self.is_counted() {
            let open = || pair.source.open(TO_LOOK, 0);
            self.tally.total.skipped.add((stat, pair.argument), self.settings, open);
        }
    }

    /// Whether a signal that ends a copying has zeros between its bytes cut off, or that is somebody else's business.
    pub(super) fn may_leave_gaps(&self) -> bool {
        self.tally.watched.load(Relaxed) || self.stage.is_some()
    }
}

/// Does the work, and shows how far it is if that is wanted, or if it takes long and somebody asks.
pub(super) fn watched(shared: &Shared<'_>, sources: &[OsString], work: impl FnOnce(&Shared<'_>)) {
    let settings = shared.settings;
    let asked = Arc::new(AtomicBool::new(false));
    // Where handlers are refused, the signal ends the program as it always did.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGUSR1, asked.clone());
    let (total, interrupts) = (&shared.tally.total, &Interrupts::default());
    let asked = &*asked;
    let watching = OnceLock::new();
    std::thread::scope(|scope| {
        // Many copyings are over before a thread has begun.
        let begin = || {
            watching.get_or_init(|| {
                if settings.recursive || shared.tally.hands.len() > 1 {
                    crew::make_room();
                }
                let (done, over) = channel::<()>();
                let watch = move || watch(shared, total, (asked, interrupts), &over);
                // Without memory for a thread there is no display.
                let watches = std::thread::Builder::new().spawn_scoped(scope, watch).is_ok();
                shared.tally.watched.store(watches && interrupts.catch(), Relaxed);
                done
            });
        };
        let watch = Watch { begin: &begin, since: Instant::now(), begun: AtomicBool::new(false) };
        let watched = Shared { watch: Some(&watch), ..*shared };
        if shared.extras.takes_long() {
            watched.takes_long();
        }
        if shared.is_counted() {
            let count = move || count_all(sources, settings, total);
            let _ = std::thread::Builder::new().spawn_scoped(scope, count);
        }
        work(&watched);
        total.over.store(true, Relaxed);
        drop(watching);
    });
    interrupts.heed(shared, Reached::End);
}

fn watch(
    shared: &Shared<'_>,
    total: &Total,
    (asked, interrupts): (&AtomicBool, &Interrupts),
    over: &std::sync::mpsc::Receiver<()>,
) {
    let (tally, progress) = (shared.tally, shared.extras.progress);
    let mut rate = Rate::new();
    let draws = progress.is_some();
    let bytes = || match progress {
        Some(Progress::Durable) => tally.durable_bytes.load(Relaxed),
        _ => tally.bytes(),
    };
    let mut lines = Lines::new();
    let mut every = ANSWERS_AFTER;
    loop {
        let ended = over.recv_timeout(every) == Err(RecvTimeoutError::Disconnected);
        if !ended {
            interrupts.heed(shared, Reached::Midway);
        }
        every = if draws { EVERY } else { ANSWERS_AFTER };
        let bytes = bytes();
        rate.look(bytes);
        let asked = asked.swap(false, Relaxed);
        // Somebody who does not read it must not keep a signal from being heeded.
        while ended && draws && !live::is_heard(ANSWERS_AFTER) {
            interrupts.heed(shared, Reached::End);
        }
        if (asked || draws) && live::is_heard(Duration::ZERO) {
            lines.draw(&text((tally, bytes), total, &rate, ended), !draws || ended);
        }
        if ended {
            return;
        }
    }
}

fn text((tally, bytes): (&Tally, u64), total: &Total, rate: &Rate, ended: bool) -> String {
    let files = tally.files();
    let (skipped_files, skipped_bytes) = total.skipped.so_far();
    let per_second = rate.per_second();
    let speed = numbers::bytes(per_second as u64);
    match total.known().filter(|_| !ended) {
        Some((all_files, all_bytes)) => {
            // What is skipped is done with; its bytes took no time, so the rate is of the others.
            let (files, bytes) = (files + skipped_files, bytes + skipped_bytes);
            let (all_files, all_bytes) = (counted(all_files.max(files)), all_bytes.max(bytes));
            let left = (all_bytes - bytes) as f64 / per_second.max(1.0);
            let left = if per_second < 1.0 { "?".to_owned() } else { clock(left) };
            // More may be skipped of what is left.
            let most = if skipped_files > 0 { "at most " } else { "" };
            format!(
                "{files} of {all_files}, {} of {}, {speed}/s, {most}{left} left",
                numbers::bytes(bytes),
                numbers::bytes(all_bytes)
            )
        }
        None => {
            let skipped = match skipped_files {
                0 => String::new(),
                files => format!("; {} skipped", counted(files)),
            };
            format!("{}, {}, {speed}/s{skipped}", counted(files), numbers::bytes(bytes))
        }
    }
}

/// So many files, in words.
pub(super) fn counted(files: u64) -> String {
    numbers::counted(files, "file")
}

fn clock(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    match hours {
        0 => format!("{minutes}:{:02}", seconds % 60),
        hours => format!("{hours}:{minutes:02}:{:02}", seconds % 60),
    }
}

/// Counts what there is to copy, beside the copying. It is for people: what changes meanwhile, or
/// cannot be read, makes it wrong by as much.
fn count_all(sources: &[OsString], settings: &Settings, total: &Total) {
    for source in sources {
        count(Path::new(source), settings, None, total);
    }
    total.complete.store(!total.over.load(Relaxed), Relaxed);
}

/// Counts what is there and below; nothing on another device than the one that is left, if one is.
fn count(path: &Path, settings: &Settings, above: Option<u64>, total: &Total) {
    let named = above.is_none();
    let follow = if settings.follows(named) { AtFlags::empty() } else { AtFlags::SYMLINK_NOFOLLOW };
    let Ok(stat) = rustix::fs::statat(CWD, path, follow) else { return };
    if settings.one_file_system && above.is_some_and(|above| above != stat.st_dev) {
        return;
    }
    total.found.add((&stat, named), settings, || rustix::fs::open(path, TO_LOOK, Mode::empty()));
    // A symbolic link that is followed may lead in a circle, for which the names get too long.
    if !is_directory(&stat) || !settings.recursive || total.over.load(Relaxed) {
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    // Directories are gone into once this one is closed: a level each would hold one open.
    let follows = settings.follows(false);
    let is_entered = |kind: std::fs::FileType| kind.is_dir() || (follows && kind.is_symlink());
    let below = |path: &Path| count(path, settings, Some(stat.st_dev), total);
    let mut later = Vec::new();
    for entry in entries {
        match entry.file_type().is_ok_and(is_entered) {
            true => later.push(entry.path()),
            false => below(&entry.path()),
        }
    }
    later.iter().for_each(|path| below(path));
}
