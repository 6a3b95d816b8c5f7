//! The work of arms that drive files: `bytepath drive`, or fio, in a process of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Duration;

use bytepath_report::latency;
use serde_json::Value;

use crate::arm::{Measured, Outcome, TRIAL_TIME, Timing, Work};
use crate::drive::DriveReport;
use crate::ends::{Starter, Usage, costs_per_gib};
use crate::file_set::{FileSet, State};
use crate::pipe_work::{Says, reported};

/// What both ways of driving files have in common: the files, and how the page cache is to be.
pub struct Ground {
    /// The files.
    pub files: Rc<FileSet>,
    /// What the page cache is to have of them before each sample.
    pub state: State,
    /// Bytes of a request.
    pub io_bytes: usize,
}

/// `bytepath drive` by its words.
pub struct DriveWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// Options of `bytepath drive`, and the files.
    pub words: Vec<String>,
    /// What is driven.
    pub ground: Ground,
}

impl DriveWork {
    /// Runs it, with the page cache as it is to be.
    fn run(&self, timing: &Timing) -> Result<DriveReport, String> {
        self.ground.files.bring_to(self.ground.state)?;
        let mut command = Command::new(&self.program);
        command.arg("drive").args(Starter::this().words());
        command.args(["--time", &format!("{}us", measured_time(timing)?.as_micros())]);
        command.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
        command.args(["--json", "-"]).args(&self.words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        reported(&mut command, Says::Output, timing.patience())
    }
}

/// Engines are driven for a time.
pub(crate) fn measured_time(timing: &Timing) -> Result<Duration, String> {
    match timing.measured {
        Measured::Time(time) => Ok(time),
        Measured::Bytes(_) => Err("files are driven for a time, not for bytes".into()),
    }
}

impl Work for DriveWork {
    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let report = self.run(timing)?;
        let latencies = latency::decoded(&report.histogram).map_err(|error| error.to_string())?;
        let driven = Driven {
            per_second: report.per_second,
            seconds: report.seconds,
            bytes: report.bytes,
            usage: report.usage,
            calls: report.calls,
        };
        let mut outcome = Outcome { latencies: Some(latencies), ..driven.outcome() };
        outcome.found.extend(verified(&report));
        let would_block = report.would_block.map(|count| count as f64);
        outcome.figures.add("would block", "count", would_block);
        Ok(outcome)
    }

    fn trial(&self, timing: &Timing) -> Result<(), String> {
        let _ = measured_time(timing)?;
        let trial = Timing { warm_up: Duration::ZERO, measured: Measured::Time(TRIAL_TIME) };
        self.run(&trial).map(drop)
    }
}

fn verified(report: &DriveReport) -> Option<(String, Value)> {
    (report.verified > 0).then(|| ("verified_blocks".to_owned(), report.verified.into()))
}

/// What a sample of driving came to, whoever drove.
pub(crate) struct Driven {
    pub(crate) per_second: f64,
    pub(crate) seconds: f64,
    pub(crate) bytes: u64,
    pub(crate) usage: Usage,
    pub(crate) calls: Option<u64>,
}

impl Driven {
    pub(crate) fn outcome(&self) -> Outcome {
        let costs = costs_per_gib(&self.usage, self.calls, self.bytes);
        Outcome { value: self.per_second, seconds: self.seconds, costs, ..Outcome::default() }
    }
}
