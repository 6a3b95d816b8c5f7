//! The writing end: an outlet, driven until it has written enough or the reader is gone.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytepath::error::{Failed, Stop};
use bytepath::meter::Meter;
use bytepath::outlets::{Buffers, Contents, Fresh, Outlet, Producer, Setup, Use};
use bytepath::pages::{PageSize, Pages};
use bytepath::placement::pin_this_thread;
use bytepath::{Endpoint, Wait};
use rustix::io::Errno;

use super::{EndError, EndReport, Pattern, Usage, check_huge, check_taken, seconds};
use crate::interval::Interval;

/// The byte that the published programs write.
const FILLER: [u8; 1] = *b"X";

/// The period of the pattern where the outlet only repeats: a power of two that every reservoir
/// holds a whole number of times.
const REPEATED_PATTERN_BYTES: usize = 64 << 10;

/// The settings of a writing end.
#[derive(Clone)]
pub struct WriteEnd {
    /// How it writes.
    pub outlet: &'static dyn Outlet,
    /// Bytes per buffer.
    pub buf_bytes: usize,
    /// The size of the pipe; `None` leaves it to the outlet.
    pub pipe_bytes: Option<usize>,
    /// The pages of the buffers.
    pub pages: Pages,
    /// Whether to fail unless the pages are huge.
    pub check_huge: bool,
    /// Whether two buffers share a mapping.
    pub buffers: Buffers,
    /// SPLICE_F_GIFT.
    pub gift_flag: bool,
    /// How `gift` comes by fresh pages.
    pub fresh: Fresh,
    /// Whether the buffers are left as the kernel gives them.
    pub untouched: bool,
    /// Whether the pattern is written, for a reader that verifies.
    pub verify: bool,
    /// What to do when the pipe is full.
    pub wait: Wait,
    /// The CPU to run on.
    pub cpu: Option<usize>,
    /// How many bytes; until the reader is gone when `None`.
    pub bytes: Option<u64>,
    /// How long at most.
    pub time: Option<Duration>,
    /// Whether a call that sleeps is interrupted when the time is over.
    pub interrupted: bool,
}

impl WriteEnd {
    /// Writes into `sink`.
    ///
    /// # Errors
    /// The outlet does not suit, or failed otherwise than by the reader leaving.
    pub fn run(&self, sink: BorrowedFd<'_>) -> Result<EndReport, EndError> {
        if let Some(cpu) = self.cpu {
            pin_this_thread(cpu)?.keep();
        }
        let sink = Endpoint::sink(sink)?;
        self.outlet
            .suits(&sink)
            .map_err(|refusal| EndError::Refused { mechanism: self.outlet.name(), refusal })?;
        let meter = Meter::new();
        let pattern = self.repeated_pattern(&sink);
        let contents = match &pattern {
            Some(pattern) => Contents::Repeat(pattern),
            None if self.untouched => Contents::Untouched,
            None => Contents::Repeat(&FILLER),
        };
        let mut producer = self
            .outlet
            .open(&sink, &self.setup(contents, &meter))
            .map_err(|stop| self.stopped(stop, 0))?;
        if self.check_huge {
            check_huge(self.pages)?;
        }
        let refused = producer.pipe_refused();
        // Where the kernel gives no timer, calls sleep on.
        let until = self.ends_in_time().and_then(|time| Interval::start(time).ok());
        let (started, before) = (Instant::now(), Usage::of_this_process());
        let bytes = if self.verify && pattern.is_none() {
            self.stream(producer.as_mut())
        } else {
            self.repeat(producer.as_mut(), &meter)
        }?;
        drop(until);
        let elapsed = seconds(started.elapsed());
        let shape = producer.shape();
        let usage = Usage::of_this_process().since(before);
        // Some outlets only take pages as they write, and what is there at the end is the last of them.
        if self.check_huge && self.pages.size == PageSize::Huge {
            check_taken(bytes, usage.faults).unwrap_or_else(|| check_huge(self.pages))?;
        }
        Ok(EndReport {
            mechanism: self.outlet.name().into(),
            bytes,
            seconds: elapsed,
            calls: meter.read().calls,
            waits: meter.read().waits,
            usage,
            chunk_bytes: shape.chunk_bytes as u64,
            pipe_bytes: shape.pipe_bytes as u64,
            slot_bytes: Some(shape.slot_bytes as u64),
            pipe_refused: refused.map(|refusal| refusal.to_string()),
            ..EndReport::default()
        })
    }

    /// After how long calls that sleep are interrupted.
    fn ends_in_time(&self) -> Option<Duration> {
        self.time.filter(|time| self.interrupted && *time > Duration::ZERO)
    }

    fn setup<'a>(&self, contents: Contents<'a>, meter: &'a Meter) -> Setup<'a> {
        Setup {
            contents,
            buf_bytes: self.buf_bytes,
            pipe_bytes: self.pipe_bytes,
            pages: self.pages,
            buffers: self.buffers,
            gift_flag: self.gift_flag,
            fresh: self.fresh,
            wait: self.wait,
            cancel: self.ends_in_time().map(|_| Interval::over()),
            ..Setup::new(meter)
        }
    }

    /// The pattern's first bytes, for outlets that cannot go on with the rest of it.
    fn repeated_pattern(&self, sink: &Endpoint<'_>) -> Option<Vec<u8>> {
        let needed = self.verify && self.outlet.used_for() == Use::Repeats;
        needed.then(|| {
            let pipe =
                self.pipe_bytes.or_else(|| rustix::pipe::fcntl_getpipe_size(sink.as_fd()).ok());
            // The kernel rounds what is asked for up likewise, and only whole words are verified.
            let len = pipe.unwrap_or(0).clamp(4096, REPEATED_PATTERN_BYTES).next_power_of_two();
            let mut bytes = vec![0; len];
            Pattern::fill(0, &mut bytes);
            bytes
        })
    }

    fn repeat(&self, producer: &mut dyn Producer, meter: &Meter) -> Result<u64, EndError> {
        let mut left = Left::new(self);
        let timed = self.time.is_some();
        while let Some(most) = left.next() {
            let sent =
                if timed { producer.repeat_some(most).map(drop) } else { producer.repeat(most) };
            left.done = meter.bytes();
            if let Err(stop) = sent {
                return self.ended(stop, left.done);
            }
        }
        Ok(left.done)
    }

    fn stream(&self, producer: &mut dyn Producer) -> Result<u64, EndError> {
        let mut left = Left::new(self);
        while let Some(most) = left.next() {
            let room = match producer.room() {
                Ok(room) => room.unwrap_or(&mut []),
                Err(stop) => return self.ended(stop, left.done),
            };
            let len = room.len().min(usize::try_from(most).unwrap_or(usize::MAX));
            Pattern::fill(left.done, &mut room[..len]);
            match producer.send(len) {
                Ok(()) => left.done += len as u64,
                Err(stop) => {
                    let gone = len - stranded(&stop);
                    return self.ended(stop, left.done + gone as u64);
                }
            }
        }
        Ok(left.done)
    }

    /// A reader that leaves has had enough: that is the ordinary end, and so is that of the time.
    fn ended(&self, stop: Stop, done: u64) -> Result<u64, EndError> {
        match stop {
            Stop::Cancelled { .. } => Ok(done),
            Stop::Failed(failed) if failed.errno == Errno::PIPE => Ok(done),
            stop => Err(self.stopped(stop, done)),
        }
    }

    /// The error with the offset reached, and without the bytes of the pattern that did not go:
    /// nobody misses them.
    fn stopped(&self, stop: Stop, done: u64) -> EndError {
        let stop = match stop {
            Stop::Failed(failed) => {
                Stop::Failed(Failed { offset: done, stranded: Vec::new(), ..failed })
            }
            stop => stop,
        };
        EndError::Stopped { mechanism: self.outlet.name(), stop }
    }
}

fn stranded(stop: &Stop) -> usize {
    match stop {
        Stop::Failed(failed) => failed.stranded.len(),
        Stop::Cancelled { stranded } => stranded.len(),
        _ => 0,
    }
}

/// What is left to be written, by bytes and by time.
struct Left {
    done: u64,
    bytes: Option<u64>,
    until: Option<Instant>,
}

impl Left {
    fn new(end: &WriteEnd) -> Self {
        Left { done: 0, bytes: end.bytes, until: end.time.map(|time| Instant::now() + time) }
    }

    /// How many bytes may follow; `None` at the end.
    fn next(&self) -> Option<u64> {
        let most = self.bytes.map_or(u64::MAX, |bytes| bytes - self.done.min(bytes));
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        (most > 0 && !late).then_some(most)
    }
}
