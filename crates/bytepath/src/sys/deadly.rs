//! Whether a seccomp filter kills whoever makes a system call, found by a process of our own that makes it:
//! systemd's `SystemCallFilter=` kills unless `SystemCallErrorNumber=` is given.
//!
//! Costs a look at /proc/thread-self/status each time, and where there is a filter a fork, once for each thread,
//! call and number of filters: they are a thread's own (and of what it starts), and more may come at any time. Who
//! starts threads for a short while asks before, for all of them.

#![allow(unsafe_code)]

use std::cell::Cell;

use rustix::io::Errno;

use crate::machine::seccomp_filters;

/// The calls that filters forbid, and nothing but speed or sight depends on: they are asked about before they
/// are made. With nothing but zeros as arguments none does anything that outlasts the process.
pub const RISKY_CALLS: [(&str, libc::c_long); 5] = [
    ("io_uring_setup", libc::SYS_io_uring_setup),
    ("io_setup", libc::SYS_io_setup),
    ("userfaultfd", libc::SYS_userfaultfd),
    ("perf_event_open", libc::SYS_perf_event_open),
    ("bpf", libc::SYS_bpf),
];

/// Whether this thread can make one of the [`RISKY_CALLS`] at all; tries it once under the filters that it has.
///
/// # Errors
/// EPERM, as from a filter that refuses it: a filter kills whoever makes it.
///
/// # Panics
/// The call is none of those.
pub fn survived(call: libc::c_long) -> Result<(), Errno> {
    thread_local! {
        /// What was found of each, and under how many filters.
        static FOUND: Cell<[Option<(u32, bool)>; RISKY_CALLS.len()]> =
            const { Cell::new([None; RISKY_CALLS.len()]) };
    }
    let listed = RISKY_CALLS.iter().position(|(_, risky)| *risky == call);
    let listed = listed.expect("it is one of the list");
    let Some(filters) = seccomp_filters() else { return Ok(()) };
    let mut found = FOUND.get();
    let is_deadly = match found[listed] {
        Some((then, is_deadly)) if then == filters => is_deadly,
        _ => kills(call),
    };
    found[listed] = Some((filters, is_deadly));
    FOUND.set(found);
    match is_deadly {
        true => Err(Errno::PERM),
        false => Ok(()),
    }
}

/// An argument as wide as a call takes them.
const NONE: libc::c_long = 0;

fn kills(call: libc::c_long) -> bool {
    // No signal tells of its end, which is nobody else's business: who waits for any child is not given it.
    // SAFETY: as fork(2); the new process makes system calls only.
    let child = unsafe { libc::syscall(libc::SYS_clone, NONE, NONE, NONE, NONE, NONE) };
    if child == 0 {
        // It leaves no core.
        // SAFETY: it concerns this process alone.
        unsafe { libc::prctl(libc::PR_SET_DUMPABLE, NONE) };
        // SAFETY: no call of the list reads or writes anything at address 0.
        unsafe { libc::syscall(call, NONE, NONE, NONE, NONE, NONE, NONE) };
        // SAFETY: nothing of the process it is a copy of is run or written.
        unsafe { libc::_exit(0) };
    }
    let Ok(child) = libc::pid_t::try_from(child) else { return false };
    if child < 0 {
        return false;
    }
    let mut ended = 0;
    // SAFETY: the kernel writes one number to `ended`.
    while unsafe { libc::waitpid(child, &raw mut ended, libc::__WALL) } < 0 {
        if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
            return false;
        }
    }
    libc::WIFSIGNALED(ended) && libc::WTERMSIG(ended) == libc::SIGSYS
}
