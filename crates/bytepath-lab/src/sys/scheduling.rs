//! The scheduling policy that programs inherit from the thread that starts them.
#![allow(unsafe_code)]

/// Whether what this thread starts goes on until it sleeps, as long as nothing more urgent is there:
/// under SCHED_FIFO (sched(7)). Under SCHED_RR those of one priority take turns, and with
/// SCHED_RESET_ON_FORK, which is a bit beside the policy, what is started has the usual one.
pub(crate) fn children_run_until_they_sleep() -> bool {
    // Of the kernel itself: some C libraries refuse to ask it.
    // SAFETY: it takes a number, of which 0 is this thread, and gives a number.
    let policy = unsafe { libc::syscall(libc::SYS_sched_getscheduler, 0) };
    policy == libc::c_long::from(libc::SCHED_FIFO)
}
