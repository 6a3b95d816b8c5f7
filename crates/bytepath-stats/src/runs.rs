//! One run against another: the same arm of two records, which other processes took at another time.
//!
//! Within a run, arms meet block by block, so what moves the whole machine cancels. Between two runs
//! nothing cancels: the machine of today is not that of yesterday. How far runs of one thing lie
//! apart cannot be learned from one run of each, so it is either measured, from more runs of the
//! same thing, or assumed.
//!
//! # What is assumed where it was not measured
//!
//! That a run differs from the next by more than its own parts differ from each other, but not by
//! much more: each run is cut into [`PARTS`] stretches of time, and the variance of a run is taken to
//! be twice that *of a part*, not, as if blocks were drawn from an urn, that of a part divided by
//! their number. Disturbances of machines are slow: of noise whose power falls as one over its
//! frequency, averaging over a longer time takes nothing away, and what is slower than a run moves
//! all its parts together, hence the two. Where noise is white this is three times as wide as need
//! be. Where something changes between the runs and never within them (another host, a fuller disk,
//! an update) it is too narrow, and only measuring helps: see [`Between`].
//!
//! The interval is Student's, with Welch's degrees of freedom (1947). That of one of several arms is
//! Bonferroni's: all of them hold together in 95% of cases.
//!
//! Share of pairs of runs of one thing, in percent, that are called different, on the imagined
//! machines of the tests; in brackets for a plain t interval over blocks:
//!
//! | noise | 3 blocks | 5 | 10 | 20 | 60 |
//! |---|---|---|---|---|---|
//! | white: lognormal, exponential, heavy tails | 0.2 | 0.1 | 0.0 | 0.1 | 0.0 |
//! | drift within the run | 0.0 | 0.0 | 0.0 | 0.0 | 0.0 |
//! | one over the frequency | 2.8 (42) | 2.5 (48) | 3.9 (56) | 3.4 (66) | 2.2 (78) |
//! | blocks alike | 3.9 | 3.5 | 3.4 | 1.3 | 0.2 |
//! | neighbours alike | 4.3 | 4.0 | 2.2 | 0.9 | 0.2 |
//! | two modes | 4.5 | 0.3 | 0.0 | 0.1 | 0.1 |
//! | two modes that last about ten samples | 19 | 6.1 | 0.5 | 0.5 | 0.2 |
//! | another level in every run, quiet within | | | 73 | | |
//! | the same, measured by 5, 10, 20 further runs | | | 1.8, 4.7, 3.5 | | |
//!
//! So three blocks are too few on a machine with modes, and nothing but further runs sees what
//! changes between runs alone.
//!
//! Measured on a virtual machine with 2 CPUs, 30 runs of four pipe arms one after the other, all 435
//! pairs of them: of pairs on the machine left to itself 4.1% are called different, of pairs while
//! others build and test on it none (`bytepath compare --false-positives`).

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::interval::{CONFIDENCE, Interval, StatsError, enough_blocks, logarithms, median};

/// So many parts of a run are held against each other. Fewer have too few degrees of freedom, more
/// are too short to hold slow noise: of ten arms the intervals are, for white noise and in deviations
/// of the run's mean, ±14 for 3 parts, ±12 for 5 and ±14 for 10.
pub const PARTS: usize = 5;

/// Parts of one run lie closer to each other than to those of another, because what is slower than a
/// run moves all of them: runs are taken to vary so many times as much.
const ASSUMED_FACTOR: f64 = 2.0;

/// Differences that would have been found so often are told as those that a run can show.
const POWER: f64 = 0.8;

/// Fewer degrees of freedom say too little about how far runs lie apart to be used.
pub const BETWEEN_DEGREES_MIN: usize = 4;

/// What is known about how far the figures of runs of one thing lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Between {
    /// Nothing: it is assumed that they do as parts of a run do.
    Assumed,
    /// It was measured, and counts where it is more than what is assumed.
    Measured(Spread),
}

/// How far the figures of runs of one thing lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The variance of the logarithm of a run's figure.
    pub variance: f64,
    /// How many runs that is from, less one for each group of like ones.
    pub degrees: usize,
}

impl Spread {
    /// From the samples of one arm in several groups of runs, each group of one thing: `None` below
    /// [`BETWEEN_DEGREES_MIN`] degrees of freedom. Samples that have no logarithm make their run
    /// none.
    pub fn of<'a>(groups: impl IntoIterator<Item = Vec<&'a [f64]>>) -> Option<Spread> {
        let (mut squares, mut degrees) = (0.0, 0);
        for group in groups {
            let figures: Vec<f64> =
                group.iter().filter_map(|samples| Some(Parts::of(samples).ok()?.centre)).collect();
            let mean = figures.iter().sum::<f64>() / figures.len().max(1) as f64;
            squares += figures.iter().map(|figure| (figure - mean).powi(2)).sum::<f64>();
            degrees += figures.len().saturating_sub(1);
        }
        let variance = squares / degrees.max(1) as f64;
        (degrees >= BETWEEN_DEGREES_MIN).then_some(Spread { variance, degrees })
    }
}

/// An arm of one run against the same arm of another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunRatio {
    /// The arm's figure in the one run divided by that in the other.
    pub ratio: f64,
    /// From where to where that may lie.
    pub interval: Interval,
    /// The smallest difference, as a share, that these runs would have shown in 4 of 5 cases.
    pub shows_from: f64,
}

impl RunRatio {
    /// Compares `samples` of a run with those of the run that is the `base`, each one a block and in
    /// the order of time. The interval is one of `intervals` that are to hold together.
    ///
    /// # Errors
    /// One of them has fewer than 3 blocks, or a sample that is neither a speed nor a time.
    pub fn of(
        samples: &[f64],
        base: &[f64],
        between: Between,
        intervals: usize,
    ) -> Result<RunRatio, StatsError> {
        let (parts, base) = (Parts::of(samples)?, Parts::of(base)?);
        let (variance, degrees) = both(parts.uncertainty(between), base.uncertainty(between));
        let error = variance.sqrt();
        let share = (1.0 - CONFIDENCE) / intervals.max(1) as f64;
        let student = StudentsT::new(0.0, 1.0, degrees).expect("at least two parts");
        let reach = student.inverse_cdf(1.0 - share / 2.0) * error;
        let centre = parts.centre - base.centre;
        // Figures that are beyond all numbers, which nothing measured, stay numbers.
        let finite = |log: f64| log.exp().clamp(f64::MIN_POSITIVE, f64::MAX);
        Ok(RunRatio {
            ratio: finite(centre),
            interval: Interval { low: centre - reach, high: centre + reach }.map(finite),
            shows_from: finite(reach + student.inverse_cdf(POWER) * error) - 1.0,
        })
    }
}

/// A run's samples of an arm, as parts of its time.
struct Parts {
    /// The mean of the medians of the parts, of logarithms.
    centre: f64,
    /// The variance of the medians.
    variance: f64,
    count: usize,
}

/// How sure a run's figure is.
struct Uncertainty {
    variance: f64,
    degrees: f64,
    /// Whether it is what was measured, and so the same for both runs.
    measured: bool,
}

impl Parts {
    fn of(samples: &[f64]) -> Result<Parts, StatsError> {
        enough_blocks(samples.len())?;
        let logs = logarithms(samples)?;
        let count = PARTS.min(logs.len());
        let begin = |part: usize| part * logs.len() / count;
        let medians: Vec<f64> =
            (0..count).filter_map(|part| median(&logs[begin(part)..begin(part + 1)])).collect();
        let centre = medians.iter().sum::<f64>() / count as f64;
        let squares: f64 = medians.iter().map(|median| (median - centre).powi(2)).sum();
        Ok(Parts { centre, variance: squares / (count - 1) as f64, count })
    }

    fn uncertainty(&self, between: Between) -> Uncertainty {
        let (variance, degrees) = (self.variance * ASSUMED_FACTOR, (self.count - 1) as f64);
        match between {
            // Measuring only ever widens: one run in thirty that lies apart from all others is in
            // one pair of fifteen, and an interval by the spread of the others leaves it out.
            Between::Measured(spread) if spread.variance >= variance => Uncertainty {
                variance: spread.variance,
                degrees: spread.degrees as f64,
                measured: true,
            },
            Between::Measured(_) | Between::Assumed => {
                Uncertainty { variance, degrees, measured: false }
            }
        }
    }
}

/// The variance of the difference of two runs, and its degrees of freedom.
fn both(a: Uncertainty, b: Uncertainty) -> (f64, f64) {
    let variance = a.variance + b.variance;
    if a.measured && b.measured {
        return (variance, a.degrees);
    }
    let degrees =
        variance.powi(2) / (a.variance.powi(2) / a.degrees + b.variance.powi(2) / b.degrees);
    // Two runs without any noise: nothing is uncertain, whatever the degrees.
    (variance, if degrees.is_finite() { degrees } else { a.degrees.min(b.degrees) })
}
