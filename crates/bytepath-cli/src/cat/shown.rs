//! Bytes shown otherwise than they are: read, changed in memory, written.

use std::os::fd::BorrowedFd;

use bytepath::inlets::Setup;
use bytepath::{Endpoint, Meter, Stop, inlets};
use bytepath_show::Formatter;

use super::Trouble;

/// Bytes read at a time: enough to forget the call, and the output still fits into an L2 cache.
const CHUNK_BYTES: usize = 128 << 10;

/// Copies `source` to its end. What came is written before more is waited for.
pub(super) fn copy(
    source: &Endpoint<'_>,
    stdout: BorrowedFd<'_>,
    formatter: &mut Formatter,
    meter: &Meter,
) -> Result<(), Trouble> {
    meter.goes("read-write");
    let read = inlets::by_name("read").expect("the library lists it");
    let setup = Setup { buf_bytes: CHUNK_BYTES, untouched: true, ..Setup::new(meter) };
    let mut consumer = read.open(source, &setup).map_err(reading)?;
    while consumer.take(CHUNK_BYTES as u64).map_err(reading)? > 0 {
        formatter.chunk(consumer.bytes(), stdout).map_err(Trouble::Writing)?;
        formatter.flush(stdout).map_err(Trouble::Writing)?;
    }
    Ok(())
}

/// The inlet `read` fails only by what the source says.
fn reading(stop: Stop) -> Trouble {
    match stop {
        Stop::Failed(failed) => Trouble::Reading(failed.errno),
        stop => Trouble::Other(stop.to_string()),
    }
}
