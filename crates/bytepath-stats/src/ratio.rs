//! One arm against the reference arm, block by block.

use super::interval::{
    Interval, RANK_BLOCKS_MIN, StatsError, bootstrap_median_interval, enough_blocks, logarithms,
    median, student_interval, unpaired_student_interval,
};
use super::ranks::signed_rank_interval;

/// Differences below this share do not matter unless the user declares another margin: 2%, about
/// what a new link order or a longer environment moves a program by (Mytkowicz and others,
/// "Producing wrong data without doing anything obviously wrong", ASPLOS 2009).
pub const EQUIVALENCE_MARGIN: f64 = 0.02;

/// The ratio of one arm to the reference arm over the blocks.
#[derive(Clone, Debug, PartialEq)]
pub struct Ratio {
    /// The arm's value divided by the reference arm's value, in the order of the blocks.
    pub per_block: Vec<f64>,
    /// The median of those: the point estimate.
    pub median: f64,
    /// The 95% interval of the ratio.
    pub interval: Interval,
}

impl Ratio {
    /// Compares `arm` with `reference`; the i-th samples of both are from the same block.
    ///
    /// Leave a block out on both sides when one arm has no sample in it.
    pub fn of(arm: &[f64], reference: &[f64]) -> Result<Ratio, StatsError> {
        if arm.len() != reference.len() {
            return Err(StatsError::Unpaired { arm: arm.len(), reference: reference.len() });
        }
        let interval = log_ratio_interval(&logarithms(arm)?, &logarithms(reference)?)?;
        let per_block: Vec<f64> = arm.iter().zip(reference).map(|(a, r)| a / r).collect();
        let median = median(&per_block).expect("three blocks and more have a median");
        Ok(Ratio { per_block, median, interval: interval.map(f64::exp).holding(median) })
    }
}

/// The interval of the logarithm of the ratio; the module's page says why it is made of several.
fn log_ratio_interval(arm: &[f64], reference: &[f64]) -> Result<Interval, StatsError> {
    enough_blocks(arm.len())?;
    let differences: Vec<f64> = arm.iter().zip(reference).map(|(a, r)| a - r).collect();
    let bootstrap = bootstrap_median_interval(&differences);
    if differences.len() >= RANK_BLOCKS_MIN {
        return Ok(bootstrap.hull(signed_rank_interval(&differences)));
    }
    let paired = student_interval(&differences);
    Ok(bootstrap.hull(paired).hull(unpaired_student_interval(arm, reference)))
}
