//! How a ring is made: what is asked for, and what the kernel granted.

use std::time::Duration;

/// What a ring is to be like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setup {
    /// How many steps may be in flight; the kernel rounds up to a power of two, 32,768 at most.
    pub entries: u32,
    /// Who hands requests to the kernel.
    pub submission: Submission,
    /// How it is learnt that a device is done.
    pub completions: Completions,
}

impl Default for Setup {
    fn default() -> Self {
        Setup { entries: 8, submission: Submission::Calls, completions: Completions::Interrupts }
    }
}

impl Setup {
    /// A ring of this many entries, ordinary in everything else.
    pub fn with_entries(entries: u32) -> Self {
        Setup { entries, ..Setup::default() }
    }
}

/// Who hands requests to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submission {
    /// The calling thread, by io_uring_enter(2).
    Calls,
    /// A thread of the kernel's that watches the queue (IORING_SETUP_SQPOLL): no system call while
    /// it is awake, one CPU used up by it.
    Thread {
        /// How long it watches an empty queue before it sleeps, in whole milliseconds. The next
        /// submission then wakes it by a call.
        idle: Duration,
    },
}

/// How it is learnt that a device is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completions {
    /// By the device's interrupt.
    Interrupts,
    /// By asking the device again and again (IORING_SETUP_IOPOLL): only reads and writes of files
    /// opened with O_DIRECT, on devices with queues for polling.
    Polled,
}

/// When the kernel finishes requests that had to wait. Later kernels have the better ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskRun {
    /// When the thread asks for completions (IORING_SETUP_DEFER_TASKRUN, Linux 6.1): it is never
    /// interrupted for them.
    Deferred,
    /// At the thread's next system call of any kind (IORING_SETUP_COOP_TASKRUN, Linux 5.19).
    Cooperative,
    /// At once, interrupting the thread.
    Interrupting,
}

impl Setup {
    /// The ways to try, best first: a kernel that does not know a flag answers EINVAL.
    pub(crate) fn task_runs(&self) -> &'static [TaskRun] {
        match self.submission {
            Submission::Calls => &[TaskRun::Deferred, TaskRun::Cooperative, TaskRun::Interrupting],
            // The thread that submits is the kernel's, and finishes requests itself.
            Submission::Thread { .. } => &[TaskRun::Interrupting],
        }
    }
}
