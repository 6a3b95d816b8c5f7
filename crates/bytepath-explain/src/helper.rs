//! Threads that empty rings while the work goes on.

use std::io;
use std::thread::{Builder, JoinHandle};

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

/// Starts one that gets no signals: who starts a program takes its handlers away for a moment, and keeps
/// signals from its own thread alone. One that came to another would end the process.
///
/// # Errors
/// No thread can be had.
pub(crate) fn start<T: Send + 'static>(
    name: &str,
    body: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    let mut mask = SigSet::empty();
    pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask))?;
    let started = Builder::new().name(name.to_owned()).spawn(body);
    mask.thread_set_mask()?;
    started
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_kept_from_it_and_from_nobody_else() {
        let before = SigSet::thread_get_mask().expect("it is told");
        let thread = start("a helper", SigSet::thread_get_mask).expect("it starts");
        let its = thread.join().expect("it ends").expect("it is told");
        assert!(its.contains(nix::sys::signal::SIGINT) && its.contains(nix::sys::signal::SIGTERM));
        assert_eq!(SigSet::thread_get_mask().expect("it is told"), before);
    }
}
