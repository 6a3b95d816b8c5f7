//! `bytepath trip`: one of the two ends of round trips. The processes of the arms of `bench ipc
//! --latency`; not shown in the help.

use bytepath_lab::experiments::ipc_latency::SIZE_MIN;
use bytepath_lab::trips::{self, Job, MEDIA, Medium};
use clap::Args;

use crate::joined::{Joined, Side};
use crate::usage::wrong_usage;
use crate::{hidden, values};

/// Send some bytes to another process and wait until they are back, again and again, and report as
/// JSON on standard output; or send back what comes. Standard input is the control socket
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    #[command(flatten)]
    joined: Joined,
    /// By what
    #[arg(long, value_name = "MEDIUM", value_parser = medium)]
    medium: &'static dyn Medium,
    /// Bytes of a trip
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8")]
    size: usize,
}

fn medium(name: &str) -> Result<&'static dyn Medium, String> {
    trips::by_name(name)
        .ok_or_else(|| values::unknown("medium", name, MEDIA.iter().map(|medium| medium.name())))
}

/// Bytes of a trip.
pub(crate) fn size(text: &str) -> Result<usize, String> {
    match values::buffer_size(text)? {
        bytes if bytes < SIZE_MIN => Err(format!("a trip has {SIZE_MIN} bytes at the least")),
        bytes => Ok(bytes),
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let (joined, medium, bytes) = (&options.joined, options.medium, options.size);
    if !medium.carries(bytes) {
        return Err(wrong_usage(format!("{} does not carry {bytes} bytes", medium.name())));
    }
    let control = joined.ready()?;
    match joined.side {
        Side::Begin => {
            let (warm_up, time) = (joined.warm_up, joined.time);
            hidden::report(&trips::begin(&Job { medium, bytes, warm_up, time }, control)?)
        }
        Side::Answer => Ok(trips::answer(medium, bytes, control)?),
    }
}
