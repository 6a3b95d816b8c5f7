//! What one call on a descriptor costs, without a network, by several threads at once.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Barrier;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::neighbours::Neighbours;
use super::{FgetError, Situation, raise_descriptor_limit};
use crate::threads;

/// A call that has to look a descriptor up, and does little else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Call {
    /// read(2) of 0 bytes.
    Read,
    /// fstat(2).
    Fstat,
    /// poll(2) of one descriptor, without waiting.
    Poll,
}

/// Every call.
pub const CALLS: &[Call] = &[Call::Read, Call::Fstat, Call::Poll];

/// The situations that differ for them.
pub const SITUATIONS: &[Situation] = &[
    Situation::SharedTable,
    Situation::FdRanges,
    Situation::PrivateTable,
    Situation::Processes,
    Situation::SingleThread,
];

impl Call {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Call::Read => "read",
            Call::Fstat => "fstat",
            Call::Poll => "poll",
        }
    }

    /// The call of this name.
    pub fn named(name: &str) -> Option<Call> {
        CALLS.iter().copied().find(|call| call.name() == name)
    }

    #[inline]
    fn make(self, file: BorrowedFd<'_>) -> Result<(), rustix::io::Errno> {
        const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
        match self {
            Call::Read => rustix::io::read(file, &mut [0; 0][..]).map(drop),
            Call::Fstat => rustix::fs::fstat(file).map(drop),
            Call::Poll => {
                let mut fds = [PollFd::from_borrowed_fd(file, PollFlags::IN)];
                rustix::event::poll(&mut fds, Some(&NOW)).map(drop)
            }
        }
    }
}

/// What is to be measured.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// The call.
    pub call: Call,
    /// Who shares which descriptors.
    pub situation: Situation,
    /// Threads that call.
    pub threads: usize,
    /// Threads that open and close descriptors meanwhile.
    pub neighbours: usize,
    /// Whether all threads' descriptors are of one open file, instead of one each.
    pub one_file: bool,
    /// Before the clock starts.
    pub warm_up: Duration,
    /// What is measured.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Called {
    /// Calls of all threads.
    pub calls: u64,
    /// Nanoseconds of CPU that the calling threads took for them.
    pub cpu_ns: u64,
    /// How long it took.
    pub seconds: f64,
}

impl Called {
    /// Both together, at the same time.
    pub fn with(self, other: Called) -> Called {
        Called {
            calls: self.calls + other.calls,
            cpu_ns: self.cpu_ns + other.cpu_ns,
            seconds: self.seconds.max(other.seconds),
        }
    }
}

/// Calls between two looks at the clock.
const BATCH: u64 = 256;

/// Measures. Where all threads' descriptors are of one file, it is that of standard input, so that
/// several processes can be given the same.
///
/// # Errors
/// A file, a thread or a table of descriptors cannot be had, or a call fails.
pub fn run(job: &Job) -> Result<Called, FgetError> {
    raise_descriptor_limit();
    let neighbours = Neighbours::start(job.neighbours)
        .map_err(|error| FgetError::because(format!("cannot start neighbours: {error}")))?;
    let called = match job.threads {
        // No other thread shares the table.
        1 => of_thread(job, 0, &Barrier::new(1)),
        several => of_threads(job, several),
    };
    drop(neighbours);
    called
}

fn of_threads(job: &Job, count: usize) -> Result<Called, FgetError> {
    let start = &Barrier::new(count);
    let works = (0..count).map(|thread| move || of_thread(job, thread, start));
    let (all, ()) = threads::all_at_once(works, || ()).map_err(FgetError::because)?;
    all.into_iter().try_fold(Called::default(), |sum, called| Ok(sum.with(called?)))
}

fn of_thread(job: &Job, thread: usize, start: &Barrier) -> Result<Called, FgetError> {
    let file = prepared(job, thread);
    // Everybody comes here, so that nobody is waited for in vain.
    start.wait();
    let file = file?;
    let failed = || FgetError::of(format!("{} fails", job.call.name()));
    called_for(job, file.as_fd(), job.warm_up).map_err(|errno| failed()(errno))?;
    let (began, cpu) = (Instant::now(), cpu_ns());
    let calls = called_for(job, file.as_fd(), job.time).map_err(|errno| failed()(errno))?;
    let (cpu_ns, seconds) = (cpu_ns() - cpu, began.elapsed().as_secs_f64());
    Ok(Called { calls, cpu_ns, seconds })
}

fn prepared(job: &Job, thread: usize) -> Result<OwnedFd, FgetError> {
    job.situation.enter()?;
    let file = match job.one_file {
        true => std::io::stdin().as_fd().try_clone_to_owned(),
        false => File::open("/dev/null").map(OwnedFd::from),
    };
    let file = file.map_err(|error| FgetError::because(format!("no file to call on: {error}")))?;
    job.situation.placed(file, thread, 1)
}

fn called_for(job: &Job, file: BorrowedFd<'_>, time: Duration) -> Result<u64, rustix::io::Errno> {
    let (began, mut calls) = (Instant::now(), 0);
    while began.elapsed() < time {
        for _ in 0..BATCH {
            job.call.make(file)?;
        }
        calls += BATCH;
    }
    Ok(calls)
}

fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
