//! `--json` and `--json-files`: what was done, kept while it is done, written at the end or line by
//! line. Costs nothing where nobody asked; otherwise memory for the first messages alone, however
//! many entries there are.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use anyhow::{Context as _, bail};
use bytepath::{Moved, TransferError, transfer::Gave};
use bytepath_report::{Copied, CopiedEntry, CopyError, EntryKind, FileName, Outcome};
use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::entry::Pair;
use super::extras::Extras;
use super::place::kind;
use super::turns::{self, Turn};
use super::voice::Done;
use crate::classic::closed_well;
use crate::output::{self, Output};
use crate::planning::CarryError;

/// Messages that are kept.
const ERRORS_MAX: usize = 1000;

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
    /// How many errors there were.
    told: AtomicU64,
    lines: Option<Mutex<Lines>>,
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
    /// Where the moving of its bytes ended, and by which word of the kernel.
    stopped: Option<(Option<Errno>, u64)>,
    /// Whether a failure was told of while it was the innermost.
    told: bool,
    /// Whether it is noted once more, which then counts.
    later: bool,
}

thread_local! {
    /// The entries that this thread is in, the outermost first: a file and the directories above.
    static CURRENT: RefCell<Vec<Current>> = const { RefCell::new(Vec::new()) };
}

/// The entries that a thread is in, to be taken to another.
pub(super) struct Entered(Vec<Current>);

impl Entered {
    /// Those that this thread is in, which it no longer is.
    pub(super) fn take() -> Entered {
        Entered(CURRENT.take())
    }

    /// This thread is in them.
    pub(super) fn put(&mut self) {
        CURRENT.set(std::mem::take(&mut self.0));
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
                told: AtomicU64::new(0),
                lines: lines.map(Mutex::new),
            }),
        })
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// An entry is begun by this thread. What is noted until its end is about it.
    pub(super) fn begin(&self, pair: &Pair) {
        if self.kept.is_none() {
            return;
        }
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
        let current =
            Current { entry, began: Instant::now(), stopped: None, told: false, later: false };
        CURRENT.with_borrow_mut(|entries| entries.push(current));
    }

    /// The entry that was begun last is over.
    pub(super) fn end(&self, done: &Done) {
        let Some(kept) = &self.kept else { return };
        let current = CURRENT.with_borrow_mut(Vec::pop).expect("it was begun");
        let mut entry = current.entry;
        entry.seconds = current.began.elapsed().as_secs_f64();
        if current.later {
            return;
        }
        // A directory is not what is in it.
        if done.is_err() && (entry.kind != Some(EntryKind::Directory) || current.told) {
            entry.outcome = Outcome::Failed;
        }
        add(&mut kept.sum.lock().expect("nobody panics holding it"), &entry);
        if let Some(lines) = &kept.lines {
            lines.lock().expect("nobody panics holding it").write(&entry);
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

    /// Notes something about the entry that this thread is in.
    fn note(&self, note: impl FnOnce(&mut Current)) {
        if self.kept.is_some() {
            CURRENT.with_borrow_mut(|entries| entries.last_mut().map(note));
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
        self.note(|current| {
            current.entry.bytes += bytes;
            match current.entry.routes.get_mut(route) {
                Some(sum) => *sum += bytes,
                None => drop(current.entry.routes.insert(route.to_owned(), bytes)),
            }
        });
    }

    /// Bytes that the engine moved, or did not to their end; `start` is where it began.
    pub(super) fn moved(&self, moved: &Result<Moved, CarryError>, start: u64) {
        match moved {
            Ok(moved) => self.went_by(moved),
            Err(CarryError::Transfer(TransferError::Failed(failed))) => {
                // Which routes were at work before, the error does not say.
                if failed.offset > 0 {
                    self.went(failed.route, failed.offset);
                }
                self.stopped(failed.errno, start + failed.offset);
            }
            Err(CarryError::Transfer(TransferError::Declined { offset, declined })) => {
                self.gave_up(declined);
                self.note(|current| current.stopped = Some((None, start + offset)));
            }
            Err(CarryError::Syncing { errno, moved }) => {
                self.went_by(moved);
                self.stopped(*errno, start + moved.bytes);
            }
            Err(_) => {}
        }
    }

    fn went_by(&self, moved: &Moved) {
        let from = self.gave_up(&moved.declined);
        if moved.bytes > from {
            self.went(moved.route, moved.bytes - from);
        }
    }

    /// Each route has what it moved before it gave up; where the last did.
    fn gave_up(&self, declined: &[Gave]) -> u64 {
        let mut from = 0;
        for gave in declined {
            if gave.offset > from {
                self.went(gave.route, gave.offset - from);
                from = gave.offset;
            }
        }
        from
    }

    /// Something was said on standard error.
    pub(super) fn said(&self, message: &str, errno: Option<Errno>) {
        let Some(kept) = &self.kept else { return };
        let mut error = CopyError { message: message.to_owned(), ..CopyError::default() };
        error.errno = errno.map(Errno::raw_os_error);
        self.note(|current| {
            current.told = true;
            error.source = Some(current.entry.source.clone());
            error.destination = Some(current.entry.destination.clone());
            if let Some((errno, offset)) = current.stopped.take() {
                error.offset = Some(offset);
                error.errno = error.errno.or(errno.map(Errno::raw_os_error));
            }
        });
        let told = kept.told.fetch_add(1, Relaxed);
        let mut errors = kept.errors.lock().expect("nobody panics holding it");
        errors.insert((turns::now().turn, told), error);
        if errors.len() > ERRORS_MAX {
            errors.pop_last();
        }
    }

    /// Writes what is to be written at the end.
    pub(super) fn close(&self, exit: u8) -> anyhow::Result<()> {
        let Some(kept) = &self.kept else { return Ok(()) };
        if let Some(lines) = &kept.lines {
            lines.lock().expect("nobody panics holding it").close()?;
        }
        let document = kept.document.lock().expect("nobody panics holding it").take();
        let Some(document) = document else { return Ok(()) };
        if let Some(path) = kept.absent.as_deref().filter(|path| path.exists()) {
            bail!("--json: {} was made meanwhile, and is left as it is", path.display());
        }
        let errors = std::mem::take(&mut *kept.errors.lock().expect("nobody panics holding it"));
        let mut sum = kept.sum.lock().expect("nobody panics holding it");
        (sum.seconds, sum.exit) = (kept.began.elapsed().as_secs_f64(), exit);
        sum.errors_left_out = kept.told.load(Relaxed) - errors.len() as u64;
        sum.errors = errors.into_values().collect();
        let text = serde_json::to_string_pretty(&*sum)? + "\n";
        document.write(text.as_bytes())
    }
}

impl Lines {
    fn open(path: &Path) -> anyhow::Result<Lines> {
        let file = match output::is_stdout(path) {
            true => {
                output::not_closed()?;
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

    fn write(&mut self, entry: &CopiedEntry) {
        if self.failed.is_some() {
            return;
        }
        let written = serde_json::to_writer(&mut self.file, entry)
            .map_err(std::io::Error::from)
            .and_then(|()| self.file.write_all(b"\n"));
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

fn file_name(name: &OsStr) -> FileName {
    let hex = match name.to_str() {
        Some(_) => None,
        None => Some(name.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect()),
    };
    FileName { name: name.to_string_lossy().into_owned(), hex }
}
