//! What the routes share that leave the page cache as it was: reading and writing through a buffer,
//! and what has to be done before and behind it.

mod brought;
mod written;

use std::io::{IoSlice, IoSliceMut};
use std::os::fd::AsFd;

use rustix::io::{Errno, ReadWriteFlags};

use crate::endpoint::{AT_POSITION, Blocking};
use crate::error::{Failed, Refusal, Side, Stop};
use crate::pages::Memory;
use crate::routes::in_flight::bytes_ahead;
use crate::routes::{Cache, Job, Rank, Span, read_write};
use crate::wait::{Ends, Waiter};
use brought::Brought;
use written::Written;

/// What is dropped together, and of what is written brought to the device: enough to keep that busy
/// meanwhile.
const WINDOW_BYTES: u64 = 8 << 20;

/// A chunk: large enough for writing back to be done in large pieces.
const CHUNK_BYTES: usize = 2 << 20;

/// Which mechanism keeps bytes out of the page cache.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// The kernel, for calls with this flag.
    Flag(ReadWriteFlags),
    /// The route, by advice behind the calls.
    Advice,
}

/// Why such a route does not suit a job; asks nothing of the kernel.
pub(super) fn suits(job: &Job<'_>) -> Result<Rank, Refusal> {
    if job.keep_source {
        return Err(Refusal::because("reading would take the bytes from the source"));
    }
    let cached = [job.source, job.sink].map(|end| end.kind().is_cached());
    match (job.cache, cached) {
        (Cache::LeaveAsItWas, [true, _] | [_, true]) => Ok(Rank::Copies),
        (Cache::Keep, [true, true]) => Ok(Rank::Unproven),
        _ => Err(Refusal::because(format!(
            "neither what a {} gives nor what a {} takes has to be kept out of the page cache",
            job.source.kind(),
            job.sink.kind()
        ))),
    }
}

/// Moves bytes until the source ends or the limit is reached.
pub(super) fn carry(name: &'static str, span: &Span<'_>, by: By) -> Result<(), Stop> {
    let carried = Behind::of(span, by).and_then(|mut behind| {
        let carried = Carrier::new(span, by).and_then(|mut carrier| carrier.carry(&mut behind));
        // However it ended, nothing stays.
        carried.and(behind.settle(span))
    });
    carried.map_err(|stop| stop.of_route(name))
}

/// What has to be done behind the reading and the writing.
struct Behind<'a> {
    /// What is read, where the kernel does not drop it.
    read: Option<Brought<'a>>,
    /// What the kernel reads ahead, and nobody reads.
    ahead: Option<Brought<'a>>,
    written: Option<Written<'a>>,
}

impl<'a> Behind<'a> {
    fn of(span: &Span<'a>, by: By) -> Result<Behind<'a>, Stop> {
        let (read, ahead) = match by {
            By::Advice => (Brought::from(span.source, 0)?, None),
            // Where the kernel does not tell what was there before, so little may stay.
            By::Flag(_) if span.limit < bytes_ahead(span) => {
                (None, Brought::from(span.source, span.limit).unwrap_or(None))
            }
            By::Flag(_) => (None, None),
        };
        Ok(Behind { read, ahead, written: Written::of(span.sink) })
    }

    /// To be called before so many bytes are read.
    fn before(&mut self, bytes: usize) -> Result<(), Stop> {
        self.read.as_mut().map_or(Ok(()), |read| read.before(bytes))
    }

    /// To be called once so many bytes were read, and written.
    fn after(&mut self, span: &Span<'_>, bytes: usize) -> Result<(), Stop> {
        let written = self.written.as_mut().map_or(Ok(()), |written| written.took(span, bytes));
        written.and(self.read.as_mut().map_or(Ok(()), |read| read.gave(bytes)))
    }

    /// Drops all that is left.
    fn settle(self, span: &Span<'_>) -> Result<(), Stop> {
        let written = self.written.map_or(Ok(()), |written| written.settle(span));
        let read = self.read.map_or(Ok(()), Brought::settle);
        written.and(read).and(self.ahead.map_or(Ok(()), Brought::settle))
    }
}

/// Reads and writes.
struct Carrier<'a, 's> {
    span: &'a Span<'s>,
    by: By,
    waiter: Waiter<'a>,
    blocking: Blocking,
    buffer: Memory,
}

impl<'a, 's> Carrier<'a, 's> {
    fn new(span: &'a Span<'s>, by: By) -> Result<Self, Stop> {
        let buffer = read_write::buffer(span, CHUNK_BYTES)?;
        Ok(Carrier { span, by, waiter: span.waiter(), blocking: span.blocking(), buffer })
    }

    fn carry(&mut self, behind: &mut Behind<'_>) -> Result<(), Stop> {
        let chunk = self.buffer.len();
        let mut left = self.span.limit;
        // The first chunk ends where the sink's later ones begin, so that no page is written twice. What
        // is no file gives as much as it has, and may lose what is not taken of it.
        let odd = match self.span.source.kind().is_cached() {
            true => rustix::fs::tell(self.span.sink).map_or(0, |at| at % chunk as u64) as usize,
            false => 0,
        };
        let mut room = chunk - odd;
        while left > 0 {
            let most = self.span.read_bytes(left, room);
            behind.before(most)?;
            let count = self.read(most)?;
            if count == 0 {
                break;
            }
            self.write(count)?;
            behind.after(self.span, count)?;
            left = left.saturating_sub(count as u64);
            room = chunk;
        }
        Ok(())
    }

    /// Reads until something comes; 0 at the end.
    fn read(&mut self, most: usize) -> Result<usize, Stop> {
        let Carrier { span, waiter, buffer, .. } = self;
        let into = &mut buffer.as_mut_slice()[..most];
        let flags = match self.by {
            By::Flag(flags) if span.source.kind().is_cached() => flags,
            _ => return read_write::read(span, waiter, self.blocking, into, None),
        };
        loop {
            waiter.before(Ends::source(span.source.as_fd()))?;
            let mut into = [IoSliceMut::new(&mut *into)];
            match rustix::io::preadv2(span.source, &mut into, AT_POSITION, flags) {
                Err(Errno::INTR) => span.meter.called(),
                Err(errno) => return Err(refused(errno, Side::Source, "preadv2")),
                Ok(count) => {
                    span.meter.called();
                    waiter.progressed();
                    return Ok(count);
                }
            }
        }
    }

    /// Writes all of the buffer's first bytes.
    fn write(&mut self, count: usize) -> Result<(), Stop> {
        let flags = match self.by {
            By::Flag(flags) if self.span.sink.kind().is_cached() => flags,
            _ => return self.write_plain(0, count),
        };
        let mut done = 0;
        while done < count {
            match self.write_some(done, count, flags) {
                Ok(more) => done += more,
                Err(Stop::Declined(refusal)) => {
                    // Nothing may be in flight then: what cannot be set back is written all the same.
                    if !self.span.stranded(&self.buffer.as_slice()[done..count]).is_empty() {
                        self.write_plain(done, count)?;
                    }
                    return Err(Stop::Declined(refusal));
                }
                Err(stop) => {
                    let rest = &self.buffer.as_slice()[done..count];
                    return Err(read_write::with_stranded(stop, self.span, rest));
                }
            }
        }
        Ok(())
    }

    fn write_some(
        &mut self,
        done: usize,
        count: usize,
        flags: ReadWriteFlags,
    ) -> Result<usize, Stop> {
        let Carrier { span, waiter, buffer, .. } = self;
        waiter.before(Ends::sink(span.sink.as_fd()))?;
        let from = [IoSlice::new(&buffer.as_slice()[done..count])];
        match rustix::io::pwritev2(span.sink, &from, AT_POSITION, flags) {
            // Linux never answers a write of some bytes with 0 unless the device is full.
            Ok(0) => Err(refused(Errno::NOSPC, Side::Sink, "pwritev2")),
            Ok(more) => {
                span.meter.moved(more as u64);
                waiter.progressed();
                Ok(more)
            }
            Err(Errno::INTR) => {
                span.meter.called();
                Ok(0)
            }
            Err(errno) => Err(refused(errno, Side::Sink, "pwritev2")),
        }
    }

    fn write_plain(&mut self, done: usize, count: usize) -> Result<(), Stop> {
        let from = &self.buffer.as_slice()[done..count];
        read_write::write_all(self.span, &mut self.waiter, self.blocking, from, None)
    }
}

/// What an errno of a call with a flag means: EOPNOTSUPP comes from file systems that do not know the
/// flag, and EINVAL or EOPNOTSUPP from kernels; ENOSYS and EPERM from sandboxes.
fn refused(errno: Errno, side: Side, call: &'static str) -> Stop {
    match errno {
        Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::PERM => {
            let file = if side == Side::Source { "source" } else { "sink" };
            let reason = format!("{call} with RWF_DONTCACHE is refused for the {file}");
            Stop::Declined(Refusal::errno(reason, errno))
        }
        _ => Stop::Failed(Failed::new("", side, call, errno)),
    }
}
