//! Runs that are interrupted: what is complete is kept.

use std::cell::Cell;

use bytepath_lab::arm::{Outcome, Timing, Work};
use bytepath_lab::lab::{Blocks, LabError};
use bytepath_report::{Latency, Record, Status, latency};

use crate::works::{Told, arm, found, run_told, steady, worked};

/// Two arms and the control, interrupted after so many samples.
fn interrupted_after(samples: usize, blocks: Blocks) -> Result<Record, LabError> {
    let told = Told { interrupted_after: Some(samples), ..Told::default() };
    run_told(vec![steady("a", 1.0), steady("b", 2.0)], blocks, told).0
}

#[test]
fn an_interrupted_run_gives_the_blocks_that_are_complete_and_says_so() {
    // The machine may be disturbed, so that blocks have more samples than three.
    for samples in [12, 20, 28] {
        let record = interrupted_after(samples, Blocks::Exactly(1000)).expect("a block");
        let blocks = record.blocks;
        assert!((1..=samples as u32 / 3).contains(&blocks), "{blocks}");
        for arm in &record.arms {
            assert_eq!(arm.status, Status::Ok);
            let counted = arm.samples.iter().filter(|sample| !sample.superseded).count();
            assert_eq!(counted, blocks as usize, "{}", arm.name);
            assert!(arm.samples.iter().all(|sample| sample.block < blocks), "{}", arm.name);
            assert!(arm.median.is_some() && arm.costs.is_some());
        }
        let said = format!("interrupted after {blocks} of 1000 blocks");
        assert!(record.notes.contains(&said), "{:?}", record.notes);
    }
}

/// A work that tells how often it was done, and clocks one operation each time.
#[derive(Default)]
struct Telling(Cell<u64>);

impl Work for Telling {
    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        self.0.set(self.0.get() + 1);
        let mut outcome =
            Outcome { value: self.0.get() as f64, seconds: 0.001, ..Outcome::default() };
        outcome.found.insert("done".to_owned(), self.0.get().into());
        outcome.figures.add("done", "times", self.0.get() as f64);
        let mut latencies = latency::empty();
        latencies.record(1000).expect("it is within the bounds");
        outcome.latencies = Some(latencies);
        Ok(outcome)
    }
}

#[test]
fn what_an_interrupted_run_tells_beside_its_figures_is_of_complete_blocks_too() {
    for samples in 12..18 {
        let told = Told { interrupted_after: Some(samples), ..Told::default() };
        let telling = worked("b", Ok(Box::new(Telling::default())));
        let record = run_told(vec![steady("a", 1.0), telling], Blocks::Exactly(1000), told).0;
        let record = record.expect("a block");
        let arm = found(&record, "b");
        let latency = Latency::of_arm(arm).expect("it was clocked");
        let histogram = latency::decoded(latency.histogram.as_deref().unwrap_or_default());
        assert_eq!(histogram.expect("a histogram").len(), u64::from(record.blocks), "{samples}");
        let counted = arm.samples.iter().filter(|sample| !sample.superseded);
        let last = counted.max_by_key(|sample| sample.block).expect("a sample").value;
        assert_eq!(arm.params["done"].as_f64(), Some(last), "{samples}");
        let figures = bytepath_report::Figures::of_arm(arm).expect("it told one");
        assert_eq!(figures.get("done"), arm.median, "{samples}");
    }
}

#[test]
fn a_run_until_the_intervals_are_narrow_that_is_interrupted_says_after_how_many_blocks() {
    let record = interrupted_after(12, Blocks::UntilCi(1.0)).expect("a block");
    let plural = if record.blocks == 1 { "" } else { "s" };
    let said = format!("interrupted after {} block{plural}", record.blocks);
    assert!(record.notes.contains(&said), "{:?}", record.notes);
}

#[test]
fn a_run_that_is_interrupted_before_a_block_is_complete_gives_nothing() {
    for samples in [0, 1, 2, 3] {
        let ended = interrupted_after(samples, Blocks::Exactly(10));
        assert!(matches!(&ended, Err(LabError::Interrupted(why)) if why.is_empty()), "{ended:?}");
    }
}

#[test]
fn a_run_that_is_interrupted_early_tells_why_arms_had_failed() {
    let none = worked("c", Err("no disk".to_owned()));
    let told = Told { interrupted_after: Some(3), ..Told::default() };
    let turns = told.turns.clone();
    // The trial goes well. What fails as the run is interrupted was.
    let failing = |name: &str| {
        let turns = turns.clone();
        arm(name, move |_| match turns.borrow().len() {
            0 => Ok(1.0),
            3 => Err("signal: 2 (SIGINT)".to_owned()),
            _ => Err("full".to_owned()),
        })
    };
    let ended = run_told(vec![none, failing("a"), failing("b")], Blocks::Exactly(9), told).0;
    let said = ended.expect_err("no block is complete").to_string();
    let (head, reasons) = said.split_once('\n').expect("reasons");
    let interrupted =
        "interrupted before the first block was complete, and before that, arms failed:";
    assert_eq!(head, interrupted);
    assert!(reasons.starts_with("  c: no disk\n") && reasons.contains(": full"), "{said}");
    assert!(!reasons.contains("signal"), "{said}");
}

#[test]
fn an_arm_that_fails_because_it_is_interrupted_did_not_fail() {
    // Its processes are interrupted too: the trial and the first blocks go well, then no more.
    let told = Told { interrupted_after: Some(20), ..Told::default() };
    let turns = told.turns.clone();
    let failing = arm("b", move |_| match turns.borrow().len() {
        20.. => Err("signal: 2 (SIGINT)".to_owned()),
        _ => Ok(1.0),
    });
    let arms = vec![steady("a", 1.0), failing];
    let record = run_told(arms, Blocks::Exactly(1000), told).0.expect("a block");
    assert_eq!(found(&record, "b").status, Status::Ok, "{:?}", found(&record, "b").why);
}
