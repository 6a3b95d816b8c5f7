//! Where the time of a movement went: samples and counters while it runs, and what they say in words.
//!
//! | to | use |
//! |---|---|
//! | look at some work while it runs | [`Watch::start`], [`Watch::stop`] |
//! | trace it by eBPF: sleeps, wake-ups, system calls, files, connections | [`trace::Tracing`] |

mod came_from;
pub mod classes;
mod collect;
pub mod counters;
mod files;
pub mod firefox;
pub mod flame;
pub mod folded;
mod helper;
mod missing;
mod open;
pub mod profile;
pub mod published;
mod record;
mod sampler;
mod sentence;
mod shares;
pub mod show;
mod symbols;
mod sys;
mod syscalls;
pub mod trace;
mod tracefs;
pub mod tree;
mod unwind;
mod usage;
mod watch;
mod world;

pub use bytepath_report::Explained;
pub use missing::{Missing, NO_SAMPLES};
pub use watch::{Looked, Watch};

/// Whose time is to be explained.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whom {
    /// This process, and all that the calling thread starts from now on.
    Started,
    /// A process that runs, with all its threads, and what it starts.
    Process(u32),
}

/// How stacks of user space are found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stacks {
    /// By the tables that compilers leave for unwinding (.eh_frame), from a copy of the stack's top.
    #[default]
    Tables,
    /// By frame pointers, which is cheaper, and right only where programs keep them.
    FramePointers,
}

/// How samples are taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Samples a second, of each CPU.
    pub hz: u32,
    /// How stacks of user space are found.
    pub stacks: Stacks,
    /// Whether system calls are counted by name.
    pub syscalls: bool,
    /// What processes are called that only make the work's load: their time and their calls are left
    /// out.
    pub beside: Vec<String>,
}

impl Default for Settings {
    /// 999 a second, which does not run in step with what happens a thousand times a second.
    fn default() -> Self {
        Settings { hz: 999, stacks: Stacks::default(), syscalls: true, beside: Vec::new() }
    }
}
