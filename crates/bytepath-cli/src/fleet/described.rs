//! What a fleet's commands take, for help, manual and completions. The Python package reads these words, and
//! a test holds what is here against its parser.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

/// Measure and copy by many machines at once, by way of Dask
///
/// Needs the Python package bytepath, with what its extra `fleet` names, here and on every worker; BYTEPATH_PYTHON
/// names the Python that has it. See docs/fleet.md.
#[derive(Args)]
pub(super) struct Fleet {
    /// The Dask scheduler: tcp://HOST:8786, or local[:N] for N workers on this machine; unless given, what
    /// DASK_SCHEDULER_ADDRESS says, or else BYTEPATH_SCHEDULER
    #[arg(long, value_name = "ADDRESS")]
    scheduler: Option<std::ffi::OsString>,
    #[command(subcommand)]
    work: Work,
}

/// What a fleet does.
#[derive(Subcommand)]
enum Work {
    /// Run an experiment on every machine: one record for each, one report of all
    Bench(Bench),
    /// Measure every machine once, and keep a profile on each
    ///
    /// Options that are not among these are handed on to `bytepath tune`, such as --quick and --dir DIR.
    Tune(Tune),
    /// Find out what holds each machine back
    Doctor(EachMachine),
    /// Compare two runs of bench, machine by machine
    ///
    /// Compares two files that `fleet bench --json` wrote. Options that are not among these are handed on to
    /// `bytepath compare`, such as --force.
    Compare(Compare),
    /// Copy a tree on storage that all machines mount
    ///
    /// Copies all that is in the directory SOURCE to the directory DEST, as `cp -a -T` would: by all machines of
    /// the fleet, on storage that they all mount under the same names. Interrupted, the same command goes on where
    /// it was.
    Cp(Copy),
}

#[derive(Args)]
struct Bench {
    #[command(flatten)]
    each: EachMachine,
    /// Write the report as a page to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The experiment, and its options
    #[arg(value_name = "EXPERIMENT", trailing_var_arg = true, allow_hyphen_values = true, value_hint = ValueHint::Other)]
    words: Vec<String>,
}

#[derive(Args)]
struct Tune {
    #[command(flatten)]
    each: EachMachine,
    /// Write a copy of each profile into DIR
    #[arg(long, value_name = "DIR")]
    profiles: Option<PathBuf>,
}

#[derive(Args)]
struct EachMachine {
    /// One machine at a time, not all at once
    #[arg(long)]
    one_after_another: bool,
    /// Write all that was found to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Wait so long for a machine that has lost its workers (15)
    #[arg(long, value_name = "SECONDS")]
    patience: Option<f64>,
    /// Give a machine up after so long (a day)
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<f64>,
}

#[derive(Args)]
struct Compare {
    /// The run to compare with
    #[arg(value_name = "BASE")]
    base: PathBuf,
    /// The run that is compared
    #[arg(value_name = "OTHER")]
    other: PathBuf,
    /// Write all comparisons as JSON to FILE, or to standard output (-), which then holds nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write them as Markdown to FILE, or to standard output (-), which then holds nothing else
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
    /// Only arms whose name matches
    #[arg(long, value_name = "GLOB")]
    arms: Vec<String>,
    /// Call differences up to so many percent the same
    #[arg(long, value_name = "PERCENT")]
    margin: Option<f64>,
    /// End with 3 where an arm is surely slower by so many percent
    #[arg(long, value_name = "PERCENT")]
    fail_if_slower: Option<f64>,
}

/// What --sparse and --reflink take.
const WHEN: [&str; 3] = ["auto", "always", "never"];

#[derive(Args)]
struct Copy {
    /// The directory whose contents are copied
    #[arg(value_name = "SOURCE", value_hint = ValueHint::DirPath)]
    source: PathBuf,
    /// The directory that is to hold them; it is made where there is none
    #[arg(value_name = "DEST", value_hint = ValueHint::DirPath)]
    destination: PathBuf,
    /// Keep all that cp -a keeps; so it is unless -r is given
    #[arg(short, long, help_heading = KEPT)]
    archive: bool,
    /// Keep what cp -r keeps: bytes and permissions
    #[arg(short, visible_short_alias = 'R', long, help_heading = KEPT)]
    recursive: bool,
    /// As for cp
    #[arg(long, value_name = "LIST", help_heading = KEPT)]
    preserve: Option<String>,
    /// As for cp
    #[arg(long, value_name = "LIST", help_heading = KEPT)]
    no_preserve: Option<String>,
    /// As for cp
    #[arg(long, value_name = "WHEN", value_parser = WHEN, help_heading = KEPT)]
    sparse: Option<String>,
    /// As for cp
    #[arg(long, value_name = "WHEN", value_parser = WHEN, help_heading = KEPT)]
    reflink: Option<String>,
    /// Stay on the file system of SOURCE
    #[arg(short = 'x', long, help_heading = KEPT)]
    one_file_system: bool,
    /// Read source and copy again, and compare them
    #[arg(long, help_heading = SAFETY)]
    verify: bool,
    /// Bring each file to the device before going on
    #[arg(long, help_heading = SAFETY)]
    fsync: bool,
    /// Bring all to the devices at the end, on every machine
    #[arg(long, help_heading = SAFETY)]
    sync: bool,
    /// Show files, bytes, rate and time left on standard error
    #[arg(long, help_heading = SAFETY)]
    progress: bool,
    /// Keep account of what is done here, on a local disk
    #[arg(long, value_name = "FILE", help_heading = SAFETY)]
    journal: Option<PathBuf>,
    /// Forget an earlier run of the same command
    #[arg(long, help_heading = SAFETY)]
    anew: bool,
    /// Write how it went to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE", help_heading = SAFETY)]
    json: Option<PathBuf>,
    /// Tell Prometheus how far it is, in FILE, which is replaced every second
    #[arg(long, value_name = "FILE", help_heading = SAFETY)]
    metrics: Option<PathBuf>,
    /// Bytes a second of all machines together, such as 1G
    #[arg(long, value_name = "RATE", help_heading = LOAD)]
    limit: Option<String>,
    /// Bytes a second of each machine
    #[arg(long, value_name = "RATE", help_heading = LOAD)]
    limit_per_machine: Option<String>,
    /// Pieces that one machine does at a time
    #[arg(long, value_name = "N", help_heading = LOAD)]
    jobs_per_machine: Option<u32>,
    /// Give a piece to another worker as well after so long (20)
    #[arg(long, value_name = "SECONDS", help_heading = LOAD)]
    late: Option<f64>,
    /// Wait so long for a scheduler that is gone, or for workers (60)
    #[arg(long, value_name = "SECONDS", help_heading = LOAD)]
    patience: Option<f64>,
}

const KEPT: &str = "What is kept";
const SAFETY: &str = "Safety and progress";
const LOAD: &str = "Load";
