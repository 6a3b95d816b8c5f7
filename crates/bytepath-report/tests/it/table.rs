//! The table as a person sees it, at the widths that people have.

use bytepath_report::table::{Style, render};
use bytepath_report::{Arm, Record, Status, Unit, Verdict};

use crate::sample;

fn at_width(record: &Record, width: u16) -> String {
    render(record, Style { colour: false, width: Some(width) })
}

fn longest_line(text: &str) -> usize {
    text.lines().map(|line| line.chars().count()).max().unwrap_or(0)
}

#[test]
fn the_table_at_80_columns() {
    insta::assert_snapshot!(at_width(&sample::record(), 80));
}

#[test]
fn the_table_at_120_columns() {
    insta::assert_snapshot!(at_width(&sample::record(), 120));
}

#[test]
fn the_table_without_a_limit() {
    insta::assert_snapshot!(render(&sample::record(), Style::default()));
}

#[test]
fn the_table_at_40_columns() {
    insta::assert_snapshot!(at_width(&sample::record(), 40));
}

#[test]
fn an_untrusted_record_says_so_first() {
    insta::assert_snapshot!(at_width(&sample::untrusted_record(), 80));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    for width in 40..200 {
        let text = at_width(&sample::untrusted_record(), width);
        assert!(longest_line(&text) <= usize::from(width), "{width} columns:\n{text}");
    }
}

#[test]
fn a_width_too_small_for_anything_still_renders() {
    for width in 0..40 {
        assert!(at_width(&sample::record(), width).contains("n/a"), "{width} columns");
    }
}

#[test]
fn at_every_width_every_arm_is_there_in_order_with_its_figure() {
    for width in [50, 80, 100, 120, 160] {
        let text = at_width(&sample::record(), width);
        let mut rest = text.as_str();
        for figure in ["8.51", "8.54", "94.2", "0.83", "8.90", "n/a"] {
            let place = rest.find(figure);
            let place = place.unwrap_or_else(|| panic!("{figure} at {width} columns:\n{text}"));
            rest = &rest[place + figure.len()..];
        }
    }
}

#[test]
fn colour_is_used_only_when_asked_for_and_changes_nothing_else() {
    let record = sample::untrusted_record();
    let plain = at_width(&record, 80);
    let coloured = render(&record, Style { colour: true, width: Some(80) });
    assert!(!plain.contains('\u{1b}'));
    assert!(coloured.starts_with("\u{1b}[1m\u{1b}[31mUNTRUSTED"), "{coloured:?}");
    assert_eq!(coloured.replace("\u{1b}[1m\u{1b}[31m", "").replace("\u{1b}[0m", ""), plain);
}

#[test]
fn the_unit_stands_beside_the_figure_where_the_arms_differ() {
    let mut record = sample::record();
    record
        .arms
        .push(Arm { median: Some(240.0), ..Arm::new("ring, one message", Unit::Nanoseconds) });
    let text = render(&record, Style::default());
    assert!(text.contains("240 ns") && text.contains("8.51 GiB/s"), "{text}");
}

#[test]
fn columns_that_no_arm_fills_are_not_drawn_nor_regretted() {
    let mut record = sample::record();
    for arm in &mut record.arms {
        arm.published = None;
        arm.costs = None;
    }
    let text = at_width(&record, 200);
    assert!(!text.contains("published") && !text.contains("CPU\n"), "{text}");
    assert!(!text.contains("too narrow"), "{text}");
}

#[test]
fn intervals_stay_longer_than_what_others_published_and_nothing_passes_for_touched() {
    for width in 50..120 {
        let text = at_width(&sample::record(), width);
        let has = |heading: &str| text.split('\n').take(9).any(|line| line.contains(heading));
        let (interval, published, touched) = (has("95%"), has("published"), has("touched"));
        assert!(interval || !published, "{width}:\n{text}");
        assert!(interval || !touched, "{width}:\n{text}");
        let named = text.contains("looked at them: vmsplice → splice,");
        let named = named || text.replace("\n  ", " ").contains("at them: vmsplice → splice,");
        assert!(touched || named, "{width}:\n{text}");
    }
}

#[test]
fn a_reference_that_failed_has_no_ratio() {
    let mut record = sample::record();
    let reference = &mut record.arms[0];
    (reference.status, reference.median) = (Status::Unavailable, None);
    (reference.ci95, reference.published, reference.costs) = (None, None, None);
    let text = at_width(&record, 80);
    let row = text.lines().find(|line| line.starts_with("write → read *")).expect("its row");
    let cells: Vec<_> = row.split_whitespace().skip(4).collect();
    insta::assert_snapshot!(cells.join(" "), @"n/a – – –");
}

#[test]
fn a_record_without_arms_still_renders() {
    let mut record = sample::record();
    record.arms.clear();
    let text = at_width(&record, 80);
    assert!(text.starts_with("pipes: how fast can a pipe be?"), "{text}");
}

#[test]
fn a_record_from_elsewhere_cannot_command_the_terminal() {
    let mut record = sample::untrusted_record();
    let hostile = "\u{1b}]0;owned\u{7}\u{1b}[2J";
    record.arms[0].name.push_str(hostile);
    record.arms[5].why = Some(hostile.to_owned());
    record.untrusted_why = Some(hostile.to_owned());
    record.experiment.question = hostile.to_owned();
    let text = at_width(&record, 120);
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
    assert!(text.contains("owned"));
}

#[test]
fn sections_stand_apart_each_with_its_reference() {
    let of = |section: &str, name: &str, reference| Arm {
        section: Some(section.to_owned()),
        median: Some(1.0),
        reference,
        ..Arm::new(name, Unit::Nanoseconds)
    };
    let mut record = sample::record();
    record.arms = vec![of("a", "a/1", true), of("a", "a/2", false), of("b", "b/1", true)];
    let text = at_width(&record, 120);
    let rows: Vec<_> = text.lines().skip_while(|line| !line.starts_with("a/1 *")).collect();
    assert!(rows[1].starts_with("a/2 ") && rows[2].trim().is_empty(), "{text}");
    assert!(rows[3].starts_with("b/1 *"), "{text}");
    assert!(text.contains("* the reference of its section"), "{text}");
    assert!(!text.contains("touched"), "an operation touches no bytes: {text}");
}

#[test]
fn however_narrow_a_terminal_is_names_are_not_broken_letter_by_letter() {
    for width in 1..40 {
        let text = at_width(&sample::record(), width);
        assert!(text.contains("\nwrite → read * "), "{width}:\n{text}");
    }
}

#[test]
fn arms_that_cannot_run_for_one_reason_are_told_of_together() {
    let mut record = sample::record();
    let arm = |number: u32| Arm::unavailable(format!("arm {number}"), Unit::Seconds, "no root");
    record.arms.extend((0..5).map(arm));
    let text = at_width(&record, 120);
    assert!(text.contains("n/a arm 0, arm 1, arm 2 and 2 more: no root"), "{text}");
    assert!(text.contains("n/a uring → read: io_uring_setup"), "{text}");
}

#[test]
fn figures_beside_a_verdict_do_not_contradict_it() {
    let mut record = sample::untrusted_record();
    record.arms.truncate(4);
    let verdicts = [Verdict::Same, Verdict::Faster, Verdict::Undecided];
    let ends = [[0.994, 1.006], [1.004, 1.048], [0.9905, 1.0204]];
    for ((arm, verdict), ends) in record.arms[1..].iter_mut().zip(verdicts).zip(ends) {
        (arm.verdict, arm.ratio, arm.ratio_ci95) = (Some(verdict), Some(1.0035), Some(ends));
    }
    let control = record.control.as_mut().expect("it has one");
    (control.ratio, control.ratio_ci95) = (1.0035, [1.0021, 1.0049]);
    let text = render(&record, Style::default());
    let here = bytepath_report::doubt::Here::default();
    for text in [text, bytepath_report::markdown::render(&record, &here).replace('\\', "")] {
        for words in ["[0.994, 1.006]", "[1.004, 1.048]", "[0.990, 1.021]", "1.004x [1.002, 1.005]"]
        {
            assert!(text.contains(words), "{words} is not in {text}");
        }
    }
}
