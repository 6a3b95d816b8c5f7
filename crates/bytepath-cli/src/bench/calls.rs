//! `bytepath bench calls`: what batching on a ring saves.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bytepath::machine::Machine;
use bytepath_lab::calls::{BATCH_MAX, OPERATIONS, Operation};
use bytepath_lab::experiments::calls;
use clap::Args;

use super::choosing::{Listing, listed, once_each, those_matching};
use super::measuring::{ALL, Measuring, Sampling, Times, directory, telling};
use super::results::show;
use crate::call;
use crate::hidden::this_program;
use crate::measured::against_first;

/// What does batching save? Operations by one system call each, and in batches on a ring
#[derive(Args)]
#[command(mut_args(telling(ALL, [USUAL, QUICK])))]
pub(super) struct Calls {
    /// Only these operations: nop, open-close, statx, read, fallocate, accept, send, receive,
    /// timeout, poll, cancel
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = call::operation)]
    ops: Vec<Operation>,
    /// The sizes of batches; 1, 8, 32 and 128 unless given
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=i64::from(BATCH_MAX)))]
    batch: Vec<u32>,
    /// Only arms whose name, or part of it before or after the /, matches: '*/ring-8', 'read'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// Make files in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

/// 80 arms in under a minute.
const USUAL: Sampling =
    Sampling { blocks: 10, time: Duration::from_millis(40), warm_up: Duration::from_millis(10) };
const QUICK: Sampling =
    Sampling { blocks: 3, time: Duration::from_millis(30), warm_up: Duration::from_millis(5) };

pub(super) fn run(options: &Calls) -> anyhow::Result<()> {
    let program = this_program()?;
    let directory = directory(&options.dir)?;
    // The last CPU: the first handles most interrupts on many machines.
    let cpu = Machine::this().allowed_cpus().iter().last().context("no CPU is allowed")?;
    let setup = calls::Setup { program: &program, directory: &directory, cpu };
    once_each(&options.ops, "--ops")?;
    once_each(&options.batch, "--batch")?;
    let operations = if options.ops.is_empty() { OPERATIONS } else { &*options.ops };
    let batches = if options.batch.is_empty() { calls::BATCHES } else { &*options.batch };
    let arms = those_matching(calls::arms(operations, batches, &setup), &options.arms)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let mut settings =
        options.times.in_place_of(options.measuring.settings_between(USUAL, QUICK, None));
    settings.others.insert("directory".into(), directory.display().to_string().into());
    let record = against_first(calls::DESCRIPTION.recorded(), arms, &settings)?;
    show(&record, calls::saves(&record).as_deref(), outputs)
}
