//! `uring-direct`, `linux-aio`: between two files past the page cache (O_DIRECT), many chunks in
//! flight.
//!
//! Costs per chunk: no copy, by the device's own access to memory; one system call for as many
//! chunks as are in flight by io_uring, two by io_submit(2). What is not whole blocks, at either end
//! of the movement, goes through the page cache.

use crate::error::{Refusal, Stop};
use crate::routes::direct::{self, Direct};
use crate::routes::in_flight::{InFlight, Pairing, Queue, Shape};
use crate::routes::{Aliasing, Job, Rank, Route, Span, uring};
use crate::seal::Sealed;
use crate::sys::aio::Aio;

/// By io_uring.
pub(super) const URING: UringDirect = UringDirect {
    name: "uring-direct",
    summary: "io_uring past the page cache (O_DIRECT): many chunks of a file in flight",
    by: By::Ring,
};

/// By io_submit(2), which every Linux has. Files that are not open for direct access make it sleep, so
/// this is for direct ones alone.
pub(super) const AIO: UringDirect = UringDirect {
    name: "linux-aio",
    summary: "io_submit(2) past the page cache (O_DIRECT): many chunks of a file in flight",
    by: By::Aio,
};

/// See the module.
pub(super) struct UringDirect {
    name: &'static str,
    summary: &'static str,
    by: By,
}

enum By {
    Ring,
    Aio,
}

impl Sealed for UringDirect {}

impl Route for UringDirect {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        direct::suits(job, self.name).map(|()| Rank::Unproven)
    }

    fn leaves_cache(&self) -> Result<(), Refusal> {
        Err(Refusal::because("what is no whole block goes through the page cache, and stays there"))
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let direct = Direct::open(self.name, span)?;
        let shape = Shape::of(span, direct.align());
        match self.by {
            By::Ring => carry(span, &direct, uring::open(span, &shape)?, shape),
            By::Aio => carry(span, &direct, Aio::open(shape.depth).map_err(Stop::Declined)?, shape),
        }
    }
}

fn carry<'fd>(
    span: &Span<'_>,
    direct: &'fd Direct,
    mut queue: impl Queue<'fd>,
    shape: Shape,
) -> Result<(), Stop> {
    let buffers = shape.buffers(span)?;
    let ends = direct.ends(Pairing::Apart);
    direct.carry(span, |whole| {
        InFlight::new(whole, ends, &mut queue, shape, buffers).stretch(whole.limit)
    })
}
