//! The signals that a shell in front of a pipeline would get, as a queue that can be waited for.
//!
//! Those of the terminal reach every stage without us, since all are of one group: they only must
//! not end us first. Those that are sent to us alone are passed on. What was ignored when we were
//! started stays ignored, so that the stages begin with it ignored too.

use std::time::{Duration, Instant};

use rustix::event::Timespec;
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGPIPE, SIGTERM};
use signal_hook::low_level::signal_name;

use crate::sys::actions::{ENDING, heeded};
use crate::sys::queue::Queue;

/// Signals that came and were not looked at.
pub(crate) struct Signals {
    queue: Queue,
    /// Those that were seen, but not yet answered.
    seen: Vec<i32>,
    went_on: bool,
}

impl Signals {
    /// Catches them from now on; programs that are started get the default for what is caught.
    pub(crate) fn caught() -> std::io::Result<Signals> {
        let queue = Queue::of(heeded().chain([SIGCHLD]))?;
        crate::metrics::answers(&ENDING);
        Ok(Signals { queue, seen: Vec::new(), went_on: false })
    }

    /// Has the second of them end this process, whatever it is at. What comes with the first is the
    /// same once more: timeout(1) sends one to us and then to our group.
    pub(crate) fn end_by_the_second() -> std::io::Result<()> {
        let signals = Queue::of(heeded())?;
        let wait = move || {
            let mut first = None;
            loop {
                signals.wait(None);
                for signal in signals.came() {
                    if first.get_or_insert_with(Instant::now).elapsed() > SAME_WITHIN {
                        crate::ending::by_signal(signal);
                    }
                }
            }
        };
        std::thread::Builder::new().name("signals".into()).spawn(wait).map(drop)
    }

    /// Hears from now on, too, that this process goes on after it was stopped.
    pub(super) fn hear_of_going_on(&mut self) -> std::io::Result<()> {
        self.queue.add(SIGCONT)
    }

    /// Whether it was made to go on since it was last asked.
    pub(super) fn went_on(&mut self) -> bool {
        self.next();
        std::mem::take(&mut self.went_on)
    }

    /// Takes one that was answered for the same, where it comes once more within [`SAME_WITHIN`] of then.
    pub(super) fn forget(&mut self, (signal, at): (i32, Instant)) {
        let until = at + SAME_WITHIN;
        while self.seen.is_empty() && Instant::now() < until {
            self.wait(Some(until));
            self.next();
            self.seen.retain(|seen| *seen != signal);
        }
    }

    /// Has them end this process from now on, be they yet to come or not answered yet.
    pub(super) fn end_it(mut self) {
        if let Some(signal) = self.next() {
            end_by(signal);
        }
        let heed = move || loop {
            if let Some(signal) = self.came().first() {
                end_by(*signal);
            }
            self.wait(None);
        };
        if std::thread::Builder::new().name("signals".into()).spawn(heed).is_err() {
            crate::metrics::end_at_once(&heeded().collect::<Vec<_>>());
        }
    }

    /// Waits for one, no longer than until then.
    pub(super) fn wait(&self, until: Option<Instant>) {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let left = left
            .map(|left| Timespec::try_from(left.max(Duration::from_micros(100))).unwrap_or(LONG));
        self.queue.wait(left.as_ref());
    }

    /// Those that came, but for the news of children.
    pub(crate) fn came(&mut self) -> Vec<i32> {
        self.next();
        std::mem::take(&mut self.seen)
    }

    /// The first that came, which stays to be answered.
    pub(super) fn next(&mut self) -> Option<i32> {
        let (on, others): (Vec<i32>, Vec<i32>) =
            self.queue.came().partition(|signal| *signal == SIGCONT);
        self.went_on |= !on.is_empty();
        self.seen.extend(others.into_iter().filter(|signal| *signal != SIGCHLD));
        self.seen.first().copied()
    }
}

/// Signals that come within this are one that was sent twice.
const SAME_WITHIN: Duration = Duration::from_millis(250);
const LONG: Timespec = Timespec { tv_sec: 3600, tv_nsec: 0 };

/// Whether it was sent to us and nobody else has it.
pub(crate) fn is_passed_on(signal: i32) -> bool {
    matches!(signal, SIGHUP | SIGTERM)
}

/// Whether a stage that it ended is nothing to tell of: its reader left, or the user wanted its end.
pub(super) fn is_usual_end(signal: i32) -> bool {
    matches!(signal, SIGINT | SIGPIPE)
}

pub(super) fn name(signal: i32) -> String {
    signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Ends this process as a signal that killed what it ran would have, where that can be.
pub(crate) fn end_by(signal: i32) -> ! {
    use nix::sys::resource::{Resource, setrlimit};
    // What it ran has left its memory already, if anybody wants it.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    crate::metrics::ended_by(signal);
    crate::ending::by_signal(signal)
}
