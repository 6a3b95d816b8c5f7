//! The reading end: an inlet, driven until it has read enough or the writer is gone. It is the end
//! that measures: the clock runs while it reads.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytepath::error::Stop;
use bytepath::inlets::{Consumer, Inlet, Setup};
use bytepath::meter::Meter;
use bytepath::pages::Pages;
use bytepath::placement::pin_this_thread;
use bytepath::{Endpoint, Wait};

use super::{EndError, EndReport, Usage, Verifier, check_huge, seconds};
use crate::interval::Interval;

/// When the reader has had enough.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Until {
    /// After so many bytes.
    Bytes(u64),
    /// After about so long, or so many bytes, whichever comes first. The clock is looked at a few
    /// times only.
    Time(Duration, Option<u64>),
}

/// The settings of a reading end.
#[derive(Clone)]
pub struct ReadEnd {
    /// How it reads.
    pub inlet: &'static dyn Inlet,
    /// Bytes per call at most.
    pub buf_bytes: usize,
    /// The size of the pipe; `None` leaves it as it is.
    pub pipe_bytes: Option<usize>,
    /// The pages of the buffer.
    pub pages: Pages,
    /// Whether to fail unless the pages are huge.
    pub check_huge: bool,
    /// SPLICE_F_MOVE.
    pub move_flag: bool,
    /// Whether the buffer is left as the kernel gives it.
    pub untouched: bool,
    /// Whether the pattern is expected.
    pub verify: bool,
    /// What to do when the pipe is empty.
    pub wait: Wait,
    /// The CPU to run on.
    pub cpu: Option<usize>,
    /// How long to read before the clock starts.
    pub warm_up: Duration,
    /// When to stop.
    pub until: Until,
    /// Whether a call that sleeps is interrupted when the time is over. A measurement waits for the
    /// writer to come instead, and has its own patience.
    pub interrupted: bool,
}

/// A measurement by time is made of about so many parts, with a look at the clock after each.
const PARTS: f64 = 16.0;

impl ReadEnd {
    /// Reads from `source`.
    ///
    /// # Errors
    /// The inlet does not suit or failed, or the bytes are not the pattern.
    pub fn run(&self, source: BorrowedFd<'_>) -> Result<EndReport, EndError> {
        if let Some(cpu) = self.cpu {
            pin_this_thread(cpu)?.keep();
        }
        let source = Endpoint::source(source)?;
        self.check(&source)?;
        let meter = Meter::new();
        let mut consumer =
            self.inlet.open(&source, &self.setup(&meter)).map_err(|stop| self.stopped(stop))?;
        if self.check_huge {
            check_huge(self.pages)?;
        }
        let mut reading = Reading {
            end: self,
            consumer: consumer.as_mut(),
            verifier: self.verify.then(Verifier::new),
            ended: false,
            late: false,
        };
        let until_all = self.interrupts(self.warm_up);
        let speed = reading.warm_up(self.warm_up)?;
        drop(until_all);
        let (calls, waits) = (meter.read().calls, meter.read().waits);
        let before_bytes = meter.bytes();
        let sum = reading.consumer.checksum();
        let (started, before) = (Instant::now(), Usage::of_this_process());
        let until = self.interrupts(Duration::ZERO);
        match self.until {
            Until::Bytes(bytes) => reading.take(bytes)?,
            Until::Time(time, most) => reading.take_for(time, speed, most.unwrap_or(u64::MAX))?,
        };
        let bytes = meter.bytes() - before_bytes;
        drop(until);
        let elapsed = started.elapsed();
        let usage = Usage::of_this_process().since(before);
        let (pattern_period, source_ended) = (reading.finish()?, reading.ended);
        Ok(EndReport {
            mechanism: self.inlet.name().into(),
            bytes,
            warm_up_bytes: (self.warm_up > Duration::ZERO).then_some(before_bytes),
            seconds: seconds(elapsed),
            calls: meter.read().calls - calls,
            waits: meter.read().waits - waits,
            usage,
            chunk_bytes: self.buf_bytes as u64,
            pipe_bytes: rustix::pipe::fcntl_getpipe_size(source.as_fd()).unwrap_or(0) as u64,
            touched: self.inlet.touches() || self.verify,
            // Of the bytes that were measured, without those of the warm-up.
            checksum: consumer.checksum().map(|all| all.wrapping_sub(sum.unwrap_or(0))),
            source_ended,
            pattern_period,
            ..EndReport::default()
        })
    }

    /// Has calls that sleep interrupted at the end of the time, which begins so long from now. Where
    /// the kernel gives no timer, they sleep on.
    fn interrupts(&self, from: Duration) -> Option<Interval> {
        let time = self.ends_in_time().filter(|_| !Interval::over().is_cancelled())?;
        Interval::start(from.saturating_add(time)).ok()
    }

    /// After how long calls that sleep are interrupted.
    fn ends_in_time(&self) -> Option<Duration> {
        match self.until {
            Until::Time(time, _) if self.interrupted && time > Duration::ZERO => Some(time),
            _ => None,
        }
    }

    fn check(&self, source: &Endpoint<'_>) -> Result<(), EndError> {
        self.inlet
            .suits(source)
            .map_err(|refusal| EndError::Refused { mechanism: self.inlet.name(), refusal })?;
        if self.verify && self.inlet.name() == "splice-null" {
            return Err(EndError::NothingToVerify(self.inlet.name()));
        }
        Ok(())
    }

    fn setup<'a>(&self, meter: &'a Meter) -> Setup<'a> {
        Setup {
            buf_bytes: self.buf_bytes,
            pipe_bytes: self.pipe_bytes,
            pages: self.pages,
            untouched: self.untouched,
            move_flag: self.move_flag,
            wait: self.wait,
            cancel: self.ends_in_time().map(|_| Interval::over()),
            ..Setup::new(meter)
        }
    }

    fn stopped(&self, stop: Stop) -> EndError {
        EndError::Stopped { mechanism: self.inlet.name(), stop }
    }
}

struct Reading<'r, 'c> {
    end: &'r ReadEnd,
    consumer: &'r mut (dyn Consumer + 'c),
    verifier: Option<Verifier>,
    ended: bool,
    /// Whether the time was over in the middle of it.
    late: bool,
}

impl Reading<'_, '_> {
    /// Reads `bytes`, or to the end; how many came, unless it is late by then.
    fn take(&mut self, bytes: u64) -> Result<u64, EndError> {
        if self.verifier.is_none() {
            return match self.consumer.take_all(bytes) {
                Ok(done) => {
                    self.ended = done < bytes;
                    Ok(done)
                }
                Err(stop) => self.stopped(stop),
            };
        }
        let mut done = 0;
        while done < bytes && self.goes_on() {
            done += self.call(bytes - done)?;
        }
        Ok(done)
    }

    fn goes_on(&self) -> bool {
        !self.ended && !self.late
    }

    /// That the time is over is no fault.
    fn stopped(&mut self, stop: Stop) -> Result<u64, EndError> {
        self.late = matches!(stop, Stop::Cancelled { .. });
        if self.late { Ok(0) } else { Err(self.end.stopped(stop)) }
    }

    /// One call.
    fn call(&mut self, most: u64) -> Result<u64, EndError> {
        let count = match self.consumer.take(most) {
            Ok(count) => count,
            Err(stop) => return self.stopped(stop),
        };
        self.ended = count == 0;
        if let Some(verifier) = &mut self.verifier {
            verifier.check(self.consumer.bytes())?;
        }
        Ok(count)
    }

    /// Reads for `time`, looking at the clock after every call; bytes per second.
    fn warm_up(&mut self, time: Duration) -> Result<f64, EndError> {
        let started = Instant::now();
        let mut done = 0;
        while started.elapsed() < time && self.goes_on() {
            done += self.call(u64::MAX)?;
        }
        Ok(done as f64 / seconds(started.elapsed()).max(1e-9))
    }

    /// Reads for about `time` in parts of bytes, so that the clock is no part of the loop.
    fn take_for(&mut self, time: Duration, speed: f64, most: u64) -> Result<u64, EndError> {
        let (started, wanted) = (Instant::now(), seconds(time));
        let (mut done, mut speed) = (0, speed);
        while self.goes_on() && done < most {
            let part = (speed * wanted / PARTS).max(1.0);
            done += self.take((part as u64).min(most - done))?;
            let elapsed = seconds(started.elapsed());
            if elapsed >= wanted {
                break;
            }
            speed = done as f64 / elapsed.max(1e-9);
        }
        Ok(done)
    }

    /// The pattern's period, if it was verified.
    fn finish(&mut self) -> Result<Option<u64>, EndError> {
        let Some(verifier) = &mut self.verifier else { return Ok(None) };
        verifier.finish()?;
        Ok(Some(verifier.period()))
    }
}
