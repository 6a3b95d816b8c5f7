//! What the source gave, for as long as some sink has not taken it: in memory, and beyond that in a
//! file.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::lockstep::BUFFER_BYTES;
use crate::machine::memory_room;

/// What a piece costs besides its bytes, so that many small ones are not free.
const PIECE_BYTES: usize = 128;

/// Nobody is out of memory for less: up to here it is not asked what there is.
const UNASKED_BYTES: usize = 4 << 20;

/// Asking takes as long as moving a few pieces: where there is no more, not before this time is over.
const REFUSED_FOR: Duration = Duration::from_millis(200);

/// Pieces in the file at the most: their list is in memory.
const SPILLED_MAX: usize = 1 << 20;

/// A multiple of what file systems give and take back: of less than their blocks they free nothing.
const BLOCK_BYTES: u64 = 64 << 10;

/// How far sinks may be behind the source, and where what they have not taken is kept.
#[derive(Debug, Clone, Copy)]
pub struct Queue<'a> {
    /// Bytes that are kept in memory; fewer where less than four thirds of that can be had, by the machine or
    /// by a limit of its cgroups ([`memory_room`]).
    pub memory_bytes: usize,
    /// A file, open for reading and writing (without O_APPEND, by which pwrite(2) appends), that takes what
    /// is more than that. It is overwritten.
    pub spill: Option<BorrowedFd<'a>>,
}

/// Some bytes of the stream.
#[derive(Clone)]
pub(super) enum Piece {
    Memory(Arc<Vec<u8>>),
    Spilled { at: u64, bytes: usize },
}

impl Piece {
    fn memory_bytes(&self) -> usize {
        match self {
            Piece::Memory(bytes) => bytes.len() + PIECE_BYTES,
            Piece::Spilled { .. } => 0,
        }
    }

    pub(super) fn bytes(&self) -> usize {
        match self {
            Piece::Memory(bytes) => bytes.len(),
            Piece::Spilled { bytes, .. } => *bytes,
        }
    }
}

/// A place in the file that nobody else writes to or gives back.
#[derive(Clone, Copy)]
pub(super) struct FilePlace<'a> {
    file: BorrowedFd<'a>,
    at: u64,
    bytes: usize,
}

impl FilePlace<'_> {
    pub(super) fn write(self, bytes: &[u8]) -> Result<(), Errno> {
        write_all_at(self.file, bytes, self.at)
    }
}

/// The pieces that some sink has not taken yet, and how far each sink is.
pub(super) struct Pieces<'a> {
    queue: Queue<'a>,
    pieces: VecDeque<Piece>,
    /// How many pieces there were before the first of these.
    gone: u64,
    memory_bytes: usize,
    /// So much may be in memory by what there was of it when that was asked last.
    granted_bytes: usize,
    /// When there was no more.
    refused: Option<Instant>,
    spilled: usize,
    /// Up to where the file's blocks were given back, and where it ends.
    freed_to: u64,
    spill_end: u64,
    /// How far it may go: who writes beyond is ended by a signal.
    spill_end_max: u64,
    /// How many pieces each sink has taken; `None` for those that take no more.
    taken: Vec<Option<u64>>,
}

impl<'a> Pieces<'a> {
    pub(super) fn new(queue: Queue<'a>, sinks: usize) -> Self {
        Pieces {
            queue,
            pieces: VecDeque::new(),
            gone: 0,
            memory_bytes: 0,
            granted_bytes: UNASKED_BYTES,
            refused: None,
            spilled: 0,
            freed_to: 0,
            spill_end: 0,
            spill_end_max: getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX),
            taken: vec![Some(0); sinks],
        }
    }

    /// Whether a piece of so many bytes fits into memory. One always does, however large.
    pub(super) fn fits(&mut self, bytes: usize) -> bool {
        let then = self.memory_bytes + bytes + PIECE_BYTES;
        let full =
            then > self.queue.memory_bytes || then > self.granted_bytes && !self.is_granted(then);
        self.pieces.is_empty() || !full
    }

    /// Whether so much may be in memory, by what there is of it now.
    fn is_granted(&mut self, bytes: usize) -> bool {
        if self.refused.is_some_and(|refused| refused.elapsed() < REFUSED_FOR) {
            return false;
        }
        self.granted_bytes = granted(self.memory_bytes, memory_room().bytes);
        let is_granted = bytes <= self.granted_bytes;
        self.refused = (!is_granted).then(Instant::now);
        is_granted
    }

    /// Puts a copy of a piece behind all others, in memory; whether there was any left for it.
    pub(super) fn keep(&mut self, bytes: &[u8]) -> bool {
        let mut copy = Vec::new();
        if self.pieces.try_reserve(1).is_err() || copy.try_reserve_exact(bytes.len()).is_err() {
            return false;
        }
        copy.extend_from_slice(bytes);
        self.push(Piece::Memory(Arc::new(copy)));
        true
    }

    /// Keeps a place behind all others in the file, for a piece of so many bytes that is put there next;
    /// none where there is none to be had.
    pub(super) fn place_in_file(&mut self, bytes: usize) -> Option<FilePlace<'a>> {
        let file = self.queue.spill.filter(|_| self.spilled < SPILLED_MAX)?;
        let end = self.spill_end + bytes as u64;
        if end > self.spill_end_max || self.pieces.try_reserve(1).is_err() {
            return None;
        }
        let place = FilePlace { file, at: self.spill_end, bytes };
        self.spill_end = end;
        self.spilled += 1;
        Some(place)
    }

    /// Puts the piece that was written there behind all others.
    pub(super) fn written(&mut self, FilePlace { at, bytes, .. }: FilePlace<'a>) {
        self.push(Piece::Spilled { at, bytes });
    }

    /// Likewise, as more of the last piece where that ends there and no sink has begun it: many small
    /// ones would be a long list.
    pub(super) fn joined(&mut self, place: FilePlace<'a>) {
        let last = (self.gone + self.pieces.len() as u64).saturating_sub(1);
        let is_begun = self.taken.iter().flatten().any(|taken| *taken >= last);
        match self.pieces.back_mut() {
            Some(Piece::Spilled { at, bytes })
                if !is_begun
                    && *at + *bytes as u64 == place.at
                    && *bytes + place.bytes <= BUFFER_BYTES =>
            {
                *bytes += place.bytes;
                self.spilled -= 1;
            }
            _ => self.written(place),
        }
    }

    /// It could not be written there.
    pub(super) fn not_written(&mut self, FilePlace { at, bytes, .. }: FilePlace<'a>) {
        self.spill_end = at;
        self.give_back(at..at + bytes as u64);
    }

    fn push(&mut self, piece: Piece) {
        self.memory_bytes += piece.memory_bytes();
        self.pieces.push_back(piece);
    }

    /// What a sink is to take next.
    pub(super) fn next(&self, sink: usize) -> Option<Piece> {
        let place = self.taken[sink]? - self.gone;
        self.pieces.get(usize::try_from(place).ok()?).cloned()
    }

    /// A sink has taken its next piece.
    pub(super) fn took(&mut self, sink: usize) {
        if let Some(taken) = &mut self.taken[sink] {
            *taken += 1;
        }
        self.forget();
    }

    /// A sink takes no more.
    pub(super) fn lost(&mut self, sink: usize) {
        self.taken[sink] = None;
        self.forget();
    }

    /// The sinks that have not taken the first piece.
    pub(super) fn slowest(&self) -> impl Iterator<Item = usize> + '_ {
        let last = |taken: &Option<u64>| *taken == Some(self.gone) && !self.pieces.is_empty();
        self.taken.iter().enumerate().filter(move |(_, taken)| last(taken)).map(|(sink, _)| sink)
    }

    /// Whether a sink has taken most of what some other has not.
    pub(super) fn has_taken_most(&self, sink: usize) -> bool {
        self.taken[sink].is_some_and(|taken| (taken - self.gone) * 2 > self.pieces.len() as u64)
    }

    pub(super) fn is_live(&self, sink: usize) -> bool {
        self.taken[sink].is_some()
    }

    /// Drops what nobody is to take any more.
    fn forget(&mut self) {
        let needed = self.taken.iter().flatten().min().copied();
        let needed = needed.unwrap_or(self.gone + self.pieces.len() as u64);
        while self.gone < needed {
            let Some(piece) = self.pieces.pop_front() else { break };
            self.gone += 1;
            self.memory_bytes -= piece.memory_bytes();
            if let Piece::Spilled { at, bytes } = piece {
                // They leave in their order: what is not a block yet goes with the next.
                let end = (at + bytes as u64) / BLOCK_BYTES * BLOCK_BYTES;
                let begin = std::mem::replace(&mut self.freed_to, end);
                self.give_back(begin..end);
            }
        }
        if self.pieces.is_empty() {
            // By the time that it grows again, others may have what there was.
            self.granted_bytes = UNASKED_BYTES;
        }
    }

    /// One piece less is in the file. Gives a file system its blocks back, as well as it can.
    fn give_back(&mut self, part: Range<u64>) {
        let Some(file) = self.queue.spill else { return };
        self.spilled -= 1;
        if self.spilled == 0 {
            (self.freed_to, self.spill_end) = (0, 0);
            let _ = ftruncate(file, 0);
        } else if !part.is_empty() {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = fallocate(file, hole, part.start, part.end - part.start);
        }
    }
}

/// How much may be in memory where some is, and there is room for more. A quarter of both stays for others,
/// and to be asked again before the rest is used up, as others take of it too.
fn granted(held: usize, room: u64) -> usize {
    let all = room.saturating_add(held as u64);
    let more = (all - all / 4).saturating_sub(held as u64) / 2;
    held.saturating_add(usize::try_from(more).unwrap_or(usize::MAX))
}

fn write_all_at(file: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        match rustix::io::pwrite(file, &bytes[done..], at + done as u64) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Reads a spilled piece back.
pub(super) fn read_all_at(file: BorrowedFd<'_>, into: &mut [u8], at: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < into.len() {
        match rustix::io::pread(file, &mut into[done..], at + done as u64) {
            // Somebody else has shortened it.
            Ok(0) => return Err(Errno::IO),
            Ok(count) => done += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn a_quarter_of_what_there_is_stays_however_often_it_is_asked() {
        let (all, mut held, mut asked) = (40 << 20, 0, 0);
        while let more @ 1.. = granted(held, (all - held) as u64) - held {
            (held, asked) = (held + more, asked + 1);
        }
        assert!(held <= all / 4 * 3 && held > all / 4 * 3 - 4 && asked < 30, "{held} {asked}");
        assert_eq!(granted(9, 0), 9);
        assert_eq!(granted(0, u64::MAX), 3 << 61);
    }

    fn pieces(memory_bytes: usize, spill: Option<BorrowedFd<'_>>) -> Pieces<'_> {
        Pieces::new(Queue { memory_bytes, spill }, 2)
    }

    #[test]
    fn what_every_sink_has_taken_makes_room() {
        let mut pieces = pieces(1000, None);
        assert!(pieces.fits(5000), "one always does");
        assert!(pieces.keep(&[1; 700]));
        assert!(!pieces.fits(200));
        pieces.took(0);
        assert_eq!(pieces.slowest().collect::<Vec<_>>(), [1]);
        assert!(!pieces.fits(200) && pieces.next(0).is_none());
        pieces.took(1);
        assert!(pieces.fits(200) && pieces.next(1).is_none());
    }

    #[test]
    fn only_who_has_taken_most_of_a_queue_is_held_up_by_who_has_not() {
        let mut pieces = pieces(10_000, None);
        assert!((0..6).all(|byte| pieces.keep(&[byte; 700])));
        let is_held_up = |pieces: &Pieces<'_>| pieces.has_taken_most(0);
        for taken in 1..=6 {
            pieces.took(0);
            assert_eq!(is_held_up(&pieces), taken > 3);
            assert!(!pieces.has_taken_most(1));
        }
        (0..5).for_each(|_| pieces.took(1));
        assert!(is_held_up(&pieces), "one piece, which it has");
        pieces.took(1);
        assert!(!is_held_up(&pieces), "nobody has less");
        pieces.lost(0);
        assert!(pieces.keep(&[7; 700]) && !is_held_up(&pieces));
    }

    #[test]
    fn a_sink_that_is_lost_holds_nobody_up() {
        let mut pieces = pieces(1000, None);
        assert!(pieces.keep(&[1; 700]));
        pieces.took(0);
        pieces.lost(1);
        assert!(pieces.fits(800) && !pieces.is_live(1));
        assert!(pieces.keep(&[2; 800]));
        assert_eq!(pieces.next(0).map(|piece| piece.bytes()), Some(800));
    }

    fn spill(pieces: &mut Pieces<'_>, byte: u8) {
        let place = pieces.place_in_file(1000).expect("there is a file");
        place.write(&[byte; 1000]).expect("it takes them");
        pieces.joined(place);
    }

    #[test]
    fn small_pieces_are_joined_in_the_file_until_somebody_reads_them() {
        let file = tempfile::tempfile().expect("a file");
        let mut pieces = pieces(1000, Some(file.as_fd()));
        (0..3).for_each(|byte| spill(&mut pieces, byte));
        // The first is everybody's next; the second is what came behind it.
        let sizes =
            |pieces: &Pieces<'_>| pieces.pieces.iter().map(Piece::bytes).collect::<Vec<_>>();
        assert_eq!(sizes(&pieces), [1000, 2000]);
        pieces.took(0);
        (3..5).for_each(|byte| spill(&mut pieces, byte));
        assert_eq!(sizes(&pieces), [1000, 2000, 2000], "one sink has begun the second");
        let mut seen = Vec::new();
        pieces.lost(0);
        while let Some(Piece::Spilled { at, bytes }) = pieces.next(1) {
            let from = seen.len();
            seen.resize(from + bytes, 0);
            read_all_at(file.as_fd(), &mut seen[from..], at).expect("it is there");
            pieces.took(1);
        }
        assert_eq!(seen, (0..5).flat_map(|byte| [byte; 1000]).collect::<Vec<u8>>());
        assert_eq!(file.metadata().expect("it is ours").len(), 0);
        (0..=BUFFER_BYTES / 1000).for_each(|_| spill(&mut pieces, 7));
        assert!(sizes(&pieces).iter().all(|bytes| *bytes <= BUFFER_BYTES));
    }

    #[test]
    fn the_blocks_of_small_pieces_are_given_back_while_others_are_still_in_the_file() {
        use rustix::fs::{MemfdFlags, fstat, memfd_create};
        let file = memfd_create("spilled", MemfdFlags::CLOEXEC).expect("a file");
        let mut pieces = pieces(1000, Some(file.as_fd()));
        let spill = |byte: u8, pieces: &mut Pieces<'_>| {
            let place = pieces.place_in_file(1000).expect("there is a file");
            place.write(&[byte; 1000]).expect("it takes them");
            pieces.written(place);
        };
        (0..=255).cycle().take(1000).for_each(|byte| spill(byte, &mut pieces));
        pieces.lost(1);
        for byte in (0..=255).cycle().take(900) {
            let Some(Piece::Spilled { at, bytes }) = pieces.next(0) else { panic!("it is there") };
            let mut seen = vec![!byte; bytes];
            read_all_at(file.as_fd(), &mut seen, at).expect("it is there");
            assert_eq!(seen, [byte; 1000]);
            pieces.took(0);
        }
        let kept = 512 * fstat(&file).expect("it is ours").st_blocks;
        assert!(kept < 100 * 1000 + 2 * BLOCK_BYTES as i64, "{kept} of 1000000 are kept");
    }

    #[test]
    fn what_is_spilled_comes_back_in_its_place_and_the_file_ends_empty() {
        let file = tempfile::tempfile().expect("a file");
        let mut pieces = pieces(1000, Some(file.as_fd()));
        assert!(pieces.keep(&[1; 800]));
        for (bytes, is_full) in [(vec![2; 9000], false), (vec![9; 70], true), (vec![3; 5], false)] {
            let place = pieces.place_in_file(bytes.len()).expect("there is a file");
            place.write(&bytes).expect("it takes them");
            match is_full {
                false => pieces.written(place),
                true => pieces.not_written(place),
            }
        }
        let mut seen = Vec::new();
        for _ in 0..3 {
            match pieces.next(0).expect("three were put in") {
                Piece::Memory(bytes) => seen.extend_from_slice(&bytes),
                Piece::Spilled { at, bytes } => {
                    let from = seen.len();
                    seen.resize(from + bytes, 0);
                    read_all_at(file.as_fd(), &mut seen[from..], at).expect("it is there");
                }
            }
            pieces.took(0);
            pieces.took(1);
        }
        assert_eq!(seen, [vec![1; 800], vec![2; 9000], vec![3; 5]].concat());
        assert_eq!(file.metadata().expect("it is ours").len(), 0);
    }
}
