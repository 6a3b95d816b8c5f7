//! Lending memory to a pipe by vmsplice(2), for the outlets that do, in step with the reader or out
//! of step, whichever this pipe shows to be faster.
//!
//! Two ends in step sleep once a pipeful: the writer fills the pipe and sleeps, the reader empties
//! it and sleeps. Where they share a CPU that is best, as each takes over from the other. Where
//! each has its own, both sleep all the time, and every wake-up costs an interrupt. A short call
//! after each full pipe breaks the step: the reader always finds a few pages, and the writer room.
//! (The published ladder had that by accident: its buffers start 16 bytes into a page, and so take
//! one slot more than two pipefuls.) Seen on two CPUs of a virtual machine, 256 KiB buffers: 9 GiB/s
//! and 12,600 sleeps of each end per 2 GiB in step, 18 to 21 GiB/s and 800 sleeps out of step; on
//! one CPU 28 GiB/s in step, 17 out of step. Which it is, nothing but trying tells.

use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::pipe::SpliceFlags;

use crate::endpoint::Endpoint;
use crate::error::Stop;
use crate::outlets::write::with_rest;
use crate::outlets::{Setup, Sink};
use crate::pages::{Memory, PageSize, page_bytes};
use crate::sys::memory::{Loan, vmsplice};

/// A sink that is lent memory.
pub(super) struct Lender<'a> {
    sink: Sink<'a>,
    flags: SpliceFlags,
    /// Only an end that sleeps can be in step.
    step: Option<Step>,
}

impl<'a> Lender<'a> {
    pub(super) fn new(
        name: &'static str,
        end: &'a Endpoint<'a>,
        setup: &Setup<'a>,
        pipe_bytes: usize,
    ) -> Self {
        let sink = Sink::new(name, end, setup);
        let mut flags = SpliceFlags::empty();
        flags.set(SpliceFlags::NONBLOCK, sink.nonblocking());
        flags.set(SpliceFlags::GIFT, setup.gift_flag);
        let step = (!sink.nonblocking()).then(|| Step::new(pipe_bytes));
        Lender { sink, flags, step }
    }

    pub(super) fn end(&self) -> &'a Endpoint<'a> {
        self.sink.end
    }

    /// Lends what it can of `now` in one call, and says how many bytes went. Out of step the call
    /// may go on into `then`, so that it ends where the pipe is full and not where a buffer is.
    #[inline(always)]
    pub(super) fn some(&mut self, now: Loan<'_>, then: Loan<'_>) -> Result<usize, Stop> {
        let (now, then) = match &self.step {
            Some(step) => step.bounded(now, then),
            None => (now, Loan::default()),
        };
        let flags = self.flags;
        let count =
            self.sink.until_moved("vmsplice", |sink| vmsplice(sink.as_fd(), now, then, flags))?;
        if let Some(step) = &mut self.step {
            step.moved(count, Instant::now);
        }
        Ok(count)
    }

    /// Lends all of the range. What was not lent is in the error; how many bytes were, beside it.
    pub(super) fn all(
        &mut self,
        memory: &Memory,
        range: Range<usize>,
    ) -> (usize, Result<(), Stop>) {
        let mut at = range.start;
        while at < range.end {
            match self.some(memory.mapping().loan(at..range.end), Loan::default()) {
                Ok(count) => at += count,
                Err(stop) => {
                    let rest = &memory.as_slice()[at..range.end];
                    return (at - range.start, Err(with_rest(stop, rest)));
                }
            }
        }
        (range.len(), Ok(()))
    }
}

/// Pages of the short call that breaks the step: with fewer the ends fall into step again.
const SHORT_PAGES: usize = 4;

/// Bytes between two looks at the clock: the ends need some hundred pipefuls to fall into step or
/// out of it.
const WINDOW_BYTES: usize = 32 << 20;

/// Windows of a trial, by turns in step and out of step.
const TRIAL_WINDOWS: u32 = 8;

/// Windows for which a trial's outcome stands at first; twice as many each time that it is the
/// same again, up to the most.
const STANDS_WINDOWS_MIN: u32 = 16 * TRIAL_WINDOWS;
const STANDS_WINDOWS_MAX: u32 = 64 * STANDS_WINDOWS_MIN;

/// How much the other way has to gain, in percent, for the ways to be changed.
const GAIN_PERCENT_MIN: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    InStep,
    OutOfStep,
}

impl Way {
    fn other(self) -> Way {
        match self {
            Way::InStep => Way::OutOfStep,
            Way::OutOfStep => Way::InStep,
        }
    }
}

/// Decides how many bytes each call lends at most, and learns from how long pipefuls take.
struct Step {
    pipe_bytes: usize,
    short_bytes: usize,
    way: Way,
    /// Bytes since the last short call; of no meaning in step.
    at: usize,
    window_left: usize,
    window_began: Option<Instant>,
    stage: Stage,
    /// For how many windows the present outcome was to stand.
    stands_windows: u32,
}

enum Stage {
    /// Which of the windows it is, and the time that each way took so far.
    Trial { window: u32, kept: Way, kept_took: Duration, other_took: Duration },
    /// The windows left until the next trial.
    Stands { windows_left: u32 },
}

impl Step {
    fn new(pipe_bytes: usize) -> Self {
        Step {
            pipe_bytes: pipe_bytes.max(1),
            short_bytes: SHORT_PAGES * page_bytes(PageSize::Base),
            way: Way::InStep,
            at: 0,
            window_left: WINDOW_BYTES,
            window_began: None,
            stage: Stage::trial(Way::InStep),
            stands_windows: STANDS_WINDOWS_MIN,
        }
    }

    /// What of two buffers the next call lends.
    #[inline(always)]
    fn bounded<'m>(&self, now: Loan<'m>, then: Loan<'m>) -> (Loan<'m>, Loan<'m>) {
        match self.way {
            Way::InStep => (now, Loan::default()),
            Way::OutOfStep => {
                let now = now.first(self.rest());
                (now, then.first(self.rest() - now.len()))
            }
        }
    }

    /// Out of step, the bytes until the pipe was filled, or then until the short call is made.
    #[inline(always)]
    fn rest(&self) -> usize {
        let full = self.pipe_bytes;
        if self.at < full { full - self.at } else { full + self.short_bytes - self.at }
    }

    /// To be told of each call.
    #[inline(always)]
    fn moved(&mut self, count: usize, now: impl FnOnce() -> Instant) {
        self.at += count;
        if self.at == self.pipe_bytes + self.short_bytes {
            self.at = 0;
        }
        self.window_left = self.window_left.saturating_sub(count);
        if self.window_left == 0 {
            (self.at, self.window_left) = (0, WINDOW_BYTES);
            self.window_ended(now());
        }
    }

    #[cold]
    fn window_ended(&mut self, now: Instant) {
        let took = self.window_began.replace(now).map(|began| now - began);
        match &mut self.stage {
            Stage::Stands { windows_left: 1 } => self.stage = Stage::trial(self.way),
            Stage::Stands { windows_left } => *windows_left -= 1,
            Stage::Trial { window, kept, kept_took, other_took } => {
                // The first window has no beginning: the clock starts at its end.
                let Some(took) = took else { return };
                if self.way == *kept {
                    *kept_took += took
                } else {
                    *other_took += took
                }
                *window += 1;
                if *window < TRIAL_WINDOWS {
                    self.way = self.way.other();
                    return;
                }
                let enough = (*kept_took).saturating_sub(*kept_took * GAIN_PERCENT_MIN / 100);
                let changes = *other_took < enough;
                self.way = if changes { kept.other() } else { *kept };
                self.stands_windows = match changes {
                    true => STANDS_WINDOWS_MIN,
                    false => (2 * self.stands_windows).min(STANDS_WINDOWS_MAX),
                };
                self.stage = Stage::Stands { windows_left: self.stands_windows };
            }
        }
    }
}

impl Stage {
    fn trial(kept: Way) -> Stage {
        let none = Duration::ZERO;
        Stage::Trial { window: 0, kept, kept_took: none, other_took: none }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIPE: usize = 128 << 10;

    /// Lends for so many windows, in which each byte takes what `cost` says of the way; the
    /// windows that each way had.
    fn lent(step: &mut Step, windows: u32, cost: impl Fn(Way) -> Duration) -> [u32; 2] {
        let mut now = step.window_began.unwrap_or_else(Instant::now);
        let mut windows_of = [0; 2];
        for _ in 0..windows {
            windows_of[usize::from(step.way == Way::OutOfStep)] += 1;
            let mut ended = false;
            while !ended {
                let count = match step.way {
                    Way::InStep => PIPE,
                    Way::OutOfStep => step.rest(),
                };
                now += cost(step.way) * u32::try_from(count).expect("a pipeful at most");
                step.moved(count, || {
                    ended = true;
                    now
                });
            }
        }
        windows_of
    }

    fn costs(in_step: u64, out_of_step: u64) -> impl Fn(Way) -> Duration {
        move |way| match way {
            Way::InStep => Duration::from_nanos(in_step),
            Way::OutOfStep => Duration::from_nanos(out_of_step),
        }
    }

    #[test]
    fn the_faster_way_is_taken_and_the_slower_tried_ever_less_often() {
        for (in_step, out_of_step, best) in [(10, 5, 1), (5, 10, 0), (10, 10, 0)] {
            let mut step = Step::new(PIPE);
            let first = lent(&mut step, 1_000, costs(in_step, out_of_step));
            let later = lent(&mut step, 10_000, costs(in_step, out_of_step));
            assert!(first[best] > 950, "{in_step} against {out_of_step}: {first:?}");
            assert!(later[1 - best] < 50, "{in_step} against {out_of_step}: {later:?}");
        }
    }

    #[test]
    fn the_way_is_changed_when_the_other_becomes_faster() {
        let mut step = Step::new(PIPE);
        lent(&mut step, 1_000, costs(10, 5));
        assert_eq!(step.way, Way::OutOfStep);
        lent(&mut step, 10_000, costs(5, 10));
        assert_eq!(step.way, Way::InStep);
    }

    #[test]
    fn short_counts_end_at_the_same_places() {
        let mut step = Step::new(PIPE);
        step.way = Way::OutOfStep;
        step.moved(PIPE - 5, Instant::now);
        assert_eq!(step.rest(), 5);
        step.moved(5, Instant::now);
        assert_eq!(step.rest(), step.short_bytes);
        step.moved(1, Instant::now);
        assert_eq!(step.rest(), step.short_bytes - 1);
    }
}
