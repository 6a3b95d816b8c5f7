//! `bytepath call`: one operation again and again, by system calls or in batches on a ring. The
//! process of the arms of `bench calls`; not shown in the help.

use std::path::PathBuf;
use std::time::Duration;

use bytepath_lab::calls::{self, BATCH_MAX, Job, Operation, Way};
use clap::Args;

use crate::hidden::{self, Placed};
use crate::usage::wrong_usage;
use crate::values;

/// Do one operation again and again, and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The operation
    #[arg(long, value_name = "OPERATION", value_parser = operation)]
    op: Operation,
    /// In batches of so many on a ring, instead of a system call each
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(BATCH_MAX)))]
    batch: Option<u32>,
    /// Have the ring keep the file
    #[arg(long, requires = "batch")]
    registered: bool,
    /// Make the file in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "300ms")]
    time: Duration,
    /// For so long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    #[command(flatten)]
    placed: Placed,
}

/// An operation by its name.
pub(crate) fn operation(name: &str) -> Result<Operation, String> {
    Operation::named(name).ok_or_else(|| {
        values::unknown("operation", name, calls::OPERATIONS.iter().map(|known| known.name()))
    })
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    options.placed.settle()?;
    if options.registered && !options.op.takes_file() {
        return Err(wrong_usage(format!(
            "--registered has no effect on {}, which takes no file",
            options.op.name()
        )));
    }
    let registered = options.registered;
    let report = calls::run(&Job {
        operation: options.op,
        way: match options.batch {
            Some(operations) => Way::Batch { operations, registered },
            None => Way::Syscall,
        },
        directory: options.dir.clone(),
        warm_up: options.warm_up,
        time: options.time,
    })?;
    hidden::report(&report)
}
