//! Medians, and intervals by the bootstrap and by Student's t.

use super::ranks::order_statistic_interval;

/// The share of intervals that shall hold the true value.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Below this many blocks no distribution-free interval reaches 95%, so a t interval stands in.
pub(super) const RANK_BLOCKS_MIN: usize = 6;

/// Fewer blocks than this have no interval. With two, no method tried kept the error rate: under
/// two-mode noise the wider of the t intervals still failed it.
const BLOCKS_MIN: usize = 3;

/// From here on the bootstrap is what it tends to: its terms are as many as the square of the values.
const BOOTSTRAP_VALUES_MAX: usize = 1000;

/// Two-sided 95% points of Student's t for 1, 2, … 8 degrees of freedom (any textbook's table).
/// More are never needed: from [`RANK_BLOCKS_MIN`] blocks on, ranks take over.
const STUDENT_95: [f64; 8] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306];

/// From where to where a figure may lie, in the figure's unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The lower end, included.
    pub low: f64,
    /// The upper end, included.
    pub high: f64,
}

impl Interval {
    /// Whether `value` lies inside, ends included.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// Half the width as a share of `point`: 0.02 reads "±2%".
    pub fn relative_half_width(self, point: f64) -> f64 {
        (self.high - self.low) / 2.0 / point.abs()
    }

    /// The smallest interval that holds both.
    pub(super) fn hull(self, other: Interval) -> Interval {
        Interval { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The smallest interval that holds `point` too, which the way through logarithms moves by a last digit.
    pub(super) fn holding(self, point: f64) -> Interval {
        self.hull(Interval { low: point, high: point })
    }

    /// The same interval after `f` on both ends; `f` must rise.
    pub(super) fn map(self, f: impl Fn(f64) -> f64) -> Interval {
        Interval { low: f(self.low), high: f(self.high) }
    }
}

impl From<Interval> for [f64; 2] {
    fn from(interval: Interval) -> [f64; 2] {
        [interval.low, interval.high]
    }
}

/// Why samples have no interval.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum StatsError {
    /// One block says nothing about the next, and two next to nothing.
    #[error(
        "{blocks} block{} too little about the spread; at least 3 are needed",
        if *.blocks == 1 { " says" } else { "s say" }
    )]
    TooFewBlocks {
        /// How many blocks there were.
        blocks: usize,
    },
    /// Arms of different length cannot be compared block by block.
    #[error("{arm} samples against {reference} of the reference: they must pair up by block")]
    Unpaired {
        /// How many samples the arm has.
        arm: usize,
        /// How many samples the reference arm has.
        reference: usize,
    },
    /// Speeds and times are positive; anything else was not measured.
    #[error("{value} in block {} is neither a speed nor a time: not positive and finite", .block + 1)]
    NotPositive {
        /// The position of the sample among those given, from 0.
        block: usize,
        /// The sample.
        value: f64,
    },
}

/// The median: the middle value, or the mean of the two middle ones. `None` of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 50.0)
}

/// The value below which `percent` (0 to 100) of the values lie, interpolated between neighbours
/// (type 7 of Hyndman and Fan 1996, which R, NumPy and spreadsheets use). `None` of nothing.
pub fn percentile(values: &[f64], percent: f64) -> Option<f64> {
    assert!((0.0..=100.0).contains(&percent), "a percentile lies within 0 and 100, not {percent}");
    let sorted = sorted(values);
    let last = sorted.len().checked_sub(1)?;
    let position = percent / 100.0 * last as f64;
    let below = position.floor() as usize;
    let above = (below + 1).min(last);
    let share = position - below as f64;
    Some(sorted[below] * (1.0 - share) + sorted[above] * share)
}

/// The 95% percentile bootstrap interval of the median, without widening.
///
/// Resampling the blocks with replacement has a distribution that can be written down for the
/// median (Maritz and Jarrett 1978; Efron 1979), so nothing is drawn: this is what infinitely many
/// resamples would give, needs no seed, and costs n² / 2 terms. Of more than 1,000 values it is taken
/// to be that of the order statistics, which it tends to. Panics without values.
pub fn bootstrap_median_interval(values: &[f64]) -> Interval {
    let sorted = sorted(values);
    assert!(!sorted.is_empty(), "the bootstrap needs at least one value");
    if sorted.len() > BOOTSTRAP_VALUES_MAX {
        return order_statistic_interval(&sorted);
    }
    let mut medians =
        if sorted.len() % 2 == 1 { odd_medians(&sorted) } else { even_medians(&sorted) };
    medians.sort_by(|a, b| a.0.total_cmp(&b.0));
    let tail = (1.0 - CONFIDENCE) / 2.0;
    Interval { low: quantile(&medians, tail), high: quantile(&medians, 1.0 - tail) }
}

/// The medians that resamples of an odd number of values can have, each with its probability.
fn odd_medians(sorted: &[f64]) -> Vec<(f64, f64)> {
    let middle = sorted.len() / 2 + 1;
    let at_most: Vec<f64> =
        (0..=sorted.len()).map(|k| order_at_most(sorted.len(), middle, k)).collect();
    sorted.iter().zip(at_most.windows(2)).map(|(x, p)| (*x, p[1] - p[0])).collect()
}

/// Likewise for an even number 2m: the m-th value of the resample is `sorted[i]` and the one after
/// it `sorted[j]`. For i < j that needs m draws at or below i, one of them i itself, and m draws at
/// or above j, one of them j; for i = j the rest of the probability remains.
fn even_medians(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let half = n / 2;
    let ln_choose: f64 = (1..=half).map(|k| ((half + k) as f64 / k as f64).ln()).sum();
    // ln((k/n)^m - ((k-1)/n)^m): the m draws are among k values, and one of them is the k-th.
    let ln_reach: Vec<f64> = (1..=n)
        .map(|k| {
            let (k, n, m) = (k as f64, n as f64, half as f64);
            m * (k / n).ln() + (-((k - 1.0) / k).powf(m)).ln_1p()
        })
        .collect();
    let mut medians = Vec::with_capacity(n * (n + 1) / 2);
    for i in 0..n {
        let mut both = order_at_most(n, half, i + 1) - order_at_most(n, half, i);
        for j in i + 1..n {
            let p = (ln_choose + ln_reach[i] + ln_reach[n - 1 - j]).exp();
            medians.push(((sorted[i] + sorted[j]) / 2.0, p));
            both -= p;
        }
        medians.push((sorted[i], both.max(0.0)));
    }
    medians
}

/// The probability that the `rank`-th smallest of n draws from n values is among the k smallest
/// values: that at least `rank` of n draws, each with probability k/n, fall there.
fn order_at_most(n: usize, rank: usize, k: usize) -> f64 {
    if k == 0 || k == n {
        return if k == 0 { 0.0 } else { 1.0 };
    }
    let p = k as f64 / n as f64;
    let mut ln_term = n as f64 * (1.0 - p).ln();
    let mut below = 0.0;
    for hits in 0..rank {
        below += ln_term.exp();
        ln_term += ((n - hits) as f64 / (hits + 1) as f64 * p / (1.0 - p)).ln();
    }
    (1.0 - below).clamp(0.0, 1.0)
}

/// The smallest of the sorted outcomes that has at least `share` of the probability at or below it.
fn quantile(outcomes: &[(f64, f64)], share: f64) -> f64 {
    let mut sum = 0.0;
    // What rounding leaves of 1e-12 must not push the quantile to the next outcome.
    let reached = outcomes.iter().find(|(_, p)| {
        sum += p;
        sum >= share - 1e-12
    });
    reached.or(outcomes.last()).expect("a resample has at least one median").0
}

/// Student's 95% interval of the mean, for 3 to 5 values.
pub(super) fn student_interval(values: &[f64]) -> Interval {
    let (mean, variance) = mean_and_variance(values);
    let degrees = values.len() - 1;
    let half = STUDENT_95[degrees - 1] * (variance / values.len() as f64).sqrt();
    Interval { low: mean - half, high: mean + half }
}

/// Student's 95% interval of the difference of the means of two arms of 3 to 5 values each, as if
/// nothing joined the values of one block: it also holds how far the blocks differ.
pub(super) fn unpaired_student_interval(values: &[f64], reference: &[f64]) -> Interval {
    let (mean, variance) = mean_and_variance(values);
    let (reference_mean, reference_variance) = mean_and_variance(reference);
    let degrees = 2 * values.len() - 2;
    let error = ((variance + reference_variance) / values.len() as f64).sqrt();
    let half = STUDENT_95[degrees - 1] * error;
    let difference = mean - reference_mean;
    Interval { low: difference - half, high: difference + half }
}

fn mean_and_variance(values: &[f64]) -> (f64, f64) {
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
    (mean, squares / (n - 1.0))
}

/// Refuses fewer than [`BLOCKS_MIN`] blocks.
pub(super) fn enough_blocks(blocks: usize) -> Result<(), StatsError> {
    if blocks < BLOCKS_MIN { Err(StatsError::TooFewBlocks { blocks }) } else { Ok(()) }
}

/// The natural logarithm of each sample, or the first sample that has none.
pub(super) fn logarithms(samples: &[f64]) -> Result<Vec<f64>, StatsError> {
    for (block, &value) in samples.iter().enumerate() {
        if !(value.is_finite() && value > 0.0) {
            return Err(StatsError::NotPositive { block, value });
        }
    }
    Ok(samples.iter().map(|value| value.ln()).collect())
}

/// The values from low to high.
pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}
