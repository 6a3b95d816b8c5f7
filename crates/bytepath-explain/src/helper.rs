//! Threads that empty rings while the work goes on.

use std::fmt;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow, pthread_sigmask};

/// Such a thread. It ends when it is asked for what it has, and when nobody can ask any more.
pub(crate) struct Helper<T> {
    thread: JoinHandle<T>,
    /// Nothing is sent: that it is gone says enough.
    stop: Sender<()>,
}

impl<T> fmt::Debug for Helper<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.thread.fmt(f)
    }
}

/// What its thread waits with.
#[derive(Debug)]
pub(crate) struct Pause(Receiver<()>);

impl Pause {
    /// Waits for so long, or until the thread is to end: whether it is.
    pub(crate) fn is_last(&self, time: Duration) -> bool {
        self.0.recv_timeout(time) == Err(RecvTimeoutError::Disconnected)
    }
}

impl<T: Send + 'static> Helper<T> {
    /// Starts one that gets no signals: who starts a program takes its handlers away for a moment, and
    /// keeps signals from its own thread alone. One that came to another would end the process.
    ///
    /// # Errors
    /// No thread can be had.
    pub(crate) fn start(
        name: &str,
        body: impl FnOnce(&Pause) -> T + Send + 'static,
    ) -> io::Result<Helper<T>> {
        let (stop, stopped) = channel();
        let mut mask = SigSet::empty();
        pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), Some(&mut mask))?;
        let started = Builder::new().name(name.to_owned()).spawn(move || body(&Pause(stopped)));
        mask.thread_set_mask()?;
        Ok(Helper { thread: started?, stop })
    }

    /// Has it end; what it has.
    pub(crate) fn finish(self) -> T {
        drop(self.stop);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_kept_from_it_and_from_nobody_else() {
        let before = SigSet::thread_get_mask().expect("it is told");
        let helper = Helper::start("a helper", |_| SigSet::thread_get_mask()).expect("it starts");
        let its = helper.finish().expect("it is told");
        assert!(its.contains(nix::sys::signal::SIGINT) && its.contains(nix::sys::signal::SIGTERM));
        assert_eq!(SigSet::thread_get_mask().expect("it is told"), before);
    }

    #[test]
    fn it_ends_when_nobody_can_ask_it_any_more() {
        let (tell, told) = channel::<()>();
        let body = move |pause: &Pause| {
            while !pause.is_last(Duration::from_millis(1)) {}
            drop(tell);
        };
        drop(Helper::start("a helper", body).expect("it starts"));
        let ended = told.recv_timeout(Duration::from_secs(60));
        assert_eq!(ended, Err(RecvTimeoutError::Disconnected));
    }
}
