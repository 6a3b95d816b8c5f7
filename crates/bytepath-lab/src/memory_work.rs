//! The work of arms that sweep over memory or touch pages: `bytepath sweep`, `bytepath paging`, a
//! pair of processes with memory between them, and peers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytepath::channel::Connection;
use bytepath::pages::PageSize;

use crate::arm::{Measured, Outcome, TRIAL_TIME, Timing, Work};
use crate::descendants::end_with_all;
use crate::ends::{GIB, Starter, Usage, costs_per_gib};
use crate::memory::peers::MemoryPeer;
use crate::memory::{Sweep, SweepReport};
use crate::pipe_work::{self, EndedOnDrop, Says, said, spawn_on};
use crate::sys::together::end_together;
use crate::tools::words_of;
use crate::touches::{Made, Touch, TouchReport};

/// Said beside what an empty pool is told with.
const LEND: &str = "; or --hugetlb-pool, as root, lends it pages for the run";

/// Sweeps by a process with so many threads.
pub struct SweepWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// The way.
    pub sweep: &'static Sweep,
    /// Bytes of a block.
    pub bytes: usize,
    /// What blocks are made of.
    pub pages: PageSize,
    /// The CPU of each thread.
    pub cpus: Vec<usize>,
}

impl Work for SweepWork {
    fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        self.sweep.usable()?;
        let mut command = Command::new(&self.program);
        command.args(["sweep", "--way", self.sweep.name, "--pages", self.pages.name()]);
        command.args(["--block", &self.bytes.to_string()]);
        let cpus: Vec<_> = self.cpus.iter().map(usize::to_string).collect();
        command.args(["--cpus", &cpus.join(",")]);
        let report = reported::<SweepReport>(&mut command, timing, self.pages)?;
        Ok(outcome(&report, report.usage))
    }
}

/// Every byte from one process to another through a ring that both have.
pub struct ShareWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// Bytes of the ring.
    pub bytes: usize,
    /// What it is made of.
    pub pages: PageSize,
    /// The CPU of the writer, and of the reader.
    pub cpus: [usize; 2],
}

impl Work for ShareWork {
    fn cpus(&self) -> &[usize] {
        &self.cpus
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let (near, far) = Connection::pair().map_err(|error| error.to_string())?;
        let end_on = |side: &str, cpu: usize| {
            let mut command = Command::new(&self.program);
            command.args(["sweep", "--way", side, "--pages", self.pages.name()]);
            command.args(["--block", &self.bytes.to_string(), "--cpus", &cpu.to_string()]);
            command.args(Starter::this().words());
            command.stderr(Stdio::piped());
            command
        };
        let [writes, reads] = self.cpus;
        let mut writer = end_on("share-write", writes);
        writer.stdin(std::os::fd::OwnedFd::from(near)).stdout(Stdio::null());
        let mut running = EndedOnDrop::spawn_on(&mut writer, None)?;
        drop(writer);
        let mut reader = end_on("share-read", reads);
        reader.args(times(timing)?);
        reader.stdin(std::os::fd::OwnedFd::from(far)).stdout(Stdio::piped());
        let report: Result<SweepReport, _> =
            pipe_work::reported(&mut reader, Says::Output, timing.patience());
        drop(reader);
        match report {
            Ok(report) => Ok(outcome(&report, report.usage)),
            // What the writer says tells more, where it was the writer who could not.
            Err(why) => Err(match said(&mut running.0, Says::Errors, TRIAL_TIME * 1000) {
                Err(writer) if !writer.is_empty() => hinted(writer, self.pages),
                _ => why,
            }),
        }
    }
}

/// A peer's own measuring of blocks of so many bytes.
pub struct PeerWork {
    /// The peer.
    pub peer: &'static MemoryPeer,
    /// Bytes of a block.
    pub bytes: usize,
    /// The CPU that it runs on.
    pub cpu: [usize; 1],
}

/// What a peer moves in a second at the least, to know how much to ask of it: they take no time.
const PEER_BYTES_A_SECOND: f64 = 8e9;

impl Work for PeerWork {
    fn cpus(&self) -> &[usize] {
        &self.cpu
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("memory is measured by time; give one".into());
        };
        let total = (time.as_secs_f64() * PEER_BYTES_A_SECOND) as u64;
        let mut command = self.peer.command(self.bytes, total)?;
        let found = BTreeMap::from([("words".to_owned(), words_of(&command).into())]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let started = std::time::Instant::now();
        let mut child = Some(spawn_on(end_together(&mut command), Some(self.cpu[0]))?);
        let printed = said(&mut child, Says::Output, timing.patience());
        let status = child.as_mut().and_then(|child| child.try_wait().ok()?);
        end_with_all(&mut child);
        let value = self.peer.gib_per_second(&printed.map_err(|why| match status {
            Some(status) if !why.starts_with(&status.to_string()) => {
                format!("{} failed ({status}): {why}", self.peer.name)
            }
            _ => format!("{} failed: {why}", self.peer.name),
        })?)?;
        let seconds = started.elapsed().as_secs_f64();
        Ok(Outcome { value, seconds, found, ..Outcome::default() })
    }
}

/// Touches of pages by a process.
pub struct TouchWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// The way.
    pub touch: &'static Touch,
    /// What the area is made of.
    pub made: Made,
    /// Where files are made.
    pub directory: PathBuf,
    /// The CPU that it runs on.
    pub cpu: [usize; 1],
}

impl Work for TouchWork {
    fn cpus(&self) -> &[usize] {
        &self.cpu
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let mut command = Command::new(&self.program);
        command.args(["paging", "--way", self.touch.name, "--area", self.made.name()]);
        command.arg("--dir").arg(&self.directory);
        command.args(["--cpu", &self.cpu[0].to_string()]);
        let report = reported::<TouchReport>(&mut command, timing, self.made.size())?;
        let operations = report.operations.max(1) as f64;
        Ok(Outcome {
            value: report.seconds * 1e9 / operations,
            seconds: report.seconds,
            ..Outcome::default()
        })
    }
}

fn times(timing: &Timing) -> Result<[String; 4], String> {
    let Measured::Time(time) = timing.measured else {
        return Err("memory is measured by time; give one".into());
    };
    let us = |time: std::time::Duration| format!("{}us", time.as_micros());
    Ok(["--time".to_owned(), us(time), "--warm-up".to_owned(), us(timing.warm_up)])
}

/// Runs a process that measures, and reads its report.
fn reported<Report: serde::de::DeserializeOwned>(
    command: &mut Command,
    timing: &Timing,
    pages: PageSize,
) -> Result<Report, String> {
    command.args(times(timing)?).args(Starter::this().words());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let report = pipe_work::reported(command, Says::Output, timing.patience());
    report.map_err(|why| hinted(why, pages))
}

fn hinted(why: String, pages: PageSize) -> String {
    match pages {
        PageSize::Hugetlb if why.contains("pool") => why + LEND,
        _ => why,
    }
}

fn outcome(report: &SweepReport, usage: Usage) -> Outcome {
    let gib = report.bytes as f64 / GIB;
    Outcome {
        value: gib / report.seconds.max(f64::MIN_POSITIVE),
        seconds: report.seconds,
        costs: costs_per_gib(&usage, None, report.bytes),
        ..Outcome::default()
    }
}
