//! Arms that cannot run, or stop running.

use std::collections::BTreeSet;

use bytepath_lab::arm::{Arm, Timing, Work};
use bytepath_lab::lab::{self, Blocks, Explain, Observer, Settings};
use bytepath_lab::schedule::Turn;
use bytepath_report::{Experiment, Explained, Sample, Status};

use crate::works::{Told, arm, found, recorded, run, settings, steady, worked};

#[test]
fn an_arm_that_fails_in_the_trial_is_unavailable_and_the_run_goes_on() {
    let broken = arm("broken", |_| Err("no such thing; install it".to_owned()));
    let (record, told) = run(vec![steady("a", 2.0), broken, steady("b", 1.0)], Blocks::Exactly(3));
    let record = record.expect("two arms can run");
    let names: Vec<_> = record.arms.iter().map(|arm| arm.name.as_str()).collect();
    assert_eq!(names, ["a", "broken", "b"], "the order given is kept");
    let broken = found(&record, "broken");
    assert_eq!(broken.status, Status::Unavailable);
    assert_eq!(broken.why.as_deref(), Some("no such thing; install it"));
    assert!(broken.samples.is_empty() && broken.median.is_none() && broken.ratio.is_none());
    assert_eq!(found(&record, "b").status, Status::Ok);
    assert_eq!(*told.unavailable.borrow(), ["broken: no such thing; install it"]);
    assert!(told.turns.borrow().iter().all(|(_, arm)| arm != "broken"));
}

#[test]
fn an_arm_without_work_is_unavailable_with_its_reason() {
    let absent = worked("absent", Err("it is not installed".to_owned()));
    let record = recorded(vec![steady("a", 2.0), absent], 3);
    let absent = found(&record, "absent");
    assert_eq!(
        (absent.status, absent.why.as_deref()),
        (Status::Unavailable, Some("it is not installed"))
    );
}

#[test]
fn an_arm_that_fails_midway_keeps_its_samples_and_is_not_judged() {
    // The trial and two blocks go well.
    let failing = arm("failing", |done| if done < 3 { Ok(1.0) } else { Err("gone".to_owned()) });
    let record = recorded(vec![steady("a", 2.0), failing, steady("b", 1.0)], 6);
    let failing = found(&record, "failing");
    assert_eq!(failing.status, Status::Unavailable);
    let why = failing.why.as_deref().expect("a reason");
    assert!(why.starts_with("it failed in block ") && why.ends_with(": gone"), "{why}");
    assert_eq!(failing.samples.len(), 2);
    assert_eq!((failing.median, failing.ratio, failing.verdict), (None, None, None));
    assert_eq!(record.blocks, 6);
    assert!(found(&record, "b").ratio.is_some(), "the others are judged all the same");
}

#[test]
fn without_its_reference_a_run_compares_with_the_first_arm_that_runs_and_says_so() {
    let missing = worked("missing", Err("not here".to_owned()));
    let record = recorded(vec![missing, steady("b", 1.0), steady("c", 3.0)], 3);
    assert!(found(&record, "b").reference && !found(&record, "missing").reference);
    assert!(found(&record, "c").ratio.is_some_and(|ratio| (2.9..3.1).contains(&ratio)));
    let said = "the reference arm missing cannot run here; ratios are to b";
    assert!(record.notes.iter().any(|note| note == said), "{:?}", record.notes);
}

#[test]
fn a_reference_that_nobody_asked_for_is_not_said_to_be_impossible() {
    let arms = vec![steady("b", 1.0), steady("c", 3.0)];
    let mut observer = Told::default();
    let timing = &settings(Blocks::Exactly(3));
    let record = lab::run(Experiment::default(), arms, "filtered", timing, &mut observer);
    let record = record.expect("arms can run");
    let note = record.notes.iter().find(|note| note.starts_with("the reference arm"));
    let note = note.map_or("none", String::as_str);
    assert!(note.ends_with("was not asked for; ratios are to b"), "{note}");
}

#[test]
fn a_reference_that_fails_midway_leaves_no_ratios_and_a_note() {
    let failing = arm("a", |done| if done < 2 { Ok(1.0) } else { Err("gone".to_owned()) });
    let record = recorded(vec![failing, steady("b", 1.0)], 4);
    assert!(!record.trusted);
    assert_eq!(found(&record, "b").status, Status::Ok);
    assert!(record.arms.iter().all(|arm| arm.ratio.is_none() && arm.verdict.is_none()));
    let said = "the reference arm a failed, so there are no ratios";
    assert!(record.notes.iter().any(|note| note == said), "{:?}", record.notes);
}

/// Explains no arm, and says why.
struct Unexplaining;

impl Observer for Unexplaining {
    fn begin(&mut self, _: usize, _: Option<u32>) {}

    fn unavailable(&mut self, _: &str, _: &str) {}

    fn sample(&mut self, _: &Turn, _: &str) {}

    fn explain(
        &mut self,
        arm: &Arm,
        _: &dyn Work,
        _: &Timing,
        _: Explain,
    ) -> Result<Option<Explained>, String> {
        match arm.name.as_str() {
            "c" => Ok(Some(Explained::default())),
            _ => Err("it is over".to_owned()),
        }
    }
}

#[test]
fn arms_that_are_not_explained_are_noted_once_for_each_reason() {
    let arms = ["a", "b", "c"].map(|name| steady(name, 1.0)).into();
    let how = Explain { hz: 99, frame_pointers: false, trace: None };
    let wanted = Settings { explain: Some(how), ..settings(Blocks::Exactly(3)) };
    let record = lab::run(Experiment::default(), arms, "a", &wanted, &mut Unexplaining);
    let record = record.expect("arms can run");
    assert_eq!(lab::not_explained(&record), ["not explained: a, b: it is over"]);
    assert!(found(&record, "c").explained.is_some() && found(&record, "a").explained.is_none());
}

#[test]
fn a_reference_that_fails_has_as_many_samples_as_its_control() {
    // The second turn of a block, unless samples were measured again.
    let failing = arm("a", |done| if done < 10 { Ok(1.0) } else { Err("gone".to_owned()) });
    let record = recorded(vec![failing, steady("b", 1.0)], 8);
    let blocks = |samples: &[Sample]| {
        let counted = samples.iter().filter(|sample| !sample.superseded);
        counted.map(|sample| sample.block).collect::<BTreeSet<_>>()
    };
    let control = record.control.as_ref().expect("three blocks and more are complete");
    assert_eq!(blocks(&control.samples), blocks(&found(&record, "a").samples));
    assert!(record.notes.iter().any(|note| note.starts_with("the reference arm a failed")));
}

#[test]
fn a_reference_that_fails_leaves_the_ratios_of_sections_that_are_not_its_own() {
    let failing = |name| arm(name, |done| if done < 2 { Ok(1.0) } else { Err("gone".to_owned()) });
    let of = |section: &str, arm: Arm| Arm { section: Some(section.to_owned()), ..arm };
    let others = || [of("two", steady("b", 1.0)), of("two", steady("c", 3.0))];
    let arms = [of("one", failing("a"))].into_iter().chain(others()).collect();
    let record = recorded(arms, 4);
    assert!(found(&record, "c").ratio.is_some() && record.control.is_none());
    let notes = |record: &bytepath_report::Record| {
        let notes = record.notes.iter().filter(|note| note.starts_with("the reference arm"));
        notes.cloned().collect::<Vec<_>>()
    };
    assert_eq!(notes(&record), ["the reference arm a failed, so there is no A/A control"]);
    // Another one of its section takes its place.
    let arms = [of("one", failing("a")), of("one", steady("d", 1.0))];
    let record = recorded(arms.into_iter().chain(others()).collect(), 4);
    let said = [
        "the reference arm a failed, so there is no A/A control",
        "the reference arm a failed; ratios are to d",
    ];
    assert_eq!(notes(&record), said);
}

#[test]
fn where_every_arm_fails_midway_the_run_ends() {
    let failing = |name| arm(name, |done| if done < 2 { Ok(1.0) } else { Err("gone".to_owned()) });
    let (record, told) = run(vec![failing("a"), failing("b")], Blocks::UntilCi(5.0));
    let record = record.expect("both could run at first");
    assert!(record.arms.iter().all(|arm| arm.status == Status::Unavailable));
    assert!(record.blocks < 10, "{} blocks", record.blocks);
    assert!(!record.trusted && !told.turns.borrow().is_empty());
}

#[test]
fn a_run_without_any_arm_is_an_error_with_every_reason() {
    let arms = vec![worked("a", Err("x is missing".to_owned())), arm("b", |_| Err("y".to_owned()))];
    let (record, _) = run(arms, Blocks::Exactly(3));
    let error = record.expect_err("there is nothing to record").to_string();
    assert!(error.contains("a: x is missing") && error.contains("b: y"), "{error}");
}

#[test]
fn a_run_of_no_arms_at_all_is_an_error() {
    assert!(run(Vec::new(), Blocks::Exactly(3)).0.is_err());
}
