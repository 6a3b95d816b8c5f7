//! The CPU that this thread runs on.
#![allow(unsafe_code)]

/// The CPU that this thread runs on now. The C library keeps it where the kernel writes it (rseq(2)),
/// or asks the kernel's own pages: rustix makes a system call of it.
pub(crate) fn this_cpu() -> Option<u32> {
    // SAFETY: it takes nothing and touches no memory of ours.
    let cpu = unsafe { libc::sched_getcpu() };
    u32::try_from(cpu).ok()
}
