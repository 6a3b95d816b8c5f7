//! One of two processes of a measurement that a control socket joins, on standard input: what both
//! kinds, trips and streams, are told, and how they begin.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};

use crate::hidden::Placed;
use crate::values;

#[derive(Args)]
pub(crate) struct Joined {
    /// Which of the two this is: the one that begins measures
    pub(crate) side: Side,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "300ms")]
    pub(crate) time: Duration,
    /// For so long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    pub(crate) warm_up: Duration,
    #[command(flatten)]
    placed: Placed,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Side {
    Begin,
    Answer,
}

impl Joined {
    /// Gets ready; the control socket.
    pub(crate) fn ready(&self) -> anyhow::Result<OwnedFd> {
        self.placed.settle()?;
        std::io::stdin().as_fd().try_clone_to_owned().context("standard input")
    }
}
