//! `splice-through`: as `splice`, but through a pipe of our own also where an end is a pipe.
//!
//! splice(2) from a file into a pipe holds the pipe's lock while it looks the pages up, and its
//! reader waits for the lock meanwhile. Through a pipe that nobody else has, the pages are looked up
//! in peace, and handing them on to the other pipe takes the lock for a moment. Costs one more
//! system call a chunk and one more reference a page, which only a reader on another CPU pays back;
//! GNU cat (9.9 and later) and uutils splice that way. Which of the two is faster, `tune` finds out.

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::routes::own_pipe::OwnPipe;
use crate::routes::{Aliasing, Job, Rank, Route, Span, splice};
use crate::seal::Sealed;

/// See the module.
pub(super) struct SpliceThrough;

const NAME: &str = "splice-through";

impl Sealed for SpliceThrough {}

impl Route for SpliceThrough {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "splice(2) twice: through a pipe of our own into or out of the pipe at an end"
    }

    fn aliasing(&self, job: &Job<'_>) -> Aliasing {
        splice::aliasing(job)
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        if job.source.kind() != Kind::Pipe && job.sink.kind() != Kind::Pipe {
            return Err(Refusal::because("without a pipe at either end it is the route splice"));
        }
        if splice::holds_lock(job.source.kind(), job.sink.kind()) {
            return Err(Refusal::because(
                "from a socket, to a file, and to /dev/null it is the route splice",
            ));
        }
        splice::suits(job)
    }

    fn holds_bytes(&self, _: &Job<'_>) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        OwnPipe::open(NAME, span)?.carry(span)
    }
}
