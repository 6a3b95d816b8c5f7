//! One of two processes of a measurement that a control socket joins, on standard input: what both
//! kinds, trips and streams, are told, how they begin, and how they report.

use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use anyhow::Context;
use bytepath::placement::pin_this_thread;
use bytepath_lab::ends::Starter;
use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::{ends, values};

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
    /// The CPU to run on
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Side {
    Begin,
    Answer,
}

impl Joined {
    /// Gets ready; the control socket.
    pub(crate) fn ready(&self) -> anyhow::Result<OwnedFd> {
        ends::end_with(self.starter)?;
        if let Some(cpu) = self.cpu {
            pin_this_thread(cpu)?.keep();
        }
        std::io::stdin().as_fd().try_clone_to_owned().context("standard input")
    }
}

/// Reports as JSON on standard output.
pub(crate) fn report(report: &impl Serialize) -> anyhow::Result<()> {
    writeln!(std::io::stdout(), "{}", serde_json::to_string(report)?).context("standard output")
}
