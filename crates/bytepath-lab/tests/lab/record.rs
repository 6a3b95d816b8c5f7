//! What the record says of a run that went well.

use std::cell::Cell;
use std::collections::BTreeMap;

use bytepath_lab::arm::{Arm, INTACT, Outcome, Timing, Work};
use bytepath_lab::lab::{Blocks, CONTROL_SUFFIX};
use bytepath_report::{Costs, PEAK_AT_MOST, Verdict};
use serde_json::json;

use crate::works::{Told, arm, found, recorded, run, run_told, steady, worked};

#[test]
fn every_arm_has_one_counted_sample_in_each_block_and_the_control_is_no_arm() {
    let (record, told) = run(vec![steady("a", 1.0), steady("b", 2.0)], Blocks::Exactly(5));
    let record = record.expect("both run");
    assert_eq!(record.blocks, 5);
    assert_eq!(record.arms.len(), 2, "the control is told of apart");
    for arm in &record.arms {
        let mut blocks: Vec<_> =
            arm.samples.iter().filter(|sample| !sample.superseded).map(|s| s.block).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, [0, 1, 2, 3, 4], "{}", arm.name);
    }
    let turns = told.turns.borrow();
    let of_a = turns.iter().filter(|(block, arm)| *block == 0 && arm == "a").count();
    assert!(of_a >= 2, "the reference runs twice in each block: {turns:?}");
}

#[test]
fn the_control_is_the_reference_once_more_and_is_trusted_where_it_agrees() {
    let record = recorded(vec![steady("a", 1.0), steady("b", 2.0)], 6);
    let control = record.control.as_ref().expect("a control");
    assert_eq!(control.arm, format!("a{CONTROL_SUFFIX}"));
    assert!((control.ratio - 1.0).abs() < 0.01, "{}", control.ratio);
    let counted = control.samples.iter().filter(|sample| !sample.superseded);
    let mut blocks: Vec<_> = counted.map(|sample| sample.block).collect();
    blocks.sort_unstable();
    assert_eq!(blocks, (0..record.blocks).collect::<Vec<_>>(), "all are kept");
    assert!(control.samples.iter().all(|sample| sample.value > 0.0 && sample.seconds > 0.0));
    assert!(record.trusted && record.untrusted_why.is_none(), "{:?}", record.untrusted_why);
}

#[test]
fn two_blocks_are_measured_but_not_trusted_and_the_reason_is_their_number() {
    let record = recorded(vec![steady("a", 1.0), steady("b", 2.0)], 2);
    let why = record.untrusted_why.as_deref().expect("two blocks say nothing about the spread");
    assert!(why.contains("2 blocks") && why.contains("at least 3"), "{why}");
    assert!(found(&record, "b").median.is_some());
}

/// Knows its peak of memory in every run but the second, or in that alone, which is in the first block.
/// The bound is the largest in that block.
struct Peaking {
    knows_second_alone: bool,
    done: Cell<u32>,
}

impl Work for Peaking {
    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        let done = self.done.replace(self.done.get() + 1);
        let is_second = done == 1;
        let known = (is_second == self.knows_second_alone).then_some(5000.0);
        let costs = Costs { peak_memory_bytes: known, ..Costs::default() };
        let at_most = if done < 2 { 7000 } else { 6000 };
        let found = BTreeMap::from([(PEAK_AT_MOST.to_owned(), at_most.into())]);
        Ok(Outcome { value: 1.0, seconds: 0.001, costs, found, ..Outcome::default() })
    }
}

#[test]
fn a_peak_of_memory_that_few_runs_tell_is_no_figure_but_a_bound() {
    let peaking = |knows_second_alone| {
        let work = Peaking { knows_second_alone, done: Cell::new(0) };
        let record = recorded(vec![worked("a", Ok(Box::new(work)))], 5);
        let arm = found(&record, "a").clone();
        (arm.costs.expect("they are told").peak_memory_bytes, arm.params.get(PEAK_AT_MOST).cloned())
    };
    assert_eq!(peaking(false), (Some(5000.0), None));
    assert_eq!(peaking(true), (None, Some(json!(7000))));
}

/// Finds its bytes damaged in so many samples, and intact from then on.
struct Damaged {
    samples: u32,
    done: Cell<u32>,
}

impl Work for Damaged {
    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        let done = self.done.replace(self.done.get() + 1);
        let found = BTreeMap::from([(INTACT.to_owned(), (done >= self.samples).into())]);
        Ok(Outcome { value: 1.0, seconds: 0.001, found, ..Outcome::default() })
    }

    fn trial(&self, _: &Timing) -> Result<(), String> {
        Ok(())
    }
}

#[test]
fn bytes_that_were_damaged_once_are_not_intact() {
    let intact = |samples| {
        let damaged = worked("b", Ok(Box::new(Damaged { samples, done: Cell::new(0) })));
        let record = recorded(vec![steady("a", 1.0), damaged], 5);
        found(&record, "b").params.get(INTACT).cloned()
    };
    assert_eq!(intact(0), Some(json!(true)));
    // One that others disturbed does not count, and is taken once more.
    assert_eq!(intact(3), Some(json!(false)));
}

#[test]
fn ratios_and_verdicts_follow_the_figures() {
    let record = recorded(vec![steady("a", 1.0), steady("b", 2.0), steady("c", 0.5)], 10);
    let (a, b, c) = (found(&record, "a"), found(&record, "b"), found(&record, "c"));
    assert!(a.reference && a.verdict.is_none() && a.ratio.is_some_and(|r| (r - 1.0).abs() < 1e-9));
    assert_eq!((b.verdict, c.verdict), (Some(Verdict::Faster), Some(Verdict::Slower)));
    assert!(b.ratio.is_some_and(|ratio| (1.99..2.01).contains(&ratio)));
    assert!(b.median.is_some_and(|median| (1.99..2.01).contains(&median)));
}

#[test]
fn a_run_until_the_intervals_are_narrow_stops_and_says_after_how_many_blocks() {
    let (record, _) = run(vec![steady("a", 1.0), steady("b", 2.0)], Blocks::UntilCi(5.0));
    let record = record.expect("both run");
    assert_eq!(record.blocks, 10, "steady arms need no more than the fewest blocks");
    assert_eq!(record.settings["until_ci_percent"], json!(5.0));
    let said = "stopped after 10 blocks: the intervals, also of ratios, are as narrow as asked for";
    assert!(record.notes.iter().any(|note| note == said), "{:?}", record.notes);
}

#[test]
fn a_run_whose_intervals_stay_wide_gives_up_and_says_so() {
    // Multiples of the golden ratio fill the unit interval evenly and never meet.
    let wild = arm("a", |done| Ok((f64::from(done) * 1.618_034 % 1.0 * 4.0).exp()));
    let (record, _) = run(vec![wild, steady("b", 1.0)], Blocks::UntilCi(0.001));
    let record = record.expect("both run");
    let said = "given up after 200 blocks: intervals, maybe of ratios, were not narrow enough 3 times in a row";
    assert!(record.notes.iter().any(|note| note == said), "{:?}", record.notes);
}

/// An arm that gives the one value in even blocks and the other in odd ones.
fn alternating(name: &str, told: &Told, values: [f64; 2]) -> Arm {
    let turns = told.turns.clone();
    arm(name, move |_| {
        let block = turns.borrow().last().map_or(0, |(block, _)| *block);
        Ok(values[block as usize % 2])
    })
}

#[test]
fn a_run_until_the_intervals_are_narrow_waits_for_those_of_the_ratios_too() {
    let told = Told::default();
    let arms = || {
        let one = alternating("a", &told, [0.96, 1.04]);
        vec![one, alternating("b", &told, [1.04, 0.96])]
    };
    // The medians are within ±4%, the ratio is within ±8%.
    let (record, _) = run_told(arms(), Blocks::UntilCi(6.0), told.clone());
    assert_eq!(record.expect("both run").blocks, 200);
    let (record, _) = run_told(arms(), Blocks::UntilCi(9.0), told.clone());
    assert_eq!(record.expect("both run").blocks, 10);
}

#[test]
fn two_modes_are_told_with_figures_that_differ_and_their_unit() {
    let told = Told::default();
    let arms = vec![alternating("a", &told, [0.0011, 0.0010])];
    let (record, _) = run_told(arms, Blocks::Exactly(10), told);
    let said = "a: runs in two modes, around 0.00100 GiB/s and around 0.00110 GiB/s";
    let notes = record.expect("it runs").notes;
    assert!(notes.iter().any(|note| note == said), "{notes:?}");
}

#[test]
fn a_sample_that_takes_the_interval_away_is_named_in_the_notes() {
    let told = Told::default();
    let arms = vec![steady("a", 1.0), alternating("odd", &told, [1.0, 0.0])];
    let (record, _) = run_told(arms, Blocks::Exactly(4), told);
    let record = record.expect("both run");
    assert_eq!(found(&record, "odd").ci95, None);
    let said = "odd: no interval or verdict: 0 in block 2 is neither a speed nor a time";
    assert!(record.notes.iter().any(|note| note.starts_with(said)), "{:?}", record.notes);
}

#[test]
fn outliers_and_drift_are_named_in_the_notes_and_counted() {
    let spiky =
        arm("spiky", |done| Ok(if done == 7 { 90.0 } else { 1.0 + f64::from(done % 3) / 100.0 }));
    let drifting = arm("drifting", |done| Ok(1.0 + f64::from(done) / 4.0));
    let record = recorded(vec![steady("a", 1.0), spiky, drifting], 12);
    let noted = |words: &str| record.notes.iter().any(|note| note.starts_with(words));
    assert!(noted("spiky: 1 of 12 samples are outliers"), "{:?}", record.notes);
    assert!(noted("drifting: drifts by +"), "{:?}", record.notes);
    assert!(found(&record, "spiky").samples.iter().any(|sample| sample.value == 90.0));
}

#[test]
fn the_settings_and_the_machine_are_in_the_record() {
    let record = recorded(vec![steady("a", 1.0)], 3);
    assert_eq!(record.settings["seed"], json!(42));
    assert_eq!(record.settings["blocks"], json!(3));
    assert_eq!(record.settings["measured_s"], json!(0.001));
    assert!(!record.machine.kernel.is_empty() && !record.bytepath.build.is_empty());
}

#[test]
fn no_other_run_has_the_same_id_though_it_has_the_same_seed() {
    let ids = [(); 3].map(|()| recorded(vec![steady("a", 1.0)], 2).id);
    let distinct = std::collections::BTreeSet::from(ids.clone());
    assert_eq!(distinct.len(), 3, "{ids:?}");
}

#[test]
fn arms_of_a_section_are_compared_with_the_first_of_them_that_runs() {
    let of = |section: &str, arm: Arm| Arm { section: Some(section.to_owned()), ..arm };
    let refused = worked("b/0", Err("not here".into()));
    let arms = vec![
        of("a", steady("a/1", 1.0)),
        of("a", steady("a/2", 2.0)),
        of("b", refused),
        of("b", steady("b/1", 10.0)),
        of("b", steady("b/2", 5.0)),
    ];
    let record = recorded(arms, 6);
    let references: Vec<_> =
        record.arms.iter().filter(|arm| arm.reference).map(|arm| arm.name.as_str()).collect();
    assert_eq!(references, ["a/1", "b/1"]);
    assert_eq!(found(&record, "b/0").section.as_deref(), Some("b"));
    let ratio = |name: &str| found(&record, name).ratio.expect("it ran");
    assert!((1.99..2.01).contains(&ratio("a/2")) && (0.49..0.51).contains(&ratio("b/2")));
    assert_eq!(found(&record, "b/2").verdict, Some(Verdict::Slower));
    assert_eq!(record.control.as_ref().map(|control| control.arm.as_str()), Some("a/1 (A/A)"));
}
