//! `uring`: reads and writes of a file in flight at once, out of order, by io_uring.
//!
//! Costs per chunk: two copies; one system call for as many chunks as are in flight; a ring and
//! its buffers once. A movement that is killed leaves a sink with gaps, which other routes do not.

use std::os::fd::AsFd;

use crate::error::{Refusal, Stop};
use crate::machine;
use crate::ring::{Ring, Setup, Target};
use crate::routes::in_flight::{self, Ends, InFlight, Pairing, Shape};
use crate::routes::{Aliasing, Job, Rank, Route, Span};
use crate::seal::Sealed;

/// See the module.
pub(super) struct Uring;

const NAME: &str = "uring";

impl Sealed for Uring {}

impl Route for Uring {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "io_uring: many chunks of a file in flight, out of order"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        in_flight::suits(job, NAME).map(|()| Rank::Unproven)
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        carry(span, NAME, Pairing::Apart)
    }
}

/// Moves by a ring without anything registered.
pub(super) fn carry(span: &Span<'_>, name: &'static str, pairing: Pairing) -> Result<(), Stop> {
    let shape = Shape::of(span, 1);
    let buffers = shape.buffers(span)?;
    let mut ring = open(span, &shape)?;
    let ends = Ends {
        name,
        source: Target::Borrowed(span.source.as_fd()),
        sink: Target::Borrowed(span.sink.as_fd()),
        align: 1,
        pairing,
    };
    InFlight::new(span, ends, &mut ring, shape, buffers).carry()
}

/// A ring with room for a read and a write of each chunk.
pub(super) fn open<'fd>(span: &Span<'_>, shape: &Shape) -> Result<Ring<'fd>, Stop> {
    for end in [span.source, span.sink] {
        machine::takes_ring(end.as_fd()).map_err(Stop::Declined)?;
    }
    let entries = u32::try_from(shape.depth * 2).unwrap_or(u32::MAX);
    Ring::open(&Setup::with_entries(entries)).map_err(Stop::Declined)
}
