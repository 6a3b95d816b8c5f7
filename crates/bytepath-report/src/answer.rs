//! The answer that a record gives to its question, in a sentence or two.

use bytepath_stats::{Between, Ratio, RunRatio};

use crate::arm::{Arm, Better, Status, Unit, Verdict};
use crate::doubt::IMPORTED;
use crate::numbers;
use crate::record::Record;
use crate::verdict;

/// So many sections are answered one by one; of more only the most telling is.
const SECTIONS_ANSWERED: usize = 12;

/// What the record answers: a sentence for the whole, and one more for each section where it has
/// sections.
///
/// Only arms that ran count. An arm is called faster or slower where its interval says so, and never
/// because its median lies higher.
pub fn of(record: &Record) -> Vec<String> {
    if record.arms.iter().all(|arm| arm.median.is_none()) {
        return vec!["No arm gave a figure.".to_owned()];
    }
    let sections = sections(record);
    if let [(_, arms)] = &sections[..] {
        return vec![as_sentence(of_arms(record, arms))];
    }
    let mut sentences = vec![summary(&sections)];
    let each = |(name, arms): &(&str, Vec<&Arm>)| format!("{name}: {}", of_arms(record, arms));
    sentences.extend(sections.iter().take(SECTIONS_ANSWERED).map(each));
    match sections.len().saturating_sub(SECTIONS_ANSWERED) {
        0 => {}
        more => sentences.push(format!("The other {more} sections are in the table.")),
    }
    sentences
}

/// With a capital letter, unless it begins with the name of an arm.
fn as_sentence(text: String) -> String {
    match text.split_once(' ') {
        Some(("no", rest)) => format!("No {rest}"),
        Some(("the", rest)) => format!("The {rest}"),
        _ => text,
    }
}

/// The arms by section, sections in order of first appearance; those of none are in "others".
fn sections(record: &Record) -> Vec<(&str, Vec<&Arm>)> {
    let mut sections: Vec<(&str, Vec<&Arm>)> = Vec::new();
    for arm in &record.arms {
        let name = arm.section.as_deref().unwrap_or("others");
        match sections.iter_mut().find(|(known, _)| *known == name) {
            Some((_, arms)) => arms.push(arm),
            None => sections.push((name, vec![arm])),
        }
    }
    sections
}

fn summary(sections: &[(&str, Vec<&Arm>)]) -> String {
    let faster = |arms: &Vec<&Arm>| arms.iter().any(|arm| arm.verdict == Some(Verdict::Faster));
    let count = sections.iter().filter(|(_, arms)| faster(arms)).count();
    let of = sections.len();
    let most = sections
        .iter()
        .flat_map(|(name, arms)| arms.iter().map(move |arm| (name, arm)))
        .filter(|(_, arm)| arm.verdict == Some(Verdict::Faster))
        .filter_map(|(name, arm)| Some((name, arm, gain(arm)?)))
        .max_by(|a, b| a.2.total_cmp(&b.2));
    match most {
        None => format!("In none of {of} sections is an arm surely faster than the reference."),
        Some((name, arm, _)) => format!(
            "In {count} of {of} sections an arm is faster than the section's reference; most of \
             all {} in {name}, {}.",
            called(arm),
            against(arm, None)
        ),
    }
}

/// How many times as good as the reference; above 1 is better.
fn gain(arm: &Arm) -> Option<f64> {
    let ratio = arm.ratio.filter(|ratio| *ratio > 0.0)?;
    Some(match arm.better {
        Better::Higher => ratio,
        Better::Lower => 1.0 / ratio,
    })
}

fn of_arms(record: &Record, arms: &[&Arm]) -> String {
    let Some(best) = best(arms.iter().copied()) else {
        return "no arm gave a figure.".to_owned();
    };
    // Nothing is held against a reference that gave no figure.
    let (reference, failed): (Vec<&Arm>, Vec<&Arm>) =
        arms.iter().filter(|arm| arm.reference).partition(|arm| arm.median.is_some());
    let reference = reference.first().copied();
    let faster = surely_faster(arms);
    let mut text = match reference {
        None => {
            let measured_arms = arms.iter().filter(|arm| arm.median.is_some()).count();
            let verb = match (measured_arms, best.better) {
                (1, Better::Lower) => "took",
                (1, Better::Higher) => "reached",
                _ => "is ahead with",
            };
            format!("{} {verb} {}", called(best), measured(best))
        }
        Some(reference) if reference.name == best.name => ahead(reference, arms),
        Some(reference) => match best.verdict {
            Some(Verdict::Faster) => {
                let figures = format!("{}, {}", measured(best), against(best, Some(reference)));
                match beside(record, best, arms) {
                    None => format!("{} is fastest with {figures}", called(best)),
                    Some(rivals) => format!(
                        "{} has the best median, {figures}, and is not told apart from {rivals}",
                        called(best)
                    ),
                }
            }
            found => {
                let words = found.map_or_else(
                    || "not told apart from it".to_owned(),
                    |found| verdict::words(found, best.ratio_ci95),
                );
                let first = is_faster(reference, faster);
                format!("{first}; the best median, of {}, is {words}", called(best))
            }
        },
    };
    text.push_str(&untouched(best, arms));
    text.push('.');
    for reference in failed {
        text.push_str(&format!(" The reference {} gave no figure.", called(reference)));
    }
    // Where the best is in doubt, one that is not was told of too.
    let in_doubt = best.verdict != Some(Verdict::Faster);
    let told = [best, faster.filter(|_| in_doubt).unwrap_or(best)];
    text.push_str(&others(arms, told, reference));
    text
}

/// The arms that may be as fast as the best, which is surely faster than the reference: the one of the
/// best median by name.
fn beside(record: &Record, best: &Arm, arms: &[&Arm]) -> Option<String> {
    let is_rival = |arm: &&Arm| {
        let is_behind = arm.reference || arm.verdict == Some(Verdict::Slower);
        let is_other = arm.name != best.name && arm.median.is_some();
        is_other && !is_behind && !is_surely_faster(record, best, arm)
    };
    let rivals: Vec<&Arm> = arms.iter().copied().filter(is_rival).collect();
    let first = called(self::best(rivals.iter().copied())?);
    Some(match rivals.len() - 1 {
        0 => first,
        more => format!("{first} and {more} more"),
    })
}

/// Whether one arm is faster than another whatever their medians say: block by block, or, of imported
/// samples, which nothing joins in blocks, as runs are compared.
fn is_surely_faster(record: &Record, arm: &Arm, than: &Arm) -> bool {
    let (values, others) = (arm.counted(), than.counted());
    let interval = match record.settings.contains_key(IMPORTED) {
        true => RunRatio::of(&values, &others, Between::Assumed, 1).map(|found| found.interval),
        false => Ratio::of(&values, &others).map(|found| found.interval),
    };
    interval.is_ok_and(|interval| verdict::of(interval, arm.better, 0.0) == Verdict::Faster)
}

/// Of the arms that are faster whatever the medians say, the best: medians of ratios need not lie as
/// those of figures do.
fn surely_faster<'a>(arms: &[&'a Arm]) -> Option<&'a Arm> {
    best(arms.iter().copied().filter(|arm| arm.verdict == Some(Verdict::Faster)))
}

/// Whether any arm is faster than a reference; which, and by how much.
fn is_faster(reference: &Arm, faster: Option<&Arm>) -> String {
    match faster {
        Some(arm) => format!(
            "{} is surely faster with {}, {}",
            called(arm),
            measured(arm),
            against(arm, Some(reference))
        ),
        None => format!(
            "no arm is surely faster than the reference {}, {}",
            called(reference),
            measured(reference)
        ),
    }
}

/// The name of an arm, marked as one where it is a word that a sentence may have itself: "none".
fn called(arm: &Arm) -> String {
    let is_word = arm.name.chars().all(|c| c.is_ascii_lowercase());
    if is_word { format!("“{}”", arm.name) } else { arm.name.clone() }
}

/// The sentence of a reference that is itself the best.
fn ahead(reference: &Arm, arms: &[&Arm]) -> String {
    let others = arms.iter().filter(|arm| !arm.reference && arm.median.is_some());
    let all_slower = others.clone().all(|arm| arm.verdict == Some(Verdict::Slower));
    match (others.count(), all_slower) {
        (0, _) => format!("{} gives {}", called(reference), measured(reference)),
        (_, true) => {
            format!("the reference {} is fastest with {}", called(reference), measured(reference))
        }
        (_, false) => match surely_faster(arms) {
            None => is_faster(reference, None),
            faster => format!(
                "{}; the best median is that of the reference, {}",
                is_faster(reference, faster),
                measured(reference)
            ),
        },
    }
}

/// Says it where nobody looked at the bytes of the best arm, with the best of those that do.
fn untouched(best: &Arm, arms: &[&Arm]) -> String {
    if best.touched || !best.unit.is_of_bytes() {
        return String::new();
    }
    let only = "; its reader moves the bytes without looking at them";
    match self::best(arms.iter().copied().filter(|arm| arm.touched)) {
        Some(touched) => {
            format!(
                "{only}, and of those that do look {} is best with {}",
                called(touched),
                measured(touched)
            )
        }
        None => only.to_owned(),
    }
}

/// How the arms stand that are not told of yet.
fn others(arms: &[&Arm], told_of: [&Arm; 2], reference: Option<&Arm>) -> String {
    let is_told = |arm: &Arm| arm.reference || told_of.iter().any(|told| told.name == arm.name);
    let rest = || arms.iter().filter(|arm| !is_told(arm));
    let count = |wanted| rest().filter(|arm| arm.verdict == Some(wanted)).count();
    let missing = arms.iter().filter(|arm| arm.status == Status::Unavailable).count();
    let mut told = Vec::new();
    if reference.is_some() {
        for (wanted, word) in [
            (Verdict::Faster, "faster"),
            (Verdict::Same, "the same"),
            (Verdict::Slower, "slower"),
            (Verdict::Undecided, "undecided"),
        ] {
            match count(wanted) {
                0 => {}
                many => told.push(format!("{many} {word}")),
            }
        }
    }
    let mut text = match told.is_empty() {
        true => String::new(),
        false => format!(" Of the others, {}.", told.join(", ")),
    };
    match missing {
        0 => {}
        1 => text.push_str(" 1 arm could not run."),
        many => text.push_str(&format!(" {many} arms could not run.")),
    }
    text
}

/// The arm with the best median.
fn best<'a>(arms: impl Iterator<Item = &'a Arm>) -> Option<&'a Arm> {
    arms.filter_map(|arm| Some((arm, arm.median?)))
        .reduce(|best, next| {
            let better = match next.0.better {
                Better::Higher => next.1 > best.1,
                Better::Lower => next.1 < best.1,
            };
            if better { next } else { best }
        })
        .map(|(arm, _)| arm)
}

/// `94.2 GiB/s [91.0, 96.3]`; of many nanoseconds `750 µs [665 µs, 859 µs]`.
fn measured(arm: &Arm) -> String {
    let value = arm.median.unwrap_or(f64::NAN);
    if arm.unit == Unit::Nanoseconds && value >= 1e4 {
        let time = |ns: f64| numbers::time(ns * 1e-9);
        let interval = arm.ci95.map(|[low, high]| format!(" [{}, {}]", time(low), time(high)));
        return time(value) + &interval.unwrap_or_default();
    }
    let value = numbers::figure(value);
    match arm.ci95 {
        Some(interval) => format!("{value} {} {}", arm.unit.as_str(), numbers::interval(interval)),
        None => format!("{value} {}", arm.unit.as_str()),
    }
}

/// `11.1 times the reference [10.8, 11.4]`, or for times `0.500 of the time of the reference`.
fn against(arm: &Arm, reference: Option<&Arm>) -> String {
    let Some(ratio) = arm.ratio else { return "with no ratio to the reference".to_owned() };
    let named = reference
        .map_or_else(|| "its reference".to_owned(), |arm| format!("the reference {}", called(arm)));
    let interval =
        arm.ratio_ci95.map_or_else(String::new, |of| format!(" {}", numbers::ratio_interval(of)));
    let times = numbers::times(ratio, arm.ratio_ci95);
    match arm.better {
        Better::Higher => format!("{times} times {named}{interval}"),
        Better::Lower => format!("{times} of the time of {named}{interval}"),
    }
}
