//! How far the median of one arm can be trusted.

use super::interval::{
    Interval, RANK_BLOCKS_MIN, StatsError, bootstrap_median_interval, enough_blocks, logarithms,
    median, student_interval,
};
use super::ranks::order_statistic_interval;

/// The 95% interval of the median of one arm over its blocks, in the unit of the samples.
///
/// The bootstrap interval widened by interpolated order statistics (from 6 blocks on) or by the
/// t interval of the logarithms (3 to 5 blocks). Simulated coverage for normal, exponential,
/// heavy-tailed and two-mode noise at 3 to 30 blocks: 93.3% to 97.3%; the bootstrap alone 73% to
/// 94%. It speaks of blocks that are like each other: see [`super::drift`] for those that are not.
pub fn median_interval(samples: &[f64]) -> Result<Interval, StatsError> {
    let logs = logarithms(samples)?;
    enough_blocks(logs.len())?;
    let wide = if logs.len() < RANK_BLOCKS_MIN {
        student_interval(&logs)
    } else {
        order_statistic_interval(&logs)
    };
    let point = median(samples).expect("three blocks and more have a median");
    Ok(bootstrap_median_interval(&logs).hull(wide).map(f64::exp).holding(point))
}
