//! The work of arms that are round trips: two processes of `bytepath trip`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;

use bytepath_report::{Costs, Latency, latency};
use hdrhistogram::Histogram;

use crate::arm::{Outcome, Timing, Work};
use crate::trips::{Medium, TripReport};
use crate::two_ends::TwoEnds;

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
    fn run(&self, timing: &Timing) -> Result<TripReport, String> {
        let options = ["--medium", self.medium.name(), "--size", &self.bytes.to_string()];
        let options = options.map(str::to_owned);
        TwoEnds { program: &self.program, command: "trip", options: &options, cpus: self.cpus }
            .run(timing)
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
