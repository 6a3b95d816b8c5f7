//! `uring-direct`: between two files past the page cache (O_DIRECT), many chunks in flight by
//! io_uring.
//!
//! Costs per chunk: no copy, by the device's own access to memory; one system call for as many
//! chunks as are in flight. What is not whole blocks, at either end of the movement, goes through
//! the page cache.

use crate::error::{Refusal, Stop};
use crate::routes::direct::{self, Direct};
use crate::routes::in_flight::{InFlight, Pairing, Shape};
use crate::routes::{Aliasing, Job, Rank, Route, Span, uring};
use crate::seal::Sealed;

/// See the module.
pub(super) struct UringDirect;

const NAME: &str = "uring-direct";

impl Sealed for UringDirect {}

impl Route for UringDirect {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "io_uring past the page cache (O_DIRECT): many chunks of a file in flight"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        direct::suits(job, NAME).map(|()| Rank::Unproven)
    }

    fn leaves_cache(&self) -> Result<(), Refusal> {
        Err(Refusal::because("what is no whole block goes through the page cache, and stays there"))
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let direct = Direct::open(NAME, span)?;
        let shape = Shape::of(span, direct.align());
        let buffers = shape.buffers(span)?;
        let mut ring = uring::open(span, &shape)?;
        let ends = direct.ends(Pairing::Apart);
        direct.carry(span, |whole| {
            InFlight::new(whole, ends, &mut ring, shape, buffers).stretch(whole.limit)
        })
    }
}
