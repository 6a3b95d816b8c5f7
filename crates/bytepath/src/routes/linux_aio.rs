//! `linux-aio`: between two files past the page cache (O_DIRECT), many chunks in flight by
//! io_submit(2), which every Linux has.
//!
//! Costs per chunk: no copy; two system calls for as many chunks as are in flight. Files that are
//! not open for direct access make io_submit(2) sleep, so this is for direct ones alone.

use crate::error::{Refusal, Stop};
use crate::routes::direct::{self, Direct};
use crate::routes::in_flight::{InFlight, Pairing, Shape};
use crate::routes::{Aliasing, Job, Rank, Route, Span};
use crate::seal::Sealed;
use crate::sys::aio::Aio;

/// See the module.
pub(super) struct LinuxAio;

const NAME: &str = "linux-aio";

impl Sealed for LinuxAio {}

impl Route for LinuxAio {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "io_submit(2) past the page cache (O_DIRECT): many chunks of a file in flight"
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
        let mut queue = Aio::open(shape.depth).map_err(Stop::Declined)?;
        let ends = direct.ends(Pairing::Apart);
        direct.carry(span, |whole| {
            InFlight::new(whole, ends, &mut queue, shape, buffers).stretch(whole.limit)
        })
    }
}
