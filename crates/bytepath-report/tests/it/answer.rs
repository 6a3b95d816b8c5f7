//! The answer in a sentence, and the reasons for doubt.

use std::time::{Duration, SystemTime};

use bytepath_report::doubt::{self, Here, Kind};
use bytepath_report::{Arm, Better, Build, Record, Sample, Status, Unit, Verdict, answer};

use crate::sample;

fn kinds(record: &Record, here: &Here) -> Vec<Kind> {
    doubt::of(record, here).into_iter().map(|doubt| doubt.kind).collect()
}

#[test]
fn the_answer_names_the_fastest_and_says_who_looked_at_the_bytes() {
    assert_eq!(
        answer::of(&sample::record()),
        [
            "vmsplice → splice, huge is fastest with 94.2 GiB/s [91.0, 96.3], 11.1 times the reference \
          write → read [10.8, 11.4]; its reader moves the bytes without looking at them, and of those \
          that do look vmsplice → read is best with 8.90 GiB/s [7.20, 11.3]. Of the others, 1 the \
          same, 1 slower, 1 undecided. 1 arm could not run."
        ]
    );
}

#[test]
fn a_median_that_lies_higher_is_not_called_faster() {
    let mut record = sample::record();
    record.arms.retain(|arm| arm.verdict != Some(Verdict::Faster));
    assert_eq!(
        answer::of(&record),
        [
            "No arm is surely faster than the reference write → read, 8.51 GiB/s [8.31, 8.62]; the best \
          median, of vmsplice → read, is undecided. Of the others, 1 the same, 1 slower. \
          1 arm could not run."
        ]
    );
}

#[test]
fn an_arm_that_is_faster_is_told_of_though_the_best_median_is_anothers() {
    let mut record = sample::record();
    let mut arms = std::mem::take(&mut record.arms).into_iter();
    let (reference, _, faster) = (arms.next().unwrap(), arms.next(), arms.next().unwrap());
    let mut undecided = arms.nth(1).unwrap();
    (undecided.median, undecided.ci95) = (Some(99.0), None);
    record.arms = vec![reference, faster, undecided];
    assert_eq!(
        answer::of(&record),
        ["vmsplice → splice, huge is surely faster with 94.2 GiB/s [91.0, 96.3], 11.1 times the \
             reference write → read [10.8, 11.4]; the best median, of vmsplice → read, is undecided."]
    );
    // Medians of ratios need not lie as those of figures do.
    record.arms.pop();
    (record.arms[0].median, record.arms[0].ci95) = (Some(95.0), None);
    record.arms[1].touched = true;
    assert_eq!(
        answer::of(&record),
        ["vmsplice → splice, huge is surely faster with 94.2 GiB/s [91.0, 96.3], 11.1 times the \
             reference write → read [10.8, 11.4]; the best median is that of the reference, 95.0 GiB/s."]
    );
}

#[test]
fn one_arm_is_ahead_of_nobody() {
    let mut record = sample::record();
    record.arms.truncate(1);
    let arm = &mut record.arms[0];
    (arm.reference, arm.touched) = (false, true);
    assert_eq!(answer::of(&record), ["write → read reached 8.51 GiB/s [8.31, 8.62]."]);
    let arm = &mut record.arms[0];
    (arm.unit, arm.better) = (Unit::Seconds, Better::Lower);
    assert_eq!(answer::of(&record), ["write → read took 8.51 s [8.31, 8.62]."]);
}

#[test]
fn a_reference_that_failed_is_held_against_nobody() {
    let mut record = sample::record();
    for arm in &mut record.arms {
        (arm.unit, arm.better) = (Unit::Seconds, Better::Lower);
        (arm.ratio, arm.ratio_ci95, arm.verdict) = (None, None, None);
    }
    record.arms.truncate(3);
    let reference = &mut record.arms[0];
    (reference.median, reference.ci95) = (None, None);
    reference.status = Status::Unavailable;
    let told = " The reference write → read gave no figure. 1 arm could not run.";
    let ahead = "write → read, again is ahead with 8.54 s [8.34, 8.60].";
    assert_eq!(answer::of(&record), [format!("{ahead}{told}")]);
    // One that is left alone is ahead of nobody.
    record.arms.truncate(2);
    assert_eq!(
        answer::of(&record),
        [format!("write → read, again took 8.54 s [8.34, 8.60].{told}")]
    );
}

/// A record whose arms have these values, with a reference that both others are faster than.
fn rivals<const BLOCKS: usize>(one: [f64; BLOCKS], other: [f64; BLOCKS]) -> Record {
    let mut record = sample::record();
    record.arms.truncate(3);
    record.arms[1].name = "other".to_owned();
    record.arms[2].name = "one".to_owned();
    for (arm, values) in record.arms[1..].iter_mut().zip([other, one]) {
        let sample =
            |(block, value): (u32, f64)| Sample { block, value, seconds: 1.0, ..Sample::default() };
        arm.samples = (0..).zip(values).map(sample).collect();
        (arm.median, arm.ci95, arm.touched) = (Some(values[0]), None, true);
        (arm.ratio, arm.ratio_ci95) = (Some(2.0), Some([1.9, 2.1]));
        arm.verdict = Some(Verdict::Faster);
    }
    record
}

#[test]
fn the_fastest_is_named_only_where_it_is_told_apart_from_the_next() {
    let one = [20.1, 20.2, 19.8, 20.0, 20.3, 19.9];
    // Of about the same figures, and block by block now the one is ahead and now the other.
    let other = [20.0, 20.4, 20.0, 19.9, 20.0, 20.2];
    let record = rivals(one, other);
    assert_eq!(
        answer::of(&record),
        ["“one” has the best median, 20.1 GiB/s, 2.00 times the reference write → read \
          [1.90, 2.10], and is not told apart from “other”. Of the others, 1 faster."]
    );
    // A little ahead in every block, though the blocks differ by more.
    let told = answer::of(&rivals(one, one.map(|value| value - 0.05)));
    assert!(told[0].starts_with("“one” is fastest with 20.1 GiB/s"), "{told:?}");
    // However many blocks there are.
    let many: [f64; 2_001] =
        std::array::from_fn(|block| 15.0 + block as f64 * 1.618_034 % 1.0 * 6.0);
    let told = answer::of(&rivals(many, many.map(|value| value - 0.001)));
    assert!(told[0].starts_with("“one” is fastest with"), "{told:?}");
    // Nothing joins imported samples in blocks.
    let mut record = rivals(one, one.map(|value| value - 0.05));
    record.settings.insert(doubt::IMPORTED.to_owned(), "hyperfine".into());
    assert!(answer::of(&record)[0].contains("is not told apart from “other”"));
    record = rivals(one, one.map(|value| value / 2.0));
    record.settings.insert(doubt::IMPORTED.to_owned(), "hyperfine".into());
    assert!(answer::of(&record)[0].starts_with("“one” is fastest"));
}

#[test]
fn of_times_the_lower_is_the_better_and_its_share_is_told() {
    let mut record = sample::record();
    record.arms.truncate(2);
    for (arm, value) in record.arms.iter_mut().zip([2.0, 0.5]) {
        (arm.unit, arm.better, arm.median, arm.ci95) =
            (Unit::Seconds, Better::Lower, Some(value), None);
    }
    let arm = &mut record.arms[1];
    arm.name = "quick".to_owned();
    (arm.ratio, arm.ratio_ci95, arm.verdict) =
        (Some(0.25), Some([0.2, 0.3]), Some(Verdict::Faster));
    assert_eq!(
        answer::of(&record),
        [
            "“quick” is fastest with 0.500 s, 0.250 of the time of the reference write → read [0.200, 0.300]."
        ]
    );
}

#[test]
fn many_nanoseconds_are_told_in_a_larger_unit() {
    let mut record = sample::record();
    record.arms.truncate(1);
    let arm = &mut record.arms[0];
    (arm.unit, arm.better) = (Unit::Nanoseconds, Better::Lower);
    (arm.median, arm.ci95) = (Some(750_000.0), Some([665_000.0, 1_100_000.0]));
    assert_eq!(answer::of(&record), ["write → read gives 750 µs [665 µs, 1.10 ms]."]);
    (record.arms[0].median, record.arms[0].ci95) = (Some(3459.0), None);
    assert_eq!(answer::of(&record), ["write → read gives 3459 ns."]);
}

#[test]
fn sections_are_answered_one_by_one() {
    let mut record = sample::record();
    for (index, arm) in record.arms.iter_mut().enumerate() {
        arm.section = Some(if index < 3 { "one" } else { "other" }.to_owned());
    }
    let told = answer::of(&record);
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(told[0].starts_with("In 1 of 2 sections an arm is faster"), "{told:?}");
    assert!(
        told[0].contains("vmsplice → splice, huge in one, 11.1 times its reference"),
        "{told:?}"
    );
    assert!(told[1].starts_with("one: vmsplice → splice, huge is fastest"), "{told:?}");
}

#[test]
fn a_record_without_figures_says_so() {
    let mut record = sample::record();
    record.arms = vec![Arm::unavailable("a", Unit::Seconds, "no")];
    assert_eq!(answer::of(&record), ["No arm gave a figure."]);
    record.arms.clear();
    assert_eq!(answer::of(&record), ["No arm gave a figure."]);
}

#[test]
fn doubts_are_told_where_there_is_reason_and_the_gravest_first() {
    assert_eq!(kinds(&sample::record(), &Here::default()), []);
    let mut record = sample::untrusted_record();
    record.notes.push("interrupted after 2 of 3 blocks".to_owned());
    for sample in &mut record.arms[0].samples {
        sample.flagged = true;
    }
    record.settings.insert(doubt::IMPORTED.to_owned(), "fio-3.33".into());
    let wanted = [Kind::Untrusted, Kind::Interrupted, Kind::Noisy, Kind::Imported];
    assert_eq!(kinds(&record, &Here::default()), wanted);
    let mut record = sample::record();
    record.control = None;
    assert_eq!(kinds(&record, &Here::default()), [Kind::Uncontrolled]);
    for arm in &mut record.arms {
        arm.ci95 = arm.median.map(|median| [median / 3.0, median * 3.0]);
    }
    assert_eq!(kinds(&record, &Here::default()), [Kind::Noisy, Kind::Uncontrolled]);
}

#[test]
fn a_record_is_stale_beside_another_time_program_or_kernel() {
    let record = sample::record();
    let at = |days: u64| {
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_772_366_400);
        Here { now: Some(started + Duration::from_secs(days * 24 * 3600)), ..Here::default() }
    };
    assert_eq!(kinds(&record, &at(80)), []);
    assert_eq!(doubt::of(&record, &at(100))[0].text, "Measured 100 days ago.");
    let same = Here { bytepath: Some(record.bytepath.clone()), ..Here::default() };
    assert_eq!(kinds(&record, &same), []);
    let other = Build { version: "0.2.0".to_owned(), build: "x".to_owned() };
    assert_eq!(kinds(&record, &Here { bytepath: Some(other), ..Here::default() }), [Kind::Stale]);
    let machine = |kernel: &str, cpu: &str| Here {
        kernel_and_cpu: Some((kernel.to_owned(), Some(cpu.to_owned()))),
        ..Here::default()
    };
    assert_eq!(kinds(&record, &machine("6.18.5", "AMD EPYC 7763")), []);
    assert_eq!(kinds(&record, &machine("7.0.0", "AMD EPYC 7763")), [Kind::Stale]);
    assert_eq!(kinds(&record, &machine("7.0.0", "another CPU")), [], "that is another machine");
}
