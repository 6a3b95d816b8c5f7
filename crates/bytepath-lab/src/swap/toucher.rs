//! The process that has more memory than it may: it writes piece after piece, then reads all pages
//! in order, and all in random order. `bytepath touch` is this.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytepath::pages::{Memory, Pages, PagesError};
use bytepath_report::latency;
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use crate::ends::Usage;

/// It takes its memory in pieces of so many bytes, as the published experiment did.
pub const PIECE_BYTES: usize = 1 << 20;

/// What is touched at once.
const PAGE_BYTES: usize = 4096;
const PAGES_A_PIECE: usize = PIECE_BYTES / PAGE_BYTES;

/// The number that a page begins with, where it is a copy.
const NUMBER_BYTES: usize = size_of::<u64>();

/// What it is to do.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Bytes of memory, in whole pieces.
    pub bytes: u64,
    /// What they hold.
    pub contents: Contents,
    /// Pages that are read in random order at most.
    pub random_pages: u64,
    /// Where the random order comes from.
    pub seed: u64,
}

/// What is said on standard output when all is written; it goes on when a byte comes back.
pub const WRITTEN: &[u8; 8] = b"written\n";

/// One of the three parts of the work.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Phase {
    /// How long it took; of reading, without the comparing.
    pub seconds: f64,
    /// Faults that had to wait for a device.
    pub major_faults: u64,
    /// How long the first touch of each page took, where that was clocked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
}

/// What it did.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct TouchReport {
    /// Getting and writing all of it.
    pub write: Phase,
    /// Reading all of it in order.
    pub read: Phase,
    /// Reading every page once in random order.
    pub random: Phase,
    /// What the process used meanwhile.
    pub usage: Usage,
}

/// Why it did not do it.
#[derive(Debug, thiserror::Error)]
pub enum TouchError {
    /// A page came back from swap with other bytes.
    #[error(
        "page {0} does not hold what was written there: memory, or what takes its place, is broken"
    )]
    Changed(usize),
    /// There is no such memory.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// The histogram cannot be told.
    #[error(transparent)]
    Latency(#[from] latency::LatencyError),
}

/// Does all of it; calls `written` when all is written.
///
/// # Errors
/// A page does not hold what was written there.
pub fn touch(job: &Job, written: impl FnOnce()) -> Result<TouchReport, TouchError> {
    let expected = Expected::new(job.contents);
    let before = Usage::of_this_process();
    let pieces = usize::try_from(job.bytes / PIECE_BYTES as u64).unwrap_or(usize::MAX);
    let mut memory = Vec::with_capacity(pieces);
    let (mut write, seconds) = counted(|| {
        let began = Instant::now();
        for piece in 0..pieces {
            let mut bytes = a_piece()?;
            expected.write(piece, bytes.as_mut_slice());
            memory.push(bytes);
        }
        Ok(began.elapsed().as_secs_f64())
    })?;
    write.seconds = seconds;
    written();
    let pages = pieces * PAGES_A_PIECE;
    let read = read_pages(&memory, &expected, 0..pages)?;
    let mut order: Vec<usize> = (0..pages).collect();
    fastrand::Rng::with_seed(job.seed).shuffle(&mut order);
    order.truncate(usize::try_from(job.random_pages).unwrap_or(usize::MAX));
    let random = read_pages(&memory, &expected, order.iter().copied())?;
    Ok(TouchReport { write, read, random, usage: Usage::of_this_process().since(before) })
}

/// Memory that begins where a page does: one of the allocator's begins 16 bytes behind, so that what
/// is touched as one page would lie in two, of which only the first was clocked.
fn a_piece() -> Result<Memory, PagesError> {
    Memory::allocate(PIECE_BYTES, &Pages::default())
}

/// What was done, and how many pages it had to wait for.
fn counted<T>(work: impl FnOnce() -> Result<T, TouchError>) -> Result<(Phase, T), TouchError> {
    let before = Usage::of_this_process();
    let done = work()?;
    let major_faults = Usage::of_this_process().since(before).major_faults;
    Ok((Phase { major_faults, ..Phase::default() }, done))
}

/// Touches these pages, each clocked, and looks at what they hold while no clock runs.
fn read_pages(
    memory: &[Memory],
    expected: &Expected,
    pages: impl Iterator<Item = usize>,
) -> Result<Phase, TouchError> {
    let (mut phase, (spent, histogram)) = counted(|| {
        let (mut spent, mut histogram) = (Duration::ZERO, latency::empty());
        for page in pages {
            let (piece, place) = (page / PAGES_A_PIECE, page % PAGES_A_PIECE * PAGE_BYTES);
            let bytes = &memory[piece].as_slice()[place..place + PAGE_BYTES];
            let began = Instant::now();
            black_box(bytes[0]);
            let took = began.elapsed();
            histogram.saturating_record(took.as_nanos() as u64);
            spent += took;
            if !expected.is(page, bytes) {
                return Err(TouchError::Changed(page));
            }
        }
        Ok((spent, histogram))
    })?;
    phase.seconds = spent.as_secs_f64();
    phase.histogram = Some(latency::encoded(&histogram)?);
    Ok(phase)
}

/// Whether a page of integers holds those that belong there.
fn counts(bytes: &[u8], page: usize) -> bool {
    let first = (page * (PAGE_BYTES / 4)) as u32;
    let words =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    words.enumerate().all(|(place, word)| word == first.wrapping_add(place as u32))
}

/// What pages are to hold. Integers count on through all of them; of other contents one piece is
/// made before the clock runs, which would else tell how fast they are made, and each page is a copy
/// of one of its pages that begins with the page's own number.
enum Expected {
    Integers,
    Copies(Vec<u8>),
}

impl Expected {
    fn new(contents: Contents) -> Expected {
        match contents {
            Contents::Integers => Expected::Integers,
            Contents::Text | Contents::Random => {
                let mut piece = vec![0; PIECE_BYTES];
                contents.fill(0, &mut piece);
                Expected::Copies(piece)
            }
        }
    }

    /// Writes a whole piece, the pieces counted from 0.
    fn write(&self, piece: usize, bytes: &mut [u8]) {
        match self {
            Expected::Integers => Contents::Integers.fill(piece as u64, bytes),
            Expected::Copies(made) => {
                bytes.copy_from_slice(made);
                for (page, bytes) in (piece * PAGES_A_PIECE..).zip(bytes.chunks_mut(PAGE_BYTES)) {
                    bytes[..NUMBER_BYTES].copy_from_slice(&(page as u64).to_le_bytes());
                }
            }
        }
    }

    /// Whether a page holds what was written there, the pages counted from 0.
    fn is(&self, page: usize, bytes: &[u8]) -> bool {
        match self {
            Expected::Integers => counts(bytes, page),
            Expected::Copies(made) => {
                let copied = &made[page % PAGES_A_PIECE * PAGE_BYTES..][..PAGE_BYTES];
                bytes[..NUMBER_BYTES] == (page as u64).to_le_bytes()
                    && bytes[NUMBER_BYTES..] == copied[NUMBER_BYTES..]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::contents::KINDS;
    use super::*;

    #[test]
    fn what_is_written_is_read_in_both_orders_and_every_page_is_clocked() {
        for (name, contents) in KINDS {
            let job = Job { bytes: 3 << 20, contents: *contents, random_pages: 100, seed: 1 };
            let report = touch(&job, || {}).expect("memory holds what is written");
            for (phase, pages) in [(&report.read, 3 * 256), (&report.random, 100)] {
                let text = phase.histogram.as_deref().expect("it is clocked");
                let histogram = latency::decoded(text).expect("a histogram");
                assert_eq!(histogram.len(), pages, "{name}");
            }
        }
    }

    #[test]
    fn what_is_touched_at_once_lies_in_one_page() {
        for _ in 0..3 {
            let piece = a_piece().expect("memory");
            assert!(piece.as_slice().as_ptr().addr().is_multiple_of(PAGE_BYTES));
        }
    }

    #[test]
    fn a_page_that_changed_is_noticed_in_any_order() {
        for (name, contents) in KINDS {
            let expected = Expected::new(*contents);
            let mut memory = [0, 1].map(|piece| {
                let mut bytes = a_piece().expect("memory");
                expected.write(piece, bytes.as_mut_slice());
                bytes
            });
            assert!(read_pages(&memory, &expected, (0..512).rev()).is_ok(), "{name}");
            memory[1].as_mut_slice()[5 * PAGE_BYTES + 4000] ^= 1;
            let changed = read_pages(&memory, &expected, [300, 3, 261].into_iter());
            assert!(matches!(changed, Err(TouchError::Changed(261))), "{name}: {changed:?}");
        }
    }

    #[test]
    fn a_page_in_the_place_of_another_is_noticed() {
        for (name, contents) in KINDS {
            let expected = Expected::new(*contents);
            let mut bytes = a_piece().expect("memory");
            expected.write(0, bytes.as_mut_slice());
            // What comes a whole piece later differs by its number alone.
            assert!(!expected.is(PAGES_A_PIECE, &bytes.as_slice()[..PAGE_BYTES]), "{name}");
        }
    }
}
