//! Options that the classic does not have.

use std::path::PathBuf;

use clap::Args;

use super::hash::Algorithm;
use crate::metrics::MetricsOptions;
use crate::values;

/// Options of ours.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Beyond the classic")]
pub(super) struct Extras {
    /// Show bytes and rate on standard error, and which outputs are behind
    #[arg(long)]
    pub(super) progress: bool,
    /// Let a slow output be behind by this much without holding up the others. What it has not taken
    /// is kept in memory, which is taken as it is needed, and up to three quarters of what the machine, or a
    /// cgroup's limit, has left. Every byte is then read and written; without it, each output gets the bytes
    /// before more are read, and pipes by reference. A reader that has left ends tee once the others
    /// have taken what is kept for them
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(super) queue: Option<u64>,
    /// Keep what is beyond the queue's SIZE in a file without a name in DIR, as long as there is room
    #[arg(long, value_name = "DIR", requires = "queue")]
    pub(super) spill: Option<PathBuf>,
    /// Say the stream's checksum at the end, on standard error
    #[arg(long, value_name = "ALGO", value_enum)]
    pub(super) hash: Option<Algorithm>,
    /// The profile of this machine, as bytepath tune made it; its usual place unless given
    #[arg(long, value_name = "FILE")]
    pub(super) profile: Option<PathBuf>,
    /// Say on standard error how the bytes went to each output and why, and what came
    #[arg(long)]
    pub(super) explain_plan: bool,
    /// Leave pipes, and the buffers of Unix sockets, at the size they have, instead of making them larger
    #[arg(long)]
    pub(super) no_enlarge: bool,
    #[command(flatten)]
    pub(super) metrics: MetricsOptions,
}
