//! What `fio --output-format=json` writes.

use std::collections::BTreeMap;

use bytepath_report::{Arm, Costs, Experiment, Foreign, Latency, Record, Unit, latency};
use serde::Deserialize;
use serde_json::Value;

use super::{ImportError, Names, damaged, imported, part, sample};

const GIB: f64 = (1_u64 << 30) as f64;

/// The whole file.
#[derive(Deserialize)]
struct Output {
    #[serde(rename = "fio version")]
    version: String,
    timestamp_ms: Option<u64>,
    #[serde(rename = "global options", default)]
    options: BTreeMap<String, Value>,
    jobs: Vec<Job>,
}

/// One job, or a group of them.
#[derive(Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    error: i32,
    #[serde(rename = "job options", default)]
    options: BTreeMap<String, Value>,
    read: Option<Direction>,
    write: Option<Direction>,
    trim: Option<Direction>,
    /// All of them together, with `unified_rw_reporting`; with `both`, beside them.
    mixed: Option<Direction>,
    #[serde(default)]
    job_runtime: f64,
    #[serde(default)]
    usr_cpu: f64,
    #[serde(default)]
    sys_cpu: f64,
    #[serde(default)]
    ctx: f64,
}

/// What a job did in one direction.
#[derive(Deserialize)]
struct Direction {
    io_bytes: f64,
    total_ios: f64,
    iops: f64,
    /// Milliseconds.
    runtime: f64,
    #[serde(default)]
    clat_ns: Completion,
    #[serde(default)]
    lat_ns: Completion,
}

/// How long requests took.
#[derive(Default, Deserialize)]
struct Completion {
    #[serde(default)]
    max: f64,
    #[serde(default)]
    percentile: BTreeMap<String, u64>,
    /// Of `json+`: nanoseconds, and how many requests took so long.
    #[serde(default)]
    bins: BTreeMap<String, u64>,
}

/// Options that say what a job did rather than where.
const TOLD: [&str; 8] = ["rw", "bs", "ioengine", "iodepth", "numjobs", "direct", "size", "runtime"];

/// When the year 10000 begins, in milliseconds after the epoch: from then on there is no way to write a
/// time.
const YEAR_10000_MS: u64 = 253_402_300_800_000;

pub(super) fn record(value: &Value, written: &str) -> Result<Record, ImportError> {
    let output: Output = part(Foreign::Fio, value)?;
    let (mut arms, mut notes, mut names) = (Vec::new(), Vec::new(), Names::default());
    for job in &output.jobs {
        for (arm, why_no_latency) in arms_of(job, &output)? {
            let name = names.given(&arm.name);
            notes.extend(why_no_latency.map(|why| format!("{name}: no latencies: {why}")));
            arms.push(Arm { name, ..arm });
        }
    }
    if arms.is_empty() {
        return Err(damaged(Foreign::Fio, "no job did anything"));
    }
    let started = output.timestamp_ms.filter(|time| *time < YEAR_10000_MS);
    let started = started.map(std::time::Duration::from_millis);
    let started = started.and_then(|since| std::time::UNIX_EPOCH.checked_add(since));
    let started = started.map(|time| humantime::format_rfc3339_seconds(time).to_string());
    let experiment = Experiment {
        name: "fio".to_owned(),
        question: "How fast are requests on files?".to_owned(),
        definition: definition(&output),
    };
    let started = started.as_deref().unwrap_or(written);
    let mut record = imported(&output.version, experiment, started, arms);
    record.settings.extend(output.options);
    record.notes.push("fio tells one figure a job, so there are no intervals".to_owned());
    record.notes.extend(notes);
    Ok(record)
}

/// The jobs in words.
fn definition(output: &Output) -> String {
    let job = |job: &Job| format!("{}: {}", job.jobname, told(&job.options, &output.options));
    let jobs: Vec<_> = output.jobs.iter().map(job).collect();
    format!("Jobs of {}: {}.", output.version, jobs.join("; "))
}

fn told(options: &BTreeMap<String, Value>, global: &BTreeMap<String, Value>) -> String {
    let found = TOLD.iter().filter_map(|name| {
        let value = options.get(*name).or_else(|| global.get(*name))?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(format!("{name}={value}"))
    });
    found.collect::<Vec<_>>().join(" ")
}

/// What the job did, each with the reason why its latencies are left out, if they are.
fn arms_of(job: &Job, output: &Output) -> Result<Vec<(Arm, Option<String>)>, ImportError> {
    if job.error != 0 {
        let error = std::io::Error::from_raw_os_error(job.error);
        let why = format!("fio ended the job with an error: {error}");
        return Ok(vec![(Arm::unavailable(&job.jobname, Unit::OpsPerSecond, why), None)]);
    }
    let directions = [("read", &job.read), ("write", &job.write), ("trim", &job.trim)];
    let active = directions.into_iter().filter_map(|(name, of)| Some((name, of.as_ref()?)));
    let did_any = |(_, of): &(&str, &Direction)| of.total_ios > 0.0;
    let mut active: Vec<_> = active.filter(did_any).collect();
    if active.is_empty() {
        active.extend(job.mixed.as_ref().map(|of| ("mixed", of)).filter(did_any));
    }
    let several = active.len() > 1;
    let all_bytes: f64 = active.iter().map(|(_, of)| of.io_bytes).sum();
    active
        .into_iter()
        .map(|(direction, of)| {
            let name = match several {
                true => format!("{}/{direction}", job.jobname),
                false => job.jobname.clone(),
            };
            arm(name, direction, of, job, all_bytes, output)
        })
        .collect()
}

fn arm(
    name: String,
    direction: &str,
    of: &Direction,
    job: &Job,
    all_bytes: f64,
    output: &Output,
) -> Result<(Arm, Option<String>), ImportError> {
    let figures =
        [of.io_bytes, of.total_ios, of.iops, of.runtime, job.usr_cpu, job.sys_cpu, job.ctx];
    if figures.iter().any(|figure| !(figure.is_finite() && *figure >= 0.0)) || of.iops == 0.0 {
        return Err(damaged(Foreign::Fio, format!("{name}: a figure that cannot be")));
    }
    let io_bytes = of.io_bytes / of.total_ios;
    // What the job used is of all its bytes, whatever their direction; fio tells it in percent of the
    // job's time.
    let gib = all_bytes / GIB;
    let cpu = |percent: f64| Some(percent / 100.0 * job.job_runtime / 1000.0 / gib);
    let mut params: BTreeMap<String, Value> = job.options.clone();
    params.insert("direction".to_owned(), direction.into());
    params.insert("io_bytes".to_owned(), (io_bytes.round() as u64).into());
    params.insert("options".to_owned(), told(&job.options, &output.options).into());
    let (latency, why_none) = match latency_of(of) {
        Ok(latency) => (latency, None),
        Err(why) => (None, Some(why)),
    };
    if let Some(latency) = latency {
        let value = serde_json::to_value(latency).map_err(|error| damaged(Foreign::Fio, error))?;
        params.insert(latency::PARAM.to_owned(), value);
    }
    let arm = Arm {
        params,
        samples: vec![sample(0, 0, of.iops, of.runtime / 1000.0)],
        costs: Some(Costs {
            cpu_user_s_per_gib: cpu(job.usr_cpu).filter(|_| gib > 0.0),
            cpu_system_s_per_gib: cpu(job.sys_cpu).filter(|_| gib > 0.0),
            context_switches_per_gib: (gib > 0.0).then(|| job.ctx / gib),
            ..Costs::default()
        }),
        ..Arm::new(name, Unit::OpsPerSecond)
    };
    Ok((arm, why_none))
}

/// The latencies: of `json+` all, else the percentiles that it has, of which none may be missing; none
/// where it tells of none.
///
/// # Errors
/// Why there are none.
fn latency_of(of: &Direction) -> Result<Option<Latency>, String> {
    let told = if of.clat_ns.percentile.is_empty() { &of.lat_ns } else { &of.clat_ns };
    if !told.bins.is_empty() {
        let count = |(ns, count): (&String, &u64)| Ok((ns.parse()?, *count));
        let counts: Result<Vec<_>, std::num::ParseIntError> = told.bins.iter().map(count).collect();
        let histogram = latency::counted(counts.map_err(|error| error.to_string())?);
        let latency = histogram.and_then(|histogram| Latency::of(&histogram));
        return latency.map(Some).map_err(|error| error.to_string());
    }
    if told.percentile.is_empty() {
        return Ok(None);
    }
    // fio writes the percentiles as "99.900000".
    let at = |wanted: f64| {
        let is = |name: &str| name.parse::<f64>().is_ok_and(|name| (name - wanted).abs() < 1e-6);
        let found = told.percentile.iter().find(|(name, _)| is(name)).map(|(_, ns)| *ns);
        found.ok_or_else(|| format!("fio told no percentile {wanted}"))
    };
    Ok(Some(Latency {
        p50_ns: at(50.0)?,
        p95_ns: at(95.0)?,
        p99_ns: at(99.0)?,
        p999_ns: at(99.9)?,
        max_ns: told.max as u64,
        histogram: None,
    }))
}
