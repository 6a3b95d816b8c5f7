//! Intervals from the order of the values alone: no assumption about how the noise is shaped.

use super::interval::{CONFIDENCE, Interval, RANK_BLOCKS_MIN, sorted};

/// Up to this many blocks Wilcoxon's distribution is counted out; above it the normal
/// approximation is good to three decimals.
const WILCOXON_EXACT_MAX: usize = 50;

/// The 97.5% point of the normal distribution.
const NORMAL_975: f64 = 1.959_964;

/// Wilcoxon's 95% signed-rank interval of the centre: the means of all pairs (each value paired
/// with itself too), without the k smallest and the k largest of them (Hodges and Lehmann 1963;
/// Hollander, Wolfe and Chicken, "Nonparametric statistical methods", section 3.3).
///
/// It excludes 0 in at most 5% of cases where each value is as likely to come out with the other
/// sign. n² / 2 terms.
pub(super) fn signed_rank_interval(values: &[f64]) -> Interval {
    assert!(values.len() >= RANK_BLOCKS_MIN, "below 6 values no signed-rank interval reaches 95%");
    let mut means = Vec::with_capacity(values.len() * (values.len() + 1) / 2);
    for (i, a) in values.iter().enumerate() {
        means.extend(values[i..].iter().map(|b| (a + b) / 2.0));
    }
    means.sort_by(f64::total_cmp);
    let cut = signed_rank_cut(values.len());
    Interval { low: means[cut], high: means[means.len() - 1 - cut] }
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
    let outer = (1..=n / 2).rev().find(|&depth| depth_coverage(n, depth) >= CONFIDENCE);
    let outer = outer.expect("the smallest and the largest of 6 values cover 96.9%");
    let (wide, narrow) = (depth_coverage(n, outer), depth_coverage(n, outer + 1));
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
/// largest of n values: that of n fair coins at least `depth` fall on either side.
fn depth_coverage(n: usize, depth: usize) -> f64 {
    let mut ln_term = -(n as f64) * std::f64::consts::LN_2;
    let mut below = 0.0;
    for heads in 0..depth {
        below += ln_term.exp();
        ln_term += ((n - heads) as f64 / (heads + 1) as f64).ln();
    }
    1.0 - 2.0 * below
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
        assert!((depth_coverage(10, 2) - 0.978_515_625).abs() < 1e-12);
        assert!((depth_coverage(6, 1) - 0.968_75).abs() < 1e-12);
    }
}
