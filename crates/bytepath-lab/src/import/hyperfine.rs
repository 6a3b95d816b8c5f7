//! What `hyperfine --export-json` writes.

use std::collections::BTreeMap;

use bytepath_report::{Arm, Costs, Experiment, Foreign, Record, Unit};
use serde::Deserialize;
use serde_json::Value;

use super::{ImportError, Names, damaged, imported, part, sample};
use crate::experiments::cmd;
use crate::stats::median;

/// One command.
#[derive(Deserialize)]
struct Timed {
    command: String,
    /// Of versions that could not name a command there is none.
    #[serde(default)]
    parameters: BTreeMap<String, Value>,
    median: Option<f64>,
    mean: Option<f64>,
    user: Option<f64>,
    system: Option<f64>,
    #[serde(default)]
    times: Option<Vec<f64>>,
    /// Since 1.19.
    #[serde(default)]
    memory_usage_byte: Option<Vec<f64>>,
    #[serde(default)]
    exit_codes: Option<Vec<Option<i32>>>,
}

pub(super) fn record(value: &Value, written: &str) -> Result<Record, ImportError> {
    let results: Vec<Timed> = part(Foreign::Hyperfine, &value["results"])?;
    if results.is_empty() {
        return Err(damaged(Foreign::Hyperfine, "it has no results"));
    }
    // The same command may be there twice, with other parameters that its text does not show.
    let mut names = Names::default();
    let arms = results
        .iter()
        .enumerate()
        .map(|(index, timed)| arm(index, timed, names.given(&timed.command)));
    let arms = arms.collect::<Result<Vec<_>, _>>()?;
    let mut record = imported("hyperfine", cmd::DESCRIPTION.recorded(), written, arms);
    record.notes.push("hyperfine ran all of one command before the next".to_owned());
    for timed in &results {
        let failed = timed.exit_codes.iter().flatten().filter(|code| **code != Some(0)).count();
        if failed > 0 {
            record.notes.push(format!("{}: {failed} runs failed; they count", timed.command));
        }
    }
    record.experiment =
        Experiment { question: "How long do commands take?".into(), ..record.experiment };
    Ok(record)
}

fn arm(index: usize, timed: &Timed, name: String) -> Result<Arm, ImportError> {
    let times = timed.times.as_deref().unwrap_or_default();
    let all_known = times.iter().chain(&timed.median).chain(&timed.mean);
    if let Some(time) = all_known.clone().find(|time| !(time.is_finite() && **time >= 0.0)) {
        return Err(damaged(Foreign::Hyperfine, format!("{}: {time} is no time", timed.command)));
    }
    if all_known.count() == 0 {
        return Err(damaged(Foreign::Hyperfine, format!("{}: no times", timed.command)));
    }
    Ok(Arm {
        params: cmd::params(&timed.command, timed.parameters.clone().into_iter()),
        samples: times
            .iter()
            .enumerate()
            .map(|(run, time)| sample(run, index, *time, *time))
            .collect(),
        median: if times.is_empty() { timed.median.or(timed.mean) } else { None },
        costs: Some(Costs {
            cpu_user_s_per_run: timed.user,
            cpu_system_s_per_run: timed.system,
            peak_memory_bytes: timed.memory_usage_byte.as_deref().and_then(median),
            ..Costs::default()
        }),
        ..Arm::new(name, Unit::Seconds)
    })
}
