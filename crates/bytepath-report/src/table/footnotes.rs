//! What stands below the table: everything that a row cannot say for itself.

use super::Shown;
use super::columns::{PUBLISHED, REFERENCE_MARK, TOUCHED, UNAVAILABLE, VERDICT};
use crate::arm::{Arm, Status};
use crate::numbers;
use crate::record::Record;
use crate::verdict;

/// Every footnote, in order; each is one paragraph.
pub(super) fn all(record: &Record, shown: &Shown) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(reference(record));
    lines.extend(verdicts(record, shown));
    lines.extend(control(record));
    lines.extend(unavailable(record));
    lines.extend(flagged(record));
    lines.extend(untouched(record, shown));
    if shown.has(PUBLISHED) {
        lines.extend(published(record.arms.iter()));
    }
    lines.extend(dropped(shown));
    lines.extend(record.notes.iter().map(|note| format!("note: {note}")));
    lines
}

fn reference(record: &Record) -> Option<String> {
    record.reference()?;
    let mark = REFERENCE_MARK.trim_start();
    Some(match record.has_sections() {
        true => format!("{mark} the reference of its section: ratios there are against it"),
        false => format!("{mark} the reference: ratios are against it"),
    })
}

/// The verdicts, where their column had to go: `faster: vmsplice, splice`.
fn verdicts(record: &Record, shown: &Shown) -> Vec<String> {
    if shown.has(VERDICT) {
        return Vec::new();
    }
    grouped(record.arms.iter().filter_map(|arm| {
        let words = verdict::words(arm.verdict?, arm.ratio_ci95);
        Some((words, arm.name.clone()))
    }))
}

fn control(record: &Record) -> Option<String> {
    let control = record.control.as_ref()?;
    Some(format!(
        "A/A control, the reference once more as \"{}\": {} {}{}",
        control.arm,
        numbers::ratio_within(control.ratio, Some(control.ratio_ci95)),
        numbers::ratio_interval(control.ratio_ci95),
        if control.excludes_one() { ", which should hold 1 and does not" } else { "" },
    ))
}

/// So many arms that cannot run for the same reason are named.
const UNAVAILABLE_ARMS_NAMED: usize = 3;

/// Why arms could not run, each reason once.
fn unavailable(record: &Record) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for arm in record.arms.iter().filter(|arm| arm.status == Status::Unavailable) {
        let why = arm.why.as_deref().unwrap_or("the record does not say why");
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, arms)) => arms.push(&arm.name),
            None => reasons.push((why, vec![&arm.name])),
        }
    }
    let line = |(why, arms): (&str, Vec<&str>)| {
        let more = arms.len().saturating_sub(UNAVAILABLE_ARMS_NAMED);
        let named = arms[..arms.len() - more].join(", ");
        match more {
            0 => format!("{UNAVAILABLE} {named}: {why}"),
            more => format!("{UNAVAILABLE} {named} and {more} more: {why}"),
        }
    };
    reasons.into_iter().map(line).collect()
}

/// So many arms with flagged samples are named, the most disturbed first.
const FLAGGED_ARMS_NAMED: usize = 4;

/// How many samples are flagged as disturbed, and of which arms most.
pub(crate) fn flagged(record: &Record) -> Option<String> {
    let total: usize = record.arms.iter().map(|arm| arm.samples.len()).sum();
    let flagged: usize = record.arms.iter().map(Arm::flagged).sum();
    let mut arms: Vec<&Arm> = record.arms.iter().filter(|arm| arm.flagged() > 0).collect();
    arms.sort_by_key(|arm| std::cmp::Reverse(arm.flagged()));
    let named = arms.iter().take(FLAGGED_ARMS_NAMED);
    let mut each: Vec<_> = named.map(|arm| format!("{} {}", arm.name, arm.flagged())).collect();
    if arms.len() > FLAGGED_ARMS_NAMED {
        each.push(numbers::counted((arms.len() - FLAGGED_ARMS_NAMED) as u64, "more arm"));
    }
    (flagged > 0).then(|| {
        format!(
            "{flagged} of {} flagged as disturbed, all kept in the record: {}",
            numbers::counted(total as u64, "sample"),
            each.join(", ")
        )
    })
}

/// What it means that a reader did not look; the arms too, where their column had to go.
fn untouched(record: &Record, shown: &Shown) -> Option<String> {
    let ran = || {
        let ran = |arm: &&Arm| arm.status == Status::Ok && arm.unit.is_of_bytes();
        record.arms.iter().filter(ran)
    };
    let untouched: Vec<&str> =
        ran().filter(|arm| !arm.touched).map(|arm| arm.name.as_str()).collect();
    let meaning = format!("{TOUCHED} no: bytes were moved, but the reader never looked at them");
    match (untouched.is_empty(), shown.has(TOUCHED)) {
        (true, _) => None,
        (false, true) => Some(meaning),
        (false, false) if untouched.len() == ran().count() => Some(format!("{meaning}: all arms")),
        (false, false) => Some(format!("{meaning}: {}", untouched.join(", "))),
    }
}

/// Where the published figures are from, each source once with what to know about it.
pub(crate) fn published<'a>(arms: impl Iterator<Item = &'a Arm>) -> Vec<String> {
    let mut lines = Vec::new();
    for published in arms.filter_map(|arm| arm.published.as_ref()) {
        let line = match &published.note {
            Some(note) => format!("{PUBLISHED}: {}: {note}", published.source),
            None => format!("{PUBLISHED}: {}", published.source),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines
}

fn dropped(shown: &Shown) -> Option<String> {
    // These are not missing: they stand below the table instead.
    let missing = shown.dropped.iter().filter(|column| ![VERDICT, TOUCHED].contains(&column.name));
    let names: Vec<_> = missing.map(|column| column.name).collect();
    (!names.is_empty()).then(|| format!("too narrow to show: {}", names.join(", ")))
}

/// Names under their heading, headings in order of first appearance.
fn grouped(pairs: impl Iterator<Item = (String, String)>) -> Vec<String> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for (heading, name) in pairs {
        match groups.iter_mut().find(|(known, _)| *known == heading) {
            Some((_, names)) => names.push(name),
            None => groups.push((heading, vec![name])),
        }
    }
    groups.iter().map(|(heading, names)| format!("{heading}: {}", names.join(", "))).collect()
}
