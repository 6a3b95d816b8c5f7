//! `bytepath clock`: runs a command once and reports how long it took and what it used. The process
//! of the arms of `bench cmd`; not shown in the help.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::Context;
use bytepath_lab::clock;
use bytepath_lab::ends::Starter;
use clap::Args;

use crate::{ends, values};

/// Run a command once, and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The command
    #[arg(required = true, last = true)]
    words: Vec<String>,
    /// Its standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Have it write to the file that is this process's standard input
    #[arg(long)]
    output_to_stdin: bool,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
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
    let clocked = clock::run(&mut command)?;
    let text = serde_json::to_string(&clocked)?;
    let mut stdout = std::io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).context("standard output")
}
