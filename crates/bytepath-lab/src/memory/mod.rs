//! Sweeps over memory: reading, writing, filling and copying blocks, as fast as one or more threads
//! can, by the instructions of each way.
//!
//! Every thread has blocks of its own, and sweeps over all of a block from its start to its end,
//! again and again. Nothing is allocated, and the clock is looked at once a mebibyte.

pub mod peers;
pub mod share;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytepath::pages::{HUGE_PAGE_BYTES, Memory, PageSize, Pages, PagesError, page_bytes};
use bytepath::placement::pin_this_thread;
use serde::{Deserialize, Serialize};

use crate::ends::Usage;
use crate::threads;

/// Blocks are multiples of this.
pub const BLOCK_BYTES_MIN: usize = 4096;

/// How much is swept between two looks at the clock, at the least.
const BETWEEN_LOOKS_BYTES: usize = 1 << 20;

/// What is in memory that is read or copied.
const WORD: u64 = 0x0123_4567_89ab_cdef;

/// One way of sweeping.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// Whether every byte is looked at.
    pub reads: bool,
    /// Blocks that it works on: one, or two where it copies.
    pub blocks: usize,
    /// What to write this sweep's parameters down as: the bytes at a time.
    pub instruction_bytes: Option<usize>,
    kernel: Kernel,
}

/// The loop itself.
#[derive(Debug, Clone, Copy)]
enum Kernel {
    Read(fn(&[u8]) -> u64),
    Write(fn(&mut [u8], u64)),
    Copy(fn(&[u8], &mut [u8])),
    /// It needs a CPU of another architecture.
    #[cfg_attr(target_arch = "x86_64", allow(dead_code, reason = "only there"))]
    Elsewhere,
}

#[cfg(target_arch = "x86_64")]
use crate::sys::vectors;

// What every CPU of the kind has.
#[cfg(target_arch = "x86_64")]
pub(crate) use vectors::read_sse2 as summed;
#[cfg(target_arch = "x86_64")]
use vectors::write_sse2 as written;

#[cfg(target_arch = "x86_64")]
mod kernels {
    use super::{Kernel, vectors};

    pub(super) const READ_AVX2: Kernel = Kernel::Read(vectors::read_avx2);
    pub(super) const WRITE_AVX2: Kernel = Kernel::Write(vectors::write_avx2);
    pub(super) const COPY_AVX2: Kernel = Kernel::Copy(vectors::copy_avx2);
    pub(super) const READ_AVX512: Kernel = Kernel::Read(vectors::read_avx512);
    pub(super) const WRITE_AVX512: Kernel = Kernel::Write(vectors::write_avx512);
    pub(super) const COPY_AVX512: Kernel = Kernel::Copy(vectors::copy_avx512);
    pub(super) const WRITE_PAST: Kernel = Kernel::Write(vectors::write_past_caches);
    pub(super) const COPY_PAST: Kernel = Kernel::Copy(vectors::copy_past_caches);
}

#[cfg(not(target_arch = "x86_64"))]
mod kernels {
    use super::Kernel;

    pub(super) const READ_AVX2: Kernel = Kernel::Elsewhere;
    pub(super) const WRITE_AVX2: Kernel = Kernel::Elsewhere;
    pub(super) const COPY_AVX2: Kernel = Kernel::Elsewhere;
    pub(super) const READ_AVX512: Kernel = Kernel::Elsewhere;
    pub(super) const WRITE_AVX512: Kernel = Kernel::Elsewhere;
    pub(super) const COPY_AVX512: Kernel = Kernel::Elsewhere;
    pub(super) const WRITE_PAST: Kernel = Kernel::Elsewhere;
    pub(super) const COPY_PAST: Kernel = Kernel::Elsewhere;
}

const fn sweep(name: &'static str, kernel: Kernel, summary: &'static str) -> Sweep {
    let reads = matches!(kernel, Kernel::Read(_) | Kernel::Copy(_));
    let blocks = if matches!(kernel, Kernel::Copy(_)) { 2 } else { 1 };
    Sweep { name, summary, reads, blocks, instruction_bytes: None, kernel }
}

const fn wide(sweep: Sweep, bytes: usize) -> Sweep {
    Sweep { instruction_bytes: Some(bytes), ..sweep }
}

/// Every way.
pub const SWEEPS: &[Sweep] = &[
    sweep("read", Kernel::Read(summed), "sums the words, by what every CPU of the kind has"),
    wide(sweep("read-avx2", kernels::READ_AVX2, "sums the words by AVX2"), 32),
    wide(sweep("read-avx512", kernels::READ_AVX512, "reads the words by AVX-512"), 64),
    sweep("write", Kernel::Write(written), "writes a word everywhere, by what every CPU has"),
    wide(sweep("write-avx2", kernels::WRITE_AVX2, "writes a word everywhere by AVX2"), 32),
    wide(sweep("write-avx512", kernels::WRITE_AVX512, "writes a word everywhere by AVX-512"), 64),
    sweep("write-nt", kernels::WRITE_PAST, "writes a word everywhere, past the caches"),
    sweep("fill", Kernel::Write(filled), "memset(3), as the C library does it"),
    sweep("copy", Kernel::Copy(copied_by_library), "memcpy(3), as the C library does it"),
    wide(sweep("copy-avx2", kernels::COPY_AVX2, "copies by AVX2"), 32),
    wide(sweep("copy-avx512", kernels::COPY_AVX512, "copies by AVX-512"), 64),
    sweep("copy-nt", kernels::COPY_PAST, "copies past the caches"),
];

/// The way of this name.
pub fn by_name(name: &str) -> Option<&'static Sweep> {
    SWEEPS.iter().find(|sweep| sweep.name == name)
}

impl Sweep {
    /// Whether this CPU can do it.
    ///
    /// # Errors
    /// What it lacks.
    pub fn usable(&self) -> Result<(), String> {
        if matches!(self.kernel, Kernel::Elsewhere) {
            return Err("only CPUs of x86-64 have these instructions".into());
        }
        #[cfg(target_arch = "x86_64")]
        {
            let lacks = |what: &str| Err(format!("this CPU has no {what} (see /proc/cpuinfo)"));
            match self.instruction_bytes {
                Some(32) if !vectors::has_avx2() => return lacks("AVX2"),
                Some(64) if !vectors::has_avx512() => return lacks("AVX-512"),
                _ => {}
            }
        }
        Ok(())
    }
}

/// The sum of the words.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn summed(bytes: &[u8]) -> u64 {
    let (rounds, rest) = bytes.as_chunks::<128>();
    debug_assert!(rest.is_empty());
    let mut sums = [0_u64; 16];
    for round in rounds {
        for (sum, word) in sums.iter_mut().zip(round.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    sums.iter().fold(0, |all, sum| all.wrapping_add(*sum))
}

/// Writes a word everywhere.
#[cfg(not(target_arch = "x86_64"))]
fn written(bytes: &mut [u8], value: u64) {
    let (rounds, rest) = bytes.as_chunks_mut::<128>();
    debug_assert!(rest.is_empty());
    let mut words = [0; 128];
    words.as_chunks_mut::<8>().0.fill(value.to_ne_bytes());
    for round in rounds {
        *round = words;
    }
}

fn filled(bytes: &mut [u8], value: u64) {
    bytes.fill(value.to_ne_bytes()[0]);
}

fn copied_by_library(from: &[u8], to: &mut [u8]) {
    to.copy_from_slice(from);
}

/// Sweeps of a process.
#[derive(Debug, Clone)]
pub struct Job {
    /// The way.
    pub sweep: &'static Sweep,
    /// Bytes of a block.
    pub bytes: usize,
    /// What the blocks are made of.
    pub pages: PageSize,
    /// The CPU of each thread.
    pub cpus: Vec<usize>,
    /// Before the clock starts.
    pub warm_up: Duration,
    /// For so long, but a whole sweep at the least.
    pub time: Duration,
}

/// What came.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct SweepReport {
    /// Bytes swept by all threads together; a copied byte counts once.
    pub bytes: u64,
    /// How long that took.
    pub seconds: f64,
    /// What it used.
    pub usage: Usage,
}

/// Why there are no sweeps.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// The CPU lacks the instructions, the blocks their pages, or the work a thread.
    #[error("{0}")]
    Unavailable(String),
    /// There is no such memory.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A thread cannot have its CPU.
    #[error(transparent)]
    Pin(#[from] bytepath::placement::PlacementError),
}

/// Sweeps over blocks, and reports.
///
/// # Errors
/// As [`SweepError`] tells.
pub fn run(job: &Job) -> Result<SweepReport, SweepError> {
    job.sweep.usable().map_err(SweepError::Unavailable)?;
    assert!(job.bytes.is_multiple_of(BLOCK_BYTES_MIN) && job.bytes > 0 && !job.cpus.is_empty());
    let start = Barrier::new(job.cpus.len());
    let given_up = AtomicBool::new(false);
    let before = std::sync::Mutex::new(None);
    let swept = |cpu: usize| -> Result<(u64, Duration), SweepError> {
        let mine = pin_this_thread(cpu).map_err(SweepError::from).and_then(|pinned| {
            pinned.keep();
            Blocks::touched(job)
        });
        given_up.fetch_or(mine.is_err(), Ordering::Relaxed);
        // One that has no blocks must not keep the others waiting.
        start.wait();
        let mut mine = mine?;
        if given_up.load(Ordering::Relaxed) {
            return Ok((0, Duration::ZERO));
        }
        mine.sweep_for(job, job.warm_up);
        if start.wait().is_leader() {
            *before.lock().expect("nobody panics with it") = Some(Usage::of_this_process());
        }
        Ok(mine.sweep_for(job, job.time))
    };
    let swept = &swept;
    let works = job.cpus.iter().map(|cpu| move || swept(*cpu));
    let (all, ()) = threads::all_at_once(works, || ()).map_err(SweepError::Unavailable)?;
    let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
    let before = before.into_inner().ok().flatten().unwrap_or_default();
    Ok(SweepReport {
        bytes: all.iter().map(|(bytes, _)| bytes).sum(),
        seconds: all.iter().map(|(_, time)| time.as_secs_f64()).fold(0.0, f64::max),
        usage: Usage::of_this_process().since(before),
    })
}

/// The blocks of a thread.
struct Blocks {
    first: Memory,
    second: Option<Memory>,
    value: u64,
}

impl Blocks {
    /// Blocks that are there, in the pages that were asked for.
    fn touched(job: &Job) -> Result<Blocks, SweepError> {
        let block = || -> Result<Memory, SweepError> {
            let pages = Pages { size: job.pages, locked: false };
            let mut memory = Memory::allocate(job.bytes, &pages)?;
            written(memory.as_mut_slice(), WORD);
            in_wanted_pages(memory.as_slice(), job.pages)?;
            Ok(memory)
        };
        let second = if job.sweep.blocks > 1 { Some(block()?) } else { None };
        Ok(Blocks { first: block()?, second, value: WORD })
    }

    /// Sweeps until the time is over; how much, and how long it took.
    fn sweep_for(&mut self, job: &Job, time: Duration) -> (u64, Duration) {
        let between_looks = (BETWEEN_LOOKS_BYTES / job.bytes).max(1);
        let (mut bytes, started) = (0, Instant::now());
        if time.is_zero() {
            return (0, Duration::ZERO);
        }
        loop {
            for _ in 0..between_looks {
                self.once(job.sweep);
            }
            bytes += (between_looks * job.bytes) as u64;
            let elapsed = started.elapsed();
            if elapsed >= time {
                return (bytes, elapsed);
            }
        }
    }

    #[inline(always)]
    fn once(&mut self, sweep: &Sweep) {
        // The compiler must take every sweep for the first and its outcome for needed.
        match (sweep.kernel, &mut self.second) {
            (Kernel::Read(read), _) => {
                std::hint::black_box(read(std::hint::black_box(self.first.as_slice())));
            }
            (Kernel::Write(write), _) => {
                self.value = self.value.wrapping_add(1);
                write(std::hint::black_box(self.first.as_mut_slice()), self.value);
            }
            (Kernel::Copy(copy), Some(second)) => {
                let from = std::hint::black_box(self.first.as_slice());
                copy(from, std::hint::black_box(second.as_mut_slice()));
            }
            (Kernel::Copy(_) | Kernel::Elsewhere, _) => {
                unreachable!("copies have two blocks, and what is not usable is not run")
            }
        }
    }
}

/// Sees that memory is in the pages it is measured as.
pub(crate) fn in_wanted_pages(memory: &[u8], size: PageSize) -> Result<(), SweepError> {
    // The mapping is of whole pages, however little of it is used.
    let mapped = memory.len().next_multiple_of(page_bytes(size));
    // The pool gives its pages or none.
    if size == PageSize::Hugetlb || mapped < HUGE_PAGE_BYTES {
        return Ok(());
    }
    let start = memory.as_ptr() as usize;
    let huge = huge_bytes_at(start..start + mapped)?;
    let unavailable = |why: &str| Err(SweepError::Unavailable(why.to_owned()));
    match size {
        PageSize::Base if huge > 0 => unavailable(
            "memory is given huge pages unasked here; write madvise to \
             /sys/kernel/mm/transparent_hugepage/enabled as root",
        ),
        PageSize::Huge if huge < mapped / 2 => unavailable(
            "less than half of the memory came in huge pages: memory may be fragmented, or \
             /sys/kernel/mm/transparent_hugepage/enabled is never",
        ),
        _ => Ok(()),
    }
}

/// How many bytes of the mappings that overlap a range are in transparent huge pages, by smaps.
fn huge_bytes_at(range: std::ops::Range<usize>) -> Result<usize, PagesError> {
    let unknown = |error| PagesError::Unknown(format!("/proc/self/smaps: {error}"));
    let maps = crate::page_map::Mapping::all_of("self").map_err(unknown)?;
    let overlap = maps
        .iter()
        .filter(|map| map.range.start < range.end as u64 && map.range.end > range.start as u64);
    Ok(overlap.map(|map| map.anon_huge_bytes as usize).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of which each is another.
    fn words(bytes: usize) -> Vec<u8> {
        (0..bytes as u64 / 8).flat_map(|word| word.wrapping_mul(WORD).to_ne_bytes()).collect()
    }

    #[test]
    fn every_sweep_that_runs_here_does_what_its_name_says() {
        let pages = Pages::default();
        for sweep in SWEEPS {
            if let Err(why) = sweep.usable() {
                println!("skipped: {}: {why}", sweep.name);
                continue;
            }
            let mut memory = Memory::allocate(16 << 10, &pages).expect("memory");
            memory.as_mut_slice().copy_from_slice(&words(16 << 10));
            match sweep.kernel {
                Kernel::Read(read) => {
                    let word = |word: &[u8; 8]| u64::from_ne_bytes(*word);
                    let all = memory.as_slice().as_chunks::<8>().0.iter().map(word);
                    let by = |fold: fn(u64, u64) -> u64| all.clone().fold(0, fold);
                    let expected = match sweep.instruction_bytes {
                        Some(64) => by(|a, b| a ^ b),
                        _ => by(u64::wrapping_add),
                    };
                    assert_eq!(read(memory.as_slice()), expected, "{}", sweep.name);
                }
                Kernel::Write(write) => {
                    write(memory.as_mut_slice(), 0x5a5a_5a5a_5a5a_5a5a);
                    assert!(memory.as_slice().iter().all(|byte| *byte == 0x5a), "{}", sweep.name);
                }
                Kernel::Copy(copy) => {
                    let mut other = Memory::allocate(16 << 10, &pages).expect("memory");
                    copy(memory.as_slice(), other.as_mut_slice());
                    assert_eq!(other.as_slice(), memory.as_slice(), "{}", sweep.name);
                }
                Kernel::Elsewhere => unreachable!("it is not usable"),
            }
        }
    }
}
