//! Drives files by one engine for a time: random or sequential, reads, writes or both, so many
//! threads with so many requests in flight each.
//!
//! The loop (`job`) allocates nothing, takes no lock and formats nothing. Every engine is clocked
//! alike: one look at the clock before each submission and one after each wait.

mod contents;
mod job;
mod offsets;

use std::fs::File;
use std::ops::Range;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytepath::Refusal;
use bytepath::engines::{Cache, Kind, Opening, Span};
use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::ends::Usage;
use crate::threads;
use contents::Written;
pub use contents::{Contents, Wrong};
use job::{Job, Tally};
pub use offsets::{Access, Offsets, Order};

/// What is done.
#[derive(Clone)]
pub struct Drive {
    /// By which engine.
    pub engine: &'static dyn Kind,
    /// Whether the files are opened with O_DIRECT.
    pub cache: Cache,
    /// How offsets follow each other, and how many of the requests read.
    pub access: Access,
    /// Bytes of each request.
    pub io_bytes: usize,
    /// Requests in flight on each thread.
    pub depth: usize,
    /// Requests handed over together.
    pub batch: usize,
    /// How many jobs.
    pub jobs: usize,
    /// Threads of each job.
    pub threads: usize,
    /// The files. Job n has the n-th `files_each` of them; all where that is 0.
    pub files: Vec<PathBuf>,
    /// Files of each job.
    pub files_each: usize,
    /// Bytes of each file that are asked for at most.
    pub span_bytes: Option<u64>,
    /// Where the offsets come from.
    pub seed: u64,
    /// Whether the bytes are looked at.
    pub verify: bool,
    /// How long the kernel's submitting thread watches an empty queue.
    pub idle: Duration,
    /// Before the clock starts.
    pub warm_up: Duration,
    /// What is measured.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct DriveReport {
    /// Requests that were done in the time.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Requests a second: those of all threads, each over its own time.
    pub per_second: f64,
    /// The time, in seconds.
    pub seconds: f64,
    /// System calls, where the engine knows them.
    pub calls: Option<u64>,
    /// Requests that had to be made again by a call that waits, where the engine asks for answers at once.
    pub would_block: Option<u64>,
    /// What the process used meanwhile: from when the first thread is measured until the last one is no
    /// longer.
    pub usage: Usage,
    /// How long each request took, in nanoseconds: an HdrHistogram, V2 compressed, in base64.
    pub histogram: String,
    /// Blocks whose bytes were looked at, and were right.
    pub verified: u64,
}

/// Why files cannot be driven.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    /// A file cannot be opened.
    #[error("cannot open {}: {}{}", named(path), std::io::Error::from(*errno), opening_hint(*errno))]
    Open {
        /// It.
        path: PathBuf,
        /// The kernel's word.
        errno: Errno,
    },
    /// A file does not hold one block.
    #[error(
        "{} holds {bytes} bytes, less than one block of {io_bytes}; take a larger file or a smaller --bs",
        named(path)
    )]
    Small {
        /// It.
        path: PathBuf,
        /// What it holds.
        bytes: u64,
        /// Bytes of a block.
        io_bytes: usize,
    },
    /// The engine cannot be opened, or not for these files.
    #[error("{engine}: {refusal}")]
    Refused {
        /// It.
        engine: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// A request failed.
    #[error("{engine}: {what} {} at byte {at}: {refusal}", named(path))]
    Request {
        /// The engine.
        engine: &'static str,
        /// "reading" or "writing".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: u64,
        /// Why.
        refusal: Refusal,
    },
    /// A request came up short.
    #[error(
        "{engine}: {what} {} at byte {at} came to {count} of {io_bytes} bytes; did the file become shorter?",
        named(path)
    )]
    Short {
        /// The engine.
        engine: &'static str,
        /// "reading" or "writing".
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Where in it.
        at: u64,
        /// Bytes that came.
        count: u32,
        /// Bytes that were asked for.
        io_bytes: usize,
    },
    /// The bytes are not those that belong there.
    #[error("{engine}: {}: {wrong}", named(path))]
    Wrong {
        /// The engine.
        engine: &'static str,
        /// The file.
        path: PathBuf,
        /// Where and how they differ.
        wrong: Box<Wrong>,
    },
    /// A thread cannot be had.
    #[error("{0}")]
    Threads(String),
    /// A histogram could not be kept.
    #[error("cannot keep the latencies: {0}")]
    Histogram(String),
}

/// A file for a person: those of a [`crate::file_set::FileSet`] that were made have no names, and the one by
/// which a process finds them says nothing to anybody else.
fn named(path: &Path) -> String {
    match path.starts_with("/proc") {
        true => "a file made for this run".to_owned(),
        false => path.display().to_string(),
    }
}

fn opening_hint(errno: Errno) -> &'static str {
    match errno {
        Errno::INVAL => "; its file system takes no O_DIRECT: measure --buffered, or elsewhere",
        Errno::BUSY => "; it is in use: a device that is mounted cannot be driven",
        Errno::MFILE => "; raise ulimit -n, or take fewer --jobs, --files or --depth",
        _ => "",
    }
}

/// What all threads of a drive share.
struct Together {
    barrier: Barrier,
    /// When the measuring begins, by [`now_ns`].
    begins: AtomicU64,
    /// Set by one that fails.
    stop: AtomicBool,
    written: Vec<Written>,
    used: Used,
}

/// What the process uses while its threads are measured, looked at by themselves: whoever only waits
/// for them may be woken when they have long ended, where others want the CPUs too.
#[derive(Default)]
struct Used {
    before: OnceLock<Usage>,
    after: Mutex<Option<Usage>>,
}

impl Used {
    /// A thread begins; the first one counts.
    fn begins(&self) {
        self.before.get_or_init(Usage::of_this_process);
    }

    /// A thread ends; the last one counts.
    fn ends(&self) {
        let mut after = self.after.lock().unwrap_or_else(PoisonError::into_inner);
        *after = Some(Usage::of_this_process());
    }

    fn meanwhile(&self) -> Usage {
        let after = *self.after.lock().unwrap_or_else(PoisonError::into_inner);
        let both = after.zip(self.before.get());
        both.map_or_else(Usage::default, |(after, before)| after.since(*before))
    }
}

/// A thread that is getting ready. However that ends, the others wait for it no longer.
struct Starting<'a>(Option<&'a Together>);

impl Starting<'_> {
    /// Waits until all are ready; when the measuring begins.
    fn ready(mut self) -> u64 {
        let Some(together) = self.0.take() else { return 0 };
        together.barrier.wait();
        together.barrier.wait();
        together.begins.load(Ordering::Relaxed)
    }
}

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        if let Some(together) = self.0 {
            together.stop.store(true, Ordering::Relaxed);
            together.barrier.wait();
            together.barrier.wait();
        }
    }
}

impl Drive {
    /// Does it.
    ///
    /// # Errors
    /// Why it could not be done, or that bytes were wrong.
    pub fn run(&self) -> Result<DriveReport, DriveError> {
        let all = 0..self.files.len();
        let files = self.open(all.clone())?;
        let spans = self.spans(&files, all)?;
        let watched = self.verify && self.access.writes();
        let blocks = |span: &Span<'_>| if watched { self.blocks(span) } else { 0 };
        let together = Together {
            barrier: Barrier::new(self.jobs * self.threads + 1),
            begins: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            written: spans.iter().map(|span| Written::new(blocks(span))).collect(),
            used: Used::default(),
        };
        let tallies = self.threads(&together)?;
        let settled = self.settle(if watched { &spans } else { &[] }, &together.written);
        let mut whole = Tally::new()?;
        for tally in tallies {
            whole.add(&tally?)?;
        }
        whole.verified += settled?;
        whole.report(self, together.used.meanwhile())
    }

    /// Looks at all files after a run that wrote, and gives them their own bytes again, whatever the
    /// run came to; how many blocks were right.
    fn settle(&self, spans: &[Span<'_>], written: &[Written]) -> Result<u64, DriveError> {
        let mut settled = Ok(0);
        for (place, (span, written)) in spans.iter().zip(written).enumerate() {
            let blocks = Contents::of_file(place).settle(span, self.io_bytes, written);
            let blocks = blocks.map_err(|wrong| self.wrong(place, wrong));
            settled = settled.and_then(|all| Ok(all + blocks?));
        }
        settled
    }

    /// Starts the threads, and waits for them.
    fn threads(&self, together: &Together) -> Result<Vec<Result<Tally, DriveError>>, DriveError> {
        let all = 0..self.jobs * self.threads;
        let works = all.map(|thread| move || self.thread(thread, together));
        let begin = || {
            together.barrier.wait();
            let begins = now_ns() + nanoseconds(self.warm_up);
            together.begins.store(begins, Ordering::Relaxed);
            together.barrier.wait();
        };
        let (tallies, ()) = threads::all_at_once(works, begin).map_err(DriveError::Threads)?;
        Ok(tallies)
    }

    /// The work of one thread. It opens the files itself: threads that share descriptors wait for
    /// each other's counts.
    fn thread(&self, thread: usize, together: &Together) -> Result<Tally, DriveError> {
        let starting = Starting(Some(together));
        let mine = self.files_of(thread / self.threads);
        let files = self.open(mine.clone())?;
        let spans = self.spans(&files, mine.clone())?;
        let opening = Opening {
            files: &spans,
            io_bytes: self.io_bytes,
            depth: self.depth,
            writes: self.access.writes(),
            idle: self.idle,
        };
        let refused = |refusal| DriveError::Refused { engine: self.engine.name(), refusal };
        let engine = self.engine.open(&opening).map_err(refused)?;
        let offsets = self.offsets(thread, spans.iter().map(|span| self.blocks(span)).collect());
        let mut job = Job::new(self, engine, offsets, mine.start, together)?;
        let begins = starting.ready();
        let done = job.run(begins, begins + nanoseconds(self.time));
        if done.is_err() {
            together.stop.store(true, Ordering::Relaxed);
        }
        done.map(|()| job.tally())
    }

    /// The offsets of one thread. Threads of the same files begin in different parts of them where
    /// the order is sequential.
    fn offsets(&self, thread: usize, blocks: Vec<u64>) -> Offsets {
        let alike = if self.files_each == 0 { self.jobs * self.threads } else { self.threads };
        let part = (thread % alike) as u64;
        let starts = blocks.iter().map(|count| count * part / alike as u64).collect();
        Offsets::new(
            self.access,
            blocks,
            starts,
            self.seed ^ (thread as u64) << 32,
            self.io_bytes as u64,
        )
    }

    /// The files of a job, by their places.
    fn files_of(&self, job: usize) -> Range<usize> {
        match self.files_each {
            0 => 0..self.files.len(),
            each => job * each..(job + 1) * each,
        }
    }

    fn open(&self, which: Range<usize>) -> Result<Vec<File>, DriveError> {
        let access = if self.access.writes() { OFlags::RDWR } else { OFlags::RDONLY };
        let direct = match self.cache {
            Cache::Direct => OFlags::DIRECT,
            Cache::Buffered => OFlags::empty(),
        };
        let open = |path: &PathBuf| {
            rustix::fs::open(path, access | direct | OFlags::CLOEXEC, Mode::empty())
                .map(File::from)
                .map_err(|errno| DriveError::Open { path: path.clone(), errno })
        };
        self.files[which].iter().map(open).collect()
    }

    /// How much of each file is asked for.
    fn spans<'fd>(
        &self,
        files: &'fd [File],
        which: Range<usize>,
    ) -> Result<Vec<Span<'fd>>, DriveError> {
        let span = |(file, path): (&'fd File, &PathBuf)| {
            // The end of a device is where its last byte is; its length as a file is 0.
            let end = rustix::fs::seek(file, SeekFrom::End(0));
            let end = end.map_err(|errno| DriveError::Open { path: path.clone(), errno })?;
            let bytes = self.span_bytes.map_or(end, |most| most.min(end));
            match bytes < self.io_bytes as u64 {
                true => {
                    Err(DriveError::Small { path: path.clone(), bytes, io_bytes: self.io_bytes })
                }
                false => Ok(Span { file: file.as_fd(), bytes }),
            }
        };
        files.iter().zip(&self.files[which]).map(span).collect()
    }

    fn blocks(&self, span: &Span<'_>) -> u64 {
        span.bytes / self.io_bytes as u64
    }

    fn wrong(&self, place: usize, wrong: Wrong) -> DriveError {
        DriveError::Wrong {
            engine: self.engine.name(),
            path: self.files[place].clone(),
            wrong: Box::new(wrong),
        }
    }
}

/// The monotonic clock, in nanoseconds.
#[inline]
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX / 4)
}
