//! `bytepath fleet`: many machines at once. The work is shared out by the Python package, by way of Dask;
//! this finds a Python that has it, and becomes it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};

/// Measure and copy by many machines at once, by way of Dask
///
/// Needs the Python package bytepath, with what its extra `fleet` names, here and on every worker; BYTEPATH_PYTHON
/// names the Python that has it. See docs/fleet.md.
#[derive(Args)]
pub(crate) struct Options {
    /// The Dask scheduler: tcp://HOST:8786, or local[:N] for N workers on this machine; unless given, what
    /// DASK_SCHEDULER_ADDRESS says
    #[arg(long, value_name = "ADDRESS")]
    scheduler: Option<OsString>,
    #[command(subcommand)]
    command: Work,
}

/// What a fleet does. The package reads the words of each; its --help tells of them.
#[derive(Subcommand)]
enum Work {
    /// Run an experiment on every machine: one record for each, one report of all
    Bench(Words),
    /// Measure every machine once, and keep a profile on each
    Tune(Words),
    /// Find out what holds each machine back
    Doctor(Words),
    /// Compare two runs of bench, machine by machine
    Compare(Words),
    /// Copy a tree on storage that all machines mount
    Cp(Words),
}

#[derive(Args)]
#[command(disable_help_flag = true)]
struct Words {
    /// As `bytepath fleet COMMAND --help` tells
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<OsString>,
}

impl Work {
    fn words(&self) -> (&'static str, &[OsString]) {
        match self {
            Work::Bench(words) => ("bench", &words.words),
            Work::Tune(words) => ("tune", &words.words),
            Work::Doctor(words) => ("doctor", &words.words),
            Work::Compare(words) => ("compare", &words.words),
            Work::Cp(words) => ("cp", &words.words),
        }
    }
}

/// Says by its exit code whether a Python has the package.
const ASKS: &str = "import sys, importlib.util as u\ntry: sys.exit(u.find_spec('bytepath.fleet') is None)\nexcept ImportError: sys.exit(1)";

/// Names the Python that has the package.
const PYTHON: &str = "BYTEPATH_PYTHON";

/// Names this program, to the package.
const PROGRAM: &str = "BYTEPATH_PROGRAM";

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let itself = std::env::current_exe().context("cannot find out where this program lies")?;
    let candidates = candidates(&itself);
    let Some(python) = candidates.iter().find(|python| has_package(python)) else {
        let tried: Vec<_> = candidates.iter().map(|python| python.display().to_string()).collect();
        bail!(
            "no Python with the package bytepath (tried {}); `make dist` in a checkout builds its wheel: python3 -m pip \
             install 'target/dist/out/NAME.whl[fleet]'; {PYTHON}=/path/to/python3 names the Python that has it",
            tried.join(", ")
        );
    };
    let mut command = Command::new(python);
    command.args(["-m", "bytepath.fleet"]);
    if let Some(scheduler) = &options.scheduler {
        command.arg("--scheduler").arg(scheduler);
    }
    let (name, words) = options.command.words();
    command.arg(name).args(words);
    if std::env::var_os(PROGRAM).is_none() {
        command.env(PROGRAM, &itself);
    }
    Err(command.exec()).with_context(|| format!("cannot run {}", python.display()))
}

/// Pythons that may have the package, the likeliest first.
fn candidates(itself: &Path) -> Vec<PathBuf> {
    if let Some(named) = std::env::var_os(PYTHON) {
        return vec![named.into()];
    }
    let environment =
        std::env::var_os("VIRTUAL_ENV").map(|home| Path::new(&home).join("bin/python3"));
    let beside =
        itself.parent().map(|folder| folder.join("python3")).filter(|python| python.exists());
    let found = ["python3", "python"].into_iter().filter_map(|name| which::which(name).ok());
    let mut all: Vec<PathBuf> = environment.into_iter().chain(beside).chain(found).collect();
    all.dedup();
    all
}

fn has_package(python: &Path) -> bool {
    let asked = Command::new(python)
        .args(["-c", ASKS])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    asked.is_ok_and(|status| status.success())
}
