//! What can be set on a route, an outlet or an inlet.

use crate::pages::Pages;
use crate::wait::Wait;

/// What can be set; `None` leaves the choice to the mechanism.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Knobs {
    /// Bytes per call; 1 at least.
    pub chunk_bytes: Option<usize>,
    /// Size of every pipe at either end, and of pipes of our own; the buffer of a Unix socket that is
    /// written to is made at least as large.
    pub pipe_bytes: Option<usize>,
    /// Chunks in flight at once, where a mechanism can have more than one.
    pub queue_depth: Option<usize>,
    /// Threads that move, where a mechanism can have more than one.
    pub threads: Option<usize>,
    /// What to do when it cannot go on.
    pub wait: Wait,
    /// The pages of buffers of our own.
    pub pages: Pages,
    /// Where the thread that moves may run.
    pub cpu: Cpu,
}

/// What is done about the size of pipes at the ends, and of the buffer of a Unix socket that is
/// written to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pipes {
    /// They are made larger once it shows that there is much to move.
    Grow,
    /// They stay as they are.
    Leave,
}

/// Where the thread that moves may run meanwhile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cpu {
    /// Wherever the scheduler puts it.
    #[default]
    Any,
    /// On the CPU that it begins on: what it has in that CPU's caches stays there. It is given its
    /// CPUs back at the end of the transfer.
    Stay,
}
