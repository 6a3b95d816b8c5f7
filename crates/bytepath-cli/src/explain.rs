//! `bytepath explain`: where the time goes, of the arms of an experiment, of a command, or of a
//! process that runs.

mod difference;
mod process;
mod recorded;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, Args, Subcommand};

use crate::bench;
use crate::shown::Shown;
use crate::usage::wrong_usage;
use crate::{run, values};

/// Say where the time goes: which costs dominate, what to try, call trees and flame graphs
///
/// Samples are taken of all CPUs that the work may use, 999 a second, in the kernel and in user
/// space, idle time among them; of other CPUs only while the work is there. Without rights it shows
/// what it may, and says what is missing and which setting would show it.
///
///   bytepath explain -- tar cf - /usr/share ::: wc -c
///   bytepath explain --pid 1234 --for 5s --flame out.svg
///   bytepath explain pipes --arms 'write-read@*'
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true, verbatim_doc_comment)]
pub(crate) struct Options {
    #[command(subcommand)]
    of: Option<Of>,
    /// A command and its words, with ::: between the stages of a pipeline
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "pid")]
    command: Vec<OsString>,
    /// A process that runs, with its threads and what it starts
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Option<u32>,
    /// Look at it for so long; 5s unless given
    #[arg(long = "for", value_name = "TIME", value_parser = values::some_time, requires = "pid", conflicts_with = "command")]
    time: Option<Duration>,
    /// Write what was found as a record to a file; - for standard output, behind what the command writes
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    shown: Shown,
}

/// What is to be explained.
#[derive(Subcommand)]
enum Of {
    /// The arms of `bench pipes`, each run for it after its samples
    #[command(mut_arg("quick", always_quick))]
    Pipes(Box<bench::Pipes>),
    /// The arms of `bench files`
    #[command(mut_arg("quick", always_quick))]
    Files(Box<bench::Files>),
    /// The arms of `bench copy`
    #[command(mut_arg("quick", always_quick))]
    Copy(Box<bench::Copy>),
    /// The arms of `bench ipc`
    #[command(mut_arg("quick", always_quick))]
    Ipc(Box<bench::Ipc>),
    Diff(difference::Options),
}

/// What is explained is looked at apart from the samples, which need not be many.
fn always_quick(option: Arg) -> Arg {
    option.help("Changes nothing: what is said of --quick holds here in any case")
}

pub(crate) fn run(options: &mut Options) -> anyhow::Result<ExitCode> {
    let done = |done: anyhow::Result<()>| done.map(|()| ExitCode::SUCCESS);
    match &mut options.of {
        Some(Of::Pipes(options)) => done(bench::explain(options.as_mut())),
        Some(Of::Files(options)) => done(bench::explain(options.as_mut())),
        Some(Of::Copy(options)) => done(bench::explain(options.as_mut())),
        Some(Of::Ipc(options)) => done(bench::explain(options.as_mut())),
        Some(Of::Diff(options)) => done(difference::run(options)),
        None => of_processes(options),
    }
}

fn of_processes(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(pid) = options.pid {
        let time = options.time.unwrap_or(Duration::from_secs(5));
        return process::run(pid, time, &options.shown, options.json.as_deref());
    }
    if options.command.is_empty() {
        return Err(wrong_usage(
            "nothing to explain: name an experiment (pipes, files, copy, ipc), a command after --, \
             or --pid",
        ));
    }
    let explaining = recorded::Explaining::new(options.shown.clone(), options.json.as_deref())?;
    run::explained(&options.command, explaining)
}

/// What `explain` and `bench --explain` want of an experiment's options.
pub(crate) use recorded::Explaining;
