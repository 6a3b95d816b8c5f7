//! `splice`: pages move between descriptors by reference, through a pipe.
//!
//! Where either end is a pipe, it serves, but where its lock would be held for long; there, and where
//! no end is one, a pipe of our own does. Costs per chunk: one system call (two through a pipe
//! of our own); per page one reference passed on; a copy where the sink is a file or where the source
//! has no pages to share.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::routes::own_pipe::{OWN_PIPE_BYTES, OwnPipe, before};
use crate::routes::tee::nonblock_if;
use crate::routes::{Aliasing, Allowed, Job, Rank, Route, SLICE_BYTES_MAX, Span, judged_at_end};
use crate::seal::Sealed;
use crate::wait::Ends;

/// See the module.
pub(super) struct Splice;

const NAME: &str = "splice";

/// Why pages are not handed over within one file: where they overlap, the kernel copies by memcpy,
/// of which only some promise anything then.
pub(super) const WRITTEN_WHILE_THEY_WAIT: &str =
    "within one file, pages that are handed over would be written while they wait";

impl Sealed for Splice {}

impl Route for Splice {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "splice(2): pages by reference, through a pipe at either end or one of our own"
    }

    fn aliasing(&self, job: &Job<'_>) -> Aliasing {
        aliasing(job)
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        suits(job)
    }

    /// Through a pipe of our own each call is about one end.
    fn is_as_good_as_reading(&self, job: &Job<'_>) -> bool {
        (job.source.kind(), job.sink.kind()) == (Kind::File, Kind::File)
            && job.bytes_known().is_some_and(|bytes| bytes >= OWN_PIPE_BYTES as u64)
    }

    /// Not said of a file's on their way to a socket: whoever waits for that, instead of sleeping in the call,
    /// gives it nothing until it is half empty, and shows a slow reader in jumps.
    fn holds_bytes(&self, job: &Job<'_>) -> bool {
        let (source, sink) = (job.source.kind(), job.sink.kind());
        !(is_direct(source, sink) || source.is_cached() && sink.is_socket())
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        match is_direct(span.source.kind(), span.sink.kind()) {
            true => direct(span),
            false => OwnPipe::open(NAME, span)?.carry(span),
        }
    }
}

/// Whether the pipe at one end serves.
fn is_direct(source: Kind, sink: Kind) -> bool {
    (source == Kind::Pipe || sink == Kind::Pipe) && !holds_lock(source, sink)
}

/// Whether the lock of the pipe at one end would be held while much is done at the other, so that whoever
/// has its far end waits: pages are dropped one by one, copied into a file, or taken out of what a socket
/// received piece by piece. Through a pipe of our own that goes 1.4 times as fast from a socket (5.1 GiB/s
/// against 3.6), and 1.15 times from a pipe to a file (4.6 against 4.0).
pub(super) fn holds_lock(source: Kind, sink: Kind) -> bool {
    sink == Kind::Null || source.is_socket() || (source == Kind::Pipe && sink.is_cached())
}

/// Whether splicing lends the sink pages of the source.
pub(super) fn aliasing(job: &Job<'_>) -> Aliasing {
    let shares = job.source.kind().is_cached() && job.sink.kind().keeps_pages();
    if shares { Aliasing::Source } else { Aliasing::None }
}

/// How well splicing suits a job, whichever pipe it goes through.
pub(super) fn suits(job: &Job<'_>) -> Result<Rank, Refusal> {
    if job.keep_source {
        return Err(Refusal::because("splice would take the bytes from the source"));
    }
    if job.sink.appends() {
        return Err(Refusal::because("splice refuses a sink opened with O_APPEND"));
    }
    for end in [job.source, job.sink] {
        if end.kind() == Kind::Terminal {
            return Err(Refusal::because("terminals do not splice"));
        }
    }
    if job.source.kind() == Kind::OtherSocket {
        return Err(Refusal::because(
            "its source gives records, of which splice would lose what a pipe has no room for",
        ));
    }
    if job.source.same_file(job.sink) {
        return Err(Refusal::because(WRITTEN_WHILE_THEY_WAIT));
    }
    if aliasing(job) != Aliasing::None && job.aliasing == Allowed::No {
        return Err(Refusal::because(
            "the sink would hold pages of the file, and later writes to it would show",
        )
        .remedy("allow aliasing where nobody writes to the file meanwhile"));
    }
    let (source, sink) = (job.source.kind(), job.sink.kind());
    let shares = source == Kind::Pipe || source.is_cached() || source.is_socket();
    let keeps = sink.keeps_pages() || sink == Kind::Null;
    // What a pipe has may be packets (pipe(2), O_DIRECT): a read takes one, where splice joins and cuts them.
    if source == Kind::Pipe && job.sink.makes_messages() {
        return Ok(Rank::Unproven);
    }
    Ok(match (shares, keeps) {
        (true, true) => Rank::ByReference,
        // The kernel copies once, where read-write copies twice.
        (true, false) | (false, true) => Rank::InKernel,
        (false, false) => Rank::Copies,
    })
}

/// One end is a pipe: what splice takes from the source is in the sink.
fn direct(span: &Span<'_>) -> Result<(), Stop> {
    let mut waiter = span.waiter();
    let ends = Ends::both(span.source.as_fd(), span.sink.as_fd());
    let flags = nonblock_if(waiter.nonblocking());
    let (mut left, mut zero_at) = (span.limit, None);
    while left > 0 {
        before(&mut waiter, &[span.source, span.sink], ends)?;
        let most = span.next_bytes(left, SLICE_BYTES_MAX).min(span.splice_takes_bytes());
        match rustix::pipe::splice(span.source, None, span.sink, None, most, flags) {
            Ok(0) => {
                span.meter.called();
                if super::ended(span, left, &mut zero_at)? {
                    break;
                }
            }
            Ok(count) => {
                span.meter.moved(count as u64);
                waiter.progressed();
                left -= count as u64;
            }
            Err(Errno::INTR) => span.meter.called(),
            Err(Errno::AGAIN) => waiter.stalled(ends)?,
            Err(errno) => return judged_at_end(span, NAME, "splice", errno),
        }
    }
    Ok(())
}
