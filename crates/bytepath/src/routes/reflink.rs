//! `reflink`: the sink shares the extents of the source until one of them is written to
//! (FICLONERANGE).
//!
//! Costs one system call a gigabyte, no copy and no space. Only within one file system that can,
//! such as btrfs, xfs or bcachefs, and from a block on: what is less than a block at the end is
//! copied. copy_file_range(2) does as much on the same file systems where it can,
//! and copies where it cannot; this route declines instead.

use rustix::io::Errno;

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::routes::in_flight::{bytes_ahead, place, position};
use crate::routes::{Aliasing, Job, Rank, Route, Span, judged, read_write};
use crate::seal::Sealed;
use crate::sys::reflink::clone_range;

/// One call's worth: sharing takes time by the extent, and nobody can cancel a call.
const CHUNK_BYTES: u64 = 1 << 30;

/// Blocks of this many bytes or fewer are what file systems that share extents have.
const BLOCK_BYTES_MAX: u64 = 64 << 10;

/// See the module.
pub(super) struct Reflink;

const NAME: &str = "reflink";

impl Sealed for Reflink {}

impl Route for Reflink {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "FICLONERANGE: the sink shares the source's extents, on file systems that can"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if job.keep_source {
            return Err(Refusal::because("reflink would advance the source"));
        }
        if (job.source.kind(), job.sink.kind()) != (Kind::File, Kind::File) {
            return Err(Refusal::because(format!(
                "extents are shared between two files, not a {} and a {}",
                job.source.kind(),
                job.sink.kind()
            )));
        }
        if job.sink.appends() {
            return Err(Refusal::because("a sink opened with O_APPEND takes no offsets"));
        }
        if job.source.same_file(job.sink) {
            return Err(Refusal::because("source and sink are one file already"));
        }
        if job.source.device() != job.sink.device() {
            return Err(Refusal::because("extents are shared within one file system only"));
        }
        Ok(Rank::Unproven)
    }

    fn leaves_cache(&self) -> Result<(), Refusal> {
        Err(Refusal::because(
            "it shares blocks, and copies nothing that could be kept out of the page cache",
        ))
    }

    fn may_share(&self) -> bool {
        true
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let block = block_bytes(span)?;
        let (from, to) = (position(span.source)?, position(span.sink)?);
        if from % block != 0 || to % block != 0 {
            return Err(Stop::Declined(Refusal::because(format!(
                "extents are shared from a block of {block} bytes on, and this would be byte \
                 {from} of the source and byte {to} of the sink"
            ))));
        }
        let shared = share(span, span.limit, block)?;
        // What is no whole block; and whether the source ends there shows by reading.
        read_write::part(NAME, span, span.limit - shared)
    }
}

/// Shares what is whole blocks, or goes up to the end of the source.
fn share(span: &Span<'_>, left: u64, block: u64) -> Result<u64, Stop> {
    let (waiter, mut shared) = (span.waiter(), 0);
    let chunk = span.knobs.chunk_bytes.map_or(CHUNK_BYTES, |bytes| bytes as u64);
    let chunk = chunk.clamp(1, CHUNK_BYTES).next_multiple_of(block);
    loop {
        waiter.check_cancelled()?;
        let ahead = bytes_ahead(span);
        // A range that ends with the source need not end with a block.
        let most = match left - shared {
            left if left >= ahead => ahead.min(chunk),
            left => (left - left % block).min(chunk),
        };
        if most == 0 {
            return Ok(shared);
        }
        let (from, to) = (position(span.source)?, position(span.sink)?);
        match clone_range(span.source, from, most, span.sink, to) {
            Ok(()) => {
                span.meter.moved(most);
                shared += most;
                place(span, NAME, from + most, to + most)?;
            }
            Err(Errno::INTR) => span.meter.called(),
            Err(errno @ Errno::OPNOTSUPP) => {
                return Err(Stop::Declined(
                    Refusal::errno("this file system shares no extents (FICLONERANGE)", errno)
                        .remedy("some do, as xfs and btrfs"),
                ));
            }
            Err(errno) => return Err(judged(span, NAME, "FICLONERANGE", errno)),
        }
    }
}

/// The block of the file system: both files are on the same.
fn block_bytes(span: &Span<'_>) -> Result<u64, Stop> {
    let told = rustix::fs::fstatfs(span.sink).map(|told| told.f_bsize as u64);
    match told {
        Ok(bytes) if bytes.is_power_of_two() && bytes <= BLOCK_BYTES_MAX => Ok(bytes),
        Ok(_) => Ok(BLOCK_BYTES_MAX),
        Err(errno) => Err(Stop::Declined(Refusal::errno("the block size is not to be had", errno))),
    }
}
