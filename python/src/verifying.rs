//! Compares what was written with what was read.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use bytepath::pages::AlignedBuffer;
use bytepath::{Cancel, Meter};
use pyo3::prelude::*;
use rustix::io::{Errno, pread};

use crate::ends::End;
use crate::errors::{CopyError, with_cause};
use crate::running::{Ended, Watch, watched};

/// Read from each file at once.
const CHUNK_BYTES: usize = 256 << 10;

/// The first byte at which so many bytes of two files differ, counted from where each begins; the end
/// of one is a difference.
#[pyfunction]
pub(crate) fn first_difference(
    py: Python<'_>,
    one: i32,
    other: i32,
    starts: (u64, u64),
    bytes: u64,
) -> PyResult<Option<u64>> {
    let (one, other) = (End::source(py, one)?, End::sink(py, other)?);
    let (one, other) = ((one.fd(), starts.0), (other.fd(), starts.1));
    let (meter, every) = (Meter::new(), Duration::MAX);
    let watch = Watch { progress: None, before: 0, every, stall: None, meter: &meter };
    let (compared, ended) = watched(py, &watch, |cancel| compare(one, other, bytes, cancel))?;
    match (ended, compared) {
        (Some(Ended::Raised(ended)), compared) => {
            // With how far it came, as an interrupted copy.
            let at = compared.map_or_else(|(_, at)| at, |difference| difference.unwrap_or(bytes));
            let text = format!("cancelled at byte {at} while verifying, with all bytes copied");
            let cause = CopyError::new(Errno::CANCELED, text, at).raise(py);
            Err(with_cause(py, ended, cause))
        }
        (Some(Ended::Stalled(_)), _) => unreachable!("it is given all the time that it takes"),
        (None, Ok(difference)) => Ok(difference),
        (None, Err((errno, at))) => {
            let text = format!("cannot read byte {at} again to verify it: {errno}");
            Err(CopyError::new(errno, text, at).raise(py))
        }
    }
}

type Part<'fd> = (BorrowedFd<'fd>, u64);

/// Cancelled, it fails with ECANCELED.
fn compare(
    (one, one_start): Part<'_>,
    (other, other_start): Part<'_>,
    bytes: u64,
    cancel: &Cancel,
) -> Result<Option<u64>, (Errno, u64)> {
    let (mut left, mut right) = (AlignedBuffer::new(CHUNK_BYTES), AlignedBuffer::new(CHUNK_BYTES));
    let mut at = 0;
    while at < bytes {
        if cancel.is_cancelled() {
            return Err((Errno::CANCELED, at));
        }
        let most = CHUNK_BYTES.min(usize::try_from(bytes - at).unwrap_or(CHUNK_BYTES));
        let failed = |errno| (errno, at);
        let got = fill(one, &mut left[..most], one_start + at).map_err(failed)?;
        let there = fill(other, &mut right[..most], other_start + at).map_err(failed)?;
        let same = left[..got].iter().zip(&right[..there]).take_while(|(a, b)| a == b).count();
        if same < most {
            return Ok(Some(at + same as u64));
        }
        at += most as u64;
    }
    Ok(None)
}

/// Reads until the buffer is full or the file ends.
fn fill(file: BorrowedFd<'_>, into: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut got = 0;
    while got < into.len() {
        match pread(file, &mut into[got..], at + got as u64) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(got)
}
