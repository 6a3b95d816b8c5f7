//! Records of what other programs measured: hyperfine and fio, by the JSON that they write.
//!
//! Such a record says that it was imported. It has no A/A control, its machine is not known, and its
//! arms ran one after the other: their ratios are of runs at different times.

mod fio;
mod hyperfine;

use std::collections::{HashMap, HashSet};

use bytepath_report::doubt::IMPORTED;
use bytepath_report::{
    Arm, Build, Experiment, Foreign, Machine, Record, Sample, SchemaName, short_name, verdict,
};
use serde::Deserialize;
use serde_json::Value;

use crate::lab::no_interval;
use crate::stats::{Between, EQUIVALENCE_MARGIN, PARTS, RunRatio, median, median_interval};

/// Why a text is no measurement that can be imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It is no JSON, or cut short.
    #[error("not JSON: {0}; hyperfine writes it with --export-json, fio with --output-format=json")]
    NotJson(#[source] serde_json::Error),
    /// It is JSON, of something else.
    #[error(
        "neither what hyperfine --export-json nor what fio --output-format=json writes{}",
        if *is_record { ": it is a record of bytepath already" } else { "" }
    )]
    Unknown {
        /// Whether it is a record.
        is_record: bool,
    },
    /// A field is missing, or holds something else.
    #[error("damaged {program} result: {why}")]
    Damaged {
        /// Who should have written it.
        program: &'static str,
        /// What is wrong.
        why: String,
    },
}

/// The record of what another program measured. `written` is when its file was, in RFC 3339, for
/// programs that do not tell the time.
///
/// # Errors
/// It is none, or damaged.
pub fn record(text: &str, written: &str) -> Result<Record, ImportError> {
    // fio says its warnings on standard output too, before the JSON.
    let begin = text.find('{').filter(|at| text[..*at].lines().all(|line| !line.starts_with('[')));
    let json = begin.map_or(text, |at| &text[at..]);
    let value: Value = serde_json::from_str(json).map_err(ImportError::NotJson)?;
    let record = match Foreign::of(&value) {
        Some(Foreign::Hyperfine) => hyperfine::record(&value, written)?,
        Some(Foreign::Fio) => fio::record(&value, written)?,
        None => return Err(ImportError::Unknown { is_record: value.get("schema").is_some() }),
    };
    Ok(judged(record))
}

fn damaged(program: Foreign, why: impl std::fmt::Display) -> ImportError {
    ImportError::Damaged { program: program.name(), why: why.to_string() }
}

/// A part of what a program wrote.
fn part<'a, T: Deserialize<'a>>(program: Foreign, value: &'a Value) -> Result<T, ImportError> {
    T::deserialize(value).map_err(|error| damaged(program, error))
}

/// Names of arms, each given once.
#[derive(Default)]
struct Names {
    given: HashSet<String>,
    /// How often each was wished for.
    wished: HashMap<String, u64>,
}

impl Names {
    /// The name, with a number behind it where it is given already; of one that no record may have,
    /// the beginning.
    fn given(&mut self, wished: &str) -> String {
        let name = short_name(wished);
        let times = self.wished.entry(name.clone()).or_default();
        loop {
            *times += 1;
            let numbered = match *times {
                1 => name.clone(),
                times => format!("{name} ({times})"),
            };
            if self.given.insert(numbered.clone()) {
                return numbered;
            }
        }
    }
}

/// A record with what all imported ones share.
fn imported(from: &str, experiment: Experiment, started: &str, arms: Vec<Arm>) -> Record {
    let blocks = arms.iter().map(|arm| arm.samples.len()).max().unwrap_or(0);
    let id = format!("{}-{started}-imported", experiment.name);
    Record {
        schema: SchemaName::V1,
        id,
        started: started.to_owned(),
        bytepath: Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: format!("imported from {from}"),
        },
        machine: Machine::default(),
        experiment,
        settings: [(IMPORTED.to_owned(), from.into())].into(),
        blocks: u32::try_from(blocks).unwrap_or(u32::MAX),
        trusted: true,
        untrusted_why: None,
        control: None,
        arms,
        notes: vec![format!("imported from {from}: no A/A control, and the machine is not known")],
    }
}

/// One sample of an imported arm.
fn sample(block: usize, order: usize, value: f64, seconds: f64) -> Sample {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Sample { block: number(block), order: number(order), value, seconds, ..Sample::default() }
}

/// The record with what the samples say: intervals, and ratios to the first arm that has any.
///
/// Nothing joins the samples of two arms, which ran at different times, as two runs do. Their ratio
/// is therefore judged as that of runs is, which see ([`RunRatio`]).
fn judged(mut record: Record) -> Record {
    for arm in &mut record.arms {
        let values = arm.counted();
        arm.median = arm.median.or_else(|| median(&values));
        arm.ci95 = median_interval(&values).ok().map(<[f64; 2]>::from);
        record.notes.extend(no_interval(&arm.name, &values));
    }
    let Some(at) = record.arms.iter().position(|arm| arm.median.is_some()) else { return record };
    record.arms[at].reference = true;
    let base = record.arms[at].clone();
    for arm in record.arms.iter_mut().skip(at + 1).filter(|arm| arm.unit == base.unit) {
        let quotient = arm.median.zip(base.median).map(|(value, base)| value / base);
        arm.ratio = quotient.filter(|ratio| ratio.is_finite());
        let judged = RunRatio::of(&arm.counted(), &base.counted(), Between::Assumed, 1);
        if let Some(judged) = judged.ok().filter(|judged| judged.interval.high.is_finite()) {
            arm.ratio = Some(judged.ratio);
            arm.ratio_ci95 = Some(judged.interval.into());
            arm.verdict = Some(verdict::of(judged.interval, arm.better, EQUIVALENCE_MARGIN));
        }
    }
    if record.arms.iter().any(|arm| arm.ratio_ci95.is_some()) {
        record.notes.push(format!(
            "ratios are of geometric means over the medians of the parts of a run, of which there are \
             {PARTS} at most: nothing joins the runs in blocks"
        ));
    }
    record
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use bytepath_report::NAME_CHARS_MAX;

    use super::*;

    const WHEN: &str = "2024-01-01T00:00:00Z";

    /// What fio would have written of jobs whose directions these are.
    fn fio(timestamp_ms: u64, jobs: &[(&str, Value)]) -> Record {
        let job = |(name, directions): &(&str, Value)| {
            let mut job = serde_json::json!({
                "jobname": name, "job_runtime": 2000.0, "usr_cpu": 50.0, "sys_cpu": 100.0, "ctx": 90.0,
            });
            job.as_object_mut()
                .expect("it is one")
                .extend(directions.as_object().expect("one").clone());
            job
        };
        let jobs: Vec<Value> = jobs.iter().map(job).collect();
        let text = serde_json::json!({
            "fio version": "fio-3.36", "timestamp_ms": timestamp_ms, "jobs": jobs,
        });
        record(&text.to_string(), WHEN).expect("fio's")
    }

    fn direction(io_bytes: f64, total_ios: f64) -> Value {
        serde_json::json!({
            "io_bytes": io_bytes, "total_ios": total_ios, "iops": total_ios / 2.0, "runtime": 2000.0,
        })
    }

    #[test]
    fn a_time_that_no_date_can_be_written_of_is_none() {
        let reads = [("a", serde_json::json!({"read": direction(4096.0, 1.0)}))];
        assert_eq!(fio(253_402_300_799_999, &reads).started, "9999-12-31T23:59:59Z");
        for beyond in [253_402_300_800_000, u64::MAX] {
            assert_eq!(fio(beyond, &reads).started, WHEN);
        }
    }

    #[test]
    fn what_a_job_used_is_of_the_bytes_of_all_its_directions() {
        let gib = f64::from(1 << 30);
        let mixed = serde_json::json!({
            "read": direction(gib, 262_144.0), "write": direction(2.0 * gib, 2048.0),
        });
        for arm in fio(0, &[("mixed", mixed)]).arms {
            let costs = arm.costs.expect("fio tells them");
            let each = [
                costs.cpu_user_s_per_gib,
                costs.cpu_system_s_per_gib,
                costs.context_switches_per_gib,
            ];
            for (is, wanted) in each.into_iter().zip([1.0 / 3.0, 2.0 / 3.0, 30.0]) {
                assert!((is.expect("told") - wanted).abs() < 1e-9, "{}: {each:?}", arm.name);
            }
        }
    }

    #[test]
    fn latencies_are_as_long_as_they_were_and_missing_ones_are_told() {
        let with = |completion: Value| {
            let mut read = direction(4096.0, 4.0);
            read["clat_ns"] = completion;
            fio(0, &[("slow", serde_json::json!({"read": read}))])
        };
        let percentiles = |names: &[&str]| {
            let of = |name: &&str| ((*name).to_owned(), Value::from(90_000_000_000_u64));
            names.iter().map(of).collect::<serde_json::Map<_, _>>()
        };
        let all = ["50.000000", "95.000000", "99.000000", "99.900000"];
        // fio tells percentiles beside the bins too.
        let bins = serde_json::json!({
            "percentile": percentiles(&all), "bins": {"1000": 1, "90000000000": 3},
        });
        let record = with(bins);
        let told = bytepath_report::Latency::of_arm(&record.arms[0]).expect("it has them");
        for found in [told.p50_ns, told.p999_ns, told.max_ns] {
            assert!(found.abs_diff(90_000_000_000) < 90_000_000, "{told:?}");
        }
        let some = ["50.000000", "99.000000", "99.900000"];
        let record = with(serde_json::json!({"percentile": percentiles(&some)}));
        assert_eq!(bytepath_report::Latency::of_arm(&record.arms[0]), None);
        let said = "slow: no latencies: fio told no percentile 95";
        assert!(record.notes.iter().any(|note| note == said), "{:?}", record.notes);
        let record = with(serde_json::json!({}));
        assert!(!record.notes.iter().any(|note| note.contains("latencies")), "{:?}", record.notes);
    }

    #[test]
    fn a_sample_that_takes_the_interval_away_is_named() {
        let text = serde_json::json!({"results": [
            {"command": "fine", "times": [1.0, 1.1, 0.9]},
            {"command": "odd", "times": [1.0, 0.0, 1.1]},
        ]});
        let record = record(&text.to_string(), WHEN).expect("hyperfine's");
        assert_eq!((record.arms[1].ci95, record.arms[1].verdict), (None, None));
        let said = "odd: no interval or verdict: 0 in block 2 is neither a speed nor a time";
        let named: Vec<_> =
            record.notes.iter().filter(|note| note.contains("no interval or")).collect();
        assert!(named.len() == 1 && named[0].starts_with(said), "{:?}", record.notes);
    }

    #[test]
    fn names_are_given_once_and_short_enough_to_be_read_again() {
        let long = "é".repeat(NAME_CHARS_MAX + 1);
        let commands = ["a", "a (2)", "a", "a", &long, &long];
        let result = |command: &&str| serde_json::json!({"command": command, "times": [1.0]});
        let results: Vec<Value> = commands.iter().map(result).collect();
        let text = serde_json::json!({ "results": results }).to_string();
        let record = record(&text, WHEN).expect("hyperfine's");
        let names: Vec<&str> = record.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names[..4], ["a", "a (2)", "a (3)", "a (4)"]);
        assert!(names[4].ends_with("é…") && names[5].ends_with("é… (2)"));
        assert_eq!(record.arms[4].params["command"], long, "it is whole there");
        let read = Record::from_json(&record.to_json().expect("JSON")).expect("it is read again");
        assert_eq!(read, record);
    }

    #[test]
    fn a_hundred_thousand_arms_take_no_time() {
        let began = Instant::now();
        let results = vec![serde_json::json!({"command": "a", "times": [1.0]}); 100_000];
        let text = serde_json::json!({ "results": results }).to_string();
        assert_eq!(record(&text, WHEN).expect("hyperfine's").arms[99_999].name, "a (100000)");
        let jobs = vec![("a", serde_json::json!({"read": direction(4096.0, 1.0)})); 100_000];
        assert_eq!(fio(0, &jobs).arms[99_999].name, "a (100000)");
        assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    }
}
