//! What this thread had to wait for its memory.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// How many pages of memory were not there yet when this thread touched them, since it began.
pub(crate) fn of_this_thread() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the kernel writes no more than the structure that `usage` has room for.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: all zeros is a value of it, and so is whatever the kernel writes.
    let usage = unsafe { usage.assume_init() };
    u64::try_from(usage.ru_minflt).unwrap_or(0)
}
