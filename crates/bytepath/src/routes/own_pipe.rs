//! Splicing through a pipe of our own, which is filled and emptied in turn.
//!
//! Costs per chunk: two system calls; per page two references passed on.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use rustix::io::Errno;

use crate::endpoint::{Endpoint, Kind};
use crate::error::{Failed, Refusal, Side, Stop};
use crate::outlets::own_pipe;
use crate::routes::pieces::Pieces;
use crate::routes::read_write::with_stranded;
use crate::routes::room::Room;
use crate::routes::tee::nonblock_if;
use crate::routes::{Span, judged};
use crate::wait::{Ends, Waiter};

/// The size asked for it: what fs.pipe-max-size allows everybody by default. A file takes it in pieces.
pub(super) const OWN_PIPE_BYTES: usize = 1 << 20;

/// By how much a disk that is nearly full is filled in the end.
const LAST_PIECE_BYTES: usize = 4 << 10;

/// A pipe of our own between two ends.
pub(super) struct OwnPipe {
    name: &'static str,
    reader: OwnedFd,
    writer: OwnedFd,
    bytes: usize,
}

impl OwnPipe {
    pub(super) fn open(name: &'static str, span: &Span<'_>) -> Result<OwnPipe, Stop> {
        let (reader, writer, bytes) = own_pipe(span.knobs.pipe_bytes.unwrap_or(OWN_PIPE_BYTES))?;
        Ok(OwnPipe { name, reader, writer, bytes })
    }

    pub(super) fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let mut waiter = span.waiter();
        let (mut left, mut zero_at) = (span.limit, None);
        let choosy = span.sink.kind() == Kind::File && span.knobs.chunk_bytes.is_none();
        let mut pieces = choosy.then(Pieces::default);
        let mut room = Room::for_file(span);
        while left > 0 {
            if let Some(room) = &mut room {
                room.ahead(span);
            }
            let mut began = pieces.is_some().then(Instant::now);
            let by_kernel = match &pieces {
                Some(pieces) if pieces.are_better_small() => {
                    sent(span, &mut waiter, span.next_bytes(left, OWN_PIPE_BYTES))?
                }
                _ => None,
            };
            let count = match by_kernel {
                Some(count) => count,
                None => {
                    let most = span.next_bytes(left, self.bytes).min(self.bytes);
                    let count = self.fill(span, &mut waiter, most)?;
                    if count == 0 {
                        match super::ended(span, left, &mut zero_at)? {
                            true => break,
                            false => continue,
                        }
                    }
                    if span.source.kind() != Kind::File {
                        // How long a peer was waited for says nothing about pieces.
                        began = began.map(|_| Instant::now());
                    }
                    let takes = || span.splice_takes_bytes();
                    let most = pieces.as_ref().map_or_else(takes, Pieces::bytes);
                    self.drain(span, &mut waiter, count, most)?;
                    count
                }
            };
            if let (Some(pieces), Some(began)) = (&mut pieces, began) {
                pieces.took(pieces.bytes(), count as u64, began.elapsed());
            }
            if let Some(room) = &mut room {
                room.took(count);
            }
            left -= count as u64;
        }
        Ok(())
    }

    /// Source to our pipe, which is empty, so that only the source can make it wait.
    fn fill(&self, span: &Span<'_>, waiter: &mut Waiter<'_>, most: usize) -> Result<usize, Stop> {
        let ends = Ends::source(span.source.as_fd());
        let flags = nonblock_if(waiter.nonblocking());
        loop {
            before(waiter, &[span.source], ends)?;
            match rustix::pipe::splice(span.source, None, &self.writer, None, most, flags) {
                Ok(count) => {
                    span.meter.called();
                    waiter.progressed();
                    return Ok(count);
                }
                Err(Errno::INTR) => span.meter.called(),
                Err(Errno::AGAIN) => waiter.stalled(ends)?,
                Err(errno) => {
                    return Err(match judged(span, self.name, "splice", errno) {
                        Stop::Failed(failed) => {
                            Stop::Failed(Failed { side: Side::Source, ..failed })
                        }
                        stop => stop,
                    });
                }
            }
        }
    }

    /// Our pipe to the sink, all of it, at most so much a call: what it holds is in neither end.
    fn drain(
        &self,
        span: &Span<'_>,
        waiter: &mut Waiter<'_>,
        mut count: usize,
        mut most: usize,
    ) -> Result<(), Stop> {
        let ends = Ends::sink(span.sink.as_fd());
        let flags = nonblock_if(waiter.nonblocking());
        while count > 0 {
            let answer = before(waiter, &[span.sink], ends).and_then(|()| {
                let asked = count.min(most);
                match rustix::pipe::splice(&self.reader, None, span.sink, None, asked, flags) {
                    Err(Errno::INTR) => {
                        span.meter.called();
                        Ok(0)
                    }
                    Err(Errno::AGAIN) => waiter.stalled(ends).map(|()| 0),
                    // Where there is no room for all of a call, xfs takes nothing of it.
                    Err(Errno::NOSPC | Errno::DQUOT) if asked > LAST_PIECE_BYTES => {
                        span.meter.called();
                        most = (asked / 4).max(LAST_PIECE_BYTES);
                        Ok(0)
                    }
                    Ok(0) => Err(Stop::Declined(Refusal::because("splice to the sink gave 0"))),
                    Ok(moved) => {
                        span.meter.moved(moved as u64);
                        waiter.progressed();
                        Ok(moved)
                    }
                    Err(errno) => Err(judged(span, self.name, "splice", errno)),
                }
            });
            match answer {
                Ok(moved) => count -= moved,
                Err(stop) => return Err(self.rescue(span, stop, count)),
            }
        }
        Ok(())
    }

    /// The bytes in our pipe go back to the source, or on to the sink by writing (after a
    /// refusal), or to the caller: they are not lost with the pipe.
    fn rescue(&self, span: &Span<'_>, stop: Stop, count: usize) -> Stop {
        if span.source.take_back(count) {
            return sided(stop);
        }
        let mut held = vec![0; count];
        let mut filled = 0;
        while filled < count {
            match rustix::io::read(&self.reader, &mut held[filled..]) {
                Ok(0) => break,
                Ok(more) => filled += more,
                Err(Errno::INTR) => {}
                Err(errno) => {
                    let failed = Failed::new(self.name, Side::Source, "read", errno);
                    return Stop::Failed(failed);
                }
            }
        }
        held.truncate(filled);
        match stop {
            Stop::Declined(refusal) => match write_out(span, &held) {
                Ok(()) => Stop::Declined(refusal),
                Err(stop) => stop,
            },
            stop => with_stranded(sided(stop), span, &held),
        }
    }
}

/// Small pieces from file to file go by sendfile(2) in the end, which splices through a pipe of 64 KiB in
/// the kernel: that takes fewer calls. `None` where it does not want to: a splice then shows why, and which end it is.
fn sent(span: &Span<'_>, waiter: &mut Waiter<'_>, most: usize) -> Result<Option<usize>, Stop> {
    if span.source.kind() != Kind::File {
        return Ok(None);
    }
    waiter.check_cancelled()?;
    match rustix::fs::sendfile(span.sink, span.source, None, most) {
        Ok(count) if count > 0 => {
            span.meter.moved(count as u64);
            waiter.progressed();
            Ok(Some(count))
        }
        _ => {
            span.meter.called();
            Ok(None)
        }
    }
}

/// To be called before a splice that involves these ends.
pub(super) fn before(
    waiter: &mut Waiter<'_>,
    which: &[&Endpoint<'_>],
    ends: Ends<'_>,
) -> Result<(), Stop> {
    if which.iter().any(|end| end.sleeps_unasked()) {
        waiter.before_sleeper(ends)
    } else {
        waiter.before(ends)
    }
}

/// A failure of the drain is the sink's.
fn sided(stop: Stop) -> Stop {
    match stop {
        Stop::Failed(failed) => Stop::Failed(Failed { side: Side::Sink, ..failed }),
        stop => stop,
    }
}

/// Writes what was taken from the source and cannot be spliced to the sink.
fn write_out(span: &Span<'_>, held: &[u8]) -> Result<(), Stop> {
    let mut waiter = span.waiter();
    super::read_write::write_all(span, &mut waiter, span.blocking(), held, None)
}
