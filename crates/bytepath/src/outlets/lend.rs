//! Lending memory to a pipe by vmsplice(2), for the outlets that do.
//!
//! A lender that sleeps in its calls keeps itself awake where that helps (see `wait::awake`).

use std::ops::Range;
use std::os::fd::AsFd;
use std::time::Instant;

use rustix::event::PollFlags;
use rustix::pipe::SpliceFlags;

use crate::endpoint::{Blocking, Endpoint};
use crate::error::Stop;
use crate::outlets::write::with_rest;
use crate::outlets::{Setup, Sink, pipe_bytes};
use crate::pages::Memory;
use crate::sys::memory::{Loan, vmsplice};
use crate::wait::awake::Awake;
use crate::wait::ready;

/// A sink that is lent memory.
pub(super) struct Lender<'a> {
    sink: Sink<'a>,
    flags: SpliceFlags,
    /// Only for an end that sleeps in its calls.
    awake: Option<Awake>,
}

impl<'a> Lender<'a> {
    pub(super) fn new(name: &'static str, end: &'a Endpoint<'a>, setup: &Setup<'a>) -> Self {
        let sink = Sink::new(name, end, setup);
        let mut flags = SpliceFlags::empty();
        flags.set(SpliceFlags::NONBLOCK, sink.nonblocking());
        flags.set(SpliceFlags::GIFT, setup.gift_flag);
        let awake = sink.sleeps_in_calls().then(Awake::default);
        Lender { sink, flags, awake }
    }

    pub(super) fn end(&self) -> &'a Endpoint<'a> {
        self.sink.end
    }

    /// How large the pipe is now.
    pub(super) fn pipe_bytes(&self) -> usize {
        self.sink.meter.called();
        pipe_bytes(self.end().as_fd())
    }

    /// Lends what it can in one call, and says how many bytes went.
    #[inline(always)]
    pub(super) fn some(&mut self, loan: Loan<'_>) -> Result<usize, Stop> {
        if let Some(awake) = &mut self.awake {
            let sink = &self.sink;
            awake.before(|| {
                sink.meter.called();
                ready(sink.end.as_fd(), PollFlags::OUT)
            });
        }
        let flags = self.flags;
        let count =
            self.sink.until_moved("vmsplice", |sink| vmsplice(sink.as_fd(), loan, flags))?;
        if let Some(awake) = &mut self.awake {
            awake.moved(count, Instant::now);
        }
        Ok(count)
    }

    /// Lends all of the range; how many bytes were lent, beside it. What did not go is in the error, or
    /// written where lending is refused.
    pub(super) fn all(
        &mut self,
        memory: &Memory,
        range: Range<usize>,
    ) -> (usize, Result<(), Stop>) {
        let mut at = range.start;
        while at < range.end {
            match self.some(memory.mapping().loan(at..range.end)) {
                Ok(count) => at += count,
                Err(stop) => {
                    let rest = &memory.as_slice()[at..range.end];
                    let stop = match stop {
                        Stop::Declined(_) => self.write(rest).err().unwrap_or(stop),
                        stop => with_rest(stop, rest),
                    };
                    return (at - range.start, Err(stop));
                }
            }
        }
        (range.len(), Ok(()))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        let block = Blocking::unless(self.sink.nonblocking());
        let mut rest = bytes;
        while !rest.is_empty() {
            let wrote = self.sink.until_moved("write", |sink| sink.write_some(rest, block));
            rest = &rest[wrote.map_err(|stop| with_rest(stop, rest))?..];
        }
        Ok(())
    }
}
