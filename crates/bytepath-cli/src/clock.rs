//! `bytepath clock`: runs a command once and reports how long it took and what it used. The process
//! of the arms of `bench cmd`; not shown in the help.

use std::ffi::OsString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;

use anyhow::{Context, bail};
use bytepath_lab::descendants::in_group_of_its_own;
use bytepath_lab::ends::Starter;
use bytepath_lab::{clock, interrupt};
use clap::Args;
use rustix::process::{getpid, set_child_subreaper};

use crate::streams::stdout;
use crate::sys::actions::heeded;
use crate::values;

/// Run a command once, and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The command
    #[arg(required = true, last = true)]
    words: Vec<OsString>,
    /// Its standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Have it write to the file that is this process's standard input
    #[arg(long)]
    output_to_stdin: bool,
    /// End the command when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if let Some(starter) = options.starter {
        follow(starter)?;
    }
    let mut command = Command::new(&options.words[0]);
    command.args(&options.words[1..]);
    command.stdin(match &options.input {
        None => Stdio::null(),
        Some(path) => {
            File::open(path).with_context(|| format!("cannot read {}", path.display()))?.into()
        }
    });
    command.stdout(match options.output_to_stdin {
        false => Stdio::null(),
        true => std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?.into(),
    });
    in_group_of_its_own(&mut command);
    let clocked = clock::run(&mut command)?;
    let text = serde_json::to_string(&clocked)?;
    stdout().write_all(text.as_bytes()).context("standard output")
}

/// From now on the command ends when the starter does, however that goes, with all that it started: what loses
/// its parent becomes a child of this process.
fn follow(starter: Starter) -> anyhow::Result<()> {
    let Some(end) = starter.end().context("cannot watch the process that started this")? else {
        bail!("the process that started this is gone");
    };
    interrupt::when_readable(end);
    set_child_subreaper(Some(getpid())).context("cannot keep what the command leaves")?;
    // Those of a terminal come to the starter as well, which sees to the end of both.
    for signal in heeded() {
        signal_hook::flag::register(signal, Arc::default()).context("cannot catch signals")?;
    }
    Ok(())
}
