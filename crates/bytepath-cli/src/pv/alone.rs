//! The first moments of a job, in which nobody draws and nobody answers signals: a second thread
//! would cost more than all of a small job.

use std::cell::{Cell, OnceCell};
use std::ffi::OsStr;
use std::time::Duration;

use bytepath::Cancel;
use bytepath_lab::interval::Interval;

use super::ends;

/// Before anybody could see or ask anything.
const MOMENT: Duration = Duration::from_millis(20);

/// A job that nobody watches yet. Signals do what they do to a program that does not catch them.
pub(crate) struct Alone<'a> {
    watch: &'a dyn Fn(),
    /// Stops what moves when the moment is over.
    moment: Cell<Option<Interval>>,
    watched: OnceCell<()>,
}

impl<'a> Alone<'a> {
    /// From now on; `watch` is called at most once.
    pub(crate) fn new(watch: &'a dyn Fn()) -> Alone<'a> {
        let moment = Cell::new(Interval::start(MOMENT).ok());
        Alone { watch, moment, watched: OnceCell::new() }
    }

    /// From here on somebody watches.
    pub(crate) fn end(&self) {
        // Whoever watches is not to be interrupted.
        drop(self.moment.take());
        self.watched.get_or_init(self.watch);
    }

    /// Ends it if opening this input may take longer than a moment, as it does with a FIFO.
    pub(crate) fn opens(&self, input: &OsStr) {
        let here = || std::fs::metadata(input).is_ok_and(|found| found.is_file());
        if self.watched.get().is_none() && !ends::is_stdin(input) && !here() {
            self.end();
        }
    }

    /// What stops a transfer when the moment is over; `None` where somebody watches.
    pub(crate) fn moment(&self) -> Option<&'static Cancel> {
        let going = |_: &Interval| !Interval::over().is_cancelled();
        let Some(interval) = self.moment.take().filter(going) else {
            self.end();
            return None;
        };
        self.moment.set(Some(interval));
        Some(Interval::over())
    }
}
