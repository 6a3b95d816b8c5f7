//! Options that the classic does not have: what a copy is worth once it is made, and how far it is.

use clap::Args;

/// Threads at most: more gain nothing anywhere, and each has its files open.
const JOBS_MAX: i64 = 64;

/// Options of ours.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Safety and progress")]
pub(crate) struct Extras {
    /// Let each file appear whole or not at all: it is made without a name, brought to the device,
    /// and takes the place of what is there at once. Costs an fsync per file; other names of a
    /// replaced file keep the old bytes
    #[arg(long)]
    pub(super) atomic: bool,
    /// Read source and copy again, the copy from the device where it can be, and compare them
    #[arg(long)]
    pub(super) verify: bool,
    /// Bring files, and the directories that name them, to the device before going on
    #[arg(long)]
    pub(super) fsync: bool,
    /// Show files, bytes, rate and time left on standard error. SIGUSR1 shows a line at any time
    #[arg(long)]
    pub(super) progress: bool,
    /// Copy with so many threads at most: several files of a tree at once, and several parts of a
    /// large file. As many as there are CPUs for this process, unless given
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    pub(super) jobs: Option<u16>,
}
