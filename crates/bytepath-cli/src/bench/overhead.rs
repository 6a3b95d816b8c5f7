//! `bytepath bench overhead`: bytepath's own layers, against a bare loop.

use anyhow::Context;
use bytepath::machine::Machine;
use bytepath_lab::experiments::overhead;
use clap::Args;

use super::measuring::{ALL, Measuring, Sampling, Times, telling};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::measured;
use crate::values;

/// What do bytepath's own layers cost, against a bare loop of the same system calls?
#[derive(Args)]
#[command(mut_args(telling(ALL, [Sampling::FINE, Sampling::FINE_QUICK])))]
pub(super) struct Overhead {
    /// Bytes per call
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size, default_value = "256K")]
    buf_size: usize,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

pub(super) fn run(options: &Overhead) -> anyhow::Result<()> {
    let program = this_program()?;
    // The last CPU: the first handles most interrupts on many machines.
    let cpu = Machine::this().allowed_cpus().iter().last().context("no CPU is allowed")?;
    let arms = overhead::arms(options.buf_size, cpu, &program);
    let outputs = options.measuring.outputs(&arms)?;
    let settings = options.measuring.settings_between(Sampling::FINE, Sampling::FINE_QUICK, None);
    let mut settings = options.times.in_place_of(settings);
    settings.others.insert("buf_size".into(), options.buf_size.into());
    let record = measured(overhead::DESCRIPTION.recorded(), arms, overhead::BARE, &settings)?;
    show(&record, None, outputs)
}
