//! `bytepath fleet`: many machines at once. The work is shared out by the Python package, by way of Dask;
//! this finds a Python that has it, and becomes it.

mod described;

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, bail};
use bytepath_lab::peers;
use clap::{Arg, ArgMatches, Args, FromArgMatches};

use described::Fleet;

/// What is done with which scheduler. The package reads the words of each command, in its own way.
pub(crate) struct Options {
    scheduler: Option<OsString>,
    command: String,
    words: Vec<OsString>,
}

/// The definition of the command with all that its commands take.
pub(crate) fn described() -> clap::Command {
    Fleet::augment_args(clap::Command::new("fleet"))
}

/// The same command, which hands on what follows.
fn handed_on(command: clap::Command) -> clap::Command {
    let words = Arg::new("words").trailing_var_arg(true).allow_hyphen_values(true).num_args(0..);
    // Names have to live as long as the process does, which takes no more words.
    clap::Command::new(&*command.get_name().to_owned().leak())
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_flag(true)
        .arg(words.value_name("WORD").value_parser(clap::value_parser!(OsString)))
}

impl Args for Options {
    fn augment_args(command: clap::Command) -> clap::Command {
        Fleet::augment_args(command).mut_subcommands(handed_on)
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Options::augment_args(command)
    }
}

impl FromArgMatches for Options {
    fn from_arg_matches(found: &ArgMatches) -> Result<Options, clap::Error> {
        let (command, words) = found.subcommand().expect("the parser asks for a command");
        let words = words.get_many("words").unwrap_or_default().cloned().collect();
        let scheduler = found.get_one("scheduler").cloned();
        Ok(Options { scheduler, command: command.to_owned(), words })
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), clap::Error> {
        *self = Options::from_arg_matches(found)?;
        Ok(())
    }
}

/// Says by its exit code whether a Python has the package. No program is looked for in the current directory,
/// which may be anybody's.
const ASKS: &str = "import sys; sys.path[:] = filter(None, sys.path)\nimport importlib.util as u\ntry: sys.exit(u.find_spec('bytepath.fleet') is None)\nexcept ImportError: sys.exit(1)";

/// Becomes the package's command, likewise; for Python 3.10 too, which knows no `-P`.
const BECOMES: &str = "import sys; sys.path[:] = filter(None, sys.path)\nimport runpy; runpy.run_module('bytepath.fleet', run_name='__main__', alter_sys=True)";

/// Names the Python that has the package.
const PYTHON: &str = "BYTEPATH_PYTHON";

/// Names this program, to the package.
const PROGRAM: &str = "BYTEPATH_PROGRAM";

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    // The parser takes a first `--` for its own. What stands before the words is else the command.
    let ends_options =
        std::env::args_os().rev().nth(options.words.len()).is_some_and(|word| word == "--");
    let help = options.words.first().filter(|word| *word == "--help" || *word == "-h");
    if let Some(help) = help.filter(|_| !ends_options) {
        return Ok(helped(&options.command, help));
    }
    let itself = std::env::current_exe().context("cannot find out where this program lies")?;
    if let Some(words) = help_of_an_experiment(options).filter(|_| !ends_options) {
        let told = Command::new(&itself).arg("bench").args(words).exec();
        return Err(told).with_context(|| format!("cannot run {}", itself.display()));
    }
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
    command.args(["-c", BECOMES]);
    if let Some(scheduler) = &options.scheduler {
        command.arg("--scheduler").arg(scheduler);
    }
    command.arg(&options.command);
    if ends_options {
        command.arg("--");
    }
    command.args(&options.words);
    if std::env::var_os(PROGRAM).is_none() {
        command.env(PROGRAM, &itself);
    }
    Err(command.exec()).with_context(|| format!("cannot run {}", python.display()))
}

/// Tells what a command takes, for which no Python is needed.
fn helped(command: &str, help: &OsString) -> ExitCode {
    let definition = described().bin_name("bytepath fleet").max_term_width(100);
    let words = ["bytepath fleet".into(), OsString::from(command), help.clone()];
    let asked = definition.try_get_matches_from(words);
    asked.map_or_else(|help| crate::told(&help), |_| ExitCode::SUCCESS)
}

/// The experiment whose help is asked for behind its name, and the word that asks: it is the same for
/// one machine.
fn help_of_an_experiment(options: &Options) -> Option<[String; 2]> {
    let asked = ["fleet".as_ref(), options.command.as_ref()];
    let words = asked.into_iter().chain(options.words.iter().map(OsString::as_os_str));
    let found = described().try_get_matches_from(words).ok()?;
    let bench = found.subcommand_matches("bench")?;
    let mut own = bench.get_many::<String>("words")?.take_while(|word| *word != "--");
    let experiment = own.next()?;
    let help = own.find(|word| ["--help", "-h"].contains(&word.as_str()))?;
    Some([experiment.clone(), help.clone()])
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
    let found = ["python3", "python"].into_iter().filter_map(peers::found);
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
