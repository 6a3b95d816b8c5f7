//! Options that the classic does not have: what a copy is worth once it is made, and how far it is.

use clap::Args;

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
}
