//! Where the results of an experiment go, and how they are shown.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytepath_lab::arm::Arm;
use bytepath_lab::lab;
use bytepath_report::{Record, csv, plot, table};

use super::explained;
use super::measuring::Measuring;
use crate::kept::keep;
use crate::output::{self, Output};
use crate::page::page;
use crate::shown::Shown;
use crate::streams::stdout;
use crate::style::{plot_style, style};
use crate::usage::wrong_usage;
use crate::{interrupt, said};

impl Measuring {
    /// Opens the files that results of these arms are to go to.
    pub(super) fn outputs(&self, arms: &[Arm]) -> anyhow::Result<Outputs> {
        self.outputs_of(&arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>())
    }

    /// The same, of the arms of these names.
    pub(super) fn outputs_of(&self, arms: &[&str]) -> anyhow::Result<Outputs> {
        if !self.explain && self.shown.asks_for_anything() {
            return Err(wrong_usage("--tree, --flame and their like need --explain"));
        }
        let to_stdout = |path: &Option<PathBuf>| path.as_deref().is_some_and(output::is_stdout);
        let is_of_samples = self.json.is_some() || self.report.is_some() || to_stdout(&self.csv);
        if self.shown.trace.is_some() && is_of_samples {
            return Err(wrong_usage(
                "what --trace finds of arms goes to standard output alone; leave out --json, \
                 --report and --csv -, or trace the arm's command: bytepath explain --trace MODE \
                 --json FILE -- COMMAND",
            ));
        }
        if to_stdout(&self.json) && to_stdout(&self.csv) {
            return Err(wrong_usage("standard output takes one of --json and --csv, not both"));
        }
        if to_stdout(&self.report) {
            return Err(wrong_usage("a page is for a file: --report FILE"));
        }
        let files = [("--json", &self.json), ("--csv", &self.csv), ("--report", &self.report)];
        self.shown.check_of(arms, &files.map(|(option, file)| (option, file.as_deref())))?;
        self.shown.look(arms)?;
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Outputs {
            json: open(&self.json)?,
            csv: open(&self.csv)?,
            report: open(&self.report)?,
            plot: self.plot,
            explained: self.explain.then(|| self.shown.clone()),
            alone: to_stdout(&self.json) || to_stdout(&self.csv),
            keep: !self.no_store,
            measuring: interrupt::Measuring::begin(),
        })
    }
}

/// Where results go beside the table, or instead of it.
pub(super) struct Outputs {
    json: Option<Output>,
    csv: Option<Output>,
    report: Option<Output>,
    /// Whether a plot is to stand below the table.
    plot: bool,
    /// What is shown of the explanations of arms.
    explained: Option<Shown>,
    /// Whether standard output is to hold one of them and nothing else.
    alone: bool,
    /// Whether the run is to be kept in the store.
    keep: bool,
    /// Until they are written, a signal ends the run and not the program.
    measuring: interrupt::Measuring,
}

impl Outputs {
    /// The file that the record is written to, where that is a file.
    pub(super) fn json_file(&self) -> Option<&Path> {
        self.json.as_ref()?.file()
    }
}

/// Shows the results. An arm that could run, and then failed, is told by the exit code too.
pub(super) fn show(
    record: &Record,
    dominating: Option<&str>,
    outputs: Outputs,
) -> anyhow::Result<()> {
    print(record, dominating, outputs)?;
    let failed = record.arms.iter().filter(|arm| lab::has_failed(arm));
    told(&failed.collect::<Vec<_>>(), record, "arms")
}

/// Tells by the exit code that arms failed, or that arms are not explained that were to be, if any.
pub(super) fn told(
    failed: &[&bytepath_report::Arm],
    record: &Record,
    what: &str,
) -> anyhow::Result<()> {
    let why = |arm: &&bytepath_report::Arm| {
        format!("{}: {}", arm.name, arm.why.as_deref().unwrap_or("for no known reason"))
    };
    let lines: Vec<_> = failed.iter().map(why).collect();
    let not_explained = lab::not_explained(record);
    match lines.len() {
        0 if not_explained.is_empty() => Ok(()),
        0 => bail!("{}", not_explained.join("\n")),
        count => bail!("{count} of {} {what} failed:\n  {}", record.arms.len(), lines.join("\n  ")),
    }
}

/// Prints the table and what dominates, or what was asked for instead. A run that is not whole is shown,
/// and has failed.
pub(super) fn print(
    record: &Record,
    dominating: Option<&str>,
    outputs: Outputs,
) -> anyhow::Result<()> {
    put(record, dominating, outputs)?;
    match lab::interruption(record) {
        Some(interrupted) => bail!("{interrupted}; the results are of these"),
        None => Ok(()),
    }
}

fn put(record: &Record, dominating: Option<&str>, outputs: Outputs) -> anyhow::Result<()> {
    let (alone, plotted) = (outputs.alone, outputs.plot);
    let kept = outputs.keep.then(|| keep(record)).flatten();
    let explained = outputs.explained.clone();
    let arms = explained::arms(record);
    let saved = save(record, &arms, outputs);
    if alone {
        return saved;
    }
    let mut text = table::render(record, style());
    if plotted {
        text += &format!("\n{}", plot::render(record, plot_style()));
    }
    if let Some(sentence) = dominating {
        text += &format!("\n{}", table::paragraph(&format!("{sentence}."), style()));
    }
    if let Some(shown) = &explained {
        text += &explained::text(&arms, shown);
    }
    if let Some(kept) = kept {
        text += &format!("\nkept as {kept}\n");
    }
    let printed = stdout().write_all(text.as_bytes()).context("standard output");
    said::also(saved, said::printed(printed))
}

/// Writes the record and its explanations to every file asked for; one that fails does not keep the
/// others from it, and is told.
fn save(record: &Record, arms: &explained::Arms<'_>, outputs: Outputs) -> anyhow::Result<()> {
    let json = |record: &Record| Ok(record.to_json()?.into_bytes());
    let rows = |record: &Record| {
        let mut text = Vec::new();
        csv::write(record, &mut text)?;
        Ok(text)
    };
    let html = |record: &Record| Ok(page(std::slice::from_ref(record))?.into_bytes());
    type Text<'a> = &'a dyn Fn(&Record) -> anyhow::Result<Vec<u8>>;
    let all: [(Option<Output>, Text<'_>); 3] =
        [(outputs.json, &json), (outputs.csv, &rows), (outputs.report, &html)];
    let all = all.into_iter().filter_map(|(output, text)| Some((output?, text)));
    let (files, others): (Vec<_>, Vec<_>) = all.partition(|(output, _)| output.is_file());
    let write = |(output, text): (Output, Text<'_>)| output.write(&text(record)?);
    let explained = outputs.explained.iter().flat_map(|shown| explained::made(arms, shown));
    // To open a FIFO may be to wait.
    let is_file = |made: &anyhow::Result<(PathBuf, Vec<u8>)>| {
        made.as_ref().map_or(true, |(path, _)| !path.exists() || path.is_file())
    };
    let (exports, other_exports): (Vec<_>, Vec<_>) = explained.partition(is_file);
    let export = |made: anyhow::Result<(PathBuf, Vec<u8>)>| {
        made.and_then(|(path, text)| Output::open(&path)?.write(&text))
    };
    let files = files.into_iter().map(write).chain(exports.into_iter().map(export));
    let written = files.fold(Ok(()), said::also);
    // A pipe may be left unread for ever, and a signal ends that.
    drop(outputs.measuring);
    let others = others.into_iter().map(write).chain(other_exports.into_iter().map(export));
    others.fold(written, said::also)
}
