//! What the samples say: medians, ratios to the reference arm, their intervals, warnings;
//! and the order in which they are taken, see [`schedule`].
//!
//! The order apart, everything is a pure function of the samples: no clock, no randomness, no input
//! or output.
//! Inference is over blocks, never over single operations inside a block, because only blocks are
//! launched afresh and in random order (Kalibera and Jones, "Rigorous benchmarking in reasonable
//! time", ISMM 2013). All intervals are made on logarithms: speeds and times are positive, their noise
//! multiplies, and the ratio of a to b is then the inverse of that of b to a.
//!
//! # Which intervals, and why not the plain bootstrap
//!
//! The basis is the 95% percentile bootstrap of the median (Efron 1979), computed exactly rather
//! than by drawing (see [`bootstrap_median_interval`]). Alone it promises too much: with few blocks
//! its ends can never lie outside the samples. On two equal arms it excluded a ratio of 1 in 25% of
//! runs of 3 blocks, and still in 6% of runs of 20. So each interval is the bootstrap interval
//! widened until it also holds a second one that covers by construction:
//!
//! | interval | 6 blocks and more | 3 to 5 blocks |
//! |---|---|---|
//! | [`Ratio`] | Wilcoxon's signed-rank interval | the paired and the unpaired t interval, both |
//! | [`median_interval`] | interpolated order statistics | the t interval |
//!
//! Wilcoxon's interval excludes 1 for equal arms in at most 5% of runs *whatever* the noise is:
//! the order in a block is random, so swapping two equal arms changes nothing, and the sign of each
//! block's log ratio is a fair coin. (The second block mirrors the first, see [`schedule`],
//! so its coin is not its own. That is harmless unless what disturbs the first two places of the
//! blocks turns round between these two, and can then make it 6.3% at 6 blocks.)
//!
//! No such interval exists below 6 blocks (2 / 2^5 > 5%). There, a model must stand in, and the
//! error rates are simulated, not proven: the paired t interval, and beside it the unpaired one,
//! which also holds how far the level wandered from block to block. That costs power where blocks
//! differ, and `--quick` says `undecided` unless an effect is overwhelming: with 3 blocks and 2%
//! noise, a third of effects of 5% are found. Below 3 blocks there is no interval.
//!
//! Share of runs, in percent, whose interval excludes 1 although both arms are equal; in brackets
//! for the plain bootstrap. The tests simulate this table: 4,000 runs each, three arms in the order
//! of [`schedule`].
//!
//! | noise | 3 blocks | 5 | 6 | 10 | 20 |
//! |---|---|---|---|---|---|
//! | lognormal, 5% | 2.3 (26) | 3.2 (7) | 3.7 (7) | 3.9 (6) | 3.4 (6) |
//! | exponential, 5% | 1.9 (25) | 1.7 (6) | 3.2 (6) | 3.6 (5) | 3.5 (6) |
//! | 5% of samples 3x slower | 1.8 (24) | 1.5 (6) | 2.6 (6) | 2.9 (5) | 3.0 (6) |
//! | drift of 3% a block | 0.0 (15) | 0.0 (4) | 2.0 (4) | 3.0 (4) | 2.5 (6) |
//! | the same, hardly any noise | 0.0 (0) | 0.0 (0) | 0.0 (2) | 2.2 (3) | 2.1 (5) |
//! | blocks alike | 0.7 (26) | 0.2 (6) | 3.5 (7) | 4.2 (6) | 3.4 (6) |
//! | neighbours alike | 1.0 (27) | 0.7 (6) | 3.2 (6) | 4.0 (6) | 3.3 (6) |
//! | two modes | 3.1 (25) | 1.6 (6) | 2.7 (5) | 3.0 (5) | 3.4 (6) |
//! | two modes, hardly any noise | 3.1 (25) | 1.1 (6) | 2.7 (5) | 3.0 (5) | 3.4 (6) |
//! | two modes that last | 1.4 (25) | 0.6 (6) | 3.0 (6) | 3.4 (5) | 3.0 (6) |
//! | first place 10% slower | 0.0 (16) | 1.5 (4) | 1.6 (4) | 2.9 (4) | 2.7 (6) |
//! | each place 5% slower | 0.0 (0) | 0.0 (0) | 0.0 (2) | 2.2 (3) | 2.1 (5) |
//!
//! Share of runs, in percent, that find an effect, under lognormal noise of each arm:
//!
//! | ratio, noise | 3 blocks | 5 | 6 | 10 | 20 |
//! |---|---|---|---|---|---|
//! | 1.2, 5% | 63 | 97 | 97 | 100 | 100 |
//! | 1.05, 2% | 34 | 75 | 77 | 99 | 100 |
//! | 1.05, 3% | 16 | 41 | 44 | 84 | 98 |
//!
//! Each arm has its own 5%: of twenty arms that equal the reference, one may be called different.

mod interval;
mod median;
mod ranks;
mod ratio;
mod runs;
pub mod schedule;
mod stopping;
mod warnings;

pub use interval::{Interval, StatsError, bootstrap_median_interval, median, percentile};
pub use median::median_interval;
pub use ratio::{EQUIVALENCE_MARGIN, Ratio};
pub use runs::{BETWEEN_DEGREES_MIN, Between, PARTS, RunRatio, Spread};
pub use stopping::{
    Decision, UNTIL_CI_BLOCKS_MAX, UNTIL_CI_BLOCKS_MIN, UNTIL_CI_CONSECUTIVE, UntilCi,
};
pub use warnings::{
    DRIFT_SHARE_MIN, Drift, MODES_GAP_MIN, OUTLIER_BLOCKS_MIN, OUTLIER_SCORE, TwoModes, drift,
    outliers, two_modes,
};
