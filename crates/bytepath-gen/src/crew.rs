//! Several threads that make a stream together: each a part of the memory that is filled next.

use crate::Generator;

/// Less than this is not worth waking another thread for.
const PART_BYTES_MIN: usize = 64 << 10;

/// No two threads write to one page.
const PAGE_BYTES: usize = 4096;

/// See the module. One of the threads is the caller's.
pub struct Crew {
    /// One for each thread.
    streams: Vec<Box<dyn Generator>>,
    pool: Option<rayon_core::ThreadPool>,
}

/// The threads could not be started.
#[derive(Debug)]
pub struct CrewError {
    jobs: usize,
    why: rayon_core::ThreadPoolBuildError,
}

impl std::fmt::Display for CrewError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { jobs, why } = self;
        write!(f, "cannot start {jobs} threads: {why}; ask for fewer (--jobs), or see ulimit -u")
    }
}

impl std::error::Error for CrewError {}

impl Crew {
    /// So many threads (at least one) make this stream.
    ///
    /// # Errors
    /// The threads cannot be had.
    pub fn new(stream: Box<dyn Generator>, jobs: usize) -> Result<Crew, CrewError> {
        let failed = |why| CrewError { jobs, why };
        let pool = (jobs > 1).then(|| {
            let named = |index| format!("gen-{index}");
            rayon_core::ThreadPoolBuilder::new().num_threads(jobs - 1).thread_name(named).build()
        });
        let others: Vec<_> = (1..jobs).map(|_| stream.another()).collect();
        let streams = std::iter::once(stream).chain(others).collect();
        Ok(Crew { streams, pool: pool.transpose().map_err(failed)? })
    }

    /// How many bytes the stream has; `None` where it has no end.
    pub fn bytes(&self) -> Option<u128> {
        self.streams[0].bytes()
    }

    /// As [`Generator::fill`].
    pub fn fill(&mut self, offset: u128, into: &mut [u8]) -> usize {
        let left = self.bytes().map_or(u128::MAX, |bytes| bytes.saturating_sub(offset));
        let all = usize::try_from(left).map_or(into.len(), |left| left.min(into.len()));
        let into = &mut into[..all];
        let (first, others) = self.streams.split_first_mut().expect("a crew has one at least");
        let Some(pool) = self.pool.as_ref().filter(|_| all >= 2 * PART_BYTES_MIN) else {
            return first.fill(offset, into);
        };
        let part = part_bytes(all, others.len() + 1);
        let (own, rest) = into.split_at_mut(part.min(all));
        pool.in_place_scope(|scope| {
            let mut at = offset + own.len() as u128;
            for (stream, piece) in others.iter_mut().zip(rest.chunks_mut(part)) {
                let from = at;
                at += piece.len() as u128;
                scope.spawn(move |_| {
                    stream.fill(from, piece);
                });
            }
            first.fill(offset, own);
        });
        all
    }
}

/// The part of each.
fn part_bytes(all: usize, parts: usize) -> usize {
    all.div_ceil(parts).next_multiple_of(PAGE_BYTES).max(PART_BYTES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Counted, Rule};

    #[test]
    fn several_threads_make_the_same_bytes_as_one() {
        let lines =
            || Box::new(Counted::new(Rule::FizzBuzz, 9_990_000, Some(80_000)).expect("lines"));
        let mut alone = Vec::new();
        alone.resize(lines().bytes().expect("an end") as usize, 0);
        lines().fill(0, &mut alone);
        for jobs in [1, 2, 3, 5] {
            for piece_bytes in [1 << 20, 300_001, 131_072, 5_000] {
                let mut crew = Crew::new(lines(), jobs).expect("threads");
                let (mut all, mut piece) = (Vec::new(), vec![0; piece_bytes]);
                loop {
                    let count = crew.fill(all.len() as u128, &mut piece);
                    all.extend_from_slice(&piece[..count]);
                    if count < piece.len() {
                        break;
                    }
                }
                assert!(all == alone, "{jobs} jobs, {piece_bytes} bytes at a time");
            }
        }
    }
}
