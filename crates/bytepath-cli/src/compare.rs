//! `bytepath compare A B`: whether runs of an experiment differ, arm by arm, and by how much.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use bytepath_lab::compare::{self, CompareError, FalsePositives, Run, Settings, false_positives};
use bytepath_lab::stats::EQUIVALENCE_MARGIN;
use bytepath_lab::store;
use bytepath_report::{Comparison, Record, Status};
use clap::Args;

use crate::kept::{self, Kept};
use crate::output::{self, Output};
use crate::patterns::chosen_names;
use crate::said::{self, say};
use crate::streams::stdout;
use crate::style::style;
use crate::usage::wrong_usage;
use crate::{interrupt, values};

/// The exit code of `--fail-if-slower`.
const SLOWER: u8 = 3;

/// More runs of one thing than this hardly tell more about how far they lie apart, and take long
/// to read.
const OTHERS_MAX: usize = 40;

/// Say whether runs of an experiment differ, arm by arm: each run against the first
///
/// A run is named by its id (see bytepath history), the end of its id, last, last~1 for the one
/// before, or a file that --json wrote.
#[derive(Args)]
pub(crate) struct Options {
    /// The runs; the first is the base
    #[arg(value_name = "RUN", required = true, num_args = 1..)]
    runs: Vec<OsString>,
    /// Only arms whose name matches; fewer arms have narrower intervals
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    /// Call differences up to so many percent the same; 2 unless given, or less where
    /// --fail-if-slower asks for less
    #[arg(long, value_name = "PERCENT", value_parser = values::percent(values::PART))]
    margin: Option<f64>,
    /// Compare also runs that did different work
    #[arg(long)]
    force: bool,
    /// Judge by these runs alone, and not also by how far other kept runs of the same thing lie apart
    #[arg(long)]
    alone: bool,
    /// End with 3 where an arm is surely slower than in the base, and has so many percent less of a
    /// rate or more of a time; with 1 where one that ran in the base has no figure. Otherwise, where one
    /// may be slower by more and these runs are too few or too short to show it, say so. No less than --margin
    #[arg(long, value_name = "PERCENT", value_parser = values::percent(values::PART))]
    fail_if_slower: Option<f64>,
    /// Write the comparison as JSON to a file; - for standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write it as Markdown to a file; - for standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Take the runs as runs of one thing, compare every pair of them, and say how often that calls
    /// them different: at most 5 of 100 pairs should be
    #[arg(long, conflicts_with_all = ["json", "markdown", "fail_if_slower", "force"])]
    false_positives: bool,
    /// What the runs are called, in their order: a fleet's are in files that nobody has named
    #[arg(long, value_name = "NAME", hide = true)]
    called: Vec<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    interrupt::heeded();
    let settings = Settings { margin: margin(options)?, force: options.force };
    let outputs = Outputs::open(options)?;
    let mut runs = kept::runs(&options.runs)?;
    for (run, name) in runs.iter_mut().zip(&options.called) {
        run.name.clone_from(name);
    }
    // While the runs are whole: without some of its arms, a run is not known again in the store.
    let others = (!options.alone).then(|| others(&runs));
    choose_arms(&mut runs, &options.arms)?;
    if options.false_positives {
        return tell_false_positives(&runs, &settings).map(|()| ExitCode::SUCCESS);
    }
    let comparison = compare::compare(&runs, others.as_deref(), &settings).map_err(refused)?;
    outputs.write(&comparison)?;
    options.fail_if_slower.map_or(Ok(ExitCode::SUCCESS), |percent| judged(&comparison, percent))
}

/// What cannot be compared, and wrong words rather than bad figures.
fn refused(error: CompareError) -> anyhow::Error {
    match error {
        CompareError::Count(_) | CompareError::Itself(..) => wrong_usage(error.to_string()),
        error => error.into(),
    }
}

/// Up to which share differences are the same. What is the same is not slower: who asks for a failure
/// from less on would never get one.
fn margin(options: &Options) -> anyhow::Result<f64> {
    let share = |percent: f64| percent / 100.0;
    match (options.margin, options.fail_if_slower) {
        (Some(margin), Some(slower)) if slower < margin => Err(wrong_usage(format!(
            "--fail-if-slower {slower} is less than --margin {margin}, up to which differences are the \
             same: give a smaller margin"
        ))),
        (Some(margin), _) => Ok(share(margin)),
        (None, Some(slower)) => Ok(share(slower).min(EQUIVALENCE_MARGIN)),
        (None, None) => Ok(EQUIVALENCE_MARGIN),
    }
}

/// Leaves only the arms that were asked for.
fn choose_arms(runs: &mut [Run], globs: &[String]) -> anyhow::Result<()> {
    if globs.is_empty() {
        return Ok(());
    }
    let all = runs.iter().flat_map(|run| run.record.arms.iter().map(|arm| arm.name.clone()));
    let chosen = chosen_names(all.collect(), globs)?;
    for run in runs {
        run.record.arms.retain(|arm| chosen.contains(&arm.name));
    }
    Ok(())
}

/// Further runs in the store that are of the same thing as one of these: the last ones. A store that
/// cannot be read tells nothing.
fn others(runs: &[Run]) -> Vec<Record> {
    let Ok(kept) = Kept::look() else { return Vec::new() };
    let alike = |entry: &&bytepath_lab::store::Entry| {
        runs.iter().any(|run| {
            let record = &run.record;
            entry.problem.is_none()
                && entry.experiment == record.experiment.name
                && entry.build == record.bytepath.build
                && entry.blocks == record.blocks
        })
    };
    let records = kept.entries.iter().rev().filter(alike).filter_map(|entry| kept.read(entry).ok());
    let is_like = |other: &Record| runs.iter().any(|run| compare::is_like(&run.record, other));
    let is_compared =
        |other: &Record| runs.iter().any(|run| compare::is_itself(&run.record, other));
    let mut others: Vec<Record> = Vec::new();
    for other in records.filter(|other| is_like(other) && !is_compared(other)) {
        // A copy of a run is no further run.
        if !others.iter().any(|known| compare::is_itself(known, &other)) {
            others.push(other);
        }
        if others.len() == OTHERS_MAX {
            break;
        }
    }
    others
}

fn tell_false_positives(runs: &[Run], settings: &Settings) -> anyhow::Result<()> {
    let mut out = stdout();
    for (with_others, how) in [
        (false, "each pair alone"),
        (true, "with the other runs telling how far such runs lie apart"),
    ] {
        let FalsePositives { pairs, pairs_different, arms, arms_different, arms_same } =
            false_positives(runs, with_others, settings).map_err(refused)?;
        let share = |part: usize, of: usize| part as f64 * 100.0 / of.max(1) as f64;
        writeln!(
            out,
            "{how}: {pairs_different} of {pairs} pairs called different ({:.1}%), {arms_different} \
             of {arms} arms ({:.1}%); {:.0}% of arms called same",
            share(pairs_different, pairs),
            share(arms_different, arms),
            share(arms_same, arms)
        )
        .context("standard output")?;
    }
    Ok(())
}

/// The exit code, with the reason on standard error.
fn judged(comparison: &Comparison, percent: f64) -> anyhow::Result<ExitCode> {
    let (mut slower, mut missing, mut unseen) = (Vec::new(), Vec::new(), Vec::new());
    for arm in &comparison.arms {
        let ran = |run: &Option<bytepath_report::ArmInRun>| {
            run.as_ref().is_some_and(|arm| arm.status == Status::Ok)
        };
        for (index, run) in arm.runs.iter().enumerate().skip(1) {
            let name = &comparison.runs[index].name;
            match arm.slower_by(index) {
                Some(by) if by * 100.0 >= percent => {
                    slower.push(format!("{} by {:.1}% in {name}", arm.name, by * 100.0));
                }
                _ if ran(&arm.runs[0]) && run.as_ref().is_none_or(|arm| arm.ratio.is_none()) => {
                    missing.push(format!("{} in {name}", arm.name));
                }
                _ => {
                    let by = arm.slower_by_at_most(index).map(|by| by * 100.0);
                    unseen.extend(
                        by.filter(|by| *by >= percent)
                            .map(|by| format!("{} in {name} (by up to {by:.1}%)", arm.name)),
                    );
                }
            }
        }
    }
    if !slower.is_empty() {
        let all = slower.join("; ");
        say(format_args!("bytepath: slower by {percent}% or more: {all}"));
        return Ok(ExitCode::from(SLOWER));
    }
    if !missing.is_empty() {
        bail!(
            "ran in the base and has no figure to compare, so it may be slower: {}",
            missing.join("; ")
        );
    }
    if !unseen.is_empty() {
        say(format_args!(
            "bytepath: may be slower by {percent}% or more, which takes more blocks to tell: {}",
            unseen.join("; ")
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Where the comparison goes.
struct Outputs {
    json: Option<Output>,
    markdown: Option<Output>,
    alone: bool,
}

impl Outputs {
    fn open(options: &Options) -> anyhow::Result<Outputs> {
        let files = [&options.json, &options.markdown];
        let alone =
            files.iter().filter(|file| file.as_deref().is_some_and(output::is_stdout)).count();
        if alone > 1 {
            return Err(wrong_usage(
                "standard output takes one of --json and --markdown, not both",
            ));
        }
        let files = [("--json", &options.json), ("--markdown", &options.markdown)];
        let files = files.map(|(option, file)| (option, file.as_deref()));
        output::each_its_own(&files).map_err(wrong_usage)?;
        for (option, file) in files {
            let runs = options.runs.iter().map(OsString::as_os_str);
            output::spares(option, file, runs).map_err(wrong_usage)?;
        }
        let open = |file: &Option<PathBuf>| file.as_deref().map(opened).transpose();
        Ok(Outputs {
            json: open(&options.json)?,
            markdown: open(&options.markdown)?,
            alone: alone > 0,
        })
    }

    /// Writes it to every file asked for; one that fails does not keep the other from it.
    fn write(self, comparison: &Comparison) -> anyhow::Result<()> {
        let json = self.json.map_or(Ok(()), |json| json.write(comparison.to_json()?.as_bytes()));
        let markdown = self
            .markdown
            .map_or(Ok(()), |markdown| markdown.write(comparison.to_markdown().as_bytes()));
        let written = said::also(json, markdown);
        if self.alone {
            return written;
        }
        let text = comparison.render(style());
        let printed = stdout().write_all(text.as_bytes()).context("standard output");
        said::also(written, said::printed(printed))
    }
}

/// Who forgets the file after an option gives it a record, and would lose it.
fn opened(path: &Path) -> anyhow::Result<Output> {
    if !output::is_stdout(path) && store::read_record(path).is_ok() {
        let path = path.display();
        return Err(wrong_usage(format!(
            "{path} is a record; write the comparison to another file"
        )));
    }
    Output::open(path)
}
