//! `mmap-write`: the source is mapped, and written out of the mapping.
//!
//! Costs per chunk: one system call and one copy; page faults for what is not mapped yet, though
//! the kernel maps pages around each fault. A source that becomes shorter meanwhile is no SIGBUS:
//! only the kernel looks at the mapping, and says EFAULT.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::endpoint::Kind;
use crate::error::{Failed, Refusal, Side, Stop};
use crate::machine;
use crate::routes::in_flight::{bytes_ahead, cut, ends_before, position};
use crate::routes::{Aliasing, Job, Rank, Route, Span};
use crate::seal::Sealed;
use crate::sys::file_mapping::FileMapping;

/// Mapped at a time: enough to forget the mapping, little enough to leave address space alone.
const WINDOW_BYTES: usize = 64 << 20;

/// Written at a time.
const CHUNK_BYTES: usize = 2 << 20;

/// See the module.
pub(super) struct MmapWrite;

const NAME: &str = "mmap-write";

impl Sealed for MmapWrite {}

impl Route for MmapWrite {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "mmap(2) of the source, written out of the mapping to a file"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if job.keep_source {
            return Err(Refusal::because("mmap-write would advance the source"));
        }
        if job.source.kind() != Kind::File {
            return Err(Refusal::because(format!(
                "only a file can be mapped up to its end, not a {}",
                job.source.kind()
            )));
        }
        if !job.sink.kind().is_cached() {
            return Err(Refusal::because(format!(
                "a {} keeps its writer waiting, and a mapping cannot be handed to read-write",
                job.sink.kind()
            )));
        }
        if job.source.same_file(job.sink) {
            return Err(Refusal::because("it would read what it has written"));
        }
        Ok(Rank::Unproven)
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        machine::maps_to_its_end(span.source.as_fd()).map_err(Stop::Declined)?;
        let (mut left, mut zero_at) = (span.limit, None);
        while left > 0 {
            let most = left.min(bytes_ahead(span)).min(WINDOW_BYTES as u64);
            if most == 0 {
                match super::ended(span, left, &mut zero_at)? {
                    true => break,
                    false => continue,
                }
            }
            write_window(span, most as usize)?;
            left -= most;
        }
        Ok(())
    }
}

/// Writes `bytes` of the source from where it stands, all of which it has.
fn write_window(span: &Span<'_>, bytes: usize) -> Result<(), Stop> {
    let at = position(span.source)?;
    span.meter.called();
    let window = FileMapping::of(span.source.as_fd(), at, bytes)
        .map_err(|errno| Stop::Declined(Refusal::errno("the source cannot be mapped", errno)))?;
    let mut waiter = span.waiter();
    let mut done = 0;
    while done < bytes {
        waiter.check_cancelled()?;
        let most = span.next_bytes((bytes - done) as u64, span.chunk_for_sink(CHUNK_BYTES));
        match window.write_to(span.sink.as_fd(), done..done + most) {
            Ok(0) => {
                return Err(Stop::Failed(Failed::new(NAME, Side::Sink, "write", Errno::NOSPC)));
            }
            Ok(count) => {
                accept(span, at + done as u64, count)?;
                done += count;
                waiter.progressed();
            }
            Err(Errno::INTR) => span.meter.called(),
            // The source is shorter than it was, or cannot be read there: a read will tell.
            Err(errno @ (Errno::FAULT | Errno::INVAL | Errno::OPNOTSUPP)) => {
                let refusal = Refusal::errno("the kernel cannot write out of the mapping", errno);
                return Err(Stop::Declined(refusal));
            }
            Err(errno) => return Err(Stop::Failed(Failed::new(NAME, Side::Sink, "write", errno))),
        }
    }
    Ok(())
}

/// Counts what was written, unless the source has become shorter than that: behind its end a
/// mapping gives zeros up to the end of the page, and those are nobody's bytes.
fn accept(span: &Span<'_>, at: u64, count: usize) -> Result<(), Stop> {
    use rustix::fs::{SeekFrom, seek};
    // Nobody can go on where only one of them stands behind what was moved.
    let lseek = |side| move |errno| Stop::Failed(Failed::new(NAME, side, "lseek", errno));
    let ahead = bytes_ahead(span);
    let real = (count as u64).min(ahead);
    span.meter.moved(real);
    seek(span.source, SeekFrom::Start(at + real)).map_err(lseek(Side::Source))?;
    if real == count as u64 {
        return Ok(());
    }
    let back = i64::try_from(count as u64 - real).unwrap_or(0);
    let sink = seek(span.sink, SeekFrom::Current(-back)).map_err(lseek(Side::Sink))?;
    // What was written ends the file, unless there was more before.
    if ends_before(span, sink + back.unsigned_abs()).is_some() {
        cut(span, NAME, sink, sink, 1)?;
    }
    Err(Stop::Declined(Refusal::because("the source became shorter while it was mapped")))
}
