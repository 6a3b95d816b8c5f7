//! `bytepath history`: the runs that were kept; shows, removes and exports them.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use bytepath_lab::store::Entry;
use bytepath_report::table::{self, Fitted, Style};
use clap::{Args, Subcommand};
use serde_json::json;

use crate::interrupt;
use crate::kept::Kept;
use crate::output::Output;
use crate::said;
use crate::streams::stdout;
use crate::style::style;

/// List the runs of bench that were kept, or show, remove or export one
///
/// Every run of bench is kept as a record in $XDG_DATA_HOME/bytepath (or ~/.local/share/bytepath),
/// unless --no-store says otherwise. A run is named by its id, the end of its id, last, or last~1 for
/// the one before.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Option<Action>,
    /// Only runs of this experiment
    #[arg(long, value_name = "NAME")]
    experiment: Option<String>,
    /// Only the last N runs
    #[arg(long, short = 'n', value_name = "N")]
    limit: Option<usize>,
    /// Write the list as JSON to a file; - for standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Action {
    /// Show a run as bench did
    Show {
        /// The run: its id, the end of it, last, last~1
        run: String,
    },
    /// Remove runs
    Rm {
        /// The runs
        #[arg(required = true)]
        runs: Vec<String>,
    },
    /// Write the record of a run to a file
    Export {
        /// The run
        run: String,
        /// The file; - for standard output
        #[arg(long, short, value_name = "FILE", default_value = "-")]
        output: PathBuf,
    },
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    interrupt::heeded();
    match &options.action {
        None => list(options),
        Some(Action::Show { run }) => show(run),
        Some(Action::Rm { runs }) => remove(runs),
        Some(Action::Export { run, output }) => export(run, output),
    }
}

fn list(options: &Options) -> anyhow::Result<()> {
    let json = options.json.as_deref().map(Output::open).transpose()?;
    let kept = Kept::look()?;
    // Some are kept with what they were run on: `movers, pipe to pipe`, `ipc-latency`.
    let is = |name: &str, wanted: &str| {
        name.strip_prefix(wanted)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([',', '-']))
    };
    let of = |entry: &&Entry| {
        options.experiment.as_ref().is_none_or(|experiment| is(&entry.experiment, experiment))
    };
    let entries: Vec<_> = kept.entries.iter().filter(of).collect();
    let skipped = entries.len().saturating_sub(options.limit.unwrap_or(usize::MAX));
    let entries = &entries[skipped..];
    if let Some(json) = json {
        let entries: Vec<_> = entries.iter().map(|entry| as_json(entry)).collect();
        let document = json!({"schema": "bytepath.history/1", "runs": entries});
        return json.write(bytepath_report::json(&document)?.as_bytes());
    }
    let (sound, unsound): (Vec<&Entry>, Vec<_>) =
        entries.iter().copied().partition(|entry| entry.problem.is_none());
    let mut text = match (sound.is_empty(), unsound.is_empty()) {
        (false, _) => listing(&sound, style()),
        (true, false) => String::new(),
        (true, true) if skipped > 0 => String::new(),
        (true, true) => format!(
            "no run{} is kept in {}; bytepath bench keeps every run, unless --no-store is given\n",
            options.experiment.as_ref().map(|name| format!(" of {name}")).unwrap_or_default(),
            kept.store.folder().display()
        ),
    };
    for entry in unsound {
        let problem = entry.problem.as_deref().unwrap_or_default();
        text += &table::paragraph(&format!("{} cannot be read: {problem}", entry.name), style());
    }
    stdout().write_all(text.as_bytes()).context("standard output")
}

fn listing(entries: &[&Entry], style: Style) -> String {
    let mut columns = columns();
    let mut rows: Vec<_> = entries.iter().map(|entry| row(entry)).collect();
    // Nearly all runs are trusted, so nothing is said of it where all are.
    if entries.iter().all(|entry| entry.trusted) {
        columns.remove(TRUSTED);
        for row in &mut rows {
            row.remove(TRUSTED);
        }
    }
    table::listing(&columns, &rows, style)
}

/// Where the column is that says whether a run is trusted.
const TRUSTED: usize = 1;

/// The name of a run, which is what people copy, stays whole, and whether it is trusted beside it.
fn columns() -> Vec<Fitted> {
    vec![
        Fitted::new("run"),
        Fitted::new("trusted"),
        Fitted::new("experiment").importance(5).wraps_from(11),
        Fitted::new("blocks").importance(3),
        Fitted::new("arms").importance(4),
        Fitted::new("bytepath").importance(2),
        Fitted::new("kernel").importance(1),
    ]
}

fn row(entry: &Entry) -> Vec<String> {
    let arms = match entry.arms_ok == entry.arms {
        true => entry.arms.to_string(),
        false => format!("{} of {}", entry.arms_ok, entry.arms),
    };
    let kernel = entry.kernel.split_whitespace().next().unwrap_or_default();
    vec![
        entry.name.clone(),
        if entry.trusted { "yes" } else { "no" }.to_owned(),
        entry.experiment.clone(),
        entry.blocks.to_string(),
        arms,
        format!("{} {}", entry.version, entry.build),
        kernel.to_owned(),
    ]
}

fn as_json(entry: &Entry) -> serde_json::Value {
    json!({
        "run": entry.name,
        "id": entry.id,
        "started": entry.started,
        "experiment": entry.experiment,
        "blocks": entry.blocks,
        "arms": entry.arms,
        "arms_ok": entry.arms_ok,
        "trusted": entry.trusted,
        "measured_by": {"version": entry.version, "build": entry.build},
        "kernel": entry.kernel,
        "record_bytes": entry.bytes,
        "problem": entry.problem,
    })
}

fn show(run: &str) -> anyhow::Result<()> {
    let kept = Kept::look()?;
    let record = kept.read(kept.find(run)?)?;
    let text = table::render(&record, style());
    stdout().write_all(text.as_bytes()).context("standard output")
}

/// All of them or, where one is not there, none.
fn remove(runs: &[String]) -> anyhow::Result<()> {
    let kept = Kept::look()?;
    let mut names = Vec::new();
    for run in runs {
        let name = &kept.find(run)?.name;
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        kept.store.remove(name).with_context(|| format!("cannot remove {name}"))?;
        let told = writeln!(stdout(), "removed {name}").context("standard output");
        said::printed(told)?;
    }
    Ok(())
}

fn export(run: &str, output: &std::path::Path) -> anyhow::Result<()> {
    let output = Output::open(output)?;
    let kept = Kept::look()?;
    let entry = kept.find(run)?;
    // As it is, what a later bytepath has added included.
    output.write(&kept.store.bytes(&entry.name)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, trusted: bool) -> Entry {
        Entry {
            name: name.to_owned(),
            experiment: "movers, pipe to pipe".to_owned(),
            trusted,
            ..Entry::default()
        }
    }

    #[test]
    fn a_run_that_is_not_trusted_says_so_beside_its_name_at_every_width() {
        let (good, bad) = (entry("movers-20261129-1", true), entry("movers-20261129-2", false));
        for width in 1..120 {
            let style = Style { width: Some(width), ..Style::default() };
            let text = listing(&[&good, &bad], style);
            let rows: Vec<Vec<&str>> =
                text.lines().map(|line| line.split_whitespace().take(2).collect()).collect();
            assert!(rows.contains(&vec!["run", "trusted"]), "{width}:\n{text}");
            assert!(rows.contains(&vec!["movers-20261129-1", "yes"]), "{width}:\n{text}");
            assert!(rows.contains(&vec!["movers-20261129-2", "no"]), "{width}:\n{text}");
            assert!(!listing(&[&good], style).contains("trusted"), "{width}");
        }
    }
}
