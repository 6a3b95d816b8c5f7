//! Which jobs many chunks in flight suit, and how many chunks of which size there are to be.

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::pages::{PageSize, page_bytes};
use crate::ring::Buffer;
use crate::routes::{Job, Span};

/// Chunks in flight where the knobs name no number.
const DEPTH: usize = 8;

/// More than this many are not kept in flight: a ring holds as many with room to spare.
const DEPTH_MAX: usize = 4096;

/// Bytes of a chunk where the knobs name no number.
const CHUNK_BYTES: usize = 256 << 10;

/// Why a route of files in flight does not suit a job; asks nothing of the kernel.
pub(in crate::routes) fn suits(job: &Job<'_>, what: &str) -> Result<(), Refusal> {
    if job.keep_source {
        return Err(Refusal::because(format!("{what} would advance the source")));
    }
    for end in [job.source, job.sink] {
        let null = end.kind() == Kind::Null && std::ptr::eq(end, job.sink);
        if !end.kind().is_cached() && !null {
            return Err(Refusal::because(format!(
                "{what} is at many offsets at once, which a {} does not have",
                end.kind()
            )));
        }
    }
    if job.sink.appends() {
        return Err(Refusal::because("a sink opened with O_APPEND takes no offsets"));
    }
    if job.source.same_file(job.sink) {
        return Err(Refusal::because("out of order it would read what it has written"));
    }
    Ok(())
}

/// How many chunks of how many bytes are in flight, `bytes` being what there is to move.
#[derive(Debug, Clone, Copy)]
pub(in crate::routes) struct Shape {
    pub(in crate::routes) depth: usize,
    pub(in crate::routes) chunk_bytes: usize,
}

impl Shape {
    /// As the knobs say, and no more than the job needs. Chunks are multiples of `align`.
    pub(in crate::routes) fn of(span: &Span<'_>, align: usize) -> Shape {
        let known = match span.source.kind() {
            // It may grow, so that chunks are a page at least.
            Kind::File => {
                span.source.bytes().max(page_bytes(PageSize::Base) as u64).min(span.limit)
            }
            _ => span.limit,
        };
        let chunk = span.next_bytes(known.max(1), CHUNK_BYTES).next_multiple_of(align);
        let chunks = known.div_ceil(chunk as u64).max(1);
        let depth = span.knobs.queue_depth.unwrap_or(DEPTH).clamp(1, DEPTH_MAX);
        Shape { depth: depth.min(usize::try_from(chunks).unwrap_or(depth)), chunk_bytes: chunk }
    }

    /// A buffer for each chunk in flight.
    pub(in crate::routes) fn buffers(&self, span: &Span<'_>) -> Result<Vec<Buffer>, Stop> {
        let buffer = |_| Buffer::allocate(self.chunk_bytes, &span.knobs.pages);
        let made: Result<_, _> = (0..self.depth).map(buffer).collect();
        made.map_err(|error| Stop::Declined(Refusal::because(error.to_string())))
    }
}
