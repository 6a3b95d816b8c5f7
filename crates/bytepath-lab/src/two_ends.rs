//! Two processes of `bytepath` that a control socket joins: one begins, measures and reports; the
//! other answers until it is ended.

use std::path::Path;
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;

use crate::arm::{Measured, Timing};
use crate::ends::Starter;
use crate::passing::controls;
use crate::pipe_work::{EndedOnDrop, Says, ended};

/// The two, as they are to be started.
pub(crate) struct TwoEnds<'a> {
    /// The `bytepath` executable.
    pub(crate) program: &'a Path,
    /// The command, to be followed by `begin` or `answer`.
    pub(crate) command: &'static str,
    /// What both are told besides.
    pub(crate) options: &'a [String],
    /// The CPU of the end that begins, and of the one that answers; where not given, the kernel
    /// chooses.
    pub(crate) cpus: Option<[usize; 2]>,
}

impl TwoEnds<'_> {
    fn end(&self, side: &str, cpu: Option<usize>) -> Command {
        let mut command = Command::new(self.program);
        command.args([self.command, side]).args(self.options);
        command.args(cpu.map(|cpu| format!("--cpu={cpu}")));
        command.args(Starter::this().words()).stderr(Stdio::piped());
        command
    }

    /// Runs them for the time asked for; what the one that begins reports.
    pub(crate) fn run<Report: DeserializeOwned>(&self, timing: &Timing) -> Result<Report, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("this is measured for a time; give one".into());
        };
        let (near, far) = controls().map_err(|error| error.to_string())?;
        let [near_cpu, far_cpu] = self.cpus.map_or([None; 2], |cpus| cpus.map(Some));
        let mut beginning = self.end("begin", near_cpu);
        beginning.args(["--time", &format!("{}us", time.as_micros())]);
        beginning.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
        beginning.stdin(near).stdout(Stdio::piped());
        let mut begins = EndedOnDrop::spawn_on(&mut beginning, near_cpu)?;
        // Its control socket is ours too until it is forgotten.
        drop(beginning);
        let mut answering = self.end("answer", far_cpu);
        answering.stdin(far).stdout(Stdio::null());
        // It never ends by itself.
        let _answers = EndedOnDrop::spawn_on(&mut answering, far_cpu)?;
        drop(answering);
        ended(&mut begins.0, Says::Output, timing.patience())
    }
}
