//! `bytepath pass`: the sender or the receiver of a file that goes from one process to another. The
//! processes of the arms of `bench ipc`; not shown in the help.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use anyhow::Context;
use bytepath_lab::passing::{self, Keeps, Receiving, WAYS, Way};
use clap::{Args, ValueEnum};

use crate::hidden::{self, Placed};
use crate::said::say;
use crate::values;

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
    #[command(flatten)]
    placed: Placed,
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
    options.placed.settle()?;
    let input = owned(std::io::stdin()).context("standard input")?;
    match options.role {
        Role::Send => {
            let control = owned(std::io::stdout()).context("standard output")?;
            let report = passing::send(options.way, &File::from(input), control)?;
            say(format_args!("{}", serde_json::to_string(&report)?));
        }
        Role::Receive => {
            let (way, keeps, directory) = (options.way, options.sink, options.dir.clone());
            let report = passing::receive(&Receiving { way, keeps, directory }, input)?;
            hidden::report(&report)?;
        }
    }
    Ok(())
}

fn owned(stream: impl AsFd) -> std::io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}
