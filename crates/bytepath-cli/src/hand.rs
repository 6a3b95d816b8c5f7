//! `bytepath hand`: the writing process where tune measures memory between processes; not shown in
//! the help.

use std::os::fd::AsFd;

use anyhow::Context;
use bytepath_lab::ends::Starter;
use clap::Args;

use crate::{ends, values};

/// Fill the ring in shared memory that standard input is, until ended
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    let file = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    bytepath_lab::tune::hand(file).context("standard input")
}
