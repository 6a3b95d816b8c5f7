//! A program that ends with the process that started it.
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::io::Errno;
use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

/// Has the kernel end a program when the thread that starts it ends (PR_SET_PDEATHSIG), also by SIGKILL. For
/// programs that are not ours; ours are told their starter.
pub(crate) fn end_together(command: &mut Command) -> &mut Command {
    let starter = getpid();
    let wish = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // It may have ended before the kernel knew the wish.
        match getppid() == Some(starter) {
            true => Ok(()),
            false => Err(Errno::SRCH.into()),
        }
    };
    // SAFETY: between fork and exec it makes system calls and nothing else.
    unsafe { command.pre_exec(wish) }
}
