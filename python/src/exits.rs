//! The end of the interpreter while threads are in here.
//!
//! Once an interpreter is going down, a thread that asks for its lock never gets it: Python ends that
//! thread (pthread_exit before 3.14), through frames of Rust, which aborts the whole process. So before
//! the interpreter goes down, `leave` stops what is moving, and threads that were in here stay here,
//! asleep, until the process is gone.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytepath::Cancel;
use pyo3::prelude::*;

/// How long the end of the interpreter waits for threads in here: they stop within a call.
const PATIENCE: Duration = Duration::from_secs(2);

static LEAVING: AtomicBool = AtomicBool::new(false);
static INSIDE: AtomicUsize = AtomicUsize::new(0);
static CANCELS: Mutex<Vec<Weak<Cancel>>> = Mutex::new(Vec::new());

/// Whether the interpreter is going down.
pub(crate) fn leaving() -> bool {
    LEAVING.load(Ordering::SeqCst)
}

/// A thread that is in here, from before it lets go of the interpreter to after it has it back.
pub(crate) struct Inside;

impl Inside {
    pub(crate) fn enter() -> Inside {
        INSIDE.fetch_add(1, Ordering::SeqCst);
        Inside
    }

    /// To be called last before the thread takes the interpreter: does not come back if that is going
    /// down.
    pub(crate) fn about_to_return() {
        if leaving() {
            INSIDE.fetch_sub(1, Ordering::SeqCst);
            loop {
                std::thread::park();
            }
        }
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A cancel that the end of the interpreter asks too.
pub(crate) fn cancel() -> std::io::Result<Arc<Cancel>> {
    let cancel = Arc::new(Cancel::new()?);
    let mut cancels = CANCELS.lock().unwrap_or_else(PoisonError::into_inner);
    cancels.retain(|held| held.strong_count() > 0);
    cancels.push(Arc::downgrade(&cancel));
    Ok(cancel)
}

/// Stops everything that moves, and waits until no other thread is about to ask for the interpreter.
/// The package has it called when the interpreter ends.
#[pyfunction]
pub(crate) fn leave(py: Python<'_>) {
    LEAVING.store(true, Ordering::SeqCst);
    let cancels = std::mem::take(&mut *CANCELS.lock().unwrap_or_else(PoisonError::into_inner));
    for cancel in cancels.iter().filter_map(Weak::upgrade) {
        cancel.cancel();
    }
    // The lock is let go so that those who had asked for it before get it.
    py.detach(|| {
        let began = Instant::now();
        while INSIDE.load(Ordering::SeqCst) > 0 && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}
