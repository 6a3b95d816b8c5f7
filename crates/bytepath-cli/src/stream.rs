//! `bytepath stream`: one of the two ends of a stream. The processes of the arms of `bench ipc
//! --bandwidth`; not shown in the help.

use bytepath_lab::streams::{self, STREAMS, Stream};
use clap::Args;

use crate::joined::{Joined, Side};
use crate::{hidden, values};

/// Read what another process writes, and report as JSON on standard output; or write. Standard input
/// is the control socket
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    #[command(flatten)]
    joined: Joined,
    /// By what
    #[arg(long, value_name = "STREAM", value_parser = stream)]
    by: &'static dyn Stream,
}

fn stream(name: &str) -> Result<&'static dyn Stream, String> {
    streams::by_name(name)
        .ok_or_else(|| values::unknown("stream", name, STREAMS.iter().map(|stream| stream.name())))
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let joined = &options.joined;
    let control = joined.ready()?;
    match joined.side {
        Side::Begin => {
            hidden::report(&streams::begin(options.by, joined.warm_up, joined.time, control)?)
        }
        Side::Answer => Ok(streams::answer(options.by, control)?),
    }
}
