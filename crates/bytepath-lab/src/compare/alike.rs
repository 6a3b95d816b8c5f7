//! Whether runs are of the same work, or of the same thing altogether, and what differs otherwise.

use std::collections::BTreeMap;

use bytepath_report::{Arm, Difference, PEAK_AT_MOST, Record, latency};
use serde_json::Value;

use crate::arm::INTACT;

/// Settings that say how long, how often or where the work was done, and not what it is: told where
/// they differ, and no reason against a comparison.
const CIRCUMSTANCES: [&str; 12] = [
    "seed",
    "command",
    "blocks",
    "until_ci_percent",
    "within_s",
    "measured_s",
    "warm_up_s",
    "directory",
    "device",
    "file",
    "shell",
    "setup",
];

/// Which file each run read, and how large it was, where that was told.
const INPUT: [&str; 2] = ["input", "input_bytes"];

/// Settings in which runs of one thing may differ: the command names the seed, and where results went.
const CHANCE: [&str; 2] = ["seed", "command"];

/// A longer value is cut: it is there to be recognised.
const VALUE_CHARACTERS_MAX: usize = 80;

/// Parameters that were found by measuring although they look like chosen ones: whole numbers, texts;
/// and the words of a command that was made, which name the seed and the folder of their run.
const MEASURED: [&str; 8] = [
    PEAK_AT_MOST,
    latency::PARAM,
    INTACT,
    "would_block",
    "verified_blocks",
    "bytes_held",
    "context_switches",
    "words",
];

/// More notes about parameters than this say no more.
const PARAMS_MAX: usize = 10;

/// Whether both did the same work, whatever machine did it.
///
/// # Errors
/// What is not the same, as a clause.
pub fn same_work(a: &Record, b: &Record) -> Result<(), String> {
    let (one, other) = (&a.experiment, &b.experiment);
    if one.name != other.name {
        return Err(format!("the one is {}, the other {}", one.name, other.name));
    }
    if one.definition != other.definition {
        return Err(format!(
            "{} is defined otherwise in bytepath {} and {}",
            one.name, a.bytepath.version, b.bytepath.version
        ));
    }
    let keys = a.settings.keys().chain(b.settings.keys());
    // Of an input, the size is the work; its path stands for it where a size is not known.
    let [input, input_bytes] = INPUT;
    let sized = [a, b].iter().all(|record| record.settings.contains_key(input_bytes));
    let of_input = if sized { input } else { input_bytes };
    let is_circumstance = |key: &str| CIRCUMSTANCES.contains(&key) || key == of_input;
    let differs =
        |key: &&String| !is_circumstance(key) && a.settings.get(*key) != b.settings.get(*key);
    let value = |record: &Record, key: &str| record.settings.get(key).map_or("none".into(), shown);
    match { keys }.find(differs) {
        Some(key) => Err(format!("{key} is {} and {}", value(a, key), value(b, key))),
        None => Ok(()),
    }
}

/// Whether each run of both read another file.
pub(super) fn has_other_input(base: &Record, other: &Record) -> bool {
    base.settings.get(INPUT[0]) != other.settings.get(INPUT[0])
}

/// Whether both are runs of one thing, so that they differ by chance and by time alone: the same
/// program, machine, work and length, and arms that are made of the same, of which they share one.
pub fn is_like(a: &Record, b: &Record) -> bool {
    let settings = |record: &Record| {
        let mut settings = record.settings.clone();
        settings.retain(|key, _| !CHANCE.contains(&key.as_str()));
        settings
    };
    a.experiment == b.experiment
        && a.bytepath == b.bytepath
        && a.machine == b.machine
        && a.blocks == b.blocks
        && settings(a) == settings(b)
        && same_arms(a, b)
}

/// Whether both are one and the same run: who copies files has an id twice, but samples are never the
/// same. A run of which arms were left out is not the whole one.
pub fn is_itself(a: &Record, b: &Record) -> bool {
    a.arms == b.arms
}

/// The arms of a record by their names.
pub(super) type Arms<'a> = BTreeMap<&'a str, &'a Arm>;

/// They; of two of one name the first. Records of other programs have very many.
pub(super) fn by_name(record: &Record) -> Arms<'_> {
    record.arms.iter().rev().map(|arm| (arm.name.as_str(), arm)).collect()
}

fn same_arms(a: &Record, b: &Record) -> bool {
    let chosen = |arm: &Arm| {
        let mut params = arm.params.clone();
        params.retain(|key, value| is_chosen(key, value));
        params
    };
    let of_b = by_name(b);
    let mut shared =
        a.arms.iter().filter_map(|one| Some((one, *of_b.get(one.name.as_str())?))).peekable();
    shared.peek().is_some() && shared.all(|(one, other)| chosen(one) == chosen(other))
}

/// What is not the same in all records, of the machine, the program and the settings.
pub(super) fn differences(records: &[&Record]) -> Vec<Difference> {
    let facts: Vec<BTreeMap<String, String>> = records.iter().map(|record| facts(record)).collect();
    let mut keys: Vec<&String> = facts.iter().flat_map(BTreeMap::keys).collect();
    keys.sort();
    keys.dedup();
    let values = |key: &String| facts.iter().map(|facts| facts.get(key).cloned()).collect();
    keys.into_iter()
        .map(|key| Difference { what: key.clone(), values: values(key) })
        .filter(|found| found.values.iter().any(|value| *value != found.values[0]))
        .collect()
}

/// Every fact of a record that is no measurement, by its place.
fn facts(record: &Record) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    let machine = serde_json::to_value(&record.machine).unwrap_or_default();
    flatten("machine", &machine, &mut facts);
    let settings = record.settings.iter().filter(|(key, _)| !CHANCE.contains(&key.as_str()));
    for (key, value) in settings {
        flatten(&format!("settings.{key}"), value, &mut facts);
    }
    facts.insert("bytepath.version".to_owned(), record.bytepath.version.clone());
    facts.insert("bytepath.build".to_owned(), record.bytepath.build.clone());
    facts.insert("blocks".to_owned(), record.blocks.to_string());
    facts
}

fn flatten(place: &str, value: &Value, facts: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                flatten(&format!("{place}.{name}"), value, facts);
            }
        }
        Value::Null => {}
        value => {
            facts.insert(place.to_owned(), shown(value));
        }
    }
}

fn shown(value: &Value) -> String {
    let text = match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match text.char_indices().nth(VALUE_CHARACTERS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// What arms of one name are made of otherwise than in the base: sizes that were obtained, say.
/// Figures that were found by measuring always differ, and are left out.
pub(super) fn params(runs: &[Arms<'_>], names: &[String]) -> Vec<String> {
    let mut notes = Vec::new();
    for name in names {
        let of = |run: &Arms<'_>| {
            run.get(name.as_str()).map(|arm| arm.params.clone()).unwrap_or_default()
        };
        let base = of(&runs[0]);
        for (index, run) in runs.iter().enumerate().skip(1) {
            let other = of(run);
            let differs = |(key, value): &(&String, &Value)| {
                let is_other = other.get(*key).is_some_and(|other| other != *value);
                is_other && is_chosen(key, value)
            };
            notes.extend(base.iter().filter(differs).map(|(key, value)| {
                format!(
                    "{name}: {key} is {} in A and {} in {}",
                    shown(value),
                    shown(&other[key]),
                    bytepath_report::Comparison::letter(index)
                )
            }));
        }
    }
    let more = notes.len().saturating_sub(PARAMS_MAX);
    notes.truncate(PARAMS_MAX);
    if more > 0 {
        notes.push(format!("{more} more parameters differ"));
    }
    notes
}

fn is_chosen(key: &str, value: &Value) -> bool {
    let looks_so = value.is_string() || value.is_boolean() || value.is_u64();
    looks_so && !MEASURED.contains(&key)
}

#[cfg(test)]
mod tests {
    use bytepath_report::Unit;
    use serde_json::json;

    use super::*;
    use crate::experiments::record_of;

    #[test]
    fn a_measurement_that_looks_like_a_setting_is_told_as_none() {
        let run = |peak: u64, chunk: u64| {
            let mut arm = Arm::new("copy", Unit::Seconds);
            arm.params.insert(PEAK_AT_MOST.to_owned(), peak.into());
            arm.params.insert("context_switches".to_owned(), (peak / 4096).into());
            arm.params.insert(INTACT.to_owned(), (peak < 6_400_000).into());
            arm.params.insert("chunk_bytes".to_owned(), chunk.into());
            record_of(vec![arm])
        };
        let names = ["copy".to_owned()];
        let (a, b, c) = (run(6_320_128, 4096), run(6_459_392, 4096), run(6_320_128, 8192));
        assert!(params(&[&a, &b].map(by_name), &names).is_empty());
        assert_eq!(
            params(&[&a, &c].map(by_name), &names),
            ["copy: chunk_bytes is 4096 in A and 8192 in B"]
        );
        assert!(is_like(&a, &b));
        assert!(!is_like(&a, &c), "arms of one name are made of other things");
        let mut d = a.clone();
        d.arms[0].name = "move".to_owned();
        assert!(!is_like(&a, &d), "no arm is in both");
    }

    #[test]
    fn the_size_of_an_input_is_the_work_and_its_path_only_where_no_size_is_known() {
        let read = |settings: &[(&str, Value)]| {
            let mut record = record_of(vec![Arm::new("cat", Unit::Seconds)]);
            record
                .settings
                .extend(settings.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
            record
        };
        let sized =
            |path: &str, bytes: u64| read(&[("input", json!(path)), ("input_bytes", json!(bytes))]);
        let unsized_input = |path: &str| read(&[("input", json!(path))]);
        let none = read(&[]);
        assert_eq!(same_work(&sized("a", 7), &sized("b", 7)), Ok(()));
        assert_eq!(same_work(&sized("a", 7), &unsized_input("a")), Ok(()), "an older record");
        for (a, b, why) in [
            (sized("a", 7), sized("a", 8), "input_bytes is 7 and 8"),
            (sized("a", 7), unsized_input("b"), "input is a and b"),
            (unsized_input("a"), unsized_input("b"), "input is a and b"),
            (none, sized("a", 7), "input is none and a"),
        ] {
            assert_eq!(same_work(&a, &b), Err(why.to_owned()));
        }
    }
}
