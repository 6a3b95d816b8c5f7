//! The work of arms that are requests: a sample in a network of its own.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytepath_report::{Costs, Figures, latency};
use serde_json::{Value, json};

use super::stage::{Sample, StageReport};
use super::{Load, peer};
use crate::arm::{Measured, Outcome, Timing, Work};
use crate::confine::Confinement;
use crate::interrupt;
use crate::left::Folder;
use crate::pipe_work::{Says, reported};

/// More failures than this share of the requests are no measurement.
const FAILED_SHARE_MAX: f64 = 0.01;

/// A trial is this long.
const TRIAL: Duration = Duration::from_millis(20);

/// Starting and ending the servers may take this long.
const PATIENCE: Duration = Duration::from_secs(60);

/// Requests, again and again.
pub struct KeepaliveWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// What a sample is made of; its times and its directory are set for each.
    pub sample: Sample,
    /// Where files are made.
    pub directory: PathBuf,
}

impl Work for KeepaliveWork {
    fn is_served_by_the_kernel(&self) -> bool {
        true
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("requests are made for a time; give one".into());
        };
        let report = self.staged(timing.warm_up, time)?;
        let asked = &report.asked;
        let latencies = latency::decoded(&asked.histogram).map_err(|error| error.to_string())?;
        let found = BTreeMap::from([("time_wait_series".to_owned(), series(&report))]);
        let answered = asked.answered.max(1) as f64;
        let cpu_s = [report.upstream_cpu_s, report.proxy_cpu_s].into_iter().flatten().sum::<f64>();
        let costs = Costs {
            cpu_ns_per_op: Some((cpu_s + asked.usage.cpu_s()) * 1e9 / answered),
            ..Costs::default()
        };
        let value = match self.sample.load {
            Load::Saturation => asked.answered as f64 / asked.seconds.max(1e-9),
            Load::Rate(_) => latencies.value_at_quantile(0.5) as f64,
        };
        let (figures, latencies) = (figures_of(&report), Some(latencies));
        let seconds = asked.seconds;
        Ok(Outcome { value, seconds, costs, found, latencies, figures, ..Outcome::default() })
    }

    fn trial(&self, _: &Timing) -> Result<(), String> {
        self.staged(Duration::ZERO, TRIAL).map(drop)
    }
}

impl KeepaliveWork {
    fn staged(&self, warm_up: Duration, time: Duration) -> Result<StageReport, String> {
        let folder = Folder::make(&self.directory).map_err(|error| {
            format!(
                "no files in {}: {error}; name another place with --dir",
                self.directory.display()
            )
        })?;
        if self.sample.unix && !peer::fits(&folder.path().join("upstream")) {
            return Err(format!(
                "the name of {} is too long for a socket; name a shorter place with --dir",
                folder.path().display()
            ));
        }
        let sample = Sample {
            warm_up_s: warm_up.as_secs_f64(),
            time_s: time.as_secs_f64(),
            directory: folder.path().to_owned(),
            ..self.sample.clone()
        };
        let text = serde_json::to_string(&sample)
            .map_err(|error| format!("{}: {error}", self.directory.display()))?;
        let apart = Confinement { apart: true, ..Confinement::default() };
        let mut command = apart.command(&self.program, &self.program);
        command.args(["keepalive", "--sample", &text]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let report = reported(&mut command, Says::Output, PATIENCE + warm_up + time)?;
        self.check(&report)?;
        Ok(report)
    }

    fn check(&self, report: &StageReport) -> Result<(), String> {
        let asked = &report.asked;
        let why = asked.failed_why.as_deref().unwrap_or("no request was answered");
        let all = asked.failed + asked.answered;
        if interrupt::wished() {
            return Err("interrupted".into());
        }
        if asked.answered == 0 || asked.failed as f64 > FAILED_SHARE_MAX * all as f64 {
            return Err(format!("{} of {all} requests failed: {why}", asked.failed));
        }
        Ok(())
    }
}

/// Per request: what each process used; over time: the sockets.
fn figures_of(report: &StageReport) -> Figures {
    let mut figures = Figures::default();
    let asked = &report.asked;
    let answered = asked.answered.max(1) as f64;
    let most = |of: fn(&super::stage::Look) -> usize| {
        report.series.iter().map(of).max().map(|most| most as f64)
    };
    figures.add("answered", "1/s", asked.answered as f64 / asked.seconds.max(1e-9));
    figures.add("failed", "count", asked.failed as f64);
    figures.add("TIME_WAIT upstream", "at most", most(|look| look.at_upstream));
    figures.add("TIME_WAIT caller", "at most", most(|look| look.at_caller));
    figures.add("ephemeral ports", "at most", most(|look| look.ports));
    figures.add("opened", "count", report.opened.map(|count| count as f64));
    let each = |cpu_s: f64| cpu_s * 1e6 / answered;
    figures.add("CPU client", "µs each", each(asked.usage.cpu_s()));
    figures.add("CPU nginx", "µs each", report.proxy_cpu_s.map(each));
    figures.add("CPU upstream", "µs each", report.upstream_cpu_s.map(each));
    figures
}

/// Each look: seconds, in TIME_WAIT at the upstream, at who calls it, ephemeral ports taken.
fn series(report: &StageReport) -> Value {
    let look = |look: &super::stage::Look| {
        let milliseconds = (look.seconds * 1e3).round() / 1e3;
        json!([milliseconds, look.at_upstream, look.at_caller, look.ports])
    };
    report.series.iter().map(look).collect()
}
