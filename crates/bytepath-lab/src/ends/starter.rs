//! The process that started an end for a measurement: when it is gone, however it went, nobody
//! wants the end any more.

use std::os::fd::OwnedFd;

use rustix::process::{
    Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal,
};

/// A process that starts ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Starter(Pid);

/// The option by which an end is told its starter.
const OPTION: &str = "--starter";

impl Starter {
    /// This process.
    pub fn this() -> Starter {
        Starter(getpid())
    }

    /// A process by its number.
    pub fn numbered(pid: i32) -> Option<Starter> {
        Pid::from_raw(pid).map(Starter)
    }

    /// The words that tell an end its starter.
    pub fn words(self) -> [String; 2] {
        [OPTION.to_owned(), self.0.to_string()]
    }

    /// Has the kernel end this process when the starter ends (PR_SET_PDEATHSIG), also by SIGKILL;
    /// false if it has ended already.
    ///
    /// # Errors
    /// The kernel does not take the wish.
    pub fn end_together(self) -> std::io::Result<bool> {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before the kernel knew the wish.
        Ok(getppid() == Some(self.0))
    }

    /// What becomes readable when the starter ends; none if it has ended already.
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn end(self) -> std::io::Result<Option<OwnedFd>> {
        let end = pidfd_open(self.0, PidfdFlags::empty());
        // The number may be another's by now.
        if getppid() != Some(self.0) {
            return Ok(None);
        }
        Ok(Some(end?))
    }
}
