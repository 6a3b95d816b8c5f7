//! `bytepath bench all`: every experiment that needs no argument, one after the other; and the list
//! of them.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytepath_lab::confine::Confinement;
use bytepath_lab::left::Folder;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::SIGTERM;

use crate::hidden::this_program;
use crate::output::{self, Output};
use crate::quote::always_quoted;
use crate::said::{self, say};
use crate::streams::stdout;
use crate::usage::wrong_usage;
use crate::{interrupt, report};

/// Run every experiment that needs no argument, one after the other; one that fails is told, and the
/// others go on
#[derive(Args)]
pub(super) struct All {
    /// Short ones: under 10 minutes in all
    #[arg(long)]
    quick: bool,
    /// Not these experiments
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    without: Vec<String>,
    /// Write the record of each experiment into this folder, as NAME.json
    #[arg(long, value_name = "DIR")]
    json_dir: Option<PathBuf>,
    /// Write one page about all of them to a file: see bytepath report
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Do not keep the runs; see bytepath history
    #[arg(long)]
    no_store: bool,
    /// Make files in this directory, where an experiment makes some
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

/// What a quick run of an experiment is told besides, where `--quick` alone would take minutes.
const QUICK_WORDS: &[(&str, &[&str])] = &[("ipc", &["--bytes", "64M"])];

/// An experiment that a terminal has told to end does so sooner.
const HEEDS_IN: Duration = Duration::from_secs(1);

/// What names an experiment, and says what it asks.
struct Known {
    name: String,
    about: String,
    takes_dir: bool,
    /// Whether it can be run without a word more.
    is_complete: bool,
}

/// The experiments, as the command line knows them.
fn known() -> Vec<Known> {
    let bench = super::Options::augment_args(clap::Command::new("bench"));
    let experiments = bench.get_subcommands().filter(|command| !command.is_hide_set());
    experiments
        .filter(|command| command.get_name() != "all")
        .map(|command| Known {
            name: command.get_name().to_owned(),
            about: command.get_about().map(ToString::to_string).unwrap_or_default(),
            takes_dir: command.get_arguments().any(|arg| arg.get_long() == Some("dir")),
            is_complete: !command.get_arguments().any(|arg| arg.is_required_set()),
        })
        .collect()
}

/// Names every experiment with its question.
pub(super) fn list() -> anyhow::Result<()> {
    let known = known();
    let width = known.iter().map(|experiment| experiment.name.len()).max().unwrap_or(0);
    let mut out = stdout();
    for Known { name, about, .. } in known {
        writeln!(out, "{name:width$}  {about}").context("standard output")?;
    }
    Ok(())
}

pub(super) fn run(options: &All) -> anyhow::Result<()> {
    let known = known();
    let names: Vec<_> = known.iter().map(|experiment| experiment.name.as_str()).collect();
    if let Some(name) = options.without.iter().find(|name| !names.contains(&name.as_str())) {
        return Err(wrong_usage(crate::values::unknown("experiment", name, names)));
    }
    if let Some(folder) = &options.json_dir {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    // Where the page goes is looked at first, so that nobody measures in vain.
    if let (Some(folder), Some(page)) = (&options.json_dir, &options.report) {
        let records = known.iter().map(|experiment| record_of(experiment, folder).into_os_string());
        let records: Vec<_> = records.collect();
        if let Some(met) = output::met(page, records.iter().map(OsString::as_os_str)) {
            let met = always_quoted(met);
            return Err(wrong_usage(format!(
                "--report would be written over the record {met}; give the page another name"
            )));
        }
    }
    options.report.as_deref().map_or(Ok(()), Output::look)?;
    let passing = Folder::make(&std::env::temp_dir()).context("a folder for the records")?;
    let records = options.json_dir.as_deref().unwrap_or(passing.path());
    let (started, mut failed, mut ran) = (Instant::now(), Vec::new(), 0);
    let mut made = Vec::new();
    let measuring = interrupt::Measuring::begin();
    for experiment in &known {
        if options.without.contains(&experiment.name) {
            continue;
        }
        if !experiment.is_complete {
            tell(&format!("{} needs an argument; left out", experiment.name))?;
            continue;
        }
        tell(&format!("bytepath bench {}", experiment.name))?;
        // What a run before left in the folder is none of this one's.
        let record = record_of(experiment, records);
        let _ = std::fs::remove_file(&record);
        if let Err(error) = one(experiment, options, records) {
            say(format_args!("bytepath: bench {}: {error:#}", experiment.name));
            failed.push(experiment.name.as_str());
        }
        ran += 1;
        made.extend(record.exists().then_some(record));
        if bytepath_lab::interrupt::wished() {
            break;
        }
    }
    let interrupted = bytepath_lab::interrupt::wished();
    drop(measuring);
    match &options.report {
        Some(page) if made.is_empty() => {
            tell(&format!("there is no {}: nothing was measured", page.display()))?;
        }
        Some(page) => {
            paged(&made, page)?;
            let what = match made.len() {
                _ if interrupted => "what was measured is",
                count if count == ran => "all of them are",
                count => &format!("the results of {count} of {ran} experiments are"),
            };
            tell(&format!("{what} in {}", page.display()))?;
        }
        None => {}
    }
    if interrupted {
        bail!("interrupted after {ran} experiment{}", if ran == 1 { "" } else { "s" });
    }
    let seconds = started.elapsed().as_secs();
    tell(&format!("{ran} experiments in {} min {} s", seconds / 60, seconds % 60))?;
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("these failed: {}", failed.join(", ")),
    }
}

fn tell(line: &str) -> anyhow::Result<()> {
    said::printed(writeln!(stdout(), "\n=== {line}\n").context("standard output"))
}

fn record_of(experiment: &Known, records: &Path) -> PathBuf {
    records.join(format!("{}.json", experiment.name))
}

/// One page about all records.
fn paged(records: &[PathBuf], page: &Path) -> anyhow::Result<()> {
    let program = this_program()?;
    // It ends with this one.
    let mut command = Confinement::default().command(&program, &program);
    command.arg("report").args(records).arg("-o").arg(page);
    if report::of_ending(page).is_none() {
        command.args(["--format", "html"]);
    }
    let status = command.status();
    match status.context("cannot start bytepath")?.success() {
        true => Ok(()),
        false => bail!("the page {} was not written", page.display()),
    }
}

/// Runs one in a process of its own, so that whatever it does the others go on.
fn one(experiment: &Known, options: &All, records: &Path) -> anyhow::Result<()> {
    let program = this_program()?;
    let mut command = Confinement::default().command(&program, &program);
    command.args(["bench", &experiment.name]).stdin(Stdio::null());
    if options.quick {
        let more = QUICK_WORDS.iter().find(|(name, _)| *name == experiment.name);
        command.arg("--quick").args(more.map_or(&[][..], |(_, words)| words));
    }
    if experiment.takes_dir {
        command.arg("--dir").arg(&options.dir);
    }
    if options.no_store {
        command.arg("--no-store");
    }
    command.arg("--json").arg(record_of(experiment, records));
    let mut child = command.spawn().context("cannot start bytepath")?;
    if bytepath_lab::interrupt::wished_before_end(&child) {
        // A terminal tells it, too, and then it shows what is complete: it is not interrupted in that.
        let heeds_in = if interrupt::came() == Some(SIGTERM) { HEEDS_IN } else { HEEDS_IN * 30 };
        let until = Instant::now() + heeds_in;
        while Instant::now() < until && child.try_wait().is_ok_and(|ended| ended.is_none()) {
            std::thread::sleep(HEEDS_IN / 100);
        }
        if child.try_wait().is_ok_and(|ended| ended.is_none()) {
            let _ = kill_process(Pid::from_child(&child), Signal::TERM);
        }
    }
    let status = child.wait().context("cannot wait for bytepath")?;
    match status.success() {
        true => Ok(()),
        false => bail!("it ended with {status}"),
    }
}
