//! `bytepath stream`: one of the two ends of a stream. The processes of the arms of `bench ipc
//! --bandwidth`; not shown in the help.

use std::io::Write as _;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context;
use bytepath::placement::pin_this_thread;
use bytepath_lab::ends::Starter;
use bytepath_lab::streams::{self, STREAMS, Stream};
use clap::{Args, ValueEnum};

use crate::{ends, values};

/// Read what another process writes, and report as JSON on standard output; or write. Standard input
/// is the control socket
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// Which of the two this is: the one that reads begins
    side: Side,
    /// By what
    #[arg(long, value_name = "STREAM", value_parser = stream)]
    by: &'static dyn Stream,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "300ms")]
    time: Duration,
    /// For so long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    /// The CPU to run on
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Side {
    Begin,
    Answer,
}

fn stream(name: &str) -> Result<&'static dyn Stream, String> {
    streams::by_name(name).ok_or_else(|| {
        let names: Vec<_> = STREAMS.iter().map(|stream| stream.name()).collect();
        format!("there is no stream {name:?}; there are: {}", names.join(", "))
    })
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    if let Some(cpu) = options.cpu {
        pin_this_thread(cpu)?.keep();
    }
    let control = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    match options.side {
        Side::Begin => {
            let report = streams::begin(options.by, options.warm_up, options.time, control)?;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)
                .context("standard output")
        }
        Side::Answer => Ok(streams::answer(options.by, control)?),
    }
}
