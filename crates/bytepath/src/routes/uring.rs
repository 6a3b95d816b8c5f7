//! `uring`, `uring-registered`, `uring-linked`: reads and writes of a file in flight at once, out of
//! order, by io_uring.
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

/// Nothing registered with the ring.
pub(super) const URING: Uring = Uring {
    name: "uring",
    summary: "io_uring: many chunks of a file in flight, out of order",
    variant: Variant::Plain,
};

/// Both files and all buffers registered with the ring, so that no request looks up a descriptor or
/// pins a page. Two more system calls once; the buffers count against RLIMIT_MEMLOCK.
pub(super) const REGISTERED: Uring = Uring {
    name: "uring-registered",
    summary: "io_uring with registered files and buffers: many chunks of a file in flight",
    variant: Variant::Registered,
};

/// Each read with its write linked to it, so that the kernel goes from one to the other by itself. A
/// link breaks where its read is short, and both are queued again for what is left.
pub(super) const LINKED: Uring = Uring {
    name: "uring-linked",
    summary: "io_uring: pairs of a read and a write, linked in the kernel",
    variant: Variant::Linked,
};

/// See the module.
pub(super) struct Uring {
    name: &'static str,
    summary: &'static str,
    variant: Variant,
}

enum Variant {
    Plain,
    Registered,
    Linked,
}

impl Sealed for Uring {}

impl Route for Uring {
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
        in_flight::suits(job, self.name).map(|()| Rank::Unproven)
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let shape = Shape::of(span, 1);
        let mut buffers = shape.buffers(span)?;
        let mut ring = open(span, &shape)?;
        let files = [span.source.as_fd(), span.sink.as_fd()];
        let mut targets = files.map(Target::Borrowed);
        if let Variant::Registered = self.variant {
            buffers = ring.register_buffers(buffers).map_err(Stop::Declined)?;
            let registered = ring.register_files(&files).map_err(Stop::Declined)?;
            targets = [registered[0], registered[1]];
        }
        let pairing = match self.variant {
            Variant::Plain | Variant::Registered => Pairing::Apart,
            Variant::Linked => Pairing::Linked,
        };
        let [source, sink] = targets;
        let ends = Ends { name: self.name, source, sink, align: 1, pairing };
        InFlight::new(span, ends, &mut ring, shape, buffers).carry()
    }
}

/// A ring with room for a read and a write of each chunk.
pub(super) fn open<'fd>(span: &Span<'_>, shape: &Shape) -> Result<Ring<'fd>, Stop> {
    for end in [span.source, span.sink] {
        machine::takes_ring(end.as_fd()).map_err(Stop::Declined)?;
    }
    let entries = u32::try_from(shape.depth * 2).unwrap_or(u32::MAX);
    Ring::open(&Setup::with_entries(entries)).map_err(Stop::Declined)
}
