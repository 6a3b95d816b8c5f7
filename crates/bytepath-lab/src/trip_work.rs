//! The work of arms that are round trips: two processes of `bytepath trip`.

use std::path::PathBuf;

use bytepath_report::{Costs, latency};

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
    /// The CPU of the end that begins, and of the one that answers; where not given, the kernel
    /// chooses.
    pub cpus: Option<[usize; 2]>,
}

impl TripWork {
    fn run(&self, timing: &Timing) -> Result<TripReport, String> {
        let options = ["--medium", self.medium.name(), "--size", &self.bytes.to_string()];
        let options = options.map(str::to_owned);
        TwoEnds { program: &self.program, command: "trip", options: &options, cpus: self.cpus }
            .run(timing)
    }
}

impl Work for TripWork {
    fn cpus(&self) -> &[usize] {
        self.cpus.as_ref().map_or(&[], |cpus| cpus)
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let report = self.run(timing)?;
        let latencies = latency::decoded(&report.histogram).map_err(|error| error.to_string())?;
        let trips = report.trips.max(1) as f64;
        let costs = Costs {
            cpu_ns_per_op: Some(report.usage.cpu_s() * 1e9 / trips),
            context_switches_per_op: Some(report.usage.switches() as f64 / trips),
            ..Costs::default()
        };
        Ok(Outcome {
            value: latencies.value_at_quantile(0.5) as f64,
            seconds: report.seconds,
            costs,
            latencies: Some(latencies),
            ..Outcome::default()
        })
    }
}
