//! The rates there were, summed up in one line at the end, as ping does with its times.

/// Sums that the summary follows from; none of it grows with the length of the transfer.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stats {
    count: u64,
    lowest: f64,
    highest: f64,
    sum: f64,
    sum_of_squares: f64,
}

impl Stats {
    /// Takes a rate in.
    pub(crate) fn take(&mut self, rate: f64) {
        let first = self.count == 0;
        self.lowest = if first { rate } else { self.lowest.min(rate) };
        self.highest = if first { rate } else { self.highest.max(rate) };
        self.count += 1;
        self.sum += rate;
        self.sum_of_squares += rate * rate;
    }

    /// The line, in units of `unit` of which each counted thing is `factor`.
    pub(crate) fn line(&self, factor: f64, unit: &str) -> String {
        if self.count == 0 {
            return "rate not measured".into();
        }
        let count = self.count as f64;
        let mean = self.sum / count;
        // Rounding may leave a little less than nothing.
        let deviation = (self.sum_of_squares / count - mean * mean).max(0.0).sqrt();
        let [lowest, mean, highest, deviation] =
            [self.lowest, mean, self.highest, deviation].map(|rate| rate * factor);
        format!(
            "rate min/avg/max/mdev = {lowest:.3}/{mean:.3}/{highest:.3}/{deviation:.3} {unit}/s"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(rates: &[f64]) -> Stats {
        let mut stats = Stats::default();
        rates.iter().for_each(|rate| stats.take(*rate));
        stats
    }

    #[test]
    fn rates_are_summed_up_as_ping_does() {
        let stats = of(&[10.0, 20.0, 10.0, 5.0, 55.0, 0.0]);
        let line = "rate min/avg/max/mdev = 0.000/16.667/55.000/18.181 B/s";
        assert_eq!(stats.line(1.0, "B"), line);
        let line = "rate min/avg/max/mdev = 0.000/133.333/440.000/145.449 b/s";
        assert_eq!(stats.line(8.0, "b"), line);
    }

    #[test]
    fn one_rate_does_not_stray() {
        let line = "rate min/avg/max/mdev = 20.000/20.000/20.000/0.000 B/s";
        assert_eq!(of(&[20.0]).line(1.0, "B"), line);
        let steady = of(&[0.1; 7]).line(1.0, "B");
        assert!(steady.ends_with("/0.000 B/s"), "{steady}");
    }

    #[test]
    fn no_rate_is_said_to_be_none() {
        assert_eq!(of(&[]).line(1.0, "B"), "rate not measured");
    }
}
