//! The work of arms that are streams: two processes of `bytepath stream`.

use std::path::PathBuf;

use bytepath_report::Costs;

use crate::arm::{Outcome, Timing, Work};
use crate::ends::{GIB, costs_per_gib};
use crate::streams::{Stream, StreamReport};
use crate::two_ends::TwoEnds;

/// Bytes made by one process and looked at by another.
pub struct StreamWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// By what.
    pub stream: &'static dyn Stream,
    /// The reader's CPU and the writer's; where not given, the kernel chooses.
    pub cpus: Option<[usize; 2]>,
}

impl Work for StreamWork {
    fn cpus(&self) -> &[usize] {
        self.cpus.as_ref().map_or(&[], |cpus| cpus)
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let options = ["--by", self.stream.name()].map(str::to_owned);
        let ends = TwoEnds {
            program: &self.program,
            command: "stream",
            options: &options,
            cpus: self.cpus,
        };
        let report: StreamReport = ends.run(timing)?;
        let gib = report.bytes as f64 / GIB;
        let Costs { context_switches_per_gib, .. } =
            costs_per_gib(&report.usage, None, report.bytes);
        Ok(Outcome {
            value: gib / report.seconds.max(1e-9),
            seconds: report.seconds,
            costs: Costs { context_switches_per_gib, ..Costs::default() },
            ..Outcome::default()
        })
    }
}
