//! `bytepath tour`: what this machine is, the quick pipe ladder, and a real file through a pipe the
//! classic way and by the best route, in under 90 seconds.

mod file;
mod prose;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytepath::machine::{Call, Machine, Ring};
use bytepath::placement::{NamedPlacement, Placement};
use bytepath_lab::arm::{Measured, Timing};
use bytepath_lab::experiments::{file_pipe, pipes};
use bytepath_lab::lab::{Blocks, Settings};
use bytepath_lab::schedule::fresh_seed;
use bytepath_report::{Arm, Record, Verdict, numbers, table};
use clap::Args;

use crate::bench::{self, Pipes};
use crate::hidden::this_program;
use crate::measured;
use crate::streams::stdout;
use crate::style::style;
use crate::{interrupt, left, values};
use file::Moved;

/// Show this machine, the pipe ladder on it, and a real file through a pipe: 90 seconds
///
/// Where there is no profile of this machine as it is now, one is measured quickly and kept in the place
/// of any that is there; cat, cp and pv go by it from then on. bytepath tune measures it thoroughly.
#[derive(Args)]
pub(crate) struct Options {
    /// The file to move through the pipe; one is made (and removed) unless given
    file: Option<PathBuf>,
    /// Size of the file that is made
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "1G", conflicts_with = "file")]
    size: u64,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    left::undo();
    interrupt::ended(|| toured(options))
}

fn toured(options: &Options) -> anyhow::Result<()> {
    // Known now rather than after the ladder.
    file::possible(options.file.as_deref())?;
    crate::output::is_writable()?;
    let mut out = stdout();
    let style = style();
    writeln!(out, "THIS MACHINE\n{}", prose::facts(&facts(Machine::this()), style))?;
    let heading = "THE PIPE LADDER, QUICKLY (bytepath bench pipes takes its time)";
    writeln!(out, "{}", table::paragraph(heading, style))?;
    let ladder = ladder()?;
    write!(out, "{}", table::render(&ladder, style))?;
    if let Some(sentence) = pipes::dominating(&ladder) {
        write!(out, "\n{}", table::paragraph(&format!("{sentence}."), style))?;
    }
    let profile = tuned(&mut out, style)?;
    writeln!(out, "\nA REAL FILE THROUGH A PIPE\n")?;
    out.flush()?;
    let moved = file::prepared(options.file.as_deref(), options.size, &mut out)?;
    let record = through_a_pipe(&moved, best_placement(&ladder), profile);
    // Looked at before what arrived is judged: it may be right and the file another.
    moved.unchanged()?;
    let record = record?;
    write!(out, "{}", table::render(&record, style))?;
    let compared = moved.compare_every_byte();
    moved.unchanged()?;
    let checked = format!(
        "Checked: every sample by length and byte sum, and {} once more byte by byte.",
        numbers::bytes(compared?)
    );
    writeln!(out)?;
    for sentence in verdict(&record).lines().chain([checked.as_str()]) {
        write!(out, "{}", table::paragraph(sentence, style))?;
    }
    write!(out, "\nNEXT\n{}", prose::commands(&NEXT, style)).context("standard output")
}

/// What to try after the tour, and what it shows.
const NEXT: [(&str, &str); 3] = [
    ("bytepath bench pipes", "the whole ladder, 10 blocks, 3 minutes"),
    (
        "bytepath bench pipes --arms 'write-*read' --peer pv,cat,dd",
        "classics between the same two ends",
    ),
    (
        "bytepath write --outlet wide-tee | bytepath read --inlet splice-null --buf-size 64M",
        "the two ends by hand; see --help for the knobs",
    ),
];

/// The facts that decide how fast bytes move here, by name.
fn facts(machine: &Machine) -> [(&'static str, String); 7] {
    let (kernel, memory, pipe) = (machine.kernel(), machine.memory(), machine.pipes());
    let placements: Vec<_> = Placement::distinct(machine.cpus(), machine.allowed_cpus())
        .iter()
        .map(|placement| placement.name)
        .collect();
    let sizes = match (pipe.default_bytes, pipe.largest_bytes) {
        (Some(default), Some(largest)) => format!(
            "{} unless asked, {} at most for this user",
            numbers::bytes(default as u64),
            numbers::bytes(largest as u64)
        ),
        _ => "unknown".to_owned(),
    };
    let huge = memory.thp_enabled.clone().unwrap_or_else(|| "none".to_owned());
    let cache = machine.cpus().largest_cache_bytes().map_or("unknown".to_owned(), numbers::bytes);
    let aliasing = if machine.call(Call::VmspliceAliases).is_yes() {
        "lends pages (later writes to them show in the pipe)"
    } else {
        "copies on this kernel"
    };
    [
        ("kernel", format!("Linux {}, {}", kernel.release, kernel.virtualisation)),
        (
            "CPUs",
            format!(
                "{} of {}, largest cache {cache}",
                machine.allowed_cpus().iter().count(),
                kernel.cpu_model
            ),
        ),
        ("placements", placements.join(", ")),
        ("pipes", sizes),
        ("huge pages", format!("transparent: {huge}")),
        ("vmsplice", aliasing.to_owned()),
        ("io_uring", io_uring(machine)),
    ]
}

fn io_uring(machine: &Machine) -> String {
    match machine.ring() {
        Ring::Available(features) => format!("available, {} features", features.names().len()),
        ring => ring.to_string(),
    }
}

fn ladder() -> anyhow::Result<Record> {
    let options = Pipes::quick();
    measured::uninterrupted(bench::measure_pipes(bench::pipes_arms(&options)?, &options)?)
}

/// The profile by which plans are made; measured now unless it is there. Without one the tour goes on
/// by rules.
fn tuned(out: &mut impl std::io::Write, style: table::Style) -> anyhow::Result<Option<PathBuf>> {
    writeln!(out, "\nTUNED (bytepath tune takes its time)\n")?;
    out.flush()?;
    let why = match crate::tune::ensured(&file::folder()) {
        Ok((profile, path)) => {
            let made = format!("The profile {}, measured {}.", path.display(), profile.made);
            write!(out, "{}", table::paragraph(&made, style))?;
            for doubt in profile.doubt().into_iter().chain(profile.doubts_of_earlier(None)) {
                write!(out, "{}", table::paragraph(&format!("{doubt}."), style))?;
            }
            write!(out, "{}", crate::tune::table::choices(&profile))?;
            return Ok(Some(path));
        }
        Err(why) if interrupt::came().is_some() => return Err(why),
        Err(why) => why,
    };
    let why = format!("Plans go by rules, because there can be no profile: {why:#}");
    write!(out, "{}", table::paragraph(&why, style))?;
    Ok(None)
}

/// The placement on which plain write and read were fastest just now.
fn best_placement(ladder: &Record) -> Option<NamedPlacement> {
    let machine = Machine::this();
    let here = Placement::distinct(machine.cpus(), machine.allowed_cpus());
    let speed = |placement: &NamedPlacement| {
        let name = format!("write-read@{}", placement.name);
        ladder.arms.iter().find(|arm| arm.name == name).and_then(|arm| arm.median)
    };
    here.into_iter()
        .max_by(|a, b| speed(a).unwrap_or_default().total_cmp(&speed(b).unwrap_or_default()))
}

fn through_a_pipe(
    moved: &Moved,
    placement: Option<NamedPlacement>,
    profile: Option<PathBuf>,
) -> anyhow::Result<Record> {
    let program = this_program()?;
    let job = file_pipe::Job { file: moved.path(), expected: moved.expected, placement, profile };
    // One byte more than there is, so that the reader meets the end.
    let measured = Measured::Bytes(moved.expected.bytes + 1);
    let settings = Settings {
        blocks: Blocks::Exactly(3),
        seed: fresh_seed(),
        timing: Timing { warm_up: Duration::ZERO, measured },
        others: Default::default(),
        explain: None,
    };
    let experiment = file_pipe::DESCRIPTION.recorded();
    let arms = file_pipe::arms(&job, Path::new(&program));
    measured::uninterrupted(measured::measured(experiment, arms, file_pipe::CLASSIC, &settings)?)
}

/// The ratio of the best way to the classic one, and why.
fn verdict(record: &Record) -> String {
    let median = |name: &str| record.arms.iter().find(|arm| arm.name == name)?.median;
    let best = record
        .arms
        .iter()
        .filter(|arm| arm.name != file_pipe::CLASSIC)
        .max_by(|a, b| a.median.unwrap_or_default().total_cmp(&b.median.unwrap_or_default()));
    let Some((best, best_speed)) = best.and_then(|arm| Some((arm, arm.median?))) else {
        return "No way of ours could run here; the reasons stand above.".to_owned();
    };
    let Some(classic) = median(file_pipe::CLASSIC) else {
        return format!(
            "{} moved {} GiB/s; cat could not run.",
            best.name,
            numbers::figure(best_speed)
        );
    };
    // Block by block, as in the table, where every block has both.
    let ratio = best.ratio.unwrap_or(best_speed / classic);
    let mut text = format!(
        "{} moves the file {} times as fast as cat ({} against {} GiB/s).",
        best.name,
        numbers::figure(ratio),
        numbers::figure(best_speed),
        numbers::figure(classic)
    );
    if best.verdict == Some(Verdict::Undecided) {
        return text
            + "\nThe samples spread too much to be sure of it: something else was busy here.";
    }
    // Each against cat block by block, so that what drifted meanwhile cancels.
    let mut before = 1.0;
    let (mut changes, mut reasons) = (Vec::new(), Vec::new());
    for arm in steps_to(best, record) {
        changes.push(why(&arm.name));
        // What could not run alone is part of the next step.
        let Some(now) = arm.ratio else { continue };
        let changes = std::mem::take(&mut changes).join(" and ");
        reasons.push(format!("{changes} {}", numbers::ratio(now / before)));
        before = now;
    }
    if !reasons.is_empty() {
        text += &format!("\nWhy, one change after the other: {}.", reasons.join("; "));
    }
    text
}

/// The arms each of which changes one thing more than the one before, up to this one, the first of them against
/// the classic way. The planner's choice is no step between others.
fn steps_to<'r>(last: &'r Arm, record: &'r Record) -> impl Iterator<Item = &'r Arm> {
    let is_planned = |arm: &Arm| arm.name == file_pipe::PLANNED;
    let end = record.arms.iter().position(|arm| arm.name == last.name).map_or(0, |at| at + 1);
    record.arms[..end]
        .iter()
        .filter(move |arm| arm.name != file_pipe::CLASSIC && is_planned(arm) == is_planned(last))
}

/// What a step changes.
fn why(name: &str) -> &'static str {
    match name {
        "read-write-1M-pipe" => "a pipe of 1 MiB, so that the ends wake each other less often,",
        file_pipe::PLANNED => "the planner's choice, by the profile,",
        "splice-1M-pipe" => "splice, which hands over the file's pages instead of copying them,",
        _ => "both ends on the best CPUs, by the ladder above,",
    }
}

#[cfg(test)]
mod tests {
    use bytepath_report::Unit;

    use super::*;

    /// What is said of arms with these ratios.
    fn said(ratios: [Option<f64>; 4]) -> String {
        let names =
            ["read-write-1M-pipe", "splice-1M-pipe", file_pipe::PLANNED, "splice-1M-pipe@x"];
        let arm = |(name, ratio): (&str, Option<f64>)| Arm {
            ratio,
            median: ratio.map(|ratio| 2.0 * ratio),
            ..Arm::new(name, Unit::GibPerSecond)
        };
        let classic = arm((file_pipe::CLASSIC, Some(1.0)));
        let arms = std::iter::once(classic).chain(names.into_iter().zip(ratios).map(arm));
        verdict(&Record { arms: arms.collect(), ..Record::default() })
    }

    #[test]
    fn each_ratio_is_that_of_the_change_beside_it() {
        let pipe = "a pipe of 1 MiB, so that the ends wake each other less often, 1.50x";
        let splice = "splice, which hands over the file's pages instead of copying them,";
        let cpus = "both ends on the best CPUs, by the ladder above,";
        let why = |reasons: &str| format!("Why, one change after the other: {reasons}.");
        let placed = said([Some(1.5), Some(3.0), Some(2.0), Some(6.0)]);
        assert_eq!(
            placed.lines().collect::<Vec<_>>(),
            [
                "splice-1M-pipe@x moves the file 6.00 times as fast as cat (12.0 against 2.00 GiB/s).",
                &why(&format!("{pipe}; {splice} 2.00x; {cpus} 2.00x")),
            ]
        );
        // What comes behind the best has no part in it.
        let spliced = said([Some(1.5), Some(3.0), Some(2.0), Some(0.5)]);
        assert_eq!(spliced.lines().nth(1), Some(&*why(&format!("{pipe}; {splice} 2.00x"))));
        // What could not run has no figure of its own, and its change is in the next one's.
        let without = said([Some(1.5), None, Some(2.0), Some(6.0)]);
        let both = why(&format!("{pipe}; {splice} and {cpus} 4.00x"));
        assert_eq!(without.lines().nth(1), Some(&*both));
        let planned = said([Some(1.5), Some(3.0), Some(4.0), Some(2.0)]);
        let choice = why("the planner's choice, by the profile, 4.00x");
        assert_eq!(planned.lines().nth(1), Some(&*choice));
    }
}
