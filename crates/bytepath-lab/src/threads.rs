//! Threads of which none begins before all of them are there, so that they may wait for each other.

use std::io::Error;
use std::sync::OnceLock;
use std::thread::{Builder, scope};

/// Does each of the works on a thread of its own, and something else `meanwhile`; what all of them came
/// to. Where a thread cannot be had, nothing is done.
///
/// # Errors
/// A thread cannot be had; says why, and what to do.
pub(crate) fn all_at_once<T: Send, M>(
    works: impl ExactSizeIterator<Item = impl FnOnce() -> T + Send>,
    meanwhile: impl FnOnce() -> M,
) -> Result<(Vec<T>, M), String> {
    let count = works.len();
    let all_there = OnceLock::new();
    scope(|scope| {
        let start = |(number, work)| {
            let all_there: &OnceLock<bool> = &all_there;
            let begin = move || all_there.wait().then(work);
            let started = Builder::new().spawn_scoped(scope, begin);
            started.map_err(|error| no_thread(number + 1, count, &error))
        };
        let threads: Result<Vec<_>, _> = works.enumerate().map(start).collect();
        let _ = all_there.set(threads.is_ok());
        let threads = threads?;
        let meanwhile = meanwhile();
        let ended = threads.into_iter().filter_map(|thread| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        Ok((ended.collect(), meanwhile))
    })
}

fn no_thread(number: usize, count: usize, error: &Error) -> String {
    format!(
        "cannot start thread {number} of {count}: {error}; take fewer threads, or raise what limits them \
         (ulimit -u, ulimit -v, pids.max of the cgroup)"
    )
}
