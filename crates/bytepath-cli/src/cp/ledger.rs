//! `--json` and `--json-files`: what was done, kept while it is done, written at the end or line by
//! line. Costs nothing where nobody asked; otherwise memory for the first messages alone, however
//! many entries there are.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Instant;

use anyhow::{Context as _, bail};
use bytepath_report::{Copied, CopiedEntry, CopyError, EntryKind, FileName, Outcome, inert};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::extras::Extras;
use super::hand::Hand;
use super::pair::Pair;
use super::place::kind;
use super::told::{Done, Weight};
use super::turns::{self, Turn};
use crate::close::closed_well;
use crate::output::{self, Output};
use crate::said;

/// Messages that are kept, unless it is said how many.
const ERRORS_MAX: u64 = 1000;

/// What is written of a run, if anything is.
pub(super) struct Ledger {
    kept: Option<Keeping>,
}

struct Keeping {
    began: Instant,
    document: Mutex<Option<Output>>,
    /// Where the document is to be, if nothing was there.
    absent: Option<PathBuf>,
    sum: Mutex<Copied>,
    /// By their place in the order of the tree, and how many were told of before.
    errors: Mutex<BTreeMap<(Turn, u64), CopyError>>,
    errors_max: u64,
    /// How many errors there were.
    told: AtomicU64,
    lines: Option<Mutex<Lines>>,
    /// Directories that are ended later.
    put_off: Mutex<BTreeMap<(String, Option<String>), CopiedEntry>>,
    /// What is counted, and has no line yet.
    unwritten: Mutex<Vec<CopiedEntry>>,
}

/// Where the lines of entries go, and why they no longer do.
struct Lines {
    file: BufWriter<File>,
    failed: Option<std::io::Error>,
}

/// An entry that is being copied.
struct Current {
    entry: CopiedEntry,
    began: Instant,
    /// The movement of its bytes that is going on.
    movement: Option<Movement>,
    /// Where the moving of its bytes ended, and by which word of the kernel.
    stopped: Option<(Option<Errno>, u64)>,
    /// Whether a failure was told of while it was the innermost.
    told: bool,
    /// Whether it is noted once more, which then counts.
    later: bool,
}

/// A movement, as it began.
struct Movement {
    /// Whose meter it tells: its address tells the hand from others.
    hand: usize,
    /// What that said by route.
    before: Vec<(&'static str, u64)>,
    /// Where in the file it began.
    start: u64,
}

/// The entries that a thread is in, the outermost first: a file and the directories above.
type Entries = Mutex<Vec<Current>>;

thread_local! {
    static CURRENT: Arc<Entries> = {
        let entries = Arc::default();
        let mut all = all_entries();
        all.retain(|entries| entries.strong_count() > 0);
        all.push(Arc::downgrade(&entries));
        entries
    };
}

/// Those of all threads.
fn all_entries() -> MutexGuard<'static, Vec<Weak<Entries>>> {
    static ALL: Mutex<Vec<Weak<Entries>>> = Mutex::new(Vec::new());
    ALL.lock().expect("nobody panics holding it")
}

fn with_entries<T>(look: impl FnOnce(&mut Vec<Current>) -> T) -> T {
    CURRENT.with(|entries| look(&mut entries.lock().expect("nobody panics holding it")))
}

/// The entries that a thread is in, to be taken to another.
pub(super) struct Entered(Vec<Current>);

impl Entered {
    /// Those that this thread is in, which it no longer is.
    pub(super) fn take() -> Entered {
        Entered(with_entries(std::mem::take))
    }

    /// This thread is in them.
    pub(super) fn put(&mut self) {
        with_entries(|entries| *entries = std::mem::take(&mut self.0));
    }
}

impl Ledger {
    /// Sees that what is asked for can be written.
    pub(super) fn open(extras: &Extras) -> anyhow::Result<Ledger> {
        if extras.json.is_none() && extras.json_files.is_none() {
            return Ok(Ledger { kept: None });
        }
        let document = extras.json.as_deref().map(Output::open).transpose()?;
        let lines = extras.json_files.as_deref().map(Lines::open).transpose()?;
        let absent = extras.json.clone().filter(|path| !output::is_stdout(path) && !path.exists());
        let bytepath = env!("CARGO_PKG_VERSION").to_owned();
        Ok(Ledger {
            kept: Some(Keeping {
                began: Instant::now(),
                document: Mutex::new(document),
                absent,
                sum: Mutex::new(Copied { bytepath, ..Copied::default() }),
                errors: Mutex::default(),
                errors_max: extras.json_errors.unwrap_or(ERRORS_MAX),
                told: AtomicU64::new(0),
                lines: lines.map(Mutex::new),
                put_off: Mutex::default(),
                unwritten: Mutex::default(),
            }),
        })
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// An entry is begun by this thread. What is noted until its end is about it.
    pub(super) fn begin(&self, pair: &Pair) {
        let Some(kept) = &self.kept else { return };
        let entry = CopiedEntry {
            source: file_name(&pair.source.shown),
            destination: file_name(&pair.sink.shown),
            kind: None,
            outcome: Outcome::Copied,
            bytes: 0,
            kept_bytes: 0,
            routes: Default::default(),
            seconds: 0.0,
        };
        let key = key(&entry);
        let (began, movement, stopped) = (Instant::now(), None, None);
        let current = Current { entry, began, movement, stopped, told: false, later: false };
        with_entries(|entries| {
            kept.put_off.lock().expect("nobody panics holding it").remove(&key);
            entries.push(current);
        });
    }

    /// The entry that was begun last is over.
    pub(super) fn end(&self, done: &Done) {
        let Some(kept) = &self.kept else { return };
        with_entries(|entries| {
            let current = entries.pop().expect("it was begun");
            let later = current.later;
            let entry = current.over(done.is_err());
            if !later {
                add(&mut kept.sum.lock().expect("nobody panics holding it"), &entry);
                if kept.lines.is_some() {
                    kept.unwritten.lock().expect("nobody panics holding it").push(entry);
                }
            } else if entry.kind == Some(EntryKind::Directory) {
                let mut put_off = kept.put_off.lock().expect("nobody panics holding it");
                put_off.insert(key(&entry), entry);
            }
        });
        if let Some(lines) = &kept.lines {
            lines.lock().expect("nobody panics holding it").write_all(&kept.unwritten);
        }
    }

    /// The entry that was begun last is begun once more later, as if it had not been; whether a failure
    /// of it was told of.
    pub(super) fn comes_later(&self) -> bool {
        let mut told = false;
        self.note(|current| (current.later, told) = (true, current.told));
        told
    }

    /// A failure of the entry that was begun once more was told of before.
    pub(super) fn has_failed(&self) {
        self.note(|current| current.told = true);
    }

    /// The moving of its bytes ended there, by this word of the kernel.
    pub(super) fn stopped(&self, errno: Errno, at: u64) {
        self.note(|current| current.stopped = Some((Some(errno), at)));
    }

    /// The engine moves its bytes, from this place in the file on.
    pub(super) fn moves(&self, hand: &Hand, start: u64) {
        let before = || hand.meter.by_route();
        let hand = std::ptr::from_ref(hand).addr();
        self.note(|current| current.movement = Some(Movement { hand, before: before(), start }));
    }

    /// It moved them, or did not to their end.
    pub(super) fn moved(&self, hand: &Hand, ended_short: Option<Option<Errno>>) {
        self.note(|current| {
            let at = current.moved(hand);
            current.stopped = ended_short.zip(at).or(current.stopped);
        });
    }

    /// Notes something about the entry that this thread is in.
    fn note(&self, note: impl FnOnce(&mut Current)) {
        if self.kept.is_some() {
            with_entries(|entries| entries.last_mut().map(note));
        }
    }

    pub(super) fn is(&self, stat: &Stat) {
        self.note(|current| {
            current.entry.kind = Some(match kind(stat) {
                FileType::RegularFile => EntryKind::File,
                FileType::Directory => EntryKind::Directory,
                FileType::Symlink => EntryKind::Link,
                _ => EntryKind::Special,
            });
        });
    }

    pub(super) fn outcome(&self, outcome: Outcome) {
        self.note(|current| current.entry.outcome = outcome);
    }

    /// Bytes that an earlier run had copied.
    pub(super) fn kept(&self, bytes: u64, outcome: Outcome) {
        self.note(|current| {
            current.entry.kept_bytes += bytes;
            current.entry.outcome = outcome;
        });
    }

    /// Bytes that went by a way of this name.
    pub(super) fn went(&self, route: &str, bytes: u64) {
        self.note(|current| current.went(route, bytes));
    }

    /// Something was said on standard error.
    pub(super) fn said(&self, message: &str, errno: Option<Errno>, weight: Weight) {
        let Some(kept) = &self.kept else { return };
        let mut error = CopyError { message: message.to_owned(), ..CopyError::default() };
        error.errno = errno.map(Errno::raw_os_error);
        error.warning = weight == Weight::Warning;
        self.note(|current| {
            current.told = true;
            error.source = Some(current.entry.source.clone());
            error.destination = Some(current.entry.destination.clone());
            if let Some((errno, offset)) = current.stopped.take() {
                error.offset = Some(offset);
                error.errno = error.errno.or(errno.map(Errno::raw_os_error));
            }
        });
        kept.add_error(error);
    }

    /// Ends all that any thread is in, and says this of it: whoever has more to note waits for ever.
    pub(super) fn cut(&self, message: &str, hands: &[Hand]) {
        let Some(kept) = &self.kept else { return };
        let all = all_entries();
        let (mut cut, mut files) = (Vec::new(), Vec::new());
        for entries in all.iter().filter_map(Weak::upgrade) {
            let mut entries = entries.lock().expect("nobody panics holding it");
            for mut current in entries.drain(..) {
                if let Some(movement) = &current.movement {
                    let is_its = |hand: &&Hand| std::ptr::from_ref(*hand).addr() == movement.hand;
                    let at = hands.iter().find(is_its).and_then(|hand| current.moved(hand));
                    current.stopped = at.map(|at| (None, at)).or(current.stopped);
                }
                let stopped = current.stopped;
                // What was not looked at is not begun.
                if current.entry.kind.is_some() {
                    let entry = current.over(true);
                    if entry.kind != Some(EntryKind::Directory) {
                        files.push((cut.len(), stopped));
                    }
                    cut.push(entry);
                }
            }
            std::mem::forget(entries);
        }
        std::mem::forget(all);
        let mut put_off = kept.put_off.lock().expect("nobody panics holding it");
        cut.extend(std::mem::take(&mut *put_off).into_values());
        // Directories too: each gets its attributes at its end.
        cut.iter_mut().for_each(|entry| entry.outcome = Outcome::Failed);
        let mut sum = kept.sum.lock().expect("nobody panics holding it");
        cut.iter().for_each(|entry| add(&mut sum, entry));
        let mut error = CopyError { message: message.to_owned(), ..CopyError::default() };
        // The message names several.
        if let [(at, stopped)] = files[..] {
            error.source = Some(cut[at].source.clone());
            error.destination = Some(cut[at].destination.clone());
            error.offset = stopped.map(|(_, offset)| offset);
        }
        kept.add_error(error);
        if kept.lines.is_some() {
            kept.unwritten.lock().expect("nobody panics holding it").extend(cut);
        }
    }

    /// Writes what is to be written at the end: the lines, and the document that tells of them too.
    pub(super) fn close(&self, exit: u8) -> [anyhow::Result<()>; 2] {
        let Some(kept) = &self.kept else { return [Ok(()), Ok(())] };
        let written = kept.close_lines();
        let exit = exit.max(u8::from(written.is_err()));
        [written, kept.write_document(exit)]
    }
}

impl Keeping {
    fn close_lines(&self) -> anyhow::Result<()> {
        let Some(lines) = &self.lines else { return Ok(()) };
        let mut lines = lines.lock().expect("nobody panics holding it");
        lines.write_all(&self.unwritten);
        let written = said::printed(lines.close());
        if let Err(error) = &written {
            self.add_error(CopyError { message: format!("{error:#}"), ..CopyError::default() });
        }
        written
    }

    fn write_document(&self, exit: u8) -> anyhow::Result<()> {
        let document = self.document.lock().expect("nobody panics holding it").take();
        let Some(document) = document else { return Ok(()) };
        if let Some(path) = self.absent.as_deref().filter(|path| path.exists()) {
            bail!("--json: {} was made meanwhile, and is left as it is", path.display());
        }
        let errors = std::mem::take(&mut *self.errors.lock().expect("nobody panics holding it"));
        let mut sum = self.sum.lock().expect("nobody panics holding it");
        (sum.seconds, sum.exit) = (self.began.elapsed().as_secs_f64(), exit);
        sum.errors_left_out = self.told.load(Relaxed) - errors.len() as u64;
        sum.errors = errors.into_values().collect();
        document.write(bytepath_report::json(&*sum)?.as_bytes())
    }

    fn add_error(&self, error: CopyError) {
        let told = self.told.fetch_add(1, Relaxed);
        let mut errors = self.errors.lock().expect("nobody panics holding it");
        errors.insert((turns::now().turn, told), error);
        if errors.len() as u64 > self.errors_max {
            errors.pop_last();
        }
    }
}

impl Current {
    /// Bytes that went by a way of this name.
    fn went(&mut self, route: &str, bytes: u64) {
        self.entry.bytes += bytes;
        match self.entry.routes.get_mut(route) {
            Some(sum) => *sum += bytes,
            None => drop(self.entry.routes.insert(route.to_owned(), bytes)),
        }
    }

    /// Takes what the movement came to from the meter of the hand; where in the file that is.
    fn moved(&mut self, hand: &Hand) -> Option<u64> {
        let Movement { before, mut start, .. } = self.movement.take()?;
        for (route, sum) in hand.meter.by_route() {
            let earlier = before.iter().find(|(name, _)| *name == route).map_or(0, |(_, sum)| *sum);
            if sum > earlier {
                self.went(route, sum - earlier);
                start += sum - earlier;
            }
        }
        Some(start)
    }

    /// The entry, as it is at its end.
    fn over(self, failed: bool) -> CopiedEntry {
        let Current { mut entry, began, told, .. } = self;
        entry.seconds = began.elapsed().as_secs_f64();
        // A directory is not what is in it.
        if failed && (entry.kind != Some(EntryKind::Directory) || told) {
            entry.outcome = Outcome::Failed;
        }
        entry
    }
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Lines> {
        let file = match output::is_stdout(path) {
            true => {
                output::is_writable()?;
                rustix::io::fcntl_dupfd_cloexec(std::io::stdout(), 0)
                    .map(File::from)
                    .context("standard output")?
            }
            false => {
                File::create(path).with_context(|| format!("cannot write {}", path.display()))?
            }
        };
        Ok(Lines { file: BufWriter::new(file), failed: None })
    }

    /// What was counted before it is written, so that what is counted has a line, whoever writes it.
    fn write_all(&mut self, unwritten: &Mutex<Vec<CopiedEntry>>) {
        let entries = std::mem::take(&mut *unwritten.lock().expect("nobody panics holding it"));
        entries.iter().for_each(|entry| self.write(entry));
    }

    fn write(&mut self, entry: &CopiedEntry) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_string(entry)
            .map_err(std::io::Error::from)
            .and_then(|line| self.file.write_all(inert(&line).as_bytes()));
        self.failed = written.err();
    }

    fn close(&mut self) -> anyhow::Result<()> {
        let written = match self.failed.take() {
            Some(failed) => Err(failed),
            None => self.file.flush().and_then(|()| Ok(closed_well(self.file.get_ref().as_fd())?)),
        };
        written.context("cannot write the lines of --json-files")
    }
}

/// Adds an entry to what was done.
fn add(sum: &mut Copied, entry: &CopiedEntry) {
    let count = match (entry.outcome, entry.kind) {
        (Outcome::Failed, _) => &mut sum.failed,
        (Outcome::Skipped, _) => &mut sum.skipped,
        (Outcome::Kept, _) => &mut sum.kept,
        (Outcome::HardLinked, _) => &mut sum.hard_links,
        (Outcome::Symlinked, _) => &mut sum.links,
        (Outcome::Attributes, _) => &mut sum.attributes,
        (_, Some(EntryKind::Directory)) => &mut sum.directories,
        (_, Some(EntryKind::Link)) => &mut sum.links,
        (_, Some(EntryKind::Special)) => &mut sum.specials,
        (_, Some(EntryKind::File) | None) => &mut sum.files,
    };
    *count += 1;
    sum.bytes += entry.bytes;
    sum.kept_bytes += entry.kept_bytes;
    for (route, bytes) in &entry.routes {
        *sum.routes.entry(route.clone()).or_default() += bytes;
    }
}

/// What tells an entry from others.
fn key(entry: &CopiedEntry) -> (String, Option<String>) {
    let FileName { name, hex } = &entry.destination;
    (name.clone(), hex.clone())
}

fn file_name(name: &OsStr) -> FileName {
    let hex = match name.to_str() {
        Some(_) => None,
        None => Some(name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()),
    };
    FileName { name: name.to_string_lossy().into_owned(), hex }
}
