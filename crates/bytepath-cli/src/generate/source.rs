//! What is written: the same bytes over and over, or a stream that is made as it goes.

use bytepath::outlets::Use;
use bytepath_gen::{Crew, CrewError, Generator};

/// See the module.
pub(super) enum Source {
    /// Zeros.
    Zeros,
    /// These bytes again and again; not empty.
    Same(Vec<u8>),
    /// A stream, and by how many threads it is made.
    Made(Crew, usize),
}

impl Source {
    pub(super) fn made(stream: Box<dyn Generator>, jobs: usize) -> Result<Source, CrewError> {
        Ok(Source::Made(Crew::new(stream, jobs)?, jobs))
    }

    /// How an outlet is used for it.
    pub(super) fn used_for(&self) -> Use {
        match self {
            Source::Zeros | Source::Same(_) => Use::Repeats,
            Source::Made(..) => Use::Streams,
        }
    }
}
