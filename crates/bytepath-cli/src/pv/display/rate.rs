//! How fast it goes: now, over the last while, and over all of it; and where the marker is.

use std::collections::VecDeque;

use super::Moment;
use super::stats::Stats;

/// Remembers what rates follow from. Rates are bytes (or lines) a second.
#[derive(Clone, Debug)]
pub(crate) struct Rates {
    /// Elapsed seconds and amount when the rate was last worked out.
    before: (f64, u64),
    /// The amount at the beginning.
    first: u64,
    current: f64,
    highest: f64,
    /// Over the whole transfer, once it is over.
    overall: Option<f64>,
    window: Window,
    marker: u8,
    stats: Stats,
    /// What was told last, so that telling it again changes nothing.
    told: Option<(f64, u64, bool)>,
}

/// Shorter times say nothing about a rate: one large write would look like a burst.
const TIME_S_MIN: f64 = 0.01;

/// What a transfer is taken to have lasted that was over at once.
const WHOLE_S_MIN: f64 = 1e-6;

/// Percent of the way that the marker goes each time, and where it starts again.
const MARKER_STEP: u8 = 2;
const MARKER_END: u8 = 200;

impl Rates {
    /// Averages over a window of so many seconds.
    pub(crate) fn over(window_s: u64) -> Self {
        Self {
            before: (0.0, 0),
            first: 0,
            current: 0.0,
            highest: 0.0,
            overall: None,
            window: Window::of(window_s),
            marker: 0,
            stats: Stats::default(),
            told: None,
        }
    }

    /// Counts from this amount on.
    pub(crate) fn start_at(&mut self, amount: u64) {
        self.before = (0.0, amount);
        self.first = amount;
    }

    /// Averages over another window from now on; what it begins with is the average so far.
    pub(crate) fn average_over(&mut self, window_s: u64) {
        let new = Window::of(window_s);
        if (new.apart_s, new.kept) != (self.window.apart_s, self.window.kept) {
            let samples = self.window.samples.drain(..).rev().take(new.kept).collect::<Vec<_>>();
            let samples = samples.into_iter().rev().collect();
            let Window { average, stood, .. } = self.window;
            self.window = Window { samples, average, stood, ..new };
        }
    }

    /// Takes a moment in. Telling the same one twice is telling it once.
    pub(crate) fn take(&mut self, moment: &Moment<'_>) {
        let (elapsed, amount) = (moment.elapsed.as_secs_f64(), moment.amount);
        let told = Some((elapsed, amount, moment.last));
        if self.told == told {
            return;
        }
        self.told = told;
        let time = elapsed - self.before.0;
        if time > TIME_S_MIN {
            self.current = (amount as f64 - self.before.1 as f64) / time;
            self.before = (elapsed, amount);
            self.highest = self.highest.max(self.current);
            self.stats.take(self.current);
            self.window.take(elapsed, amount, self.current);
        }
        let moved = amount as f64 - self.first as f64;
        self.overall = moment.last.then(|| moved / elapsed.max(WHOLE_S_MIN));
        if self.current() > 0.0 {
            self.marker = (self.marker + MARKER_STEP) % MARKER_END;
        }
    }

    /// Now; at the end, over the whole transfer.
    pub(crate) fn current(&self) -> f64 {
        self.overall.unwrap_or(self.current)
    }

    /// Over the window; at the end, over the whole transfer.
    pub(crate) fn average(&self) -> f64 {
        self.overall.unwrap_or(self.window.average)
    }

    /// Over the window also at the end: what the finishing time follows from.
    pub(crate) fn recent(&self) -> f64 {
        self.window.average
    }

    /// The highest so far.
    pub(crate) fn highest(&self) -> f64 {
        self.highest
    }

    /// The current rate as a part of the highest; more than 1 only at the end, where the rate over
    /// the whole may be higher than any that was seen.
    pub(crate) fn part_of_highest(&self) -> f64 {
        if self.highest > 0.0 { (self.current() / self.highest).max(0.0) } else { 0.0 }
    }

    /// Percent of the marker's way, to and fro: 0 to 198.
    pub(crate) fn marker(&self) -> u8 {
        self.marker
    }

    /// Percent of the marker's way from the left edge.
    pub(crate) fn marker_place(&self) -> u8 {
        self.marker.min(MARKER_END - self.marker)
    }

    /// The rates there were.
    pub(crate) fn stats(&self) -> &Stats {
        &self.stats
    }
}

/// Amounts at times that lie apart, as far back as the window reaches.
#[derive(Clone, Debug)]
struct Window {
    apart_s: f64,
    kept: usize,
    samples: VecDeque<(f64, u64)>,
    average: f64,
    /// Whether nothing had moved as of the last sample.
    stood: bool,
}

impl Window {
    /// Long windows are remembered in steps of five seconds, short ones second by second, so that
    /// neither takes more than a few samples.
    fn of(window_s: u64) -> Self {
        let apart_s = if window_s >= 20 { 5 } else { 1 };
        let steps = (window_s / apart_s).clamp(1, STEPS_MAX);
        let kept = usize::try_from(steps).map_or(usize::MAX, |steps| steps + 1);
        Self { apart_s: apart_s as f64, kept, samples: VecDeque::new(), average: 0.0, stood: true }
    }

    /// Between two samples the average stays, so that what follows from it counts down evenly; unless
    /// nothing had moved, from which nothing follows.
    fn take(&mut self, elapsed: f64, amount: u64, current: f64) {
        let is_due = self.samples.back().is_none_or(|(before, _)| elapsed - before >= self.apart_s);
        if is_due {
            if self.samples.len() == self.kept {
                self.samples.pop_front();
            }
            self.samples.push_back((elapsed, amount));
        } else if !self.stood {
            return;
        }
        self.average = match self.samples.front() {
            Some((first, least)) if *first < elapsed => {
                (amount as f64 - *least as f64) / (elapsed - first)
            }
            _ => current,
        };
        if is_due {
            self.stood = self.average == 0.0;
        }
    }
}

/// Enough for a window of half a day; a longer one is as good as that.
const STEPS_MAX: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: f64, amount: u64) -> Moment<'static> {
        Moment { elapsed: Duration::from_secs_f64(seconds), amount, ..Moment::default() }
    }

    fn averages(window_s: u64, moments: &[(f64, u64)]) -> Vec<f64> {
        let mut rates = Rates::over(window_s);
        let average = |(seconds, amount): &(f64, u64)| {
            rates.take(&at(*seconds, *amount));
            rates.average()
        };
        moments.iter().map(average).collect()
    }

    fn squares(seconds: u64) -> Vec<(f64, u64)> {
        (1..=seconds).map(|second| (second as f64, second * second * 10)).collect()
    }

    #[test]
    fn a_short_window_moves_every_second() {
        let expected = [10.0, 30.0, 40.0, 50.0, 60.0, 70.0, 90.0, 110.0];
        assert_eq!(averages(5, &squares(8)), expected);
        assert_eq!(averages(1, &squares(4)), [10.0, 30.0, 50.0, 70.0]);
        assert_eq!(averages(0, &squares(4)), [10.0, 30.0, 50.0, 70.0]);
    }

    #[test]
    fn a_long_window_moves_every_five_seconds() {
        let expected = [10.0, 10.0, 10.0, 10.0, 10.0, 70.0, 70.0, 70.0, 70.0, 70.0, 120.0];
        assert_eq!(averages(30, &squares(11)), expected);
    }

    #[test]
    fn what_moves_after_nothing_did_is_told_at_once() {
        let moments = [(1.0, 0), (2.0, 100), (3.0, 400), (6.0, 1000), (7.0, 9000)];
        assert_eq!(averages(30, &moments), [0.0, 100.0, 200.0, 200.0, 200.0]);
    }

    #[test]
    fn another_window_goes_on_from_what_is_known() {
        let mut rates = Rates::over(5);
        for (seconds, amount) in squares(6) {
            rates.take(&at(seconds, amount));
        }
        rates.average_over(1);
        assert_eq!(rates.average(), 70.0);
        rates.take(&at(7.0, 490));
        assert_eq!(rates.average(), 130.0);
    }

    #[test]
    fn a_moment_told_twice_counts_once() {
        let mut rates = Rates::over(30);
        for _ in 0..3 {
            rates.take(&at(1.0, 100));
        }
        assert_eq!((rates.current(), rates.marker()), (100.0, 2));
    }

    #[test]
    fn too_short_a_time_leaves_the_rate_as_it_was() {
        let mut rates = Rates::over(30);
        rates.take(&at(1.0, 100));
        rates.take(&at(1.005, 1_000_000));
        assert_eq!(rates.current(), 100.0);
        rates.take(&at(2.0, 1_000_000));
        assert_eq!(rates.current(), 999_900.0);
    }

    #[test]
    fn at_the_end_rates_are_those_of_the_whole_but_the_recent_one_stays() {
        let mut rates = Rates::over(30);
        rates.take(&at(1.0, 100));
        rates.take(&Moment { last: true, ..at(4.0, 700) });
        assert_eq!((rates.current(), rates.average(), rates.recent()), (175.0, 175.0, 100.0));
    }

    #[test]
    fn what_was_over_at_once_took_a_millionth_of_a_second() {
        let mut rates = Rates::over(30);
        rates.take(&Moment { last: true, ..at(0.0, 100) });
        assert_eq!(rates.current(), 100_000_000.0);
        let mut nothing = Rates::over(30);
        nothing.take(&Moment { last: true, ..at(0.0, 0) });
        assert_eq!(nothing.current(), 0.0);
    }

    #[test]
    fn a_marker_goes_to_and_fro_while_bytes_move() {
        let mut rates = Rates::over(30);
        let places: Vec<u8> = (1..=102)
            .map(|second| {
                rates.take(&at(f64::from(second), second as u64));
                rates.marker_place()
            })
            .collect();
        assert_eq!((places[0], places[49], places[50], places[98]), (2, 100, 98, 2));
        assert_eq!((places[99], places[100]), (0, 2));
        rates.take(&at(200.0, 102));
        assert_eq!(rates.marker_place(), places[101]);
    }

    #[test]
    fn going_backwards_has_a_rate_below_nothing() {
        let mut rates = Rates::over(30);
        rates.take(&at(1.0, 100));
        rates.take(&at(2.0, 40));
        assert_eq!(rates.current(), -60.0);
        assert_eq!(rates.part_of_highest(), 0.0);
    }
}
