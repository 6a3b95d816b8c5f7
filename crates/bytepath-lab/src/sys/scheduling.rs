//! The scheduling policies of threads, which programs inherit from the one that starts them.
#![allow(unsafe_code)]

/// A thread's policy, as sched(7) numbers them; 0 is this thread. -1 where there is none such.
pub fn policy(task: libc::pid_t) -> libc::c_long {
    // Of the kernel itself: some C libraries refuse to ask it.
    // SAFETY: it takes a number and gives a number.
    unsafe { libc::syscall(libc::SYS_sched_getscheduler, task) }
}

/// Whether what this thread starts goes on until it sleeps, as long as nothing more urgent is there:
/// under SCHED_FIFO (sched(7)). Under SCHED_RR those of one priority take turns, and with
/// SCHED_RESET_ON_FORK, which is a bit beside the policy, what is started has the usual one.
pub(crate) fn children_run_until_they_sleep() -> bool {
    policy(0) == libc::c_long::from(libc::SCHED_FIFO)
}
