//! Which arms are run: by name and by placement, each once; and how they are listed.

use std::io::Write as _;

use anyhow::Context;
use bytepath::machine::Machine;
use bytepath::placement::{NamedPlacement, Placement};
use bytepath_lab::arm::Arm;
use clap::Args;

use crate::patterns::{by_each, matching, patterns};
use crate::streams::stdout;
use crate::usage::wrong_usage;

/// The option of experiments that can tell their arms beforehand.
#[derive(Args, Default)]
pub(crate) struct Listing {
    /// Name the arms and stop
    #[arg(long, conflicts_with_all = [
        "json", "csv", "report", "plot", "explain", "trace", "tree", "symbol", "thread", "flame",
        "folded", "firefox",
    ])]
    pub(super) list: bool,
}

/// Names the arms.
pub(super) fn listed(arms: &[Arm]) -> anyhow::Result<()> {
    list(&arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>())
}

/// Refuses a value of an option that is given twice.
pub(super) fn once_each<T: PartialEq>(given: &[T], option: &str) -> anyhow::Result<()> {
    let twice = given.iter().enumerate().any(|(index, value)| given[..index].contains(value));
    match twice {
        true => Err(wrong_usage(format!("{option} has a value twice: give each once"))),
        false => Ok(()),
    }
}

/// The arms whose name, or a part of it at a /, matches a pattern; all where there is none.
pub(super) fn those_matching(arms: Vec<Arm>, globs: &[String]) -> anyhow::Result<Vec<Arm>> {
    those_matching_as(arms, globs, globs)
}

/// The same by these patterns, one for each of those that were `given`.
pub(super) fn those_matching_as(
    arms: Vec<Arm>,
    given: &[String],
    globs: &[String],
) -> anyhow::Result<Vec<Arm>> {
    let (patterns, sections) = (patterns(globs)?, sections(&arms));
    let is_by = |glob: &glob::Pattern, arm: &Arm| {
        arm.name.split('/').chain([arm.name.as_str()]).any(|name| glob.matches(name))
    };
    let chosen = by_each(arms, given, &patterns, is_by);
    chosen.map_err(|none| {
        wrong_usage(format!("{none}; --list names them all, in the sections {sections}"))
    })
}

/// The sections of these arms, as a list.
fn sections(arms: &[Arm]) -> String {
    let mut sections: Vec<&str> = arms.iter().filter_map(|arm| arm.section.as_deref()).collect();
    sections.dedup();
    sections.join(", ")
}

/// The arms whose name matches a pattern; all where there is none.
pub(super) fn chosen_by_name(arms: Vec<Arm>, globs: &[String]) -> anyhow::Result<Vec<Arm>> {
    let names = matching(arms.iter().map(|arm| arm.name.clone()).collect(), globs)?;
    Ok(arms.into_iter().filter(|arm| names.contains(&arm.name)).collect())
}

/// Names the arms on standard output.
pub(super) fn list(names: &[String]) -> anyhow::Result<()> {
    let mut out = stdout();
    names.iter().try_for_each(|name| writeln!(out, "{name}")).context("standard output")
}

/// The placements asked for, or all; with the CPUs that stand for each.
pub(super) fn placements(asked: &[Placement]) -> anyhow::Result<Vec<NamedPlacement>> {
    let machine = Machine::this();
    let here = Placement::distinct(machine.cpus(), machine.allowed_cpus());
    if asked.is_empty() {
        return Ok(here);
    }
    asked
        .iter()
        .map(|placement| {
            let pair = placement.cpus(machine.cpus(), machine.allowed_cpus())?;
            Ok(NamedPlacement {
                name: placement.name(),
                placement: *placement,
                cpus: pair.map(|(writer, reader)| [writer, reader]),
            })
        })
        .collect()
}
