//! Interrupts from the keyboard, ignored.

#![allow(unsafe_code)]

/// Has the process ignore SIGINT, and the programs that it starts.
pub(crate) fn ignore() {
    // SAFETY: a disposition that every process may have, and that runs no code.
    unsafe { libc::signal(libc::SIGINT, libc::SIG_IGN) };
}
