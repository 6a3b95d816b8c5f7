//! `dontcache`: through a buffer in user space, with calls that take out of the page cache what they
//! brought in (RWF_DONTCACHE, Linux 6.14; ext4 and xfs from the start, others later or not at all).
//!
//! Costs per chunk: two copies and two system calls, as `read-write`; per window (8 MiB) three calls,
//! and the wait for the device. The end waits for the device as well.

use crate::error::{Refusal, Stop};
use crate::page_cache::DONTCACHE;
use crate::routes::{Aliasing, Job, Rank, Route, Span, uncached};
use crate::seal::Sealed;

/// See the module.
pub(super) struct DontCache;

const NAME: &str = "dontcache";

impl Sealed for DontCache {}

impl Route for DontCache {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "read and write with RWF_DONTCACHE: the kernel drops what it brought into the page cache"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        uncached::suits(job)
    }

    fn leaves_cache(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn holds_bytes(&self, _: &Job<'_>) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        uncached::carry(NAME, span, uncached::By::Flag(DONTCACHE))
    }
}
