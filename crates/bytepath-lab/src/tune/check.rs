//! How far the planner's choice is behind the best fixed one, pair by pair.

use bytepath_report::{Arm, Record, Status};

use crate::experiments::pairs::PLANNED;
use crate::stats::{Ratio, median};

/// How far the planner may be behind: a share.
pub const MARGIN: f64 = 0.05;

/// The planner against the best fixed choice between two ends.
#[derive(Debug, Clone, PartialEq)]
pub struct Regret {
    /// The best fixed choice, by its median in this run.
    pub best: String,
    /// Its median, in GiB/s.
    pub best_gib_per_s: f64,
    /// The planner's median, in GiB/s.
    pub planner_gib_per_s: f64,
    /// The planner's figure as a share of the best one's, block by block: the median.
    pub ratio: f64,
    /// Its 95% interval.
    pub ratio_ci95: [f64; 2],
}

impl Regret {
    /// Compares, by all blocks of the records of one pair, whose choices are the same; `None` where
    /// the planner's arm or every other could not run, or there are too few blocks.
    ///
    /// The best of a dozen choices in a run owes part of its lead to luck, so it is not compared in
    /// the blocks that it was chosen by: in each half of the blocks the planner stands against the
    /// choice that was best in the other half.
    pub fn of(records: &[Record]) -> Option<Regret> {
        let first = records.first()?;
        let of_arm = |name: &str| records.iter().map(|record| values(record, name)).collect();
        let own: Vec<f64> = joined(of_arm(PLANNED))?;
        let names = first.arms.iter().map(|arm| &arm.name).filter(|name| *name != PLANNED);
        let fixed: Vec<(&String, Vec<f64>)> = names
            .filter_map(|name| Some((name, joined(of_arm(name))?)))
            .filter(|(_, values)| values.len() == own.len())
            .collect();
        let all: Vec<&Vec<f64>> = fixed.iter().map(|(_, values)| values).collect();
        let ratio = Ratio::of(&own, &best_elsewhere(&all)?).ok()?;
        let medians = fixed.iter().filter_map(|(name, values)| Some((name, median(values)?)));
        let (best, best_gib_per_s) = medians.max_by(|a, b| a.1.total_cmp(&b.1))?;
        Some(Regret {
            best: best.to_string(),
            best_gib_per_s,
            planner_gib_per_s: median(&own)?,
            ratio: ratio.median,
            ratio_ci95: [ratio.interval.low, ratio.interval.high],
        })
    }

    /// Whether the planner is surely more than the margin behind.
    pub fn is_too_large(&self) -> bool {
        self.ratio_ci95[1] < 1.0 - MARGIN
    }
}

/// Block by block, the value of the choice that has the highest median in the blocks of the other
/// half: the even ones for the odd, and the odd ones for the even.
fn best_elsewhere(choices: &[&Vec<f64>]) -> Option<Vec<f64>> {
    let best_of = |half: usize| {
        choices.iter().max_by(|a, b| half_median(a, half).total_cmp(&half_median(b, half)))
    };
    let best = [best_of(1)?, best_of(0)?];
    Some((0..best[0].len()).map(|block| best[block % 2][block]).collect())
}

/// The median of every second value, from the one at `half` on.
fn half_median(values: &[f64], half: usize) -> f64 {
    let half: Vec<f64> = values.iter().copied().skip(half).step_by(2).collect();
    median(&half).unwrap_or(0.0)
}

/// The values of an arm that count, one a block, in the order of the blocks; `None` where it could
/// not run.
fn values(record: &Record, name: &str) -> Option<Vec<f64>> {
    let ran = |arm: &&Arm| arm.status == Status::Ok && arm.name == name;
    let arm = record.arms.iter().find(ran)?;
    let mut counted: Vec<_> = arm.samples.iter().filter(|sample| !sample.superseded).collect();
    counted.sort_by_key(|sample| sample.block);
    Some(counted.iter().map(|sample| sample.value).collect())
}

/// The values of all records, one record after the other.
fn joined(values: Vec<Option<Vec<f64>>>) -> Option<Vec<f64>> {
    Some(values.into_iter().collect::<Option<Vec<_>>>()?.concat())
}

#[cfg(test)]
mod tests {
    use bytepath_report::{Sample, Unit};

    use super::*;

    /// One look, at the planner and one choice.
    fn look(planner: &[f64], splice: &[f64]) -> Record {
        let sample = |(block, value): (usize, &f64)| Sample {
            block: u32::try_from(block).expect("few"),
            value: *value,
            ..Sample::default()
        };
        let arm = |(name, values): (&str, &[f64])| Arm {
            samples: values.iter().enumerate().map(sample).collect(),
            ..Arm::new(name, Unit::GibPerSecond)
        };
        Record {
            blocks: u32::try_from(planner.len()).expect("few"),
            trusted: true,
            arms: [(PLANNED, planner), ("splice", splice)].map(arm).into(),
            ..Record::default()
        }
    }

    #[test]
    fn a_second_look_is_judged_together_with_the_first() {
        let behind = look(&[8.0, 8.1, 8.2, 8.1, 8.0, 8.1], &[10.0; 6]);
        let level = look(&[10.0, 9.9, 10.1, 10.0, 9.9, 10.2], &[10.0; 6]);
        let ratio = |looks: &[Record]| Regret::of(looks).expect("both ran");
        assert!(ratio(std::slice::from_ref(&behind)).is_too_large());
        assert!(ratio(&[behind.clone(), behind.clone()]).is_too_large());
        let both = ratio(&[behind.clone(), level]);
        assert!(both.ratio_ci95[0] < 0.83 && !both.is_too_large(), "{both:?}");
        assert!(both.planner_gib_per_s > 8.2 && both.planner_gib_per_s < 9.9, "{both:?}");
        let mut failed = behind.clone();
        failed.arms[0].status = Status::Unavailable;
        assert_eq!(Regret::of(&[behind, failed]), None, "it could not run");
    }

    fn regret(high: f64) -> Regret {
        Regret {
            best: "splice".into(),
            best_gib_per_s: 10.0,
            planner_gib_per_s: 9.0,
            ratio: 0.9,
            ratio_ci95: [0.85, high],
        }
    }

    #[test]
    fn the_best_is_chosen_by_the_other_half_of_the_blocks() {
        // The first is best in the even blocks, the second in the odd ones.
        let (even, odd) = (vec![9.0, 1.0, 9.0, 1.0], vec![5.0, 6.0, 5.0, 6.0]);
        assert_eq!(best_elsewhere(&[&even, &odd]), Some(vec![5.0, 1.0, 5.0, 1.0]));
        assert_eq!(best_elsewhere(&[]), None);
    }

    #[test]
    fn a_planner_that_takes_any_of_equal_choices_has_no_regret() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut noisy = || (0..10).map(|_| 1.0 + 0.2 * random.f64()).collect::<Vec<f64>>();
        let too_large = (0..200)
            .filter(|_| {
                let choices: Vec<Vec<f64>> = (0..12).map(|_| noisy()).collect();
                let choices: Vec<&Vec<f64>> = choices.iter().collect();
                let best = best_elsewhere(&choices).expect("there are choices");
                let ratio = Ratio::of(&noisy(), &best).expect("enough blocks");
                ratio.interval.high < 1.0 - MARGIN
            })
            .count();
        assert_eq!(too_large, 0);
    }

    #[test]
    fn only_what_is_surely_too_far_behind_is_too_large() {
        assert!(regret(0.94).is_too_large());
        assert!(!regret(0.95).is_too_large());
        assert!(!regret(1.1).is_too_large());
    }
}
