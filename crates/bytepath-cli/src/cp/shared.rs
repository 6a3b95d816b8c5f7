//! What every step of a run goes by, and what any of them may tell of.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytepath_report::Outcome;
use rustix::fs::Stat;

use super::extras::Extras;
use super::hand::Hand;
use super::pair::Pair;
use super::place::Place;
use super::settings::{Make, Settings};
use super::stage::Stage;
use super::tally::{Holes, TO_LOOK, Tally};
use super::voice::{Voice, q};
use crate::planning::PlanOptions;

/// A copying is watched, for signals, once it has taken so long.
pub(super) const WATCHED_AFTER: Duration = Duration::from_millis(50);

/// What every step of a run goes by.
pub(super) struct Shared<'a> {
    pub(super) settings: &'a Settings,
    pub(super) plan: &'a PlanOptions,
    pub(super) extras: &'a Extras,
    pub(super) tally: &'a Tally,
    /// Of the tally's hands, that of this thread.
    pub(super) hand: &'a Hand,
    pub(super) voice: &'a Voice<'a>,
    /// The bits that new files do not get.
    pub(super) umask: u32,
    /// Where files wait that replace others, when several machines copy one tree.
    pub(super) stage: Option<&'a Stage>,
    /// Begins what answers signals, for what may take so long that somebody sends one; where this
    /// thread may.
    pub(super) watch: Option<&'a Watch<'a>>,
}

/// What begins what answers signals: a thread, which most copyings are over without.
pub(super) struct Watch<'a> {
    begin: &'a (dyn Fn() + Sync),
    since: Instant,
    begun: AtomicBool,
}

impl<'a> Watch<'a> {
    /// Of what begins now.
    pub(super) fn new(begin: &'a (dyn Fn() + Sync)) -> Watch<'a> {
        Watch { begin, since: Instant::now(), begun: AtomicBool::new(false) }
    }
}

impl Shared<'_> {
    /// From now on it may take so long that somebody asks how far it is, or interrupts it.
    pub(super) fn takes_long(&self) {
        if let Some(watch) = self.watch
            && !watch.begun.swap(true, Relaxed)
        {
            (watch.begin)();
        }
    }

    /// The same, if it has taken long by now.
    pub(super) fn goes_on(&self) {
        let begins = |watch: &Watch<'_>| {
            !watch.begun.load(Relaxed) && watch.since.elapsed() >= WATCHED_AFTER
        };
        if self.watch.is_some_and(begins) {
            self.takes_long();
        }
    }

    /// Whether it is counted how much there is to copy.
    pub(super) fn is_counted(&self) -> bool {
        let extras = self.extras;
        let wanted = extras.progress.is_some() || extras.metrics.metrics.is_some();
        wanted && self.settings.make == Make::Copy
    }

    /// Notes that a source is not copied, as what is there stays as it is.
    pub(super) fn skipped(&self, pair: &Pair, stat: &Stat) {
        self.voice.ledger.outcome(Outcome::Skipped);
        if self.is_counted() {
            let open = || pair.source.open(TO_LOOK, 0);
            let holes = (self.settings, Holes::Kept);
            self.tally.total.skipped.add((stat, pair.argument), holes, open);
        }
    }

    /// Whether a signal that ends a copying has zeros between its bytes cut off, or that is somebody
    /// else's business.
    pub(super) fn may_leave_gaps(&self) -> bool {
        self.tally.watched.load(Relaxed) || self.stage.is_some()
    }

    pub(super) fn say_removed(&self, place: &Place) {
        if self.settings.verbose {
            self.voice.line(format!("removed {}", q(&place.shown)).as_bytes());
        }
    }

    pub(super) fn say_skipped(&self, pair: &Pair) {
        if self.settings.debug {
            self.voice.line(format!("skipped {}", q(&pair.sink.shown)).as_bytes());
        }
    }

    pub(super) fn say_copied(&self, pair: &Pair, backup: Option<&Place>) {
        if self.settings.verbose {
            let mut line = format!("{} -> {}", q(&pair.source.shown), q(&pair.sink.shown));
            if let Some(backup) = backup {
                line.push_str(&format!(" (backup: {})", q(&backup.shown)));
            }
            self.voice.line(line.as_bytes());
        }
    }
}
