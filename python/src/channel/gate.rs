//! What threads look at without the interpreter is not left in the middle when another thread forks: the forked process
//! has what they hold as it is then, for ever, and could not let go of what is its parent's.
//!
//! Both sides wait but for a while, as each may wait for what the other holds: a look may take long, and what others
//! have registered to be done before a fork may wait for a thread. Then it goes on as if nobody was there.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Threads that look, and those that fork.
static LOOKING: AtomicUsize = AtomicUsize::new(0);
static FORKING: AtomicUsize = AtomicUsize::new(0);

/// A fork has the interpreter, for which all others wait.
const FORK_WAITS: Duration = Duration::from_millis(100);
/// A fork takes long where there is much memory.
const LOOK_WAITS: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_micros(50);

/// A thread looks, without the interpreter, for as long as this is there.
#[derive(Debug)]
pub(super) struct Look(());

/// Begins a look, once nobody forks.
pub(super) fn look() -> Look {
    LOOKING.fetch_add(1, SeqCst);
    if is_closed() {
        LOOKING.fetch_sub(1, SeqCst);
        wait(LOOK_WAITS, || !is_closed());
        LOOKING.fetch_add(1, SeqCst);
    }
    Look(())
}

impl Drop for Look {
    fn drop(&mut self) {
        LOOKING.fetch_sub(1, SeqCst);
    }
}

/// To be called before this process forks, with the interpreter.
pub(super) fn close() {
    FORKING.fetch_add(1, SeqCst);
    wait(FORK_WAITS, || LOOKING.load(SeqCst) == 0);
}

/// Whether a thread forks.
pub(super) fn is_closed() -> bool {
    FORKING.load(SeqCst) > 0
}

/// To be called when it has, or could not; whether nobody else forks.
pub(super) fn open() -> bool {
    FORKING.fetch_sub(1, SeqCst) == 1
}

/// To be called in the forked process, which has no other threads.
pub(super) fn open_in_child() {
    FORKING.store(0, SeqCst);
    LOOKING.store(0, SeqCst);
}

fn wait(most: Duration, is_over: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_over() && began.elapsed() < most {
        std::thread::sleep(PAUSE);
    }
}
