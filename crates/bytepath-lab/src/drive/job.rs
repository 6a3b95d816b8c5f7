//! The loop of one thread: slots are filled, handed over in batches, waited for, and clocked.

use std::sync::atomic::Ordering;

use bytepath::Refusal;
use bytepath::engines::{Cache, Direction, Done, Engine, Io};
use bytepath_report::latency;
use hdrhistogram::Histogram;

use super::contents::{Contents, Version};
use super::{Drive, DriveError, DriveReport, Offsets, Together, now_ns};
use crate::ends::Usage;

/// A thread's requests and what they came to.
pub(super) struct Job<'a> {
    drive: &'a Drive,
    together: &'a Together,
    engine: Box<dyn Engine + 'a>,
    offsets: Offsets,
    /// The place of its first file among all.
    first_file: usize,
    free: Vec<usize>,
    /// What is in flight in each slot, and since when.
    flights: Vec<(Io, u64)>,
    done: Vec<Done>,
    /// For the bytes that belong into a block.
    expected: Vec<u8>,
    tally: Tally,
    /// What the engine had counted when the measuring began.
    before: (Option<u64>, Option<u64>),
}

/// What a thread did while it was measured.
pub(super) struct Tally {
    requests: u64,
    /// Requests a second, over the time from its first moment to its last.
    per_second: f64,
    calls: Option<u64>,
    would_block: Option<u64>,
    latencies: Histogram<u64>,
    pub(super) verified: u64,
}

impl<'a> Job<'a> {
    pub(super) fn new(
        drive: &'a Drive,
        engine: Box<dyn Engine + 'a>,
        offsets: Offsets,
        first_file: usize,
        together: &'a Together,
    ) -> Result<Self, DriveError> {
        let nothing = Io { file: 0, at: 0, direction: Direction::Read };
        let mut job = Job {
            drive,
            together,
            engine,
            offsets,
            first_file,
            free: (0..drive.depth).rev().collect(),
            flights: vec![(nothing, 0); drive.depth],
            done: Vec::with_capacity(drive.depth),
            expected: vec![0; drive.io_bytes],
            tally: Tally::new()?,
            before: (None, None),
        };
        for slot in 0..drive.depth {
            // What is written unless it is verified: bytes that do not compress.
            let bytes = job.engine.bytes_mut(slot);
            Contents::of_file(first_file).fill(slot as u64 * 4096, Version::Rewritten, bytes);
        }
        Ok(job)
    }

    /// Works until `ends`; what is done from `begins` on counts.
    pub(super) fn run(&mut self, begins: u64, ends: u64) -> Result<(), DriveError> {
        let mut now = now_ns();
        while now < begins && !self.together.stop.load(Ordering::Relaxed) {
            now = self.turn(now)?;
        }
        self.before = (self.engine.calls(), self.engine.would_block());
        let warm = std::mem::replace(&mut self.tally, Tally::new()?);
        self.tally.verified = warm.verified;
        self.together.used.begins();
        let began = now;
        // A time in which nothing was done tells nothing: then the first that is done ends it.
        while (now < ends || self.tally.requests == 0)
            && !self.together.stop.load(Ordering::Relaxed)
        {
            now = self.turn(now)?;
        }
        self.together.used.ends();
        let seconds = (now - began).max(1) as f64 / 1e9;
        self.tally.per_second = self.tally.requests as f64 / seconds;
        let (calls, would_block) = (self.engine.calls(), self.engine.would_block());
        let since = |(after, before): (u64, u64)| after - before;
        self.tally.calls = calls.zip(self.before.0).map(since);
        self.tally.would_block = would_block.zip(self.before.1).map(since);
        self.drain()
    }

    pub(super) fn tally(self) -> Tally {
        self.tally
    }

    /// Fills the free slots, waits for what is done, and counts it. When that was.
    #[inline]
    fn turn(&mut self, mut now: u64) -> Result<u64, DriveError> {
        while !self.free.is_empty() {
            for _ in 0..self.drive.batch {
                let Some(slot) = self.free.pop() else { break };
                let io = self.offsets.next_io();
                if self.drive.verify {
                    self.prepare(slot, io);
                }
                self.flights[slot] = (io, now);
                self.engine.push(slot, io);
            }
            self.engine.submit().map_err(|errno| self.failed(errno))?;
            if !self.free.is_empty() {
                now = now_ns();
            }
        }
        self.engine.wait(&mut self.done).map_err(|errno| self.failed(errno))?;
        now = now_ns();
        self.count(now)?;
        Ok(now)
    }

    /// Counts what is done, and frees the slots.
    #[inline]
    fn count(&mut self, now: u64) -> Result<(), DriveError> {
        for index in 0..self.done.len() {
            let Done { slot, answer } = self.done[index];
            let (io, since) = self.flights[slot];
            match answer {
                Ok(count) if count as usize == self.drive.io_bytes => {}
                answer => return Err(self.refused(io, answer)),
            }
            if self.drive.verify && io.direction == Direction::Read {
                self.check(slot, io)?;
            }
            self.tally.latencies.saturating_record(now - since);
            self.free.push(slot);
        }
        self.tally.requests += self.done.len() as u64;
        self.done.clear();
        Ok(())
    }

    /// Waits for what is still in flight, which does not count.
    fn drain(&mut self) -> Result<(), DriveError> {
        let requests = self.tally.requests;
        let latencies = self.tally.latencies.clone();
        while self.free.len() < self.drive.depth {
            self.engine.wait(&mut self.done).map_err(|errno| self.failed(errno))?;
            if self.done.is_empty() {
                break;
            }
            self.count(now_ns())?;
        }
        (self.tally.requests, self.tally.latencies) = (requests, latencies);
        Ok(())
    }

    /// Sees to the bytes of a block that is to be written.
    fn prepare(&mut self, slot: usize, io: Io) {
        if io.direction == Direction::Write {
            let file = self.first_file + io.file;
            self.together.written[file].begins(io.at / self.drive.io_bytes as u64);
            let contents = Contents::of_file(file);
            contents.fill(io.at, Version::Rewritten, self.engine.bytes_mut(slot));
        }
    }

    /// Looks at the bytes that were read: where some thread may be writing them, each word may be
    /// either.
    fn check(&mut self, slot: usize, io: Io) -> Result<(), DriveError> {
        let file = self.first_file + io.file;
        let (contents, found) = (Contents::of_file(file), self.engine.bytes(slot));
        let version = self.together.written[file].version(io.at / self.drive.io_bytes as u64);
        let spare = &mut self.expected;
        let checked = contents.check(io.at, Version::Own, found, spare).or_else(|wrong| {
            let either = version == Version::Rewritten && contents.is_either(io.at, found);
            if either { Ok(()) } else { Err(wrong) }
        });
        self.tally.verified += 1;
        checked.map_err(|wrong| self.drive.wrong(file, wrong))
    }

    /// The whole queue failed.
    #[cold]
    fn failed(&self, errno: rustix::io::Errno) -> DriveError {
        DriveError::Refused { engine: self.drive.engine.name(), refusal: self.refusal(errno) }
    }

    /// What the engine says, with what helps here: these files are open with O_DIRECT already, where that
    /// is asked for.
    fn refusal(&self, errno: rustix::io::Errno) -> Refusal {
        let refusal = self.engine.refusal(errno);
        let polled = self.drive.engine.name() == "uring-iopoll";
        match polled && self.drive.cache == Cache::Direct && refusal.remedy.is_some() {
            true => refusal.remedy(
                "measure on a device with queues for polling (nvme: poll_queues=N of its module), by \
                 --dir or --device",
            ),
            false => refusal,
        }
    }

    /// A request failed or came up short.
    #[cold]
    fn refused(&self, io: Io, answer: Result<u32, rustix::io::Errno>) -> DriveError {
        let engine = self.drive.engine.name();
        let what = if io.direction == Direction::Read { "reading" } else { "writing" };
        let (path, at) = (self.drive.files[self.first_file + io.file].clone(), io.at);
        match answer {
            Err(errno) => {
                let refusal = self.refusal(errno);
                DriveError::Request { engine, what, path, at, refusal }
            }
            Ok(count) => {
                DriveError::Short { engine, what, path, at, count, io_bytes: self.drive.io_bytes }
            }
        }
    }
}

/// The count of two threads together, as far as they know theirs.
fn both(count: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (count, other) {
        (Some(count), Some(more)) => Some(count + more),
        (count, more) => count.or(more),
    }
}

impl Tally {
    pub(super) fn new() -> Result<Tally, DriveError> {
        Ok(Tally {
            requests: 0,
            per_second: 0.0,
            calls: None,
            would_block: None,
            latencies: latency::empty(),
            verified: 0,
        })
    }

    pub(super) fn add(&mut self, other: &Tally) -> Result<(), DriveError> {
        self.requests += other.requests;
        self.per_second += other.per_second;
        self.calls = both(self.calls, other.calls);
        self.would_block = both(self.would_block, other.would_block);
        self.verified += other.verified;
        self.latencies
            .add(&other.latencies)
            .map_err(|error| DriveError::Histogram(error.to_string()))
    }

    pub(super) fn report(self, drive: &Drive, usage: Usage) -> Result<DriveReport, DriveError> {
        Ok(DriveReport {
            requests: self.requests,
            bytes: self.requests * drive.io_bytes as u64,
            per_second: self.per_second,
            seconds: drive.time.as_secs_f64(),
            calls: self.calls,
            would_block: self.would_block,
            usage,
            histogram: latency::encoded(&self.latencies)
                .map_err(|error| DriveError::Histogram(error.to_string()))?,
            verified: self.verified,
        })
    }
}
