//! Slices read into a mapping of a sink in memory, whose pages are made large beforehand (MADV_COLLAPSE): tmpfs
//! has them of 4 KiB unless it was mounted otherwise, and 512 of those take three times as long as one large
//! page, to be made, filled and freed.
//!
//! Costs per slice: a mapping; per 2 MiB two calls that make a page large, a fault, a read, zeros, and one copy
//! onto them.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::thread::sched_yield;

use super::cpu_time;
use super::slices::{Copied, Why};
use crate::machine::{LargePages, Turn};
use crate::pages::HUGE_PAGE_BYTES as UNIT_BYTES;
use crate::sys::file_mapping::FileMapping;

/// How long a thread waits for what another finds out: that takes 0.2 ms, unless it is bad news.
const AWAKE: Duration = Duration::from_millis(1);

/// Copies so many bytes from a place in the source to one in the sink, which is open for both and has none
/// there yet; from that place on it is going to have so many in all. [`Why::Small`] is what is less than a
/// large page, or may not be one yet; [`Why::Slow`] where they are.
pub(super) fn copy(
    (source, sink): (BorrowedFd<'_>, BorrowedFd<'_>),
    (from, to): (u64, u64),
    (bytes, all): (usize, u64),
) -> Copied {
    let mut copied = Copied { bytes: 0, calls: 4, why: None };
    let slow = |copied| Copied { why: Some(Why::Slow), ..copied };
    // A large page is larger than the sink is yet where the last page of all is to be written later.
    let mapped = bytes.next_multiple_of(UNIT_BYTES);
    let Ok(window) = FileMapping::of_sink_by_large_pages(sink, to, mapped) else {
        return slow(copied);
    };
    while copied.bytes < bytes {
        let unit = copied.bytes;
        let whole = (unit + UNIT_BYTES) as u64 <= all;
        match if whole { turn() } else { Turn::Tried } {
            Turn::Now => {}
            Turn::Tried => return Copied { why: Some(Why::Small), ..copied },
            Turn::Never => return slow(copied),
        }
        copied.calls += 2;
        // What has no page at all stays so.
        if rustix::io::pwrite(sink, &[0], to + unit as u64).is_err() {
            LargePages::end(None);
            return slow(copied);
        }
        let began = cpu_time();
        let made = window.collapse(unit..unit + UNIT_BYTES);
        LargePages::end(made.is_ok().then(|| cpu_time() - began));
        // Small ones come as they are touched where that failed.
        let end = bytes.min(unit + UNIT_BYTES);
        while copied.bytes < end {
            copied.calls += 1;
            match window.read_from(source, from + copied.bytes as u64, copied.bytes..end) {
                Ok(0) => return Copied { why: Some(Why::End), ..copied },
                Ok(count) => copied.bytes += count,
                Err(Errno::INTR) => {}
                Err(_) => return slow(copied),
            }
        }
    }
    copied
}

/// Whether to make a large page, which another thread may be about to find out.
fn turn() -> Turn {
    let began = Instant::now();
    loop {
        match LargePages::begin() {
            Turn::Tried if began.elapsed() < AWAKE => sched_yield(),
            turn => return turn,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;
    use crate::pages::SharedMemory;

    fn memfd() -> File {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        memfd_create("bytepath-test", flags).expect("a memfd").into()
    }

    fn contents(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at / 4096 * 7 + at % 251) as u8).collect()
    }

    fn source(bytes: usize) -> File {
        let file = memfd();
        file.write_all_at(&contents(bytes), 0).expect("written");
        file
    }

    /// Copies from the start of the source to a place in a sink that is a page shorter than it is going to be.
    fn copied(source: &File, to: u64, bytes: usize) -> (File, Copied) {
        LargePages::count(u64::MAX);
        let sink = memfd();
        let bulk = (bytes - 1) / 4096 * 4096;
        sink.set_len(to + bulk as u64).expect("longer");
        let copied = copy((source.as_fd(), sink.as_fd()), (0, to), (bulk, bytes as u64));
        (sink, copied)
    }

    fn read(sink: &File, at: u64, bytes: usize) -> Vec<u8> {
        let mut all = vec![0; bytes];
        sink.read_exact_at(&mut all, at).expect("it has them");
        all
    }

    #[test]
    fn whole_large_pages_are_filled_and_the_rest_is_left_to_others() {
        const MIB: usize = 1 << 20;
        for (bytes, to, whole) in [
            (MIB, 0, 0),
            (2 * MIB, 0, 2 * MIB - 4096),
            (2 * MIB + 1, 0, 2 * MIB),
            (5 * MIB, 0, 4 * MIB),
            (4 * MIB, 6 << 20, 4 * MIB - 4096),
        ] {
            let (sink, copied) = copied(&source(bytes), to, bytes);
            assert!(read(&sink, to, copied.bytes) == contents(bytes)[..copied.bytes], "{bytes}");
            match copied.why {
                // Other memory than that which is at hand, or another test's trial.
                Some(Why::Slow | Why::Small) if copied.bytes < whole => {
                    eprintln!("skipped: large pages are slow here: {} of {bytes}", copied.bytes);
                    assert!(copied.bytes.is_multiple_of(UNIT_BYTES));
                }
                _ => assert_eq!(copied.bytes, whole, "{bytes}"),
            }
        }
    }

    #[test]
    fn the_pages_are_large() {
        let (sink, copied) = copied(&source(UNIT_BYTES), 0, UNIT_BYTES);
        if copied.bytes == 0 {
            return eprintln!("skipped: large pages are slow here");
        }
        sink.set_len(UNIT_BYTES as u64).expect("longer");
        rustix::fs::fcntl_add_seals(&sink, rustix::fs::SealFlags::SHRINK).expect("sealed");
        let memory = SharedMemory::open(sink.into()).expect("mapped");
        memory.populate_to_read().expect("all of it is there");
        let large = memory.huge_bytes().expect("/proc tells");
        if large == 0 {
            return eprintln!("skipped: the kernel gave no large page");
        }
        assert_eq!(large, UNIT_BYTES);
    }

    #[test]
    fn a_source_that_ends_early_ends_it_there() {
        let (sink, copied) = copied(&source(UNIT_BYTES + 5000), 0, 3 * UNIT_BYTES);
        let there = copied.bytes;
        assert!(read(&sink, 0, there) == contents(UNIT_BYTES + 5000)[..there]);
        match copied.why {
            Some(Why::End) => assert_eq!(there, UNIT_BYTES + 5000),
            _ => assert!(there.is_multiple_of(UNIT_BYTES), "slow here"),
        }
    }

    #[test]
    fn a_sink_that_is_not_to_be_mapped_is_left_as_it_is() {
        let (source, sink) = (source(UNIT_BYTES), memfd());
        sink.set_len(UNIT_BYTES as u64).expect("longer");
        rustix::fs::fcntl_add_seals(&sink, rustix::fs::SealFlags::FUTURE_WRITE).expect("sealed");
        let copied = copy((source.as_fd(), sink.as_fd()), (0, 0), (UNIT_BYTES, UNIT_BYTES as u64));
        assert!(matches!(copied, Copied { bytes: 0, why: Some(Why::Slow), .. }));
        assert!(read(&sink, 0, UNIT_BYTES).iter().all(|&byte| byte == 0));
    }
}
