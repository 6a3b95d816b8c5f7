//! Has a thread that sleeps in a call tell how far it is.

#![allow(unsafe_code)]

use std::sync::Arc;

use rustix::process::Pid;
use signal_hook::consts::SIGURG;

/// Lets threads be nudged from now on.
///
/// # Errors
/// Signals are kept from the process.
pub(crate) fn allow() -> std::io::Result<()> {
    super::spawn::note_ignored(&[SIGURG]);
    // A handler that does nothing, after which calls that have done nothing yet are begun again.
    signal_hook::flag::register(SIGURG, Arc::default()).map(drop)
}

/// Interrupts the call that this thread of ours sleeps in: what has taken some bytes already comes back
/// and says how many, and everything else goes on as if nothing had been.
pub(crate) fn nudge(thread: Pid) {
    let process = rustix::process::getpid().as_raw_nonzero();
    // SAFETY: it touches no memory. A thread that has ended is not found, for its process is named too.
    unsafe {
        libc::syscall(libc::SYS_tgkill, process.get(), thread.as_raw_nonzero().get(), SIGURG)
    };
}
