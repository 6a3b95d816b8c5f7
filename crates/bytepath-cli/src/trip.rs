//! `bytepath trip`: one of the two ends of round trips. The processes of the arms of `bench ipc
//! --latency`; not shown in the help.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context;
use bytepath::placement::pin_this_thread;
use bytepath_lab::ends::Starter;
use bytepath_lab::experiments::ipc_latency::SIZE_MIN;
use bytepath_lab::trips::{self, Job, MEDIA, Medium};
use clap::{Args, ValueEnum};

use crate::{ends, values, wrong_usage};

/// Send some bytes to another process and wait until they are back, again and again, and report as
/// JSON on standard output; or send back what comes. Standard input is the control socket
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// Which of the two this is
    side: Side,
    /// By what
    #[arg(long, value_name = "MEDIUM", value_parser = medium)]
    medium: &'static dyn Medium,
    /// Bytes of a trip
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8")]
    size: usize,
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

fn medium(name: &str) -> Result<&'static dyn Medium, String> {
    trips::by_name(name).ok_or_else(|| {
        let names: Vec<_> = MEDIA.iter().map(|medium| medium.name()).collect();
        format!("there is no medium {name:?}; there are: {}", names.join(", "))
    })
}

/// Bytes of a trip.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    match values::buffer_size(text)? {
        bytes if bytes < SIZE_MIN => Err(format!("a trip has {SIZE_MIN} bytes at the least")),
        bytes => Ok(bytes),
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    let (medium, bytes) = (options.medium, options.size);
    if !medium.carries(bytes) {
        return Err(wrong_usage(format!("{} does not carry {bytes} bytes", medium.name())));
    }
    if let Some(cpu) = options.cpu {
        pin_this_thread(cpu)?.keep();
    }
    let control = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
    match options.side {
        Side::Begin => {
            let (warm_up, time) = (options.warm_up, options.time);
            let report = trips::begin(&Job { medium, bytes, warm_up, time }, control)?;
            use std::io::Write as _;
            writeln!(std::io::stdout(), "{}", serde_json::to_string(&report)?)
                .context("standard output")
        }
        Side::Answer => Ok(trips::answer(medium, bytes, control)?),
    }
}
