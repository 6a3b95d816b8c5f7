//! `copy-file-range`: from file to file, by whatever the file system can do: share extents, copy
//! on the server, or copy inside the kernel.
//!
//! Costs per chunk: one system call; no copy where extents are shared, else one in the kernel.

use rustix::io::Errno;

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::routes::{Aliasing, Job, Rank, Route, Span, judged};

/// One call's worth: long enough for extents to be shared in large pieces, short enough to show
/// progress and to be cancelled.
const CHUNK_BYTES: usize = 32 << 20;

/// See the module.
pub(super) struct CopyFileRange;

const NAME: &str = "copy-file-range";

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
        if job.source.bytes() == 0 {
            // Files of /proc and /sys say 0, have content, and copy_file_range gives none of it
            // (Linux 5.3 to 5.18, see copy_file_range(2), BUGS).
            return Err(Refusal::because("the source says that it is empty, so it has to be read"));
        }
        Ok(Rank::ByReference)
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let mut waiter = span.waiter();
        let mut left = span.limit;
        while left > 0 {
            waiter.check_cancelled()?;
            let most = span.next_bytes(left, CHUNK_BYTES);
            match rustix::fs::copy_file_range(span.source, None, span.sink, None, most) {
                Ok(0) => {
                    span.meter.called();
                    return super::ended(span);
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
        Ok(())
    }
}
