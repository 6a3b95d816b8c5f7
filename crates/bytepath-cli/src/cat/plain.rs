//! Bytes as they are: by the engine.

use std::time::Instant;

use bytepath::{Endpoint, Job, Knobs, Plan, Side, Transfer, TransferError};

use super::Trouble;
use super::itself::Met;
use crate::planning::PlanOptions;

/// Copies `source` to its end.
pub(super) fn copy(
    source: &Endpoint<'_>,
    sink: &Endpoint<'_>,
    itself: Met,
    options: &PlanOptions,
) -> Result<(), Trouble> {
    // The classic hands on a file's pages too, since coreutils 9.11.
    let job = Job::new(source, sink).allow_aliasing();
    let plan = plan(&job, itself, options).map_err(|error| Trouble::Other(format!("{error:#}")))?;
    let started = Instant::now();
    let moved = Transfer::new(&limited(job, itself), &plan).run().map_err(trouble)?;
    options.explain(&plan, &moved, started.elapsed());
    Ok(())
}

/// Within one file the bytes go one after the other through memory of ours: pages handed over
/// would be written while they wait.
fn plan(job: &Job<'_>, itself: Met, options: &PlanOptions) -> anyhow::Result<Plan> {
    match (itself, &options.route) {
        (Met::Harmless, None) => {
            Ok(Plan::only("read-write", &limited(*job, itself), Knobs::default())?)
        }
        _ => options.plan(&limited(*job, itself), Knobs::default()),
    }
}

/// A job without a limit is refused where the source is the sink; here it is known to end.
fn limited<'a>(job: Job<'a>, itself: Met) -> Job<'a> {
    if itself == Met::Harmless { job.limit(u64::MAX) } else { job }
}

fn trouble(error: TransferError) -> Trouble {
    match error {
        TransferError::Failed(failed) => match failed.side {
            Side::Source => Trouble::Reading(failed.errno),
            Side::Sink => Trouble::Writing(failed.errno),
            // The last route of a plan tells the side, unless it is the one asked for alone.
            Side::Either => Trouble::Other(failed.to_string()),
        },
        other => Trouble::Other(other.to_string()),
    }
}
