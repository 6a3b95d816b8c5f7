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
    /// Go on with a copying that was interrupted, by the same words: a destination that holds what
    /// SOURCE begins with is read, compared byte by byte, and continued; one that holds all of it is
    /// left as it is, but for its attributes; where they differ, the rest is copied anew. With
    /// --atomic, what is not whole yet is kept as .NAME.bytepath-part. Where the first run made DEST
    /// from a directory, name it with -T
    #[arg(long)]
    pub(super) resume: bool,
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
