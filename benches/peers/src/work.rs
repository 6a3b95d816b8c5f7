//! The work of an arm: two processes, of this program or of Python.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytepath_lab::arm::{Measured, Outcome, Timing, Work};
use bytepath_lab::ends::{EndReport, GIB, Starter};
use bytepath_lab::pipe_work::{Says, end, ended, spawn_on};
use bytepath_lab::trips::TripReport;
use bytepath_report::{Costs, latency};
use hdrhistogram::Histogram;
use serde::Deserialize;

use crate::arms::word;
use crate::media::{Medium, Wait};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asks {
    Latency,
    Throughput,
}

pub(crate) struct PeerWork {
    pub(crate) program: PathBuf,
    pub(crate) asks: Asks,
    pub(crate) medium: Medium,
    pub(crate) wait: Wait,
    pub(crate) bytes: usize,
    pub(crate) cpus: [usize; 2],
}

/// Python's two ends are one script, which starts the other process itself.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/multiprocessing_ends.py");

impl PeerWork {
    fn is_python(&self) -> bool {
        matches!(self.medium, Medium::PythonPipe | Medium::PythonQueue)
    }

    /// Starts both ends: first the one that tells, then the other.
    fn start(&self, timing: &Timing) -> Result<Running, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("messages are sent for a time".into());
        };
        let times = [time, timing.warm_up].map(|time| time.as_micros().to_string());
        let [begins, answers] = self.cpus;
        if self.is_python() {
            let mut command = Command::new("python3");
            command.arg(Path::new(SCRIPT)).arg(word(self.medium));
            command.arg(format!("{:?}", self.asks).to_lowercase());
            command.args([self.bytes, begins, answers].map(|number| number.to_string()));
            command.args(times).stdout(Stdio::piped()).stderr(Stdio::piped());
            return Ok(Running { tells: Some(spawn_on(&mut command, Some(begins))?), other: None });
        }
        // The receiver tells how much came, and the end that begins how long trips took.
        let (tells, other) = match self.asks {
            Asks::Latency => (("begin", begins), ("answer", answers)),
            Asks::Throughput => (("take", answers), ("send", begins)),
        };
        let name = fresh_name();
        let mut running = Running::default();
        for ((role, cpu), into) in [(tells, &mut running.tells), (other, &mut running.other)] {
            let mut command = Command::new(&self.program);
            command.args(["end", role, "--name", &name, "--medium", &word(self.medium)]);
            command.args(["--wait", &word(self.wait), "--size", &self.bytes.to_string()]);
            command.args(["--cpu", &cpu.to_string(), "--time", &times[0], "--warm-up", &times[1]]);
            command.args((begins == answers).then_some("--shares-cpu"));
            command.args(Starter::this().words()).stdin(Stdio::piped());
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            *into = Some(spawn_on(&mut command, Some(cpu))?);
        }
        Ok(running)
    }

    fn told<Report: serde::de::DeserializeOwned>(&self, timing: &Timing) -> Result<Report, String> {
        let mut running = self.start(timing)?;
        let patience = timing.warm_up + PATIENCE;
        let report = ended(&mut running.tells, Says::Output, patience);
        // It stays until it is let go, so that what it sent is there for as long as it is read.
        if let Some(other) = &mut running.other {
            drop(other.stdin.take());
            if report.is_ok() {
                other.wait().map_err(|error| error.to_string())?;
            }
        }
        report
    }

    fn trips(&self, timing: &Timing) -> Result<Outcome, String> {
        let (sample, seconds, costs) = match self.is_python() {
            true => self.told::<PythonTrips>(timing)?.read(),
            false => read(&self.told(timing)?)?,
        };
        Ok(Outcome {
            value: sample.value_at_quantile(0.5) as f64,
            seconds,
            costs,
            latencies: Some(sample),
            ..Outcome::default()
        })
    }

    fn flow(&self, timing: &Timing) -> Result<Outcome, String> {
        let (bytes, seconds) = match self.is_python() {
            true => self.told::<PythonFlow>(timing).map(|told| (told.bytes, told.seconds))?,
            false => self.told::<EndReport>(timing).map(|told| (told.bytes, told.seconds))?,
        };
        Ok(Outcome { value: bytes as f64 / GIB / seconds.max(1e-9), seconds, ..Outcome::default() })
    }
}

/// What Python's end tells of trips.
#[derive(Deserialize)]
struct PythonTrips {
    nanoseconds: Vec<u64>,
    seconds: f64,
}

impl PythonTrips {
    fn read(self) -> (Histogram<u64>, f64, Costs) {
        let mut histogram = latency::empty();
        self.nanoseconds.iter().for_each(|&took| histogram.saturating_record(took));
        (histogram, self.seconds, Costs::default())
    }
}

/// What it tells of bytes that went one way.
#[derive(Deserialize)]
struct PythonFlow {
    bytes: u64,
    seconds: f64,
}

fn read(report: &TripReport) -> Result<(Histogram<u64>, f64, Costs), String> {
    let histogram = latency::decoded(&report.histogram).map_err(|error| error.to_string())?;
    let trips = report.trips.max(1) as f64;
    let costs = Costs {
        cpu_ns_per_op: Some(report.usage.cpu_s() * 1e9 / trips),
        context_switches_per_op: Some(report.usage.switches() as f64 / trips),
        ..Costs::default()
    };
    Ok((histogram, report.seconds, costs))
}

/// Longer than this over the warm-up, a sample is not waited for.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(20);

impl Work for PeerWork {
    fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        match self.asks {
            Asks::Latency => self.trips(timing),
            Asks::Throughput => self.flow(timing),
        }
    }
}

/// A name that no other sample has.
fn fresh_name() -> String {
    static SAMPLES: AtomicU64 = AtomicU64::new(0);
    format!("bytepath-peers-{}-{}", std::process::id(), SAMPLES.fetch_add(1, Relaxed))
}

/// The processes of one sample; ended when dropped.
#[derive(Default)]
struct Running {
    tells: Option<Child>,
    other: Option<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in [&mut self.tells, &mut self.other] {
            end(child);
        }
    }
}
