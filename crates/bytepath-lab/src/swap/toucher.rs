//! The process that has more memory than it may: it writes piece after piece, then reads all pages
//! in order, and all in random order. `bytepath touch` is this.

use std::hint::black_box;
use std::time::Instant;

use bytepath::pages::{Memory, Pages, PagesError};
use bytepath_report::latency;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::contents::Contents;
use crate::ends::Usage;

/// It takes its memory in pieces of so many bytes, as the published experiment did.
pub const PIECE_BYTES: usize = 1 << 20;

/// What is touched at once.
const PAGE_BYTES: usize = 4096;

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
    /// How long it took.
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
    let before = Usage::of_this_process();
    let pieces = usize::try_from(job.bytes / PIECE_BYTES as u64).unwrap_or(usize::MAX);
    let mut memory = Vec::with_capacity(pieces);
    let (write, ()) = clocked(|| {
        for piece in 0..pieces {
            let mut bytes = a_piece()?;
            job.contents.fill(piece as u64, bytes.as_mut_slice());
            memory.push(bytes);
        }
        Ok(())
    })?;
    written();
    let pages = pieces * (PIECE_BYTES / PAGE_BYTES);
    let reader = Reader { memory: &memory, contents: job.contents };
    let (mut read, histogram) = clocked(|| reader.all(0..pages))?;
    read.histogram = Some(latency::encoded(&histogram)?);
    let mut order: Vec<usize> = (0..pages).collect();
    fastrand::Rng::with_seed(job.seed).shuffle(&mut order);
    order.truncate(usize::try_from(job.random_pages).unwrap_or(usize::MAX));
    let (mut random, histogram) = clocked(|| reader.all(order.iter().copied()))?;
    random.histogram = Some(latency::encoded(&histogram)?);
    Ok(TouchReport { write, read, random, usage: Usage::of_this_process().since(before) })
}

/// Memory that begins where a page does: one of the allocator's begins 16 bytes behind, so that what
/// is touched as one page would lie in two, of which only the first was clocked.
fn a_piece() -> Result<Memory, PagesError> {
    Memory::allocate(PIECE_BYTES, &Pages::default())
}

/// How long something took, and how many pages it had to wait for.
fn clocked<T>(work: impl FnOnce() -> Result<T, TouchError>) -> Result<(Phase, T), TouchError> {
    let (before, began) = (Usage::of_this_process(), Instant::now());
    let done = work()?;
    let seconds = began.elapsed().as_secs_f64();
    let major_faults = Usage::of_this_process().since(before).major_faults;
    Ok((Phase { seconds, major_faults, histogram: None }, done))
}

struct Reader<'a> {
    memory: &'a [Memory],
    contents: Contents,
}

impl Reader<'_> {
    /// Touches these pages, each clocked, and looks at what they hold.
    fn all(&self, pages: impl Iterator<Item = usize>) -> Result<Histogram<u64>, TouchError> {
        let mut histogram = latency::empty();
        let mut expected = Expected { piece: usize::MAX, bytes: vec![0; PIECE_BYTES] };
        let pages_a_piece = PIECE_BYTES / PAGE_BYTES;
        for page in pages {
            let (piece, place) = (page / pages_a_piece, page % pages_a_piece * PAGE_BYTES);
            let bytes = &self.memory[piece].as_slice()[place..place + PAGE_BYTES];
            let began = Instant::now();
            black_box(bytes[0]);
            histogram.saturating_record(began.elapsed().as_nanos() as u64);
            let as_written = match self.contents {
                Contents::Integers => counts(bytes, page),
                // Made again a piece at a time, which in random order costs more than the page.
                _ => expected.of(self.contents, piece, place, bytes),
            };
            if !as_written {
                return Err(TouchError::Changed(page));
            }
        }
        Ok(histogram)
    }
}

/// Whether a page of integers holds those that belong there.
fn counts(bytes: &[u8], page: usize) -> bool {
    let first = (page * (PAGE_BYTES / 4)) as u32;
    let words =
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]]));
    words.enumerate().all(|(place, word)| word == first.wrapping_add(place as u32))
}

/// The piece that was made last, to compare with.
struct Expected {
    piece: usize,
    bytes: Vec<u8>,
}

impl Expected {
    /// Compares a page where its piece is the one at hand, or begins the next one: so all pages that
    /// are read in order, and of those in random order a few.
    fn of(&mut self, contents: Contents, piece: usize, place: usize, bytes: &[u8]) -> bool {
        if place == 0 && self.piece != piece {
            contents.fill(piece as u64, &mut self.bytes);
            self.piece = piece;
        }
        self.piece != piece || self.bytes[place..place + bytes.len()] == *bytes
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
    fn a_page_that_changed_is_noticed() {
        for (name, contents) in KINDS {
            let mut piece = a_piece().expect("memory");
            contents.fill(0, piece.as_mut_slice());
            piece.as_mut_slice()[5 * PAGE_BYTES + 7] ^= 1;
            let memory = [piece];
            let reader = Reader { memory: &memory, contents: *contents };
            let changed = reader.all(0..256).expect_err("it changed");
            assert!(matches!(changed, TouchError::Changed(5)), "{name}: {changed}");
        }
    }
}
