//! What is measured how often, and what is told of it.

use std::path::PathBuf;
use std::time::Duration;

use bytepath::machine::Machine;
use bytepath::placement::Placement;
use bytepath_lab::arm::{Measured, Timing};
use bytepath_lab::lab::{self, Blocks, Observer, Settings};
use bytepath_lab::schedule::{Turn, fresh_seed};
use bytepath_report::table;
use clap::Args;

use crate::arms::{self, Axes, Experiment};

/// How to measure.
#[derive(Args)]
pub(crate) struct Measure {
    /// Rounds in which every arm runs once
    #[arg(long, default_value_t = 10)]
    blocks: u32,
    /// Milliseconds of a sample
    #[arg(long, default_value_t = 100)]
    time: u64,
    /// Only arms whose name holds one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Bytes of a message, multiples of 8
    #[arg(long, value_delimiter = ',', default_values_t = [8, 64, 512, 4096, 65_536, 1_048_576])]
    sizes: Vec<usize>,
    /// Write the record to a file, as JSON
    #[arg(long)]
    json: Option<PathBuf>,
}

/// Measures, and prints the table.
pub(crate) fn run(measure: &Measure, experiment: Experiment) -> anyhow::Result<()> {
    let machine = Machine::this();
    let axes = Axes {
        program: std::env::current_exe()?,
        placements: Placement::distinct(machine.cpus(), machine.allowed_cpus()),
        sizes: measure.sizes.clone(),
        only: measure.only.clone(),
    };
    let arms = arms::of(&experiment, &axes);
    let time = Duration::from_millis(measure.time);
    let settings = Settings {
        blocks: Blocks::Exactly(measure.blocks),
        seed: fresh_seed(),
        timing: Timing { warm_up: time / 5, measured: Measured::Time(time) },
        others: Default::default(),
        explain: None,
    };
    let reference = arms.first().map(|arm| arm.name.clone()).unwrap_or_default();
    let record = lab::run(experiment.recorded(), arms, &reference, &settings, &mut Teller)?;
    if let Some(path) = &measure.json {
        std::fs::write(path, record.to_json()?)?;
    }
    print!("{}", table::render(&record, table::Style { colour: false, width: None }));
    Ok(())
}

/// Tells what cannot be compared here.
struct Teller;

impl Observer for Teller {
    fn begin(&mut self, arms: usize, _blocks: Option<u32>) {
        eprintln!("{arms} arms");
    }

    fn unavailable(&mut self, arm: &str, why: &str) {
        eprintln!("{arm} cannot run here: {why}");
    }

    fn sample(&mut self, _turn: &Turn, _arm: &str) {}
}
