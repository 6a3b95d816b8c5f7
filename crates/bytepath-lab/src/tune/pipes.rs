//! How fast a pipe is by its size, where its ends run, and how they wait.

use std::path::Path;

use bytepath::Wait;
use bytepath::machine::Machine;
use bytepath::placement::Placement;
use bytepath::profile::Cost;
use bytepath_report::Record;

use super::{Effort, Prepared, kept};
use crate::experiments::pipes::{self, Axes};
use crate::lab::{Blocks, Settings};

/// The first rung of the ladder, which every program stands on.
const RUNG: &str = "write-read@";

const PIPE_BYTES: [usize; 3] = [64 << 10, 256 << 10, 1 << 20];

/// The run that measures it; `program` is bytepath.
pub fn prepared(
    machine: &Machine,
    program: &Path,
    (effort, blocks): (Effort, Blocks),
    seed: u64,
) -> Prepared {
    let axes = Axes {
        placements: Placement::distinct(machine.cpus(), machine.allowed_cpus()),
        pipe_bytes: PIPE_BYTES.to_vec(),
        waits: vec![Wait::Block, Wait::Hybrid(bytepath::wait::HYBRID_BUDGET)],
        ..Axes::default()
    };
    let mut arms = pipes::arms(&axes, program);
    arms.retain(|arm| arm.name.starts_with(RUNG));
    Prepared {
        experiment: pipes::DESCRIPTION.recorded(),
        reference: arms.first().map(|arm| arm.name.clone()).unwrap_or_default(),
        arms,
        settings: Settings {
            blocks,
            seed,
            // The ends are on their CPUs before the clock starts, so half as long does.
            timing: Effort { time: effort.time / 2, ..effort }.timing(),
            others: Default::default(),
            explain: None,
        },
    }
}

/// What its record says.
pub fn costs(record: &Record) -> Vec<Cost> {
    let cost = |arm: &bytepath_report::Arm| {
        let place = arm.name.strip_prefix(RUNG)?;
        let mut words: Vec<&str> = place.split('/').collect();
        let wait = words.pop()?.strip_prefix("wait=")?;
        let size = words.pop()?.strip_prefix("pipe=")?;
        let name = format!("write and read, pipe of {size}, {}, {wait}", words.join(" "));
        Some(Cost { name, unit: "GiB/s".into(), value: kept(arm.median?) })
    };
    record.arms.iter().filter_map(cost).collect()
}
