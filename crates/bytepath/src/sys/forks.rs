//! How often this process was forked from another, as far as it has asked: a forked process has another
//! count than its parent. Asking costs a look at memory.

#![allow(unsafe_code)]

use std::sync::Once;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

static FORKS: AtomicU32 = AtomicU32::new(0);

extern "C" fn forked() {
    FORKS.fetch_add(1, Relaxed);
}

/// The count now.
pub(crate) fn count() -> u32 {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        // Where there is no memory for it (ENOMEM), the count stays what it was.
        // SAFETY: the handler does nothing but count, which is safe after fork(2).
        let _ = unsafe { libc::pthread_atfork(None, None, Some(forked)) };
    });
    FORKS.load(Relaxed)
}
