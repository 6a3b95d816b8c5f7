//! The thread that draws and answers signals while the first one moves.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags};

use super::live::Live;
use super::monitor;
use super::signals::{self, Asked, Signals};
use super::status::Status;
use super::tally::Tally;
use super::watch::Watch;

/// Told by the mover when it is done.
struct Done(OwnedFd);

impl Done {
    fn new() -> std::io::Result<Done> {
        Ok(Done(rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Waits for it, at most so long; whether the mover is done.
    fn wait(&self, time: Duration) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN)];
        signals::await_any(&mut fds, Some(time));
        !fds[0].revents().is_empty()
    }

    /// Waits for it or a signal, at most so long; whether the mover is done.
    fn wait_or(&self, signals: &Signals, most: Option<Duration>) -> bool {
        let mut fds = [
            PollFd::from_borrowed_fd(self.0.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        signals::await_any(&mut fds, most);
        !fds[0].revents().is_empty()
    }

    fn tell(&self) {
        // Who waits for it would wait for ever: an interruption, and even a refusal that the kernel
        // has no reason for, is tried again.
        for _ in 0..TELL_TRIES_MAX {
            if rustix::io::write(&self.0, &1u64.to_ne_bytes()).is_ok() {
                return;
            }
        }
    }
}

/// Ends the other thread, however the moving ends.
pub(crate) struct Over<'a>(&'a OnceLock<Done>);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        if let Some(done) = self.0.get() {
            done.tell();
        }
    }
}

/// What both threads have: the mover draws how it ended, and the other one everything before.
pub(crate) struct Watcher<'a> {
    live: &'a Live,
    watch: Mutex<Watch<'a>>,
    /// Once there is another thread.
    done: OnceLock<Done>,
}

impl<'a> Watcher<'a> {
    pub(crate) fn new(watch: Watch<'a>) -> Watcher<'a> {
        Watcher { live: watch.live, watch: Mutex::new(watch), done: OnceLock::new() }
    }

    /// Lets another thread draw and answer signals. Moving is left to this one: starting the other,
    /// which sleeps most of the time, must not hold up the first byte, nor waking it the end.
    pub(crate) fn start<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) {
        // Where it cannot be had (RLIMIT_NPROC, pids.max, RLIMIT_NOFILE), moving comes first.
        if self.started(scope).is_err() {
            signals::end_at_once();
        }
    }

    fn started<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>) -> std::io::Result<()> {
        let signals = self.live.signals()?;
        self.live.can_end()?;
        let done = Done::new()?;
        let done = self.done.get_or_init(|| done);
        std::thread::Builder::new().spawn_scoped(scope, || {
            self.live.keep(self.run(signals, done));
        })?;
        Ok(())
    }

    /// Draws how the moving ended, now that it has.
    pub(crate) fn moved(&self, status: Status) -> Status {
        if self.live.moved() {
            self.lock().draw_last();
            let by_signal = if signals::ends() { Status::SIGNAL } else { Status::DONE };
            return status | by_signal;
        }
        // A signal asked for the end: the other thread has waited for this, and ends the process.
        drop(self.over());
        loop {
            std::thread::park();
        }
    }

    /// Tells the other thread, if there is one, that it is over, when this is dropped.
    pub(crate) fn over(&self) -> Over<'_> {
        Over(&self.done)
    }

    fn lock(&self) -> MutexGuard<'_, Watch<'a>> {
        // A panic while drawing is no reason to lose bytes.
        self.watch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws and answers until the mover is done, or ends the process as a signal asks. Signals that it did
    /// not answer are still among those that it gives back.
    fn run(&self, mut signals: Signals, done: &Done) -> Signals {
        self.lock().take_rows();
        loop {
            let idle = self.lock().idle();
            if done.wait_or(&signals, idle) {
                return signals;
            }
            let mut watch = self.lock();
            if self.live.over() {
                // How it ended is drawn.
                return signals;
            }
            watch.look();
            for asked in signals.asked() {
                let Asked::End(signal) = asked else {
                    watch.answer(asked);
                    continue;
                };
                if self.live.end() {
                    watch.draw_last();
                    let_go(&watch, done);
                    monitor::pass_on(signal);
                    super::end(Status::SIGNAL);
                }
            }
            watch.draw_if_due();
        }
    }
}

/// Lets the mover write what it has taken from its source, and tells what nobody takes.
fn let_go(watch: &Watch<'_>, done: &Done) {
    let tallies = || watch.bars.iter().map(|bar| bar.side.tally);
    let held = || tallies().map(Tally::held_bytes).sum::<u64>();
    let waits = || held() > 0 || tallies().any(Tally::is_awaited);
    let until = Instant::now() + GRACE;
    while waits() && Instant::now() < until && !done.wait(LOOK) {}
    match held() {
        0 => {}
        bytes => watch
            .live
            .say(format_args!("{bytes} bytes were read and could not be written any more")),
    }
}

/// How long a reader has to take what our buffer holds, after a signal.
const GRACE: Duration = Duration::from_millis(500);

/// How often it is looked whether it has taken them.
const LOOK: Duration = Duration::from_millis(5);

/// More refusals in a row than a tracer or a storm of signals makes.
const TELL_TRIES_MAX: usize = 1000;
