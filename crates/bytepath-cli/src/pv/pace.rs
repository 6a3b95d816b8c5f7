//! How much may be moved now so that the rate asked for is kept.

use std::time::{Duration, Instant};

/// What was not used while the source had nothing may be caught up with, at most for this long.
const BURST: Duration = Duration::from_millis(500);

/// How long a share is meant to last: ten steps a second look smooth.
const STEP: Duration = Duration::from_millis(100);

/// Keeps a rate, in bytes or lines a second, that may change at any time.
#[derive(Debug)]
pub(crate) struct Pace {
    rate: Option<u64>,
    /// What may be moved, as of `since`; a fraction is kept.
    saved: f64,
    since: Instant,
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Share {
    /// Move at most so many.
    Now(u64),
    /// Nothing yet: ask again after this time.
    After(Duration),
}

impl Pace {
    /// The first step may be made at once: what is small is not held up.
    pub(crate) fn new(rate: Option<u64>, now: Instant) -> Pace {
        let saved = rate.map_or(0.0, |rate| step(rate as f64));
        Pace { rate, saved, since: now }
    }

    /// What may be moved at `now`, `rate` being what is asked for now.
    pub(crate) fn share(&mut self, rate: Option<u64>, now: Instant) -> Share {
        if rate != self.rate {
            *self = Pace { rate, saved: 0.0, since: now };
        }
        let Some(rate) = rate else { return Share::Now(u64::MAX) };
        let rate = rate as f64;
        let earned = now.saturating_duration_since(self.since).as_secs_f64() * rate;
        self.saved = (self.saved + earned).min((rate * BURST.as_secs_f64()).max(1.0));
        self.since = now;
        let step = step(rate);
        if self.saved + 1e-6 >= step {
            Share::Now((self.saved + 1e-6) as u64)
        } else {
            // A change of the rate is noticed at the next step.
            let wait = Duration::from_secs_f64((step - self.saved) / rate);
            Share::After(wait.min(STEP).max(Duration::from_millis(1)))
        }
    }

    /// So many were moved.
    pub(crate) fn used(&mut self, count: u64) {
        if self.rate.is_some() {
            self.saved -= count as f64;
        }
    }
}

/// At least one, however slow: fractions cannot be moved.
fn step(rate: f64) -> f64 {
    (rate * STEP.as_secs_f64()).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves all that it may for `seconds`, 1 ms at a time.
    fn moved(pace: &mut Pace, rate: Option<u64>, from: Instant, milliseconds: u64) -> u64 {
        let mut total = 0;
        for millisecond in 0..milliseconds {
            let now = from + Duration::from_millis(millisecond);
            if let Share::Now(count) = pace.share(rate, now) {
                pace.used(count);
                total += count;
            }
        }
        total
    }

    #[test]
    fn a_rate_is_kept_to_within_a_step() {
        for rate in [1, 7, 10, 1000, 1 << 30] {
            let now = Instant::now();
            let mut pace = Pace::new(Some(rate), now);
            let total = moved(&mut pace, Some(rate), now, 10_001);
            let step = rate / 10 + 1;
            assert!(total <= rate * 10 + step && total + step >= rate * 10, "{rate}: {total}");
        }
    }

    #[test]
    fn the_first_step_is_made_at_once() {
        let now = Instant::now();
        assert_eq!(Pace::new(Some(1), now).share(Some(1), now), Share::Now(1));
        assert_eq!(Pace::new(Some(1000), now).share(Some(1000), now), Share::Now(100));
    }

    #[test]
    fn a_pause_is_caught_up_with_for_half_a_second_at_most() {
        let now = Instant::now();
        let mut pace = Pace::new(Some(1000), now);
        assert_eq!(pace.share(Some(1000), now + Duration::from_secs(60)), Share::Now(500));
    }

    #[test]
    fn without_a_rate_everything_may_go() {
        let now = Instant::now();
        assert_eq!(Pace::new(None, now).share(None, now), Share::Now(u64::MAX));
    }

    #[test]
    fn a_new_rate_holds_at_once() {
        let now = Instant::now();
        let mut pace = Pace::new(Some(1), now);
        let later = now + Duration::from_secs(5);
        assert_eq!(pace.share(None, later), Share::Now(u64::MAX));
        assert!(matches!(pace.share(Some(10), later), Share::After(_)));
    }
}
