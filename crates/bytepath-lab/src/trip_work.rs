//! The work of arms that are round trips: two processes of `bytepath trip`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use bytepath_report::{Costs, Latency, latency};
use hdrhistogram::Histogram;

use crate::arm::{Measured, Outcome, Timing, Work};
use crate::ends::Starter;
use crate::passing::controls;
use crate::pipe_work::{Says, end, ended, spawn_on};
use crate::trips::{Medium, TripReport};

/// Round trips of so many bytes.
pub struct TripWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// By what they go.
    pub medium: &'static dyn Medium,
    /// Bytes of a trip.
    pub bytes: usize,
    /// The CPU of the end that begins, and of the one that answers.
    pub cpus: [usize; 2],
    /// How long the trips of all samples took so far.
    pub latencies: RefCell<Histogram<u64>>,
}

impl TripWork {
    fn end(&self, side: &str, cpu: usize) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["trip", side, "--medium", self.medium.name()]);
        command.args(["--size", &self.bytes.to_string(), "--cpu", &cpu.to_string()]);
        command.args(Starter::this().words()).stderr(Stdio::piped());
        command
    }

    fn run(&self, timing: &Timing) -> Result<TripReport, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("round trips are made for a time; give one".into());
        };
        let (near, far) = controls().map_err(|error| error.to_string())?;
        let [begins, answers] = self.cpus;
        let mut running = Running::default();
        let mut beginning = self.end("begin", begins);
        beginning.args(["--time", &format!("{}us", time.as_micros())]);
        beginning.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
        beginning.stdin(near).stdout(Stdio::piped());
        running.begins = Some(spawn_on(&mut beginning, Some(begins))?);
        // Its control socket is ours too until it is forgotten.
        drop(beginning);
        let mut answering = self.end("answer", answers);
        answering.stdin(far).stdout(Stdio::null());
        running.answers = Some(spawn_on(&mut answering, Some(answers))?);
        drop(answering);
        ended(&mut running.begins, Says::Output, timing.patience())
    }

    /// How long the trips of all samples took so far, with these.
    fn latency(&self, sample: &Histogram<u64>) -> Result<Latency, String> {
        let mut all = self.latencies.borrow_mut();
        all.add(sample).map_err(|error| error.to_string())?;
        Latency::of(&all).map_err(|error| error.to_string())
    }
}

impl Work for TripWork {
    fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let report = self.run(timing)?;
        let sample = latency::decoded(&report.histogram).map_err(|error| error.to_string())?;
        let latency = self.latency(&sample)?;
        let trips = report.trips.max(1) as f64;
        let costs = Costs {
            cpu_ns_per_op: Some(report.usage.cpu_s() * 1e9 / trips),
            context_switches_per_op: Some(report.usage.switches() as f64 / trips),
            ..Costs::default()
        };
        let found = serde_json::to_value(&latency).unwrap_or_default();
        Ok(Outcome {
            value: sample.value_at_quantile(0.5) as f64,
            seconds: report.seconds,
            costs,
            found: BTreeMap::from([(latency::PARAM.to_owned(), found)]),
        })
    }
}

/// The processes of one sample; ended when dropped. The one that answers never ends by itself.
#[derive(Default)]
struct Running {
    begins: Option<Child>,
    answers: Option<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in [&mut self.begins, &mut self.answers] {
            end(child);
        }
    }
}
