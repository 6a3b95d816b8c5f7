//! What the process does about a signal, asked without changing it.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use libc::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use nix::sys::signal::{SigSet, SigmaskHow};

/// While it lives, signals to this thread wait, and threads that it starts get none at all.
///
/// Handlers are set under it: between a signal's first one and its being known to all that calls handlers, the
/// signal would do nothing, not even end the program.
pub(crate) struct Quiet(Option<SigSet>);

impl Quiet {
    pub(crate) fn begin() -> Quiet {
        Quiet(SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).ok())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        let _ = self.0.map(|mask| mask.thread_set_mask());
    }
}

/// The signals that end a program unless it has handlers for them.
pub(crate) const ENDING: [libc::c_int; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];

/// Those of them that are not ignored: of a program that nohup has begun SIGHUP is.
pub(crate) fn heeded() -> impl Iterator<Item = libc::c_int> {
    ENDING.into_iter().filter(|signal| !is_ignored(*signal))
}

/// The action; none where there is no such signal.
pub(super) fn action(signal: libc::c_int) -> Option<libc::sigaction> {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: it changes nothing when no new action is given, and `action` has room for the old.
    let told = unsafe { libc::sigaction(signal, std::ptr::null(), action.as_mut_ptr()) };
    // SAFETY: it was filled, or is all zeros, which is the default action.
    let action = unsafe { action.assume_init() };
    (told == 0).then_some(action)
}

/// Whether it is ignored. Until somebody here changes that, this is so because whoever started the
/// program chose that it does not hear the signal, as shells do for what runs in the background of a
/// script.
pub(crate) fn is_ignored(signal: libc::c_int) -> bool {
    action(signal).is_some_and(|action| action.sa_sigaction == libc::SIG_IGN)
}
