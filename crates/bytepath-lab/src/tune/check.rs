//! How far the planner's choice is behind the best fixed one, pair by pair.

use bytepath_report::{Arm, Record, Status};

use crate::experiments::pairs::PLANNED;
use crate::stats::Ratio;

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
    /// Compares, in the record of one pair; `None` where the planner's arm or every other could not
    /// run, or there are too few blocks.
    pub fn of(record: &Record) -> Option<Regret> {
        let ran = |arm: &&Arm| arm.status == Status::Ok && arm.median.is_some();
        let planner = record.arms.iter().filter(ran).find(|arm| arm.name == PLANNED)?;
        let best = record
            .arms
            .iter()
            .filter(ran)
            .filter(|arm| arm.name != PLANNED)
            .max_by(|a, b| a.median.unwrap_or(0.0).total_cmp(&b.median.unwrap_or(0.0)))?;
        let ratio = Ratio::of(&values(planner), &values(best)).ok()?;
        Some(Regret {
            best: best.name.clone(),
            best_gib_per_s: best.median?,
            planner_gib_per_s: planner.median?,
            ratio: ratio.median,
            ratio_ci95: [ratio.interval.low, ratio.interval.high],
        })
    }

    /// Whether the planner is surely more than the margin behind.
    pub fn is_too_large(&self) -> bool {
        self.ratio_ci95[1] < 1.0 - MARGIN
    }
}

/// The values that count, one a block, in the order of the blocks.
fn values(arm: &Arm) -> Vec<f64> {
    let mut counted: Vec<_> = arm.samples.iter().filter(|sample| !sample.superseded).collect();
    counted.sort_by_key(|sample| sample.block);
    counted.iter().map(|sample| sample.value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn only_what_is_surely_too_far_behind_is_too_large() {
        assert!(regret(0.94).is_too_large());
        assert!(!regret(0.95).is_too_large());
        assert!(!regret(1.1).is_too_large());
    }
}
