//! Whether a plan gives what was expected of it, and what to change where it does not. Pure.
//!
//! A slow peer makes every plan slow, and no change of ours helps; so only a mover that was busy
//! while it was slow tries another route, each at most once, and goes back unless that is better.
//! One that spins for a peer that does not come stops spinning, for good.

use std::time::Duration;

/// A plan is far behind when it gives less than this share of what was expected.
const FAR_BEHIND: f64 = 0.5;

/// So many windows in a row, as one alone may have been somebody else's doing.
const WINDOWS_BEHIND: u32 = 2;

/// From this share of the time on the CPU on, the mover itself was what took the time.
const BUSY: f64 = 0.5;

/// Another route has to be this much faster to be kept.
const GAIN_MIN: f64 = 1.1;

/// A window shorter than this says nothing.
const WINDOW_MIN: Duration = Duration::from_millis(5);

/// What one stretch of a movement took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) bytes: u64,
    pub(super) wall: Duration,
    /// Of the moving thread.
    pub(super) cpu: Duration,
}

impl Window {
    pub(super) fn gib_per_s(&self) -> f64 {
        self.bytes as f64 / f64::from(1 << 30) / self.wall.as_secs_f64().max(1e-9)
    }

    fn busy(&self) -> bool {
        self.cpu.as_secs_f64() >= BUSY * self.wall.as_secs_f64()
    }
}

/// What is being tried, as far as watching depends on it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Trying {
    /// What was measured on this machine; nothing is watched without it.
    pub(super) expected_gib_per_s: Option<f64>,
    /// Whether it spins before it sleeps.
    pub(super) spins: bool,
    /// Whether there is a route behind it.
    pub(super) has_next: bool,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advice {
    /// Go on as it is.
    Stay,
    /// Sleep instead of spinning.
    Sleep,
    /// Go on by the next route.
    Next,
    /// Go on by the route before.
    Back,
}

/// The watch over one movement.
#[derive(Debug, Default)]
pub(super) struct Watch {
    behind: u32,
    /// What the route before gave, while the present one is on trial.
    before_gib_per_s: Option<f64>,
    /// Whether no other route is tried any more.
    settled: bool,
}

impl Watch {
    /// To be told of each window of a movement.
    pub(super) fn saw(&mut self, window: &Window, trying: Trying) -> Advice {
        if window.wall < WINDOW_MIN {
            return Advice::Stay;
        }
        let rate = window.gib_per_s();
        if let Some(before) = self.before_gib_per_s.take() {
            self.settled = rate < before * GAIN_MIN;
            return if self.settled { Advice::Back } else { Advice::Stay };
        }
        let Some(expected) = trying.expected_gib_per_s else { return Advice::Stay };
        if rate >= expected * FAR_BEHIND {
            self.behind = 0;
            return Advice::Stay;
        }
        self.behind += 1;
        if self.behind < WINDOWS_BEHIND {
            return Advice::Stay;
        }
        self.behind = 0;
        self.change(window, trying)
    }

    fn change(&mut self, window: &Window, trying: Trying) -> Advice {
        if trying.spins {
            return Advice::Sleep;
        }
        if self.settled || !trying.has_next || !window.busy() {
            return Advice::Stay;
        }
        self.before_gib_per_s = Some(window.gib_per_s());
        Advice::Next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRYING: Trying = Trying { expected_gib_per_s: Some(8.0), spins: false, has_next: true };

    /// A window of a tenth of a second.
    fn window(gib_per_s: f64, busy: f64) -> Window {
        let wall = Duration::from_millis(100);
        let bytes = (gib_per_s * f64::from(1 << 30) / 10.0) as u64;
        Window { bytes, wall, cpu: wall.mul_f64(busy) }
    }

    fn advice(watch: &mut Watch, windows: &[(f64, f64)], trying: Trying) -> Vec<Advice> {
        windows.iter().map(|(rate, busy)| watch.saw(&window(*rate, *busy), trying)).collect()
    }

    #[test]
    fn a_plan_that_gives_what_was_expected_stays() {
        let seen = advice(&mut Watch::default(), &[(8.0, 1.0), (5.0, 1.0), (9.0, 0.1)], TRYING);
        assert!(seen.iter().all(|advice| *advice == Advice::Stay), "{seen:?}");
    }

    #[test]
    fn one_slow_window_changes_nothing() {
        let windows = [(1.0, 1.0), (8.0, 1.0), (1.0, 1.0), (8.0, 1.0)];
        let seen = advice(&mut Watch::default(), &windows, TRYING);
        assert!(seen.iter().all(|advice| *advice == Advice::Stay), "{seen:?}");
    }

    #[test]
    fn a_slow_peer_changes_no_route() {
        let seen = advice(&mut Watch::default(), &[(1.0, 0.1); 100], TRYING);
        assert!(seen.iter().all(|advice| *advice == Advice::Stay), "{seen:?}");
    }

    #[test]
    fn spinning_for_a_slow_peer_ends_once() {
        let spinning = Trying { spins: true, ..TRYING };
        let mut watch = Watch::default();
        let seen = advice(&mut watch, &[(1.0, 1.0); 2], spinning);
        assert_eq!(seen, [Advice::Stay, Advice::Sleep]);
        let seen = advice(&mut watch, &[(1.0, 0.1); 50], TRYING);
        assert!(seen.iter().all(|advice| *advice == Advice::Stay), "{seen:?}");
    }

    #[test]
    fn a_busy_mover_tries_the_next_route_and_goes_back_unless_it_is_better() {
        let mut watch = Watch::default();
        let seen = advice(&mut watch, &[(1.0, 0.9), (1.0, 0.9), (1.05, 0.9)], TRYING);
        assert_eq!(seen, [Advice::Stay, Advice::Next, Advice::Back]);
        let seen = advice(&mut watch, &[(1.0, 0.9); 100], TRYING);
        assert!(seen.iter().all(|advice| *advice == Advice::Stay), "no swinging: {seen:?}");
    }

    #[test]
    fn a_better_route_is_kept() {
        let mut watch = Watch::default();
        let seen = advice(&mut watch, &[(1.0, 0.9), (1.0, 0.9), (5.0, 0.9), (5.0, 0.9)], TRYING);
        assert_eq!(seen, [Advice::Stay, Advice::Next, Advice::Stay, Advice::Stay]);
    }

    #[test]
    fn without_figures_nothing_is_watched() {
        let trying = Trying { expected_gib_per_s: None, ..TRYING };
        let seen = advice(&mut Watch::default(), &[(0.001, 1.0); 10], trying);
        assert!(seen.iter().all(|advice| *advice == Advice::Stay), "{seen:?}");
    }
}
