//! What the process was started with, noted before Rust's runtime changes it.
//!
//! The runtime opens /dev/null in the place of a standard descriptor that is closed, and ignores
//! SIGPIPE. A command that stands in for a classic has to know both: `cat <&-` is an error, and a
//! reader that leaves ends the classic by the signal, unless whoever started it ignores it.

#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);

/// Whether the process was started with this standard descriptor (0, 1, 2) closed.
pub(crate) fn was_closed(descriptor: usize) -> bool {
    CLOSED[descriptor].load(Relaxed)
}

/// Whether whoever started the process has it ignore SIGPIPE.
pub(crate) fn pipe_was_ignored() -> bool {
    PIPE_IGNORED.load(Relaxed)
}

// SAFETY: the loader calls what stands in this section before `main`, as a C function; `note`
// uses nothing that the runtime has to set up first.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        // SAFETY: F_GETFD reads a flag of a descriptor, and answers EBADF where there is none.
        let answer = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        let error = std::io::Error::last_os_error().raw_os_error();
        closed.store(answer == -1 && error == Some(libc::EBADF), Relaxed);
    }
    let mut action = std::mem::MaybeUninit::<libc::sigaction>::uninit();
    // SAFETY: it changes nothing when no new action is given, and `action` has room for the old.
    let told = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) };
    if told == 0 {
        // SAFETY: sigaction succeeded, so it has filled `action`.
        let action = unsafe { action.assume_init() };
        PIPE_IGNORED.store(action.sa_sigaction == libc::SIG_IGN, Relaxed);
    }
}
