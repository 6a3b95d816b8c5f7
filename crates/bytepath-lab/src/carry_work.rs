//! The work of arms that are one process: `bytepath carry`, between two files or devices.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytepath_report::Costs;

use crate::arm::{Measured, Outcome, Timing, Work};
use crate::ends::{EndReport, GIB, Starter};
use crate::pipe_work::{Says, end, ended};

/// `bytepath carry` from a source to a sink.
pub struct CarryWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// Options of `bytepath carry`.
    pub options: Vec<String>,
    /// Opened as its standard input.
    pub source: PathBuf,
    /// Opened as its standard output.
    pub sink: PathBuf,
    /// The CPU that it runs on.
    pub cpu: [usize; 1],
}

impl Work for CarryWork {
    fn cpus(&self) -> &[usize] {
        &self.cpu
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let open = |file: std::io::Result<File>, path: &PathBuf| {
            file.map_err(|error| format!("cannot open {}: {error}", path.display()))
        };
        let source = open(File::open(&self.source), &self.source)?;
        let sink = open(File::options().write(true).open(&self.sink), &self.sink)?;
        let mut command = Command::new(&self.program);
        command.arg("carry").args(&self.options).args(["--cpu", &self.cpu[0].to_string()]);
        match timing.measured {
            Measured::Time(time) => {
                command.args(["--repeat-for", &format!("{}us", time.as_micros())])
            }
            Measured::Bytes(bytes) => command.args(["--limit", &bytes.to_string()]),
        };
        command.args(Starter::this().words());
        command.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
        command.args(["--json", "/dev/stderr"]).stdin(source).stdout(sink).stderr(Stdio::piped());
        let child = command.spawn().map_err(|error| format!("cannot start bytepath: {error}"))?;
        let mut child = Some(child);
        let report = ended(&mut child, Says::Errors, timing.patience());
        end(&mut child);
        Ok(outcome(&report?))
    }
}

fn outcome(report: &EndReport) -> Outcome {
    let gib = report.bytes as f64 / GIB;
    let per_gib = |amount: f64| (gib > 0.0).then(|| amount / gib);
    let costs = Costs {
        cpu_user_s_per_gib: per_gib(report.usage.user_s),
        cpu_system_s_per_gib: per_gib(report.usage.system_s),
        syscalls_per_gib: per_gib(report.calls as f64).filter(|_| report.calls > 0),
        context_switches_per_gib: per_gib(report.usage.switches() as f64),
        page_faults_per_gib: per_gib(report.usage.faults as f64),
        ..Costs::default()
    };
    Outcome { value: report.gib_per_second(), seconds: report.seconds, costs, ..Outcome::default() }
}
