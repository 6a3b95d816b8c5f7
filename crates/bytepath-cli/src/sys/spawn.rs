//! Programs started with what this one was started with: Rust's way of starting programs gives them
//! the default for SIGPIPE and an empty signal mask, and its runtime opens what was closed.

#![allow(unsafe_code)]

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::start;

/// Has a program start with SIGPIPE, the signal mask, and closed standard descriptors as this
/// process was started with. `inherited` are the standard descriptors that are not given to it anew.
pub(crate) fn as_we_were(command: &mut Command, inherited: &[i32]) {
    let ignores_pipe = start::pipe_was_ignored();
    let closed: Vec<i32> =
        inherited.iter().copied().filter(|fd| start::was_closed(*fd as usize)).collect();
    let mask = mask();
    // Without it, programs are started by a call in which no signal gets lost: one that comes between
    // fork and exec would otherwise meet this process's handlers in the child.
    if !ignores_pipe && closed.is_empty() && is_empty(&mask) {
        return;
    }
    let restore = move || {
        if ignores_pipe {
            // SAFETY: a disposition that every process may have, and that runs no code.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for fd in &closed {
            // SAFETY: between fork and exec nobody uses it: it stands for one that was closed.
            unsafe { libc::close(*fd) };
        }
        // SAFETY: `mask` was filled by the same call, and the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, std::ptr::null_mut()) };
        Ok(())
    };
    // SAFETY: what runs between fork and exec calls nothing but functions that are safe in a signal
    // handler, and allocates nothing.
    unsafe { command.pre_exec(restore) };
}

/// The signals that this thread blocks.
fn mask() -> libc::sigset_t {
    let mut mask = std::mem::MaybeUninit::<libc::sigset_t>::zeroed();
    // SAFETY: it changes nothing when no new mask is given, and `mask` has room for the old.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), mask.as_mut_ptr()) };
    // SAFETY: it was filled, or is all zeros, which is a mask too.
    unsafe { mask.assume_init() }
}

fn is_empty(mask: &libc::sigset_t) -> bool {
    // SAFETY: the set is whole, and the numbers are those of signals.
    (1..libc::SIGRTMAX()).all(|signal| unsafe { libc::sigismember(mask, signal) } != 1)
}
