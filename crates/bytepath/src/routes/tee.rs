//! `tee`: duplicates what a pipe holds into another pipe, and leaves it where it is.
//!
//! Costs per chunk: one system call; per page (or wider slot) one reference taken, no copy.

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::routes::{Aliasing, Job, Rank, Route, SLICE_BYTES_MAX, Span, judged_at_end};
use crate::seal::Sealed;
use crate::wait::Ends;

/// See the module.
pub(super) struct Tee;

const NAME: &str = "tee";

impl Sealed for Tee {}

impl Route for Tee {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "tee(2): pipe to pipe, keeping the source; once, as much as both hold"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if !job.keep_source {
            return Err(Refusal::because("tee keeps the source, and this job empties it"));
        }
        if (job.source.kind(), job.sink.kind()) != (Kind::Pipe, Kind::Pipe) {
            return Err(Refusal::because(format!(
                "tee needs two pipes, not a {} and a {}",
                job.source.kind(),
                job.sink.kind()
            )));
        }
        Ok(Rank::ByReference)
    }

    /// One call that moves: a second would give the same bytes again.
    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let mut waiter = span.waiter();
        let ends = Ends::both(span.source.as_fd(), span.sink.as_fd());
        let most = span.next_bytes(span.limit, SLICE_BYTES_MAX);
        let flags = nonblock_if(waiter.nonblocking());
        if most == 0 {
            return Ok(());
        }
        loop {
            waiter.before(ends)?;
            match rustix::pipe::tee(span.source, span.sink, most, flags) {
                Ok(count) => {
                    span.meter.moved(count as u64);
                    return Ok(());
                }
                Err(Errno::INTR) => span.meter.called(),
                Err(Errno::AGAIN) => waiter.stalled(ends)?,
                Err(errno) => return judged_at_end(span, NAME, "tee", errno),
            }
        }
    }
}

/// SPLICE_F_NONBLOCK, or nothing.
pub(crate) fn nonblock_if(nonblocking: bool) -> SpliceFlags {
    if nonblocking { SpliceFlags::NONBLOCK } else { SpliceFlags::empty() }
}
