//! What is odd about the samples of an arm: outliers, drift, two modes. Told, never repaired.

use super::interval::{logarithms, median, sorted};

/// Fewer blocks than this have no outliers: nothing says yet what is usual.
pub const OUTLIER_BLOCKS_MIN: usize = 6;

/// A sample is an outlier from this modified z score on. Iglewicz and Hoaglin (1993) propose 3.5,
/// which flags a sample in 13% of undisturbed runs of 10 blocks; 5 does so in 4%.
pub const OUTLIER_SCORE: f64 = 5.0;

/// A drift smaller than this share over the whole run is not worth a warning.
pub const DRIFT_SHARE_MIN: f64 = 0.02;

/// How often undisturbed samples may be called drifting.
const DRIFT_P_MAX: f64 = 0.01;

/// Below this many blocks even a strictly rising row has more than [`DRIFT_P_MAX`] by chance.
const DRIFT_BLOCKS_MIN: usize = 6;

/// Of more blocks than this, medians of neighbours are looked at.
const DRIFT_VALUES_MAX: usize = 1000;

/// Two modes closer than this share are not worth a warning.
pub const MODES_GAP_MIN: f64 = 0.05;

/// Each mode must hold this many samples: fewer are outliers.
const MODE_SAMPLES_MIN: usize = 3;

/// Below this many blocks two modes cannot be told from chance.
const MODES_BLOCKS_MIN: usize = 8;

/// Scales the median absolute deviation to a standard deviation, for normal noise.
const MAD_TO_DEVIATION: f64 = 1.4826;

/// Likewise for the mean absolute deviation.
const MEAN_DEVIATION_TO_DEVIATION: f64 = 1.253_314;

/// Which samples lie far from the others, one flag per sample.
///
/// By the modified z score of the logarithms: the distance from the median in units of the median
/// absolute deviation, or of the mean one where more than half of the samples are equal (Iglewicz
/// and Hoaglin 1993). Nobody drops an outlier: it is flagged in the record and counted.
pub fn outliers(samples: &[f64]) -> Vec<bool> {
    let none = vec![false; samples.len()];
    let Ok(logs) = logarithms(samples) else { return none };
    if logs.len() < OUTLIER_BLOCKS_MIN {
        return none;
    }
    let centre = median(&logs).expect("there are samples");
    let distances: Vec<f64> = logs.iter().map(|log| (log - centre).abs()).collect();
    let typical = median(&distances).expect("there are samples") * MAD_TO_DEVIATION;
    let mean = distances.iter().sum::<f64>() / distances.len() as f64;
    let scale = if typical > 0.0 { typical } else { mean * MEAN_DEVIATION_TO_DEVIATION };
    distances.iter().map(|distance| *distance > OUTLIER_SCORE * scale).collect()
}

/// Samples that rise or fall from block to block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// How far the fitted line goes from the first block to the last, as a share of where it
    /// began: 0.1 is 10% up.
    pub total_share: f64,
    /// How often undisturbed samples would be in such an order or a stricter one.
    pub p: f64,
}

/// Whether the samples, in the order of their blocks, drift: Mann's and Kendall's test of the
/// order (1945), the slope after Theil and Sen (1968), both blind to outliers. `None` when they do
/// not, when the drift is smaller than [`DRIFT_SHARE_MIN`], or with fewer than 6 blocks. Of more than
/// 1,000, medians of neighbours stand for them: the test takes the square of their number.
///
/// Ratios to the reference arm survive a drift, because arms meet block by block; medians do not.
pub fn drift(samples: &[f64]) -> Option<Drift> {
    let logs = logarithms(samples).ok().filter(|logs| logs.len() >= DRIFT_BLOCKS_MIN)?;
    let group = logs.len().div_ceil(DRIFT_VALUES_MAX);
    let logs: Vec<f64> = logs.chunks(group).filter_map(median).collect();
    let n = logs.len() as f64;
    let mut score = 0.0_f64;
    let mut slopes = Vec::with_capacity(logs.len() * (logs.len() - 1) / 2);
    for (i, early) in logs.iter().enumerate() {
        for (distance, late) in (1..).zip(&logs[i + 1..]) {
            score += (late > early) as i32 as f64 - (late < early) as i32 as f64;
            slopes.push((late - early) / f64::from(distance));
        }
    }
    let deviation = (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    // The 1 is the correction for continuity; ties make the deviation smaller than this, so they
    // only make the test more careful.
    let p = two_sided_normal_p((score.abs() - 1.0).max(0.0) / deviation);
    let total_share = (median(&slopes)? * (n - 1.0)).exp_m1();
    let worth_telling = p < DRIFT_P_MAX && total_share.abs() >= DRIFT_SHARE_MIN;
    worth_telling.then_some(Drift { total_share, p })
}

/// How often a normal variable lies at least `z` deviations from its mean, on either side: formula
/// 7.1.26 of Abramowitz and Stegun, good to 1.5e-7.
fn two_sided_normal_p(z: f64) -> f64 {
    let x = z / std::f64::consts::SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let polynomial = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    polynomial.iter().fold(0.0, |sum, coefficient| sum * t + coefficient) * t * (-x * x).exp()
}

/// Samples that gather around two values instead of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TwoModes {
    /// The median of the lower samples, in their unit.
    pub low: f64,
    /// How many samples are in the lower mode.
    pub low_samples: usize,
    /// The median of the upper samples, in their unit.
    pub high: f64,
    /// How many samples are in the upper mode.
    pub high_samples: usize,
}

/// Whether the samples have two modes: the best split into a lower and an upper group (Otsu 1979)
/// leaves so little variance within the groups that a single one would hardly ever be split so well.
///
/// `None` when not, when the groups lie closer than [`MODES_GAP_MIN`], when one holds fewer than a
/// fifth of the samples (or than three), or with fewer than 8 blocks. Of simulated runs with normal
/// noise fewer than 1% are called two-mode, with uniform or exponential noise fewer than 5%; of
/// runs of 10 blocks that truly are, 89% are found.
pub fn two_modes(samples: &[f64]) -> Option<TwoModes> {
    let logs = logarithms(samples).ok().filter(|logs| logs.len() >= MODES_BLOCKS_MIN)?;
    let logs = sorted(&logs);
    let smallest = MODE_SAMPLES_MIN.max(logs.len().div_ceil(5));
    // The squares within two groups are least where those between them are most.
    let centre = logs.iter().sum::<f64>() / logs.len() as f64;
    let mut sum = 0.0;
    let between: Vec<f64> = (1..)
        .zip(&logs)
        .map(|(lower, log)| {
            sum += log - centre;
            sum * sum / f64::from(lower) / (logs.len() as f64 - f64::from(lower))
        })
        .collect();
    // Of all splits, lest a group that is too small be filled up from the other.
    let split = (1..logs.len()).max_by(|a, b| between[*a - 1].total_cmp(&between[*b - 1]))?;
    if split.min(logs.len() - split) < smallest {
        return None;
    }
    let within = squares(&logs[..split]) + squares(&logs[split..]);
    let (low, high) = logs.split_at(split);
    let (low_centre, high_centre) = (median(low)?, median(high)?);
    let far_apart = (high_centre - low_centre).exp_m1() >= MODES_GAP_MIN;
    let split_explains = 1.0 - within / squares(&logs);
    (far_apart && split_explains >= explained_min(logs.len())).then(|| TwoModes {
        low: low_centre.exp(),
        low_samples: low.len(),
        high: high_centre.exp(),
        high_samples: high.len(),
    })
}

/// How much of the variance the best split must explain. Of normal noise it explains 64%, of
/// uniform noise 75%, plus what a lucky small sample adds: figures from simulation.
fn explained_min(n: usize) -> f64 {
    0.80 + 1.2 / n as f64
}

/// The sum of the squared distances from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}
