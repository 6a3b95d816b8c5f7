//! `bytepath pass`: the sender or the receiver of a file that goes from one process to another. The
//! processes of the arms of `bench ipc`; not shown in the help.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use anyhow::Context;
use bytepath::placement::pin_this_thread;
use bytepath_lab::ends::Starter;
use bytepath_lab::passing::{self, Keeps, Receiving, WAYS, Way};
use clap::{Args, ValueEnum};

use crate::{ends, values};

/// Pass a file from one process to another, and report as JSON: the sender, whose standard output is
/// the control socket, on standard error, the receiver, whose standard input that is, on standard
/// output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// Which of the two this is
    role: Role,
    /// By what way
    #[arg(long, value_name = "WAY", value_parser = way)]
    way: &'static dyn Way,
    /// What the receiver does with the bytes: file, hash, drop
    #[arg(long, value_name = "SINK", value_parser = keeps, default_value = "hash")]
    sink: Keeps,
    /// Make the file in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// The CPU to run on
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Role {
    Send,
    Receive,
}

fn way(name: &str) -> Result<&'static dyn Way, String> {
    passing::by_name(name)
        .ok_or_else(|| values::unknown("way", name, WAYS.iter().map(|way| way.name())))
}

/// What becomes of received bytes, by its name.
pub(crate) fn keeps(name: &str) -> Result<Keeps, String> {
    Keeps::named(name).ok_or_else(|| values::unknown("sink", name, Keeps::NAMES.iter().copied()))
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    if let Some(cpu) = options.cpu {
        pin_this_thread(cpu)?.keep();
    }
    let input = owned(std::io::stdin()).context("standard input")?;
    match options.role {
        Role::Send => {
            let control = owned(std::io::stdout()).context("standard output")?;
            let report = passing::send(options.way, &File::from(input), control)?;
            crate::say(format_args!("{}", serde_json::to_string(&report)?));
        }
        Role::Receive => {
            let (way, keeps, directory) = (options.way, options.sink, options.dir.clone());
            let report = passing::receive(&Receiving { way, keeps, directory }, input)?;
            use std::io::Write as _;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)
                .context("standard output")?;
        }
    }
    Ok(())
}

fn owned(stream: impl AsFd) -> std::io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}
