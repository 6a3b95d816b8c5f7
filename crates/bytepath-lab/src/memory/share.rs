//! Bytes from one process to another through memory that both have: a channel, into whose ring the
//! one copies every byte, and out of whose ring the other copies and sums it.
//!
//! Costs per byte two copies and one look; a system call only where an end has to wait.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use bytepath::channel::{Connection, Setup};
use bytepath::pages::PageSize;

use super::{SweepReport, summed};
use crate::ends::Usage;

/// What each end copies at once: it fits into the caches next to a core.
const PIECE_BYTES: usize = 64 << 10;

/// The ends' ring.
fn setup(ring_bytes: usize, pages: PageSize) -> Setup {
    Setup { ring_bytes, pages, ..Setup::default() }
}

/// Writes until the reader has gone.
///
/// # Errors
/// The channel cannot be made, or not of such pages.
pub fn write(link: OwnedFd, ring_bytes: usize, pages: PageSize) -> io::Result<()> {
    let mut sender =
        Connection::from_fd(link)?.sender(&setup(ring_bytes, pages)).map_err(said_once)?;
    let huge = sender.memory().huge_bytes().map_err(io::Error::other)?;
    if pages != PageSize::Base && huge == 0 {
        return Err(io::Error::other(
            "shared memory has no 2 MiB pages here: memory may be fragmented, or the pool \
             (/proc/sys/vm/nr_hugepages) has none",
        ));
    }
    let piece = vec![0x5a; PIECE_BYTES];
    loop {
        match sender.write_all(&piece) {
            Ok(()) => {}
            // The reader has had enough.
            Err(error) if is_end(&error) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
}

/// An error whose text has that of its cause in it, without the cause: whoever prints the chain would say
/// it twice.
fn said_once(error: impl std::error::Error) -> io::Error {
    io::Error::other(error.to_string())
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset)
}

/// Reads for so long, and reports what this end did and used.
///
/// # Errors
/// The channel cannot be made; the writer has gone.
pub fn read(
    link: OwnedFd,
    ring_bytes: usize,
    warm_up: Duration,
    time: Duration,
) -> io::Result<SweepReport> {
    let setup = setup(ring_bytes, PageSize::Base);
    let mut receiver = Connection::from_fd(link)?.receiver(&setup).map_err(said_once)?;
    let mut piece = vec![0; PIECE_BYTES];
    let mut for_time = |time: Duration| -> io::Result<(u64, Duration)> {
        let (mut bytes, started) = (0, Instant::now());
        while started.elapsed() < time {
            let count = receiver.read(&mut piece)?;
            if count == 0 {
                return Err(io::Error::other("the writer has gone"));
            }
            // Words at the end of a piece that is no whole round are few, and are read by the copy.
            std::hint::black_box(summed(&piece[..count - count % 128]));
            bytes += count as u64;
        }
        Ok((bytes, started.elapsed()))
    };
    for_time(warm_up)?;
    let before = Usage::of_this_process();
    let (bytes, elapsed) = for_time(time)?;
    let usage = Usage::of_this_process().since(before);
    Ok(SweepReport { bytes, seconds: elapsed.as_secs_f64(), usage })
}
