//! `copy-file-range`: from file to file, by whatever the file system can do: share extents, copy
//! on the server, or copy inside the kernel.
//!
//! Costs per chunk: one system call; no copy where extents are shared, else one in the kernel.
//!
//! Holes of the source stay holes where the sink ends at its position: there they read as the same
//! zeros, and cost four calls instead of their length. Where the sink has bytes already, holes are
//! copied over them as zeros.

use std::os::fd::AsFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::endpoint::Kind;
use crate::error::{Failed, Refusal, Side, Stop};
use crate::holes::Holes;
use crate::routes::in_flight::{bytes_ahead, ends_before};
use crate::routes::{Aliasing, Job, Rank, Route, Span, judged};
use crate::seal::Sealed;

/// One call's worth: long enough for extents to be shared in large pieces, short enough to show
/// progress and to be cancelled.
const CHUNK_BYTES: usize = 32 << 20;

/// See the module.
pub(super) struct CopyFileRange;

const NAME: &str = "copy-file-range";

impl Sealed for CopyFileRange {}

impl Route for CopyFileRange {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "copy_file_range(2): file to file, shared or copied by the file system"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if job.keep_source {
            return Err(Refusal::because("copy_file_range would advance the source"));
        }
        if (job.source.kind(), job.sink.kind()) != (Kind::File, Kind::File) {
            return Err(Refusal::because(format!(
                "copy_file_range needs two files, not a {} and a {}",
                job.source.kind(),
                job.sink.kind()
            )));
        }
        if job.sink.appends() {
            return Err(Refusal::because("copy_file_range refuses a sink opened with O_APPEND"));
        }
        // Where the file system has nothing of its own to offer, the kernel splices by 64 KiB.
        Ok(match job.source.may_offload() || job.source.may_have_holes() {
            true => Rank::ByReference,
            false => Rank::InKernel,
        })
    }

    fn leaves_cache(&self) -> Result<(), Refusal> {
        Err(Refusal::because(
            "copy_file_range copies through the page cache, and takes no flag that would keep it out",
        ))
    }

    fn may_share(&self) -> bool {
        true
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let mut left = span.limit;
        if span.source.may_have_holes()
            && rustix::fs::tell(span.sink).is_ok_and(|at| ends_before(span, at).is_some())
        {
            let holes = Holes::of(span.source.as_fd());
            while let Some(data) = next_data(span, &holes, &mut left)? {
                let most = left.min(data);
                let rest = copy(span, most)?;
                left -= most - rest;
                if rest > 0 {
                    break;
                }
            }
        }
        let mut zero_at = None;
        loop {
            left = copy(span, left)?;
            // Where all came that the source said it had, its end is where the kernel sees it.
            if left == 0
                || span.limit - left >= span.source.bytes()
                || super::ended(span, left, &mut zero_at)?
            {
                return Ok(());
            }
        }
    }
}

/// Copies at most so many bytes; how many are left where the kernel sees the end.
fn copy(span: &Span<'_>, most: u64) -> Result<u64, Stop> {
    let mut waiter = span.waiter();
    let mut left = most;
    while left > 0 {
        waiter.check_cancelled()?;
        let most = span.next_bytes(left, CHUNK_BYTES);
        match rustix::fs::copy_file_range(span.source, None, span.sink, None, most) {
            Ok(0) => {
                span.meter.called();
                return Ok(left);
            }
            Ok(count) => {
                span.meter.moved(count as u64);
                waiter.progressed();
                left -= count as u64;
            }
            Err(Errno::INTR) => span.meter.called(),
            Err(errno) => return Err(judged(span, NAME, "copy_file_range", errno)),
        }
    }
    Ok(0)
}

/// Passes over a hole, if the source stands at one, and says how many bytes of data follow; `None`
/// where the file system does not tell, or nothing follows.
///
/// The sink grows by the hole at once, so that it has taken what the meter says.
fn next_data(span: &Span<'_>, holes: &Holes<'_>, left: &mut u64) -> Result<Option<u64>, Stop> {
    let Ok(at) = rustix::fs::tell(span.source) else { return Ok(None) };
    if *left == 0 {
        return Ok(None);
    }
    span.meter.called();
    let size = at.saturating_add(bytes_ahead(span));
    let Ok(data) = holes.data(at) else { return Ok(None) };
    // There is a hole up to the end.
    let data = data.unwrap_or(size);
    let hole = (data - at).min(*left);
    if hole > 0 {
        let grown = grow(span, hole);
        let to = if grown.is_ok() { at + hole } else { at };
        rustix::fs::seek(span.source, SeekFrom::Start(to))
            .map_err(|e| failed(Side::Source, "lseek", e))?;
        grown?;
        span.meter.moved(hole);
        *left -= hole;
    }
    if data >= size || *left == 0 {
        return Ok(None);
    }
    span.meter.called();
    let end = holes.hole(data);
    rustix::fs::seek(span.source, SeekFrom::Start(data))
        .map_err(|e| failed(Side::Source, "lseek", e))?;
    Ok(end.ok().and_then(|end| end.checked_sub(data)).filter(|&bytes| bytes > 0))
}

/// Makes the sink longer by a hole, and stands behind it.
fn grow(span: &Span<'_>, hole: u64) -> Result<(), Stop> {
    span.meter.called();
    let at = rustix::fs::tell(span.sink).map_err(|e| failed(Side::Sink, "lseek", e))?;
    rustix::io::retry_on_intr(|| rustix::fs::ftruncate(span.sink, at + hole))
        .map_err(|errno| judged(span, NAME, "ftruncate", errno))?;
    let placed = rustix::fs::seek(span.sink, SeekFrom::Start(at + hole));
    placed.map(drop).map_err(|e| failed(Side::Sink, "lseek", e))
}

fn failed(side: Side, call: &'static str, errno: Errno) -> Stop {
    Stop::Failed(Failed::new(NAME, side, call, errno))
}
