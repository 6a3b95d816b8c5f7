//! Intervals from the order of the values alone: no assumption about how the noise is shaped.

use super::interval::{CONFIDENCE, Interval, RANK_BLOCKS_MIN, sorted};

/// Up to this many blocks Wilcoxon's distribution is counted out; above it the normal
/// approximation is good to three decimals.
const WILCOXON_EXACT_MAX: usize = 50;

/// The bit of a floating-point number that says that it is negative.
const SIGN: u64 = 1 << 63;

/// The 97.5% point of the normal distribution.
const NORMAL_975: f64 = 1.959_964;

/// Wilcoxon's 95% signed-rank interval of the centre: the means of all pairs (each value paired
/// with itself too), without the k smallest and the k largest of them (Hodges and Lehmann 1963;
/// Hollander, Wolfe and Chicken, "Nonparametric statistical methods", section 3.3).
///
/// It excludes 0 in at most 5% of cases where each value is as likely to come out with the other
/// sign. The means are counted and never written down, so that a hundred thousand values take no
/// more memory than they have.
pub(super) fn signed_rank_interval(values: &[f64]) -> Interval {
    assert!(values.len() >= RANK_BLOCKS_MIN, "below 6 values no signed-rank interval reaches 95%");
    let sorted = sorted(values);
    let cut = signed_rank_cut(sorted.len());
    let last = sorted.len() * (sorted.len() + 1) / 2 - 1;
    Interval { low: pair_mean(&sorted, cut), high: pair_mean(&sorted, last - cut) }
}

/// Of the means of all pairs of sorted values, the one that `rank` others are before: halves the
/// range of all floating-point numbers between the smallest and the largest until one is left.
fn pair_mean(sorted: &[f64], rank: usize) -> f64 {
    let (mut low, mut high) = (place(sorted[0]), place(sorted[sorted.len() - 1]));
    while low < high {
        let middle = low + (high - low) / 2;
        if pair_means_at_most(sorted, at_place(middle)) > rank {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    at_place(low)
}

/// How many pairs of sorted values, each with itself too, have a mean of `bound` or less.
fn pair_means_at_most(sorted: &[f64], bound: f64) -> usize {
    let (mut count, mut end) = (0, sorted.len());
    for (begin, low) in sorted.iter().enumerate() {
        while end > begin && (low + sorted[end - 1]) / 2.0 > bound {
            end -= 1;
        }
        if end <= begin {
            break;
        }
        count += end - begin;
    }
    count
}

/// The place of a number among all floating-point numbers, from low to high.
fn place(value: f64) -> u64 {
    let bits = value.to_bits();
    if value.is_sign_negative() { !bits } else { bits | SIGN }
}

/// The number at that place.
fn at_place(place: u64) -> f64 {
    f64::from_bits(if place & SIGN == 0 { !place } else { place & !SIGN })
}

/// The largest rank sum that comes up, or a smaller one, with probability 2.5% or less.
fn signed_rank_cut(n: usize) -> usize {
    let tail = (1.0 - CONFIDENCE) / 2.0;
    if n > WILCOXON_EXACT_MAX {
        let n = n as f64;
        let mean = n * (n + 1.0) / 4.0;
        let deviation = (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
        return (mean - 0.5 - NORMAL_975 * deviation).floor() as usize;
    }
    let mut sum = 0.0;
    let within = signed_rank_probabilities(n).into_iter().take_while(|p| {
        sum += p;
        sum <= tail
    });
    within.count() - 1
}

/// The probability of each rank sum when the ranks 1 to n each count or not, like fair coins.
fn signed_rank_probabilities(n: usize) -> Vec<f64> {
    let mut probabilities = vec![0.0; n * (n + 1) / 2 + 1];
    probabilities[0] = 1.0;
    for rank in 1..=n {
        for sum in (0..probabilities.len()).rev() {
            let with = if sum >= rank { probabilities[sum - rank] } else { 0.0 };
            probabilities[sum] = (probabilities[sum] + with) / 2.0;
        }
    }
    probabilities
}

/// The 95% interval of the median between two order statistics, interpolated because whole ones
/// jump from 97.9% to 89.1% at 10 values (Hettmansperger and Sheather 1986).
pub(super) fn order_statistic_interval(values: &[f64]) -> Interval {
    let sorted = sorted(values);
    let n = sorted.len();
    assert!(n >= RANK_BLOCKS_MIN, "below 6 values no order statistics reach 95%");
    let coverages = depth_coverages(n);
    let outer = coverages.iter().take_while(|covered| **covered >= CONFIDENCE).count() - 1;
    assert!(outer > 0, "the smallest and the largest of 6 values cover 96.9%");
    let (wide, narrow) = (coverages[outer], coverages[outer + 1]);
    let excess = (wide - CONFIDENCE) / (wide - narrow);
    let (depth, n) = (outer as f64, n as f64);
    let inward = (n - depth) * excess / (depth + (n - 2.0 * depth) * excess);
    let between = |from: f64, to: f64| from + inward * (to - from);
    Interval {
        low: between(sorted[outer - 1], sorted[outer]),
        high: between(sorted[sorted.len() - outer], sorted[sorted.len() - outer - 1]),
    }
}

/// How probable it is that the median lies between the `depth`-th smallest and the `depth`-th
/// largest of n values, by depth from 0 to past the middle: that of n fair coins at least `depth`
/// fall on either side.
fn depth_coverages(n: usize) -> Vec<f64> {
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    let coverage = |heads: usize| {
        let covered = 1.0 - 2.0 * below;
        below += ln_term.exp();
        ln_term += ((n - heads) as f64 / (heads + 1) as f64).ln();
        covered
    };
    (0..=n / 2 + 1).map(coverage).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rank_sums_that_are_cut_are_those_of_the_printed_tables() {
        // Critical values of the two-sided 5% signed-rank test.
        let table = [(6, 0), (7, 2), (8, 3), (9, 5), (10, 8), (15, 25), (20, 52), (50, 434)];
        for (n, cut) in table {
            assert_eq!(signed_rank_cut(n), cut, "{n} values");
        }
    }

    #[test]
    fn the_normal_approximation_takes_over_without_a_jump() {
        let exact = signed_rank_cut(WILCOXON_EXACT_MAX) as f64;
        let beyond = signed_rank_cut(WILCOXON_EXACT_MAX + 1) as f64;
        // The printed table has 434 for 50 and 453 for 51.
        assert!((beyond - exact - 19.0).abs() <= 2.0, "{exact} then {beyond}");
    }

    #[test]
    fn order_statistics_cover_what_the_binomial_says() {
        assert!((depth_coverages(10)[2] - 0.978_515_625).abs() < 1e-12);
        assert!((depth_coverages(6)[1] - 0.968_75).abs() < 1e-12);
    }

    #[test]
    fn the_means_of_pairs_are_ranked_without_being_written_down() {
        let mut values = vec![-3.5, -0.0, 0.0, 1e-300, 0.1, 0.1, 0.3, 2.0, 1e9];
        values.sort_by(f64::total_cmp);
        let mut means: Vec<f64> = (0..values.len())
            .flat_map(|i| values[i..].iter().map(move |b| (i, *b)))
            .map(|(i, b)| (values[i] + b) / 2.0)
            .collect();
        means.sort_by(f64::total_cmp);
        for (rank, mean) in means.iter().enumerate() {
            assert_eq!(pair_mean(&values, rank), *mean, "rank {rank}");
        }
    }
}
