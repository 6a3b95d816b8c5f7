//! The work of arms that are operations: `bytepath call`, a process that does one operation again
//! and again, by system calls or in batches on a ring.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytepath_report::Costs;

use crate::arm::{Measured, Outcome, Timing, Work};
use crate::calls::{Operation, Report, Way};
use crate::ends::Starter;
use crate::left::Folder;
use crate::pipe_work::{Says, reported};

/// `bytepath call` of one operation, one way.
pub struct CallWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// The operation.
    pub operation: Operation,
    /// How it is handed to the kernel.
    pub way: Way,
    /// Where its file is made, in a folder for the sample.
    pub directory: PathBuf,
    /// The CPU that it runs on; threads of the kernel's that help a ring go where they like.
    pub cpu: [usize; 1],
}

impl CallWork {
    /// The options that say what is done.
    pub fn options(operation: Operation, way: Way) -> Vec<String> {
        let mut options = vec!["--op".to_owned(), operation.name().to_owned()];
        if let Way::Batch { operations, registered } = way {
            options.extend(["--batch".to_owned(), operations.to_string()]);
            options.extend(registered.then(|| "--registered".to_owned()));
        }
        options
    }
}

impl Work for CallWork {
    fn cpus(&self) -> &[usize] {
        &self.cpu
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("operations are measured by time; give one".into());
        };
        let folder = Folder::make(&self.directory)
            .map_err(|error| format!("no folder in {}: {error}", self.directory.display()))?;
        let mut command = Command::new(&self.program);
        command.arg("call").args(CallWork::options(self.operation, self.way));
        command.arg("--dir").arg(folder.path());
        command.args(["--cpu", &self.cpu[0].to_string()]);
        command.args(["--time", &format!("{}us", time.as_micros())]);
        command.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
        command.args(Starter::this().words());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(outcome(&reported(&mut command, Says::Output, timing.patience())?))
    }
}

fn outcome(report: &Report) -> Outcome {
    let operations = report.operations.max(1) as f64;
    let costs = Costs {
        cpu_ns_per_op: Some(report.usage.cpu_s() * 1e9 / operations),
        syscalls_per_op: Some(report.calls as f64 / operations),
        context_switches_per_op: Some(report.usage.switches() as f64 / operations),
        ..Costs::default()
    };
    Outcome {
        value: report.seconds * 1e9 / operations,
        seconds: report.seconds,
        costs,
        ..Outcome::default()
    }
}
