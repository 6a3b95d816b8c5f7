//! `read-write`: through a buffer in user space. Works for every pair.
//!
//! Costs per chunk: two copies, two system calls at least, no page-table work.

use crate::endpoint::{Blocking, Kind};
use crate::error::{Failed, Refusal, Side, Stop};
use crate::meter::Meter;
use crate::outlets::whole;
use crate::pages::{Memory, PageSize, page_bytes};
use crate::routes::{Aliasing, Job, Rank, Route, Span, message_bytes};
use crate::seal::Sealed;
use crate::wait::{Ends, Waiter};
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};

/// Enough to make the system call a small part of the cost, small enough to stay in an L2 cache
/// (GNU coreutils and the Rust standard library chose likewise between 8 KiB and 256 KiB). A file is
/// given less.
const CHUNK_BYTES: usize = 256 << 10;

/// See the module.
pub(super) struct ReadWrite;

const NAME: &str = "read-write";

impl Sealed for ReadWrite {}

impl Route for ReadWrite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "read into a buffer, write it out; works for every pair"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if job.keep_source {
            return Err(Refusal::because("reading would take the bytes from the source"));
        }
        Ok(Rank::Copies)
    }

    fn holds_bytes(&self, _: &Job<'_>) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let mut waiter = span.waiter();
        let blocking = span.blocking();
        let chunk = match gives_records(span.source.kind()) {
            true => CHUNK_BYTES,
            false => span.chunk_for_sink(CHUNK_BYTES),
        };
        let mut buffer = buffer(span, chunk)?;
        if waiter.is_plain() && !span.sink.kind().is_socket() {
            return carry_plain(span, &mut waiter, &mut buffer);
        }
        let mut left = span.limit;
        while left > 0 {
            let most = span.read_bytes(left, buffer.len());
            let into = &mut buffer.as_mut_slice()[..most];
            let count = read(span, &mut waiter, blocking, into, None)?;
            if count == 0 {
                break;
            }
            write_all(span, &mut waiter, blocking, &buffer.as_slice()[..count], None)?;
            left = left.saturating_sub(count as u64);
        }
        Ok(())
    }
}

/// Carries at most so many bytes, as a part of the work of another route, which begins where they end.
pub(super) fn part(name: &'static str, span: &Span<'_>, limit: u64) -> Result<(), Stop> {
    if limit == 0 {
        return Ok(());
    }
    let carried = ReadWrite.carry(&Span { limit, beyond: 0, ..*span });
    carried.map_err(|stop| stop.of_route(name))
}

/// Whether it may give records of any size: a read of less would lose the rest of one, and each is passed on
/// by one write.
fn gives_records(source: Kind) -> bool {
    matches!(source, Kind::OtherSocket | Kind::CharDevice | Kind::Anonymous)
}

/// Where a call may simply sleep, the loop is the two calls and nothing else; whatever is not an
/// ordinary answer goes on here.
fn carry_plain(span: &Span<'_>, waiter: &mut Waiter<'_>, buffer: &mut Memory) -> Result<(), Stop> {
    let buffer = buffer.as_mut_slice();
    let mut left = span.limit;
    while left > 0 {
        let (source, sink) = (span.source.as_fd(), span.sink.as_fd());
        let odd = ordinary(source, sink, buffer, (&mut left, span.beyond), span.meter);
        let most = span.read_bytes(left, buffer.len());
        let (count, answer) = match odd {
            Odd::End => break,
            Odd::Read(errno) => {
                match read(span, waiter, Blocking::Yes, &mut buffer[..most], Some(errno))? {
                    0 => break,
                    count => (count, None),
                }
            }
            Odd::Write(count, answer) => {
                span.meter.called();
                (count, Some(answer))
            }
        };
        write_all(span, waiter, Blocking::Yes, &buffer[..count], answer)?;
        left = left.saturating_sub(count as u64);
    }
    Ok(())
}

/// What ended a loop of ordinary answers.
enum Odd {
    /// The source ended, or the limit is reached.
    End,
    /// A read failed.
    Read(Errno),
    /// A write of so many bytes gave this; the read before it is not counted yet.
    Write(usize, Result<usize, Errno>),
}

/// Reads and writes as long as all goes well.
///
/// It calls no function, so that all it needs stays in registers, and its counts are told once a
/// round: with arguments of the next system call on the stack, and counts added up in memory, 4 KiB
/// a call took 2% longer than a bare loop. The likely reason is that a load waits for the stores
/// that it cannot tell apart by the lower 12 bits of their addresses, and the read stores a page.
#[inline(never)]
fn ordinary(
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    buffer: &mut [u8],
    (left, beyond): (&mut u64, u64),
    meter: &Meter,
) -> Odd {
    // What may be read is counted, in one number; the rest of it is what was read beyond the limit.
    let beyond = beyond.min(u64::MAX - *left);
    let (mut rest, mut teller) = (*left + beyond, meter.teller());
    let odd = loop {
        let most = usize::try_from(rest).map_or(buffer.len(), |rest| buffer.len().min(rest));
        let count = match rustix::io::read(source, &mut buffer[..most]) {
            Ok(0) => {
                teller.tell(0, 1);
                break Odd::End;
            }
            Ok(count) => count,
            Err(errno) => break Odd::Read(errno),
        };
        match rustix::io::write(sink, &buffer[..count]) {
            Ok(written) if written == count => teller.tell(count as u64, 2),
            answer => break Odd::Write(count, answer),
        }
        rest -= count as u64;
        if rest <= beyond {
            break Odd::End;
        }
    };
    *left = rest.saturating_sub(beyond);
    odd
}

/// A buffer of a chunk, or of what may be read. A small file needs no more than its size and one byte to
/// see its end; whole pages cost the same, and one opened with O_DIRECT takes nothing else.
pub(super) fn buffer(span: &Span<'_>, chunk_bytes: usize) -> Result<Memory, Stop> {
    let known = span.source.kind().is_cached() && span.source.bytes() > 0;
    let bytes = if known { span.source.bytes().saturating_add(1) } else { u64::MAX };
    let pages = whole(usize::try_from(bytes).unwrap_or(usize::MAX), page_bytes(PageSize::Base));
    let most = span.limit.saturating_add(span.beyond);
    let chunk = span.next_bytes(most, chunk_bytes).min(pages).max(1);
    Memory::allocate(chunk, &span.knobs.pages)
        .map_err(|error| Stop::Declined(Refusal::because(error.to_string())))
}

/// Reads until something comes or the source ends. `first` is the error of a call already made:
/// some errors are told once only.
pub(super) fn read(
    span: &Span<'_>,
    waiter: &mut Waiter<'_>,
    blocking: Blocking,
    into: &mut [u8],
    first: Option<Errno>,
) -> Result<usize, Stop> {
    let ends = Ends::source(span.source.as_fd());
    let mut first = first.map(Err);
    loop {
        let answer = match first.take() {
            Some(answer) => answer,
            None => {
                waiter.before(ends)?;
                span.source.read_some(into, blocking)
            }
        };
        match answer {
            Ok(count) => {
                span.meter.called();
                waiter.progressed();
                return Ok(count);
            }
            Err(Errno::INTR) => span.meter.called(),
            Err(Errno::AGAIN) => waiter.stalled(ends)?,
            Err(errno) => {
                return Err(Stop::Failed(Failed::new(NAME, Side::Source, "read", errno)));
            }
        }
    }
}

/// Writes all of `from`. `first` is the answer to a call already made with all of it.
pub(super) fn write_all(
    span: &Span<'_>,
    waiter: &mut Waiter<'_>,
    blocking: Blocking,
    from: &[u8],
    first: Option<Result<usize, Errno>>,
) -> Result<(), Stop> {
    let (mut rest, mut first) = (from, first);
    let most = match message_bytes(span.source, span.sink, from.len()) {
        Some(most) if most < from.len() => span.next_bytes(from.len() as u64, most),
        _ => from.len(),
    };
    while !rest.is_empty() {
        match write(span, waiter, blocking, &rest[..rest.len().min(most)], first.take()) {
            Ok(count) => rest = &rest[count..],
            Err(stop) => return Err(with_stranded(stop, span, rest)),
        }
    }
    Ok(())
}

/// One write, or one wait.
fn write(
    span: &Span<'_>,
    waiter: &mut Waiter<'_>,
    blocking: Blocking,
    rest: &[u8],
    first: Option<Result<usize, Errno>>,
) -> Result<usize, Stop> {
    let ends = Ends::sink(span.sink.as_fd());
    let answer = match first {
        Some(answer) => answer,
        None => {
            waiter.before(ends)?;
            span.sink.write_some(rest, blocking)
        }
    };
    match answer {
        // Linux never answers a write of some bytes with 0 unless the device is full.
        Ok(0) => Err(Stop::Failed(Failed::new(NAME, Side::Sink, "write", Errno::NOSPC))),
        Ok(count) => {
            span.meter.moved(count as u64);
            waiter.progressed();
            Ok(count)
        }
        Err(Errno::INTR) => {
            span.meter.called();
            Ok(0)
        }
        Err(Errno::AGAIN) => waiter.stalled(ends).map(|()| 0),
        Err(errno) => Err(Stop::Failed(Failed::new(NAME, Side::Sink, "write", errno))),
    }
}

/// The stop with the bytes that were read and not written.
pub(super) fn with_stranded(stop: Stop, span: &Span<'_>, held: &[u8]) -> Stop {
    let stranded = span.stranded(held);
    match stop {
        Stop::Failed(failed) => Stop::Failed(Failed { stranded, ..failed }),
        Stop::Cancelled { .. } => Stop::Cancelled { stranded },
        Stop::Declined(refusal) => Stop::Declined(refusal),
    }
}
