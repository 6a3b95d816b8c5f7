//! Operations of the kernel, again and again, one system call each or in batches on a ring: the
//! process behind each arm of the experiment `calls`.
//!
//! Operations come in rounds. What an operation needs (connections to accept, bytes to receive) is
//! made before each round and cleared away after it, outside the clock and the counters. Every
//! answer is looked at: an operation that fails ends the sample.

mod ring;
mod stage;
mod syscalls;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath::error::Refusal;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::ends::Usage;
use crate::file_set::size_hint;
use stage::Stage;

/// An operation whose batching is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Nothing at all.
    Nop,
    /// A file is opened by its path and closed.
    OpenClose,
    /// What statx(2) tells about a path.
    Statx,
    /// 512 bytes of a file in the page cache.
    Read,
    /// A range of a file that has it already.
    Fallocate,
    /// A connection that waits to be taken.
    Accept,
    /// 64 bytes into a socket that has room.
    Send,
    /// 64 bytes out of a socket that has them.
    Receive,
    /// A microsecond goes by.
    Timeout,
    /// Whether a descriptor that is readable is so.
    Poll,
    /// A wait for a descriptor is begun and called off.
    Cancel,
}

/// Every operation, in reading order.
pub const OPERATIONS: &[Operation] = &[
    Operation::Nop,
    Operation::OpenClose,
    Operation::Statx,
    Operation::Read,
    Operation::Fallocate,
    Operation::Accept,
    Operation::Send,
    Operation::Receive,
    Operation::Timeout,
    Operation::Poll,
    Operation::Cancel,
];

/// The most operations in a batch: what fits into the usual buffer of a socket.
pub const BATCH_MAX: u32 = 256;

/// Operations of a round, or one batch where that is more.
const ROUND: u32 = 128;

impl Operation {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Nop => "nop",
            Operation::OpenClose => "open-close",
            Operation::Statx => "statx",
            Operation::Read => "read",
            Operation::Fallocate => "fallocate",
            Operation::Accept => "accept",
            Operation::Send => "send",
            Operation::Receive => "receive",
            Operation::Timeout => "timeout",
            Operation::Poll => "poll",
            Operation::Cancel => "cancel",
        }
    }

    /// The operation of this name.
    pub fn named(name: &str) -> Option<Operation> {
        OPERATIONS.iter().copied().find(|operation| operation.name() == name)
    }

    /// The system calls that do it without a ring.
    pub fn syscalls(self) -> &'static str {
        match self {
            Operation::Nop => "getpid, the cheapest",
            Operation::OpenClose => "openat and close",
            Operation::Statx => "statx",
            Operation::Read => "pread of 512 bytes",
            Operation::Fallocate => "fallocate of 4 KiB that the file has",
            Operation::Accept => "accept4 on a Unix socket",
            Operation::Send => "send of 64 bytes on a Unix socket",
            Operation::Receive => "recv of 64 bytes on a Unix socket",
            Operation::Timeout => "clock_nanosleep of 1 µs",
            Operation::Poll => "poll of a readable eventfd",
            Operation::Cancel => "epoll_ctl twice: a wait is added, and removed",
        }
    }

    /// Whether it is about a descriptor that a ring can have registered.
    pub fn takes_file(self) -> bool {
        use Operation::{Accept, Fallocate, Poll, Read, Receive, Send};
        matches!(self, Read | Fallocate | Accept | Send | Receive | Poll)
    }
}

/// How operations are handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// A system call each.
    Syscall,
    /// So many at once on a ring.
    Batch {
        /// How many.
        operations: u32,
        /// Whether the ring has the file.
        registered: bool,
    },
}

/// What one process is to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// The operation.
    pub operation: Operation,
    /// How it is handed over.
    pub way: Way,
    /// Where its file is made.
    pub directory: PathBuf,
    /// How long before the clock starts.
    pub warm_up: Duration,
    /// How long rounds are begun once it runs.
    pub time: Duration,
}

/// What it did.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Report {
    /// Operations done.
    pub operations: u64,
    /// How long they took, without what was made for them.
    pub seconds: f64,
    /// System calls that they took.
    pub calls: u64,
    /// What the process used for them.
    pub usage: Usage,
}

/// Why operations could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// What the operation needs cannot be had.
    #[error("cannot make {what}: {error}{}", size_hint(error, "", ""))]
    Stage {
        /// What.
        what: &'static str,
        /// The system's word.
        error: std::io::Error,
    },
    /// There is no ring.
    #[error("{0}")]
    Ring(Refusal),
    /// An operation failed.
    #[error("{operation} failed: {}", std::io::Error::from(*.errno))]
    Failed {
        /// Its name.
        operation: &'static str,
        /// The kernel's word.
        errno: Errno,
    },
    /// An operation answered something else than it should.
    #[error("{operation} answered {found} instead of {wanted}")]
    Wrong {
        /// Its name.
        operation: &'static str,
        /// The answer.
        found: u64,
        /// The right one.
        wanted: u64,
    },
}

impl From<Refusal> for CallError {
    fn from(refusal: Refusal) -> CallError {
        CallError::Ring(refusal)
    }
}

impl CallError {
    fn stage(what: &'static str) -> impl Fn(std::io::Error) -> CallError {
        move |error| CallError::Stage { what, error }
    }
}

/// One way of doing a round of operations.
trait Doer {
    /// Does so many, and says how many system calls that took.
    fn round(&mut self, stage: &Stage, operations: u32) -> Result<u64, CallError>;
}

/// Does what a job says, and reports.
///
/// # Errors
/// Something is missing, or an operation failed.
pub fn run(job: &Job) -> Result<Report, CallError> {
    // What the timer is late by would be all that is seen of it (50 µs unless told otherwise).
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let stage = Stage::build(job.operation, &job.directory)?;
    match job.way {
        Way::Syscall => {
            let mut doer = syscalls::Syscalls::new(job.operation)?;
            measured(job, &stage, &mut doer, ROUND)
        }
        Way::Batch { operations: batch, registered } => {
            let mut doer = ring::Batches::open(&stage, job.operation, batch, registered)?;
            measured(job, &stage, &mut doer, ROUND.max(batch) / batch * batch)
        }
    }
}

fn measured(
    job: &Job,
    stage: &Stage,
    doer: &mut dyn Doer,
    round: u32,
) -> Result<Report, CallError> {
    rounds(job.warm_up, stage, doer, round)?;
    rounds(job.time, stage, doer, round)
}

/// Rounds for a time, one at least.
fn rounds(
    time: Duration,
    stage: &Stage,
    doer: &mut dyn Doer,
    round: u32,
) -> Result<Report, CallError> {
    let (began, mut report, mut used) = (Instant::now(), Report::default(), Duration::ZERO);
    loop {
        stage.prepare(round)?;
        let (before, started) = (Usage::of_this_process(), Instant::now());
        let calls = doer.round(stage, round)?;
        used += started.elapsed();
        report.usage = report.usage.with(Usage::of_this_process().since(before));
        report.operations += u64::from(round);
        report.calls += calls;
        stage.clear(round)?;
        if began.elapsed() >= time {
            report.seconds = used.as_secs_f64();
            return Ok(report);
        }
    }
}
