//! `uring-registered`: as `uring`, with both files and all buffers registered with the ring, so
//! that no request looks up a descriptor or pins a page.
//!
//! Costs per chunk: as `uring`; two more system calls once. The buffers count against
//! RLIMIT_MEMLOCK.

use std::os::fd::AsFd;

use crate::error::{Refusal, Stop};
use crate::routes::in_flight::{self, Ends, InFlight, Pairing, Shape};
use crate::routes::{Aliasing, Job, Rank, Route, Span, uring};
use crate::seal::Sealed;

/// See the module.
pub(super) struct UringRegistered;

const NAME: &str = "uring-registered";

impl Sealed for UringRegistered {}

impl Route for UringRegistered {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "io_uring with registered files and buffers: many chunks of a file in flight"
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
        let shape = Shape::of(span, 1);
        let buffers = shape.buffers(span)?;
        let mut ring = uring::open(span, &shape)?;
        let buffers = ring.register_buffers(buffers).map_err(Stop::Declined)?;
        let files = [span.source.as_fd(), span.sink.as_fd()];
        let targets = ring.register_files(&files).map_err(Stop::Declined)?;
        let (source, sink) = (targets[0], targets[1]);
        let ends = Ends { name: NAME, source, sink, align: 1, pairing: Pairing::Apart };
        InFlight::new(span, ends, &mut ring, shape, buffers).carry()
    }
}
