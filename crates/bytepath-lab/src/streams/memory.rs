//! A ring of pieces in memory that both have, and two counts; what `tune` measures. Neither end makes
//! a system call but to let the other one run.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use bytepath::pages::{PageSize, SharedMemory};

use super::{Count, PIECE_BYTES, Reads, Ready, Stream, WORD_BYTES};

/// In pages of this size.
pub(super) struct Memory {
    pub(super) name: &'static str,
    pub(super) pages: PageSize,
}

/// The ring: eight slots that fit into an L2 cache together.
const SLOTS: usize = 8;
const SLOT_WORDS: usize = PIECE_BYTES / WORD_BYTES;

/// Before the slots, how many were written and how many were read, each in a page of its own, so
/// that the ends do not fight for a cache line.
const WRITTEN: usize = 0;
const READ: usize = 512;
const FIRST_SLOT: usize = 1024;
const BYTES: usize = (FIRST_SLOT + SLOTS * SLOT_WORDS) * WORD_BYTES;

/// The writer is given up when it does not come for so long.
const PATIENCE: Duration = Duration::from_secs(2);

impl Stream for Memory {
    fn name(&self) -> &'static str {
        self.name
    }

    fn joints(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let memory = ring(self.pages)?;
        Ok((memory.as_fd().try_clone_to_owned()?, memory.as_fd().try_clone_to_owned()?))
    }

    fn reader(&self, joint: OwnedFd) -> io::Result<Box<dyn Reads>> {
        Ok(Box::new(Reader::new(opened(joint)?)))
    }

    fn write(&self, joint: OwnedFd, ready: Ready<'_>) -> io::Result<()> {
        let memory = opened(joint)?;
        ready()?;
        write(&memory)
    }
}

/// Memory for a ring, in pages of just this size.
pub(crate) fn ring(pages: PageSize) -> io::Result<SharedMemory> {
    let page = bytepath::pages::page_bytes(pages);
    let memory =
        SharedMemory::create(BYTES.next_multiple_of(page), pages).map_err(io::Error::other)?;
    let huge = memory.huge_bytes().map_err(io::Error::other)?;
    crate::passing::are_in(pages, huge)?;
    Ok(memory)
}

/// The memory of a ring that another process made.
pub(crate) fn opened(file: OwnedFd) -> io::Result<SharedMemory> {
    let memory = SharedMemory::open(file).map_err(io::Error::other)?;
    match memory.len() >= BYTES {
        true => Ok(memory),
        false => Err(io::Error::other("it is too small for the ring")),
    }
}

/// The end that reads.
pub(crate) struct Reader {
    memory: SharedMemory,
    read: u64,
    count: Count,
}

impl Reader {
    pub(crate) fn new(memory: SharedMemory) -> Reader {
        Reader { memory, read: 0, count: Count::default() }
    }
}

impl Reads for Reader {
    fn read(&mut self) -> io::Result<usize> {
        let words = self.memory.words();
        let waiting = Instant::now();
        while words[WRITTEN].load(Acquire) == self.read {
            if waiting.elapsed() > PATIENCE {
                return Err(io::Error::other("the writer does not come"));
            }
            std::thread::yield_now();
        }
        let slot = slot(words, self.read);
        let bytes = self.count.check(slot.len(), slot.iter().map(|word| word.load(Relaxed)))?;
        self.read += 1;
        words[READ].store(self.read, Release);
        Ok(bytes)
    }
}

fn slot(words: &[AtomicU64], number: u64) -> &[AtomicU64] {
    let start = FIRST_SLOT + (number as usize % SLOTS) * SLOT_WORDS;
    &words[start..start + SLOT_WORDS]
}

/// The end that writes: fills slot after slot until it is ended.
pub(crate) fn write(memory: &SharedMemory) -> ! {
    let words = memory.words();
    let (mut written, mut count) = (0_u64, Count::default());
    loop {
        while written.wrapping_sub(words[READ].load(Acquire)) >= SLOTS as u64 {
            std::thread::yield_now();
        }
        for (word, value) in slot(words, written).iter().zip(count.take(SLOT_WORDS)) {
            word.store(value, Relaxed);
        }
        written += 1;
        words[WRITTEN].store(written, Release);
    }
}
