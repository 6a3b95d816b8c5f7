//! How fast bytes go from one process to another through a ring in memory that they share: every
//! byte is written by one and read by the other.
//!
//! The writer is a process of its own (`bytepath hand`, not shown in the help), the reader is this
//! one. Neither makes a system call but to let the other run where both have one CPU.

use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

use bytepath::pages::{PageSize, PagesError, SharedMemory};
use bytepath::placement::{NamedPlacement, pin_this_thread};

use crate::ends::{GIB, Starter};
use crate::pipe_work::{end, spawn_on};

/// The ring: eight slots that fit into an L2 cache together.
const SLOT_WORDS: usize = (64 << 10) / 8;
const SLOTS: usize = 8;

/// Before the slots, how many were written and how many were read, each in a page of its own, so
/// that the ends do not fight for a cache line.
const WRITTEN: usize = 0;
const READ: usize = 512;
const FIRST_SLOT: usize = 1024;
const BYTES: usize = (FIRST_SLOT + SLOTS * SLOT_WORDS) * 8;

/// What is measured, after as much again to warm up.
const MEASURED: Duration = Duration::from_millis(60);

/// The writer is given up when it does not come for so long.
const PATIENCE: Duration = Duration::from_secs(2);

/// GiB/s with pages of this size, or `None` where the kernel has no such memory to share.
pub(super) fn gib_per_s(program: &Path, placement: &NamedPlacement, size: PageSize) -> Option<f64> {
    let page = bytepath::pages::page_bytes(size);
    let memory = SharedMemory::create(BYTES.next_multiple_of(page), size).ok()?;
    if size != PageSize::Base && !memory.huge_bytes().is_ok_and(|bytes| bytes > 0) {
        return None;
    }
    let file = memory.as_fd().try_clone_to_owned().ok()?;
    let mut writer = Command::new(program);
    writer.arg("hand").args(Starter::this().words());
    writer.stdin(file).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = Some(spawn_on(&mut writer, Some(placement.writer_cpu)).ok()?);
    let figure = pin_this_thread(placement.reader_cpu).ok().and_then(|_pinned| {
        read_for(&memory, MEASURED)?;
        let began = Instant::now();
        let bytes = read_for(&memory, MEASURED)? as f64 * (SLOT_WORDS * 8) as f64;
        Some(bytes / GIB / began.elapsed().as_secs_f64())
    });
    end(&mut child);
    figure
}

/// Reads every word of every slot that comes; how many slots came.
fn read_for(memory: &SharedMemory, time: Duration) -> Option<u64> {
    let words = memory.words();
    let began = Instant::now();
    let (first, mut sum) = (words[READ].load(Relaxed), 0u64);
    let mut read = first;
    while began.elapsed() < time {
        let waiting = Instant::now();
        while words[WRITTEN].load(Acquire) == read {
            if waiting.elapsed() > PATIENCE {
                return None;
            }
            std::thread::yield_now();
        }
        for word in slot(words, read) {
            sum = sum.wrapping_add(word.load(Relaxed));
        }
        read += 1;
        words[READ].store(read, Release);
    }
    black_box(sum);
    Some(read - first)
}

fn slot(words: &[std::sync::atomic::AtomicU64], number: u64) -> &[std::sync::atomic::AtomicU64] {
    let start = FIRST_SLOT + (number as usize % SLOTS) * SLOT_WORDS;
    &words[start..start + SLOT_WORDS]
}

/// The writer: fills slot after slot until it is ended.
///
/// # Errors
/// The descriptor is not such memory.
pub fn hand(file: OwnedFd) -> Result<(), PagesError> {
    let memory = SharedMemory::open(file)?;
    let words = memory.words();
    if words.len() * 8 < BYTES {
        let errno = rustix::io::Errno::INVAL;
        return Err(PagesError::Map { bytes: BYTES, size: "shared", errno });
    }
    let mut written = words[WRITTEN].load(Relaxed);
    loop {
        while written.wrapping_sub(words[READ].load(Acquire)) >= SLOTS as u64 {
            std::thread::yield_now();
        }
        for word in slot(words, written) {
            word.store(written, Relaxed);
        }
        written = written.wrapping_add(1);
        words[WRITTEN].store(written, Release);
    }
}
