//! `uring-linked`: each read with its write linked to it, so that the kernel goes from one to the
//! other by itself.
//!
//! Costs per chunk: two copies; one system call for as many pairs as are in flight. A link breaks
//! where its read is short, and both are queued again for what is left.

use crate::error::{Refusal, Stop};
use crate::routes::in_flight::{self, Pairing};
use crate::routes::{Aliasing, Job, Rank, Route, Span, uring};
use crate::seal::Sealed;

/// See the module.
pub(super) struct UringLinked;

const NAME: &str = "uring-linked";

impl Sealed for UringLinked {}

impl Route for UringLinked {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "io_uring: pairs of a read and a write, linked in the kernel"
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
        uring::carry(span, NAME, Pairing::Linked)
    }
}
