//! Where the two ends of a stretch stand, and how they are left: behind what was moved, with nothing
//! behind that which was not there before.

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use super::{InFlight, Queue};
use crate::endpoint::{Endpoint, Kind};
use crate::error::{Failed, Refusal, Side, Stop};
use crate::routes::Span;

/// Where both ends stand, and whether the sink ends there.
pub(super) struct Stand {
    pub(super) source: u64,
    pub(super) sink: u64,
    /// The sink's size, where it is a file that ends at its position or before.
    pub(super) ends_at: Option<u64>,
    /// Whether chunks are written one after the other, because a truncation could not undo them.
    pub(super) in_order: bool,
}

/// Where the ends stand, before and after.
impl<'fd, Q: Queue<'fd>> InFlight<'_, 'fd, Q> {
    pub(super) fn stand(&self) -> Result<Stand, Stop> {
        let (source, sink) = (self.span.source, self.span.sink);
        let (source, at) = (position(source)?, position(sink)?);
        let ends_at = ends_before(self.span, at);
        let in_order = ends_at.is_none() && self.span.sink.kind() != Kind::Null;
        Ok(Stand { source, sink: at, ends_at, in_order })
    }

    /// Undoes what was written behind a gap, and leaves both ends behind what was moved.
    pub(super) fn leave(&mut self, stand: &Stand) -> Result<(), Stop> {
        let undo = stand.ends_at.filter(|_| self.furthest > self.reached);
        if let Some(bytes) = undo {
            cut(self.span, self.ends.name, stand.sink + self.reached, bytes, self.reached)?;
        }
        self.chunks.clear();
        for buffer in self.held.drain(..).flatten() {
            self.free.push(buffer);
        }
        let (from, to) = (stand.source + self.reached, stand.sink + self.reached);
        place(self.span, self.ends.name, from, to)
    }

    /// The kernel does not let anybody wait for what is in flight.
    pub(super) fn lost(&mut self, errno: Errno, stand: &Stand) -> Stop {
        let call = self.queue.call();
        self.queue.settle();
        self.tell_calls();
        // Any of what was started may have been written.
        self.furthest = self.next_at;
        if let Err(stop) = self.leave(stand) {
            return stop;
        }
        match errno {
            // A filter that refuses the call refused the first one too: nothing came through it.
            Errno::PERM | Errno::ACCESS | Errno::NOSYS => {
                Stop::Declined(Refusal::errno(format!("{call} is refused"), errno))
            }
            _ => Stop::Failed(Failed::new(self.ends.name, Side::Either, call, errno)),
        }
    }
}

/// Where a file stands.
pub(in crate::routes) fn position(end: &Endpoint<'_>) -> Result<u64, Stop> {
    rustix::fs::tell(end).map_err(|errno| {
        Stop::Declined(Refusal::errno("the position of a file is not to be had", errno))
    })
}

/// Leaves both ends where they are to stand. Nobody can go on where one stands behind what was moved, and
/// the other does not.
pub(in crate::routes) fn place(
    span: &Span<'_>,
    name: &'static str,
    from: u64,
    to: u64,
) -> Result<(), Stop> {
    let lseek = |side| move |errno| Stop::Failed(Failed::new(name, side, "lseek", errno));
    rustix::fs::seek(span.sink, SeekFrom::Start(to)).map_err(lseek(Side::Sink))?;
    rustix::fs::seek(span.source, SeekFrom::Start(from)).map_err(lseek(Side::Source))?;
    Ok(())
}

/// Bytes between a file's position and its end; any number where it has no size.
pub(in crate::routes) fn bytes_ahead(span: &Span<'_>) -> u64 {
    if span.source.kind() != Kind::File {
        return u64::MAX;
    }
    let size =
        rustix::fs::fstat(span.source).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
    let position = rustix::fs::tell(span.source).unwrap_or(0);
    size.unwrap_or(u64::MAX).saturating_sub(position)
}

/// The size of a sink that is a file ending at `position` or before, so that what is written from
/// there on can be undone.
pub(in crate::routes) fn ends_before(span: &Span<'_>, position: u64) -> Option<u64> {
    let file = span.sink.kind() == Kind::File;
    let stat = rustix::fs::fstat(span.sink).ok().filter(|_| file)?;
    u64::try_from(stat.st_size).ok().filter(|&bytes| bytes <= position)
}

/// Takes back what was written behind `position`, or behind the `bytes` that the sink had, where
/// nothing of it counts.
pub(in crate::routes) fn cut(
    span: &Span<'_>,
    name: &'static str,
    position: u64,
    bytes: u64,
    moved: u64,
) -> Result<(), Stop> {
    span.meter.called();
    let to = if moved == 0 { bytes } else { position };
    rustix::io::retry_on_intr(|| rustix::fs::ftruncate(span.sink, to))
        .map_err(|errno| Stop::Failed(Failed::new(name, Side::Sink, "ftruncate", errno)))
}
