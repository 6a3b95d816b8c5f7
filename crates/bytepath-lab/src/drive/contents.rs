//! What belongs into each block of a file: bytes that do not compress, that tell where they belong,
//! and whether a run wrote them.
//!
//! The bytes are the verified pattern ([`Pattern`]), each file at a place of its own in that stream.
//! A block that is written during a run gets the bytes of another part of the stream, so that a
//! write that was lost shows too; after the run it gets its own again.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};

use bytepath::engines::Span;
use bytepath::pages::{Memory, Pages};
use rustix::io::Errno;

use crate::ends::Pattern;
use crate::interrupt;

/// How far the files lie apart in the stream, as a power of two: no file is larger than 8 TiB.
const FILE_SHIFT: u32 = 43;

/// The part of the stream that holds what is written during a run.
const REWRITTEN: u64 = 1 << 62;

/// Written at once when a file is filled.
const PIECE_BYTES: usize = 1 << 20;

/// Not more of a file that is filled waits to be written back: that cannot be interrupted.
const DIRTY_BYTES_MAX: u64 = 64 << 20;

/// What a file holds.
#[derive(Debug, Clone, Copy)]
pub struct Contents {
    base: u64,
}

/// Which of the two contents a block has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Version {
    /// What it was filled with.
    Own,
    /// What is written during a run.
    Rewritten,
}

/// A block that does not hold what belongs there.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    /// It holds something else.
    #[error("the bytes at {at} are {found:02x?} where {expected:02x?} belongs")]
    Bytes {
        /// Where in the file.
        at: u64,
        /// What is there.
        found: Vec<u8>,
        /// What belongs there.
        expected: Vec<u8>,
    },
    /// It cannot be looked at or set right.
    #[error("cannot look at the bytes at {at}: {}", std::io::Error::from(*.errno))]
    Unreadable {
        /// Where in the file.
        at: u64,
        /// The kernel's word.
        errno: Errno,
    },
}

impl Contents {
    /// Of the file at this place among those of a drive.
    pub fn of_file(place: usize) -> Contents {
        Contents { base: (place as u64) << FILE_SHIFT }
    }

    /// The bytes that belong at `at`.
    pub(super) fn fill(self, at: u64, version: Version, into: &mut [u8]) {
        let rewritten = if version == Version::Rewritten { REWRITTEN } else { 0 };
        Pattern::fill(self.base + at + rewritten, into);
    }

    /// Whether these are the bytes that belong at `at`. `expected` is for the function to use, and
    /// as long.
    pub(super) fn check(
        self,
        at: u64,
        version: Version,
        found: &[u8],
        expected: &mut [u8],
    ) -> Result<(), Wrong> {
        self.fill(at, version, expected);
        if found == expected { Ok(()) } else { Err(differs(at, found, expected)) }
    }

    /// Whether each word is one that belongs at its place in either version: reads and writes of one
    /// block that meet are not atomic.
    pub(super) fn is_either(self, at: u64, found: &[u8]) -> bool {
        let mut word = [0; 8];
        found.chunks(8).zip((at..).step_by(8)).all(|(piece, at)| {
            [Version::Own, Version::Rewritten].into_iter().any(|version| {
                self.fill(at, version, &mut word);
                piece == &word[..piece.len()]
            })
        })
    }

    /// Fills the first `bytes` of a file, on its device.
    ///
    /// # Errors
    /// The kernel's word, or that the run is to end.
    pub fn write(self, file: &std::fs::File, bytes: u64) -> std::io::Result<()> {
        use std::os::unix::fs::FileExt;
        let mut piece = vec![0; PIECE_BYTES];
        let mut at = 0;
        while at < bytes {
            let len = (bytes - at).min(PIECE_BYTES as u64) as usize;
            self.fill(at, Version::Own, &mut piece[..len]);
            file.write_all_at(&piece[..len], at)?;
            at += len as u64;
            if at % DIRTY_BYTES_MAX == 0 {
                file.sync_data()?;
            }
            if interrupt::wished() {
                return Err(std::io::ErrorKind::Interrupted.into());
            }
        }
        file.sync_all()
    }

    /// Looks at every block after a run that wrote, until one is not right, and gives all that were
    /// written their own bytes again, whatever becomes of the others; how many blocks there are.
    pub(super) fn settle(
        self,
        span: &Span<'_>,
        io_bytes: usize,
        written: &Written,
    ) -> Result<u64, Wrong> {
        let blocks = span.bytes / io_bytes as u64;
        let no_memory = |_| Wrong::Unreadable { at: 0, errno: Errno::NOMEM };
        // Aligned, as O_DIRECT demands.
        let mut found = Memory::allocate(io_bytes, &Pages::default()).map_err(no_memory)?;
        let mut expected = vec![0; io_bytes];
        let mut settled = Ok(());
        for block in 0..blocks {
            let at = block * io_bytes as u64;
            let failed = |errno| Wrong::Unreadable { at, errno };
            let version = written.version(block);
            settled = settled.and_then(|()| {
                let count = rustix::io::pread(span.file, found.as_mut_slice(), at);
                let found = &found.as_slice()[..count.map_err(failed)?];
                self.check(at, version, found, &mut expected)
            });
            if version == Version::Rewritten {
                self.fill(at, Version::Own, found.as_mut_slice());
                settled = settled.and(put(span.file, found.as_slice(), at).map_err(failed));
            }
        }
        settled.map(|()| blocks)
    }
}

fn put(file: BorrowedFd<'_>, bytes: &[u8], at: u64) -> Result<(), Errno> {
    match rustix::io::pwrite(file, bytes, at)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(Errno::NOSPC),
    }
}

/// The first word that differs.
fn differs(at: u64, found: &[u8], expected: &[u8]) -> Wrong {
    let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let start = same & !7;
    let word =
        |bytes: &[u8]| bytes.get(start..).unwrap_or_default().iter().copied().take(8).collect();
    Wrong::Bytes { at: at + start as u64, found: word(found), expected: word(expected) }
}

/// Which blocks of a file were written during a run, by whatever thread.
pub(super) struct Written {
    words: Vec<AtomicU64>,
}

impl Written {
    pub(super) fn new(blocks: u64) -> Written {
        let words = usize::try_from(blocks.div_ceil(64)).unwrap_or(0);
        Written { words: (0..words).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Notes a write before it is begun.
    pub(super) fn begins(&self, block: u64) {
        self.words[(block / 64) as usize].fetch_or(1 << (block % 64), Ordering::Relaxed);
    }

    /// What the block holds when no write is in flight.
    pub(super) fn version(&self, block: u64) -> Version {
        let word =
            self.words.get((block / 64) as usize).map_or(0, |word| word.load(Ordering::Relaxed));
        if word >> (block % 64) & 1 == 1 { Version::Rewritten } else { Version::Own }
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn every_block_of_every_file_and_version_differs() {
        let mut all = std::collections::BTreeSet::new();
        for place in 0..3 {
            for at in [0, 512, 1 << 30] {
                for version in [Version::Own, Version::Rewritten] {
                    let mut block = vec![0; 512];
                    Contents::of_file(place).fill(at, version, &mut block);
                    assert!(all.insert(block), "file {place} at {at}, {version:?}");
                }
            }
        }
    }

    #[test]
    fn a_wrong_byte_is_told_with_its_place() {
        let contents = Contents::of_file(1);
        let (mut block, mut spare) = (vec![0; 512], vec![0; 512]);
        contents.fill(4096, Version::Own, &mut block);
        assert!(contents.check(4096, Version::Own, &block, &mut spare).is_ok());
        block[100] ^= 1;
        let wrong = contents.check(4096, Version::Own, &block, &mut spare).unwrap_err();
        assert!(matches!(wrong, Wrong::Bytes { at: 4192, .. }), "{wrong}");
    }

    #[test]
    fn a_lost_write_shows_and_written_blocks_get_their_own_bytes_again() {
        let file = tempfile::tempfile().expect("a file");
        let contents = Contents::of_file(0);
        contents.write(&file, 2048).expect("written");
        let span = Span { file: file.as_fd(), bytes: 2048 };
        let written = Written::new(4);
        assert_eq!(contents.settle(&span, 512, &written).expect("all its own"), 4);
        written.begins(2);
        let lost = contents.settle(&span, 512, &written).unwrap_err();
        assert!(matches!(lost, Wrong::Bytes { at: 1024, .. }), "{lost}");
        let mut block = vec![0; 512];
        contents.fill(1024, Version::Rewritten, &mut block);
        put(file.as_fd(), &block, 1024).expect("written");
        assert_eq!(contents.settle(&span, 512, &written).expect("written as noted"), 4);
        assert_eq!(contents.settle(&span, 512, &Written::new(4)).expect("its own again"), 4);
    }

    #[test]
    fn blocks_get_their_own_bytes_again_though_none_can_be_looked_at() {
        let named = tempfile::NamedTempFile::new().expect("a file");
        let contents = Contents::of_file(0);
        contents.write(named.as_file(), 2048).expect("written");
        let written = Written::new(4);
        let mut block = vec![0; 512];
        for number in [0, 2, 3] {
            written.begins(number);
            contents.fill(number * 512, Version::Rewritten, &mut block);
            put(named.as_fd(), &block, number * 512).expect("written");
        }
        let unread = std::fs::File::options().write(true).open(named.path()).expect("opened");
        let span = Span { file: unread.as_fd(), bytes: 2048 };
        let wrong = contents.settle(&span, 512, &written).unwrap_err();
        assert!(matches!(wrong, Wrong::Unreadable { at: 0, errno: Errno::BADF }), "{wrong}");
        let span = Span { file: named.as_fd(), bytes: 2048 };
        assert_eq!(contents.settle(&span, 512, &Written::new(4)).expect("its own again"), 4);
    }
}
