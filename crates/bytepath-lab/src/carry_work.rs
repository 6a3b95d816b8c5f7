//! The work of arms that are one process: `bytepath carry`, between two files or devices.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::arm::{Measured, Outcome, Timing, Work};
use crate::ends::{EndReport, Starter};
use crate::pipe_work::{Says, reported};

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
        Ok(outcome(&reported(&mut command, Says::Errors, timing.patience())?))
    }
}

fn outcome(report: &EndReport) -> Outcome {
    let costs = report.costs();
    Outcome { value: report.gib_per_second(), seconds: report.seconds, costs, ..Outcome::default() }
}
