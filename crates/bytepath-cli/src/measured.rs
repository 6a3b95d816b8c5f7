//! Arms that are measured: how far it has come is drawn, and what is to be explained is run once more.

mod looked_at;
mod progress;

use std::collections::HashSet;

use anyhow::bail;
use bytepath_lab::arm::Arm;
use bytepath_lab::lab::{self, Settings};
use bytepath_lab::tune::Prepared;
use bytepath_report::{NAME_CHARS_MAX, Record};

use crate::usage::wrong_usage;
use looked_at::tell_refusals;
use progress::Progress;

/// Runs the arms of an experiment, drawing how far it has come.
pub(crate) fn measured(
    experiment: bytepath_report::Experiment,
    arms: Vec<Arm>,
    reference: &str,
    settings: &Settings,
) -> anyhow::Result<Record> {
    let arms = well_named(arms)?;
    if let Some(how) = settings.explain {
        tell_refusals(how);
    }
    let mut progress = Progress::new(&settings.timing);
    Ok(lab::run(experiment, arms, reference, settings, &mut progress)?)
}

/// The arms, of which none has a name that no record may have, or is another one's twin, as values that are
/// given twice make them.
pub(crate) fn well_named(arms: Vec<Arm>) -> anyhow::Result<Vec<Arm>> {
    let longest = arms.iter().map(|arm| arm.name.chars().count()).max().unwrap_or(0);
    if longest > NAME_CHARS_MAX {
        return Err(wrong_usage(format!(
            "an arm would be called by {longest} characters, and {NAME_CHARS_MAX} is the most: put its \
             command into a script, or name it with -n, which bench cmd has"
        )));
    }
    let mut names = HashSet::new();
    match arms.iter().find(|arm| !names.insert(&arm.name)) {
        Some(arm) => {
            Err(wrong_usage(format!("{} would run twice: give each value once", arm.name)))
        }
        None => Ok(arms),
    }
}

/// As [`measured`]; the others are compared with the first arm.
pub(crate) fn against_first(
    experiment: bytepath_report::Experiment,
    arms: Vec<Arm>,
    settings: &Settings,
) -> anyhow::Result<Record> {
    let reference = arms.first().map(|arm| arm.name.clone()).unwrap_or_default();
    measured(experiment, arms, &reference, settings)
}

/// Runs what was prepared; one that is interrupted is none.
pub(crate) fn whole(prepared: Prepared) -> anyhow::Result<Record> {
    let Prepared { experiment, arms, reference, settings } = prepared;
    uninterrupted(measured(experiment, arms, &reference, &settings)?)
}

/// The record, unless the run was interrupted.
pub(crate) fn uninterrupted(record: Record) -> anyhow::Result<Record> {
    match lab::interruption(&record) {
        Some(interrupted) => bail!("{interrupted}"),
        None => Ok(record),
    }
}
