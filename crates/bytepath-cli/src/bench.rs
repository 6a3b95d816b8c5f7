//! `bytepath bench EXPERIMENT`: the published experiments, on this machine.

mod again;
mod all;
mod calls;
mod cmd;
mod copy;
mod explained;
mod fget;
mod files;
mod generators;
mod ipc;
mod keepalive;
mod memory;
mod movers;
mod pages;
mod run;
mod swap;

use std::collections::HashSet;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use bytepath::Wait;
use bytepath::machine::Machine;
use bytepath::placement::{NamedPlacement, Placement};
use bytepath_lab::arm::{Arm, Measured, Timing};
use bytepath_lab::experiments::{overhead, pipes};
use bytepath_lab::lab::{self, Blocks, Settings};
use bytepath_lab::peers::{PEERS, Peer};
use bytepath_lab::schedule::fresh_seed;
use bytepath_report::{Record, csv, plot, table};
use clap::{Arg, Args, Subcommand};

use crate::hidden::this_program;
use crate::kept::keep;
use crate::measured::measured;
use crate::output::{self, Output};
use crate::page::page;
use crate::patterns::{by_each, is_named, matching, patterns};
use crate::said;
use crate::shown::Shown;
use crate::style::{plot_style, style};
use crate::usage::wrong_usage;
use crate::{interrupt, left, values};

/// Run a published experiment on this machine, and say what came beside what was published
#[derive(Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    /// Name the experiments and stop
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    experiment: Option<Experiment>,
}

#[derive(Subcommand)]
enum Experiment {
    Pipes(Pipes),
    Overhead(Overhead),
    Movers(movers::Movers),
    Calls(calls::Calls),
    Copy(copy::Copy),
    Fget(Box<fget::Fget>),
    Files(Box<files::Files>),
    Gen(generators::Generators),
    Ipc(ipc::Ipc),
    Run(run::Run),
    Memory(memory::Memory),
    Pages(pages::PagesOptions),
    All(all::All),
    Swap(swap::Swap),
    Keepalive(keepalive::Keepalive),
    Cmd(cmd::Cmd),
}

/// What do bytepath's own layers cost, against a bare loop of the same system calls?
#[derive(Args)]
#[command(mut_args(telling(ALL, [Sampling::FINE, Sampling::FINE_QUICK])))]
struct Overhead {
    /// Bytes per call
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size, default_value = "256K")]
    buf_size: usize,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

/// How fast can a pipe be? The ladder of mazzo.li (2022), on every placement of the ends
#[derive(Args, Default)]
#[command(mut_args(telling(ALL, [Sampling::USUAL, Sampling::QUICK])))]
pub(crate) struct Pipes {
    /// Only arms whose name (or part before the @) matches: 'vmsplice-*', '*@same-cpu'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// Where the ends run: same-cpu, cross-cpu, …; all that this machine has unless given
    #[arg(long, value_name = "PLACEMENT", value_parser = values::placements)]
    placement: Vec<Vec<Placement>>,
    /// Sizes of the pipe; each arm's own unless given
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = values::buffer_size)]
    pipe_size: Vec<usize>,
    /// Sizes of the buffers
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = values::buffer_size)]
    buf_size: Vec<usize>,
    /// Waits, for arms that do not show one of their own: block, poll, spin, poll-spin, hybrid
    #[arg(long, value_name = "WAIT", value_delimiter = ',', value_parser = values::wait)]
    wait: Vec<Wait>,
    /// Classics to put between the same ends: pv, cat, dd, tee, mbuffer
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = peer)]
    peer: Vec<&'static Peer>,
    /// Bytes per sample, instead of a time
    #[arg(long, value_name = "SIZE", value_parser = values::size, conflicts_with = "time")]
    bytes: Option<u64>,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

/// The option of experiments that can tell their arms beforehand.
#[derive(Args, Default)]
pub(crate) struct Listing {
    /// Name the arms and stop
    #[arg(long, conflicts_with_all = [
        "json", "csv", "report", "plot", "explain", "trace", "tree", "symbol", "thread", "flame",
        "folded", "firefox",
    ])]
    list: bool,
}

/// Options of every experiment.
#[derive(Args, Default)]
pub(crate) struct Measuring {
    /// 3 blocks of short samples
    #[arg(long)]
    quick: bool,
    /// How many blocks: rounds in which every arm runs once
    #[arg(long, value_name = "N", conflicts_with = "until_ci", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    blocks: Option<u32>,
    /// Go on until every 95% interval is narrower than ± so many percent, in place of --blocks
    #[arg(long, value_name = "PERCENT", value_parser = values::percent(values::PART))]
    until_ci: Option<f64>,
    /// Draw the random orders from this seed, as an earlier record names it
    #[arg(long, value_name = "N", value_parser = seed)]
    seed: Option<u64>,
    /// Write the record to a file; - for standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write every sample to a file as CSV; - for standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write a page for people to a file: plots, costs, the machine; see bytepath report
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Draw the medians and their intervals below the table
    #[arg(long)]
    plot: bool,
    /// Do not keep the run; see bytepath history
    #[arg(long)]
    no_store: bool,
    /// Run each arm once more after its samples, and say where its time goes; see bytepath explain
    #[arg(long)]
    explain: bool,
    #[command(flatten, next_help_heading = "With --explain")]
    shown: Shown,
}

/// Options of experiments whose arms run for a time.
#[derive(Args, Default)]
pub(crate) struct Times {
    /// Time per sample
    #[arg(long, value_name = "TIME", value_parser = values::some_time)]
    time: Option<Duration>,
    /// Time per sample before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up)]
    warm_up: Option<Duration>,
}

impl Times {
    fn are_given(&self) -> bool {
        self.time.is_some() || self.warm_up.is_some()
    }

    /// These settings, with the times that are given.
    fn in_place_of(&self, mut settings: Settings) -> Settings {
        let timing = &mut settings.timing;
        timing.measured = self.time.map_or(timing.measured, Measured::Time);
        timing.warm_up = self.warm_up.unwrap_or(timing.warm_up);
        settings
    }
}

impl Pipes {
    /// The whole ladder in three blocks of short samples.
    pub(crate) fn quick() -> Self {
        Pipes { measuring: Measuring { quick: true, ..Measuring::default() }, ..Pipes::default() }
    }
}

fn peer(name: &str) -> Result<&'static Peer, String> {
    bytepath_lab::peers::by_name(name)
        .ok_or_else(|| values::unknown("peer", name, PEERS.iter().map(|peer| peer.name)))
}

pub(crate) use copy::Copy;
pub(crate) use explained::explain;
pub(crate) use files::Files;
pub(crate) use ipc::Ipc;

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let Some(experiment) = &options.experiment else { return all::list() };
    left::undo();
    interrupt::ended(|| match experiment {
        Experiment::Pipes(options) => pipes(options),
        Experiment::Overhead(options) => overhead(options),
        Experiment::Movers(options) => movers::run(options),
        Experiment::Calls(options) => calls::run(options),
        Experiment::Copy(options) => copy::run(options),
        Experiment::Fget(options) => fget::run(options),
        Experiment::Files(options) => files::run(options),
        Experiment::Gen(options) => generators::run(options),
        Experiment::Ipc(options) => ipc::run(options),
        Experiment::Run(options) => run::run(options),
        Experiment::Memory(options) => memory::run(options),
        Experiment::Pages(options) => pages::run(options),
        Experiment::All(options) => all::run(options),
        Experiment::Swap(options) => swap::run(options),
        Experiment::Keepalive(options) => keepalive::run(options),
        Experiment::Cmd(options) => cmd::run(options),
    })
}

fn pipes(options: &Pipes) -> anyhow::Result<()> {
    let arms = pipes_arms(options)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs()?;
    let record = measure_pipes(arms, options)?;
    show(&record, pipes::dominating(&record).as_deref(), outputs)
}

/// A seed, as records name it.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no seed; it is a whole number of up to 64 bits"))
}

/// Names the arms.
fn listed(arms: &[Arm]) -> anyhow::Result<()> {
    list(&arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>())
}

fn overhead(options: &Overhead) -> anyhow::Result<()> {
    let program = this_program()?;
    // The last CPU: the first handles most interrupts on many machines.
    let cpu = Machine::this().allowed_cpus().iter().last().context("no CPU is allowed")?;
    let arms = overhead::arms(options.buf_size, cpu, &program);
    let outputs = options.measuring.outputs()?;
    let settings = options.measuring.settings_between(Sampling::FINE, Sampling::FINE_QUICK, None);
    let settings = options.times.in_place_of(settings);
    let record = measured(overhead::DESCRIPTION.recorded(), arms, overhead::BARE, &settings)?;
    show(&record, None, outputs)
}

/// Runs the arms of `pipes` and gives the record.
pub(crate) fn measure_pipes(arms: Vec<Arm>, options: &Pipes) -> anyhow::Result<Record> {
    let reference = pipes::reference(&arms).context("no arm to measure")?.to_owned();
    let settings = options.times.in_place_of(options.measuring.settings(options.bytes));
    measured(pipes::DESCRIPTION.recorded(), arms, &reference, &settings)
}

/// As [`measured`]; the others are compared with the first arm.
fn against_first(
    experiment: bytepath_report::Experiment,
    arms: Vec<Arm>,
    settings: &Settings,
) -> anyhow::Result<Record> {
    let reference = arms.first().map(|arm| arm.name.clone()).unwrap_or_default();
    measured(experiment, arms, &reference, settings)
}

/// The arms that the options ask for.
pub(crate) fn pipes_arms(options: &Pipes) -> anyhow::Result<Vec<Arm>> {
    let axes = pipes::Axes {
        placements: placements(&options.placement.concat())?,
        pipe_bytes: options.pipe_size.clone(),
        buf_bytes: options.buf_size.clone(),
        waits: options.wait.clone(),
        peers: options.peer.clone(),
    };
    let program = this_program()?;
    // A peer that is asked for by name runs whatever else is chosen.
    let peers = options.peer.iter().map(|peer| pipes::peer_arm(peer));
    let globs = match options.arms.is_empty() {
        true => Vec::new(),
        false => options.arms.iter().cloned().chain(peers).collect(),
    };
    none_twice(chosen(pipes::arms(&axes, &program), &globs)?)
}

/// The arms, none of which is another one's twin, as values that are given twice make them.
fn none_twice(arms: Vec<Arm>) -> anyhow::Result<Vec<Arm>> {
    let mut names = HashSet::new();
    match arms.iter().find(|arm| !names.insert(&arm.name)) {
        Some(arm) => {
            Err(wrong_usage(format!("{} would run twice: give each value once", arm.name)))
        }
        None => Ok(arms),
    }
}

/// Refuses a value of an option that is given twice.
fn once_each<T: PartialEq>(given: &[T], option: &str) -> anyhow::Result<()> {
    let twice = given.iter().enumerate().any(|(index, value)| given[..index].contains(value));
    match twice {
        true => Err(wrong_usage(format!("{option} has a value twice: give each once"))),
        false => Ok(()),
    }
}

/// The arms whose name, or a part of it at a /, matches a pattern; all where there is none.
fn those_matching(arms: Vec<Arm>, globs: &[String]) -> anyhow::Result<Vec<Arm>> {
    those_matching_as(arms, globs, globs)
}

/// The same by these patterns, one for each of those that were `given`.
fn those_matching_as(
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

fn chosen(arms: Vec<Arm>, globs: &[String]) -> anyhow::Result<Vec<Arm>> {
    let chosen = by_each(arms, globs, &patterns(globs)?, |glob, arm| is_named(glob, &arm.name));
    chosen.map_err(|none| {
        let names: Vec<_> = pipes::names().collect();
        wrong_usage(format!("{none}; there are, each @ a placement: {}", names.join(", ")))
    })
}

/// The arms whose name matches a pattern; all where there is none.
fn chosen_by_name(arms: Vec<Arm>, globs: &[String]) -> anyhow::Result<Vec<Arm>> {
    let names = matching(arms.iter().map(|arm| arm.name.clone()).collect(), globs)?;
    Ok(arms.into_iter().filter(|arm| names.contains(&arm.name)).collect())
}

/// Names the arms on standard output.
fn list(names: &[String]) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    names.iter().try_for_each(|name| writeln!(out, "{name}")).context("standard output")
}

/// The placements asked for, or all; with the CPUs that stand for each.
fn placements(asked: &[Placement]) -> anyhow::Result<Vec<NamedPlacement>> {
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

/// How much is sampled unless told otherwise.
#[derive(Clone, Copy)]
struct Sampling {
    blocks: u32,
    time: Duration,
    warm_up: Duration,
}

impl Sampling {
    /// The default run of `pipes` takes under 3 minutes on 2 CPUs.
    const USUAL: Sampling = Sampling {
        blocks: 10,
        time: Duration::from_millis(300),
        warm_up: Duration::from_millis(100),
    };
    /// A quick one takes under 30 seconds.
    const QUICK: Sampling = Sampling {
        blocks: 3,
        time: Duration::from_millis(150),
        warm_up: Duration::from_millis(50),
    };
    /// Many short blocks tell differences under 1% on a machine whose speed wanders by 10%.
    const FINE: Sampling = Sampling {
        blocks: 400,
        time: Duration::from_millis(50),
        warm_up: Duration::from_millis(10),
    };
    const FINE_QUICK: Sampling =
        Sampling { blocks: 3, time: Duration::from_millis(30), warm_up: Duration::from_millis(5) };
}

/// The options whose help tells how much is sampled unless they are given; and parts of them.
const ALL: &[&str] = &["blocks", "time", "warm_up"];
const BLOCKS: &[&str] = &["blocks"];
const TIMES: &[&str] = &["time", "warm_up"];

/// Has the help of options tell what holds unless they are given: usually, and with --quick.
fn telling(
    options: &'static [&'static str],
    [usual, quick]: [Sampling; 2],
) -> impl FnMut(Arg) -> Arg {
    telling_with("", options, [usual, quick])
}

/// As [`telling`], where they have an effect with another option alone.
fn telling_with(
    other: &'static str,
    options: &'static [&'static str],
    [usual, quick]: [Sampling; 2],
) -> impl FnMut(Arg) -> Arg {
    move |option| {
        let id = option.get_id().as_str();
        let of = |sampling: Sampling| match id {
            "blocks" => sampling.blocks.to_string(),
            "time" => written(sampling.time),
            _ => written(sampling.warm_up),
        };
        match options.contains(&id) {
            true => {
                let more = format!("{other}{} unless given, {} with --quick", of(usual), of(quick));
                adding(option, &more)
            }
            false => option,
        }
    }
}

/// A time, as it can be given.
fn written(time: Duration) -> String {
    if time.is_zero() { "0s".to_owned() } else { format!("{time:?}") }
}

/// The option, with more in its help.
fn adding(option: Arg, more: &str) -> Arg {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    option.help(format!("{help}; {more}"))
}

impl Measuring {
    fn settings(&self, bytes: Option<u64>) -> Settings {
        self.settings_between(Sampling::USUAL, Sampling::QUICK, bytes)
    }

    /// The settings, as `usual`, or as `quick` when that is asked for, where the user says nothing
    /// else.
    fn settings_between(&self, usual: Sampling, quick: Sampling, bytes: Option<u64>) -> Settings {
        let usual = if self.quick { quick } else { usual };
        let seed = self.seed.unwrap_or_else(fresh_seed);
        let measured = match bytes {
            Some(bytes) => Measured::Bytes(bytes),
            None => Measured::Time(usual.time),
        };
        Settings {
            blocks: match self.until_ci {
                Some(percent) => Blocks::UntilCi(percent),
                None => Blocks::Exactly(self.blocks.unwrap_or(usual.blocks)),
            },
            seed,
            timing: Timing { warm_up: usual.warm_up, measured },
            others: again::command(seed),
            explain: self.explain.then(|| self.shown.for_arms()),
        }
    }

    /// Whether it is left to the experiment how many blocks there are.
    fn leaves_blocks_open(&self) -> bool {
        self.blocks.is_none() && self.until_ci.is_none() && !self.quick
    }

    /// Opens the files that results are to go to.
    fn outputs(&self) -> anyhow::Result<Outputs> {
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
        self.shown.check(&files.map(|(option, file)| (option, file.as_deref())))?;
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
struct Outputs {
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

/// Shows the results. An arm that could run, and then failed, is told by the exit code too.
fn show(record: &Record, dominating: Option<&str>, outputs: Outputs) -> anyhow::Result<()> {
    print(record, dominating, outputs)?;
    let failed = record.arms.iter().filter(|arm| lab::has_failed(arm));
    told(&failed.collect::<Vec<_>>(), record, "arms")
}

/// Tells by the exit code that arms failed, or that arms are not explained that were to be, if any.
fn told(failed: &[&bytepath_report::Arm], record: &Record, what: &str) -> anyhow::Result<()> {
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
fn print(record: &Record, dominating: Option<&str>, outputs: Outputs) -> anyhow::Result<()> {
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
    said::printed(std::io::stdout().write_all(text.as_bytes()).context("standard output"))?;
    saved
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
