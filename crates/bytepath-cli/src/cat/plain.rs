//! Bytes as they are: by the engine.

use bytepath::{Endpoint, Job, Knobs, Meter, Side, TransferError};

use super::Trouble;
use super::itself::Met;
use crate::planning::{CarryError, Carrying, PlanOptions};

/// Copies `source` to its end.
pub(super) fn copy(
    source: &Endpoint<'_>,
    sink: &Endpoint<'_>,
    itself: Met,
    (options, meter): (&PlanOptions, &Meter),
) -> Result<(), Trouble> {
    // The classic hands on a file's pages too, since coreutils 9.11.
    let job = limited(Job::new(source, sink).allow_aliasing(), itself);
    let carrying = Carrying { job, knobs: Knobs::default(), meter, cancel: None, planned: None };
    let carried = match (itself, &options.route) {
        // Within one file the bytes go one after the other through memory of ours: pages handed
        // over would be written while they wait.
        (Met::Harmless, None) => {
            let route = Some("read-write".to_owned());
            PlanOptions { route, ..options.clone() }.carry(&carrying)
        }
        _ => options.carry(&carrying),
    };
    carried.map(drop).map_err(trouble)
}

/// A job without a limit is refused where the source is the sink; here it is known to end.
fn limited<'a>(job: Job<'a>, itself: Met) -> Job<'a> {
    if itself == Met::Harmless { job.limit(u64::MAX) } else { job }
}

fn trouble(error: CarryError) -> Trouble {
    match error {
        CarryError::Transfer(TransferError::Failed(failed)) => match failed.side {
            Side::Source => Trouble::Reading(failed.errno),
            Side::Sink => Trouble::Writing(failed.errno),
            // The last route of a plan tells the side, unless it is the one asked for alone.
            Side::Either => Trouble::Other(failed.to_string()),
        },
        other => Trouble::Other(other.to_string()),
    }
}
