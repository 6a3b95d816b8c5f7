//! `fadvise`: through a buffer in user space; what was not in the page cache before is dropped
//! behind it (posix_fadvise(2), POSIX_FADV_DONTNEED). Works on every file system.
//!
//! What of the source was there before is looked up ahead of the reading, which the kernel allows to
//! who owns or may write a file. Pages that others bring in meanwhile are dropped too, unless they
//! have them mapped.
//!
//! Costs per chunk: two copies and two system calls, as `read-write`; per window (8 MiB) a look at
//! each page of the source, about eight calls, and the wait for the device. The end waits as well.

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::routes::{Aliasing, Job, Rank, Route, Span, uncached};
use crate::seal::Sealed;

/// See the module.
pub(super) struct Fadvise;

const NAME: &str = "fadvise";

impl Sealed for Fadvise {}

impl Route for Fadvise {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "read and write, then drop from the page cache what was not there before"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if [job.source, job.sink].iter().any(|end| end.kind() == Kind::BlockDevice) {
            return Err(Refusal::because(
                "pages of a block device are those of the file system on it, and not to be dropped",
            ));
        }
        if job.source.is_direct() || job.sink.is_direct() {
            return Err(Refusal::because(
                "an end opened with O_DIRECT takes whole blocks, and has no part in the page cache",
            ));
        }
        uncached::suits(job)
    }

    fn leaves_cache(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn holds_bytes(&self, _: &Job<'_>) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        uncached::carry(NAME, span, uncached::By::Advice)
    }
}
