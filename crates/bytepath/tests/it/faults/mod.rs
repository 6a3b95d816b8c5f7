//! Movements in foul weather: whatever happens, every byte is somewhere, in order.

use std::fs::File;
use std::os::fd::AsFd;

use bytepath::{Cancel, Endpoint, Failed, Job, Knobs, Meter, Moved, Plan, Transfer, TransferError};

use crate::ends::{SOURCES, SourceKind, Supply};
use crate::trial::same;

mod cancel;
mod devices;
mod files;
mod full;
mod interrupted;
mod midway;
mod misuse;
mod parallel;
mod peers;
pub(crate) mod refused;

/// How a transfer ended, and what it told the meter.
struct Outcome {
    ended: Result<Moved, TransferError>,
    metered: u64,
}

/// Moves all that there is; `None` where the plan refuses the route.
fn carry(
    source: impl AsFd,
    sink: impl AsFd,
    only: Option<&str>,
    knobs: Knobs,
    cancel: Option<&Cancel>,
) -> Option<Outcome> {
    let meter = Meter::new();
    carry_on(&meter, source, sink, only, knobs, cancel)
        .map(|ended| Outcome { ended, metered: meter.bytes() })
}

/// The same, on a meter that somebody watches.
fn carry_on(
    meter: &Meter,
    source: impl AsFd,
    sink: impl AsFd,
    only: Option<&str>,
    knobs: Knobs,
    cancel: Option<&Cancel>,
) -> Option<Result<Moved, TransferError>> {
    let source = Endpoint::source(source.as_fd()).expect("a source");
    let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
    let job = Job::new(&source, &sink).allow_aliasing();
    let plan = match only {
        Some(name) => Plan::only(name, &job, knobs).ok()?,
        None => Plan::best(&job, knobs).expect("a plan"),
    };
    let transfer = Transfer::new(&job, &plan).meter(meter);
    Some(match cancel {
        Some(cancel) => transfer.cancel(cancel).run(),
        None => transfer.run(),
    })
}

impl Outcome {
    /// Bytes that the sink has taken, by the transfer's own account.
    fn offset(&self) -> usize {
        let offset = match &self.ended {
            Ok(moved) => moved.bytes,
            Err(TransferError::Failed(Failed { offset, .. })) => *offset,
            Err(TransferError::Declined { offset, .. }) => *offset,
            Err(TransferError::Cancelled { offset, .. }) => *offset,
            Err(other) => panic!("{other}"),
        };
        assert_eq!(offset, self.metered, "the meter and the transfer agree");
        usize::try_from(offset).expect("a size")
    }

    fn stranded(&self) -> &[u8] {
        match &self.ended {
            Err(TransferError::Failed(Failed { stranded, .. })) => stranded,
            Err(TransferError::Cancelled { stranded, .. }) => stranded,
            _ => &[],
        }
    }

    /// What the error tells; panics where there is none of the kind.
    fn failed(&self) -> &Failed {
        match &self.ended {
            Err(TransferError::Failed(failed)) => failed,
            other => panic!("it should have failed: {other:?}"),
        }
    }

    /// Every byte that the sink did not take is in the error or still in the source, in order.
    fn accounts_for(&self, all: &[u8], rest: &[u8]) {
        let mut left = self.stranded().to_vec();
        left.extend_from_slice(rest);
        same(&left, &all[self.offset()..]);
    }
}

/// The sources that end, which a test can ask for what was not taken.
fn ending_sources() -> impl Iterator<Item = &'static SourceKind> {
    SOURCES.iter().filter(|source| source.supply == Supply::Ends)
}

/// Every route alone, and all of them.
fn routes() -> impl Iterator<Item = Option<&'static str>> {
    bytepath::routes::ROUTES.iter().map(|route| Some(route.name())).chain([None])
}

/// All that was written to a file after `start`.
fn written_after(file: &mut File, start: u64) -> Vec<u8> {
    use std::io::{Read, Seek, SeekFrom};
    let mut all = Vec::new();
    file.seek(SeekFrom::Start(start)).expect("positioned");
    file.read_to_end(&mut all).expect("read");
    all
}
