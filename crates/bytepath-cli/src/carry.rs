//! `bytepath carry`: standard input to standard output by one named route. The process that moves
//! in the arms of an experiment; not shown in the help.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath::pages::{Memory, Pages};
use bytepath::{Cpu, Endpoint, Job, Knobs, Meter, Plan, Transfer, TransferError, Wait};
use bytepath_lab::ends::{EndReport, Usage};
use clap::Args;
use rustix::io::Errno;

use crate::hidden::Placed;
use crate::output::Output;
use crate::planning::{CarryError, Carrying, PlanOptions};
use crate::values;

/// Bytes of one job where jobs are repeated, and calls at most, so that the clock is looked at in
/// time however small the calls are.
const REPEATED_BYTES: u64 = 64 << 20;
const REPEATED_CALLS: u64 = 16 << 10;

/// Move standard input to standard output by one named route, lending pages where it can
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The route; the planner's choice unless given
    #[arg(long, value_name = "ROUTE")]
    route: Option<String>,
    /// Nothing but read and write in a loop, to compare the engine with
    #[arg(long, conflicts_with = "route")]
    bare: bool,
    /// Bytes per call
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size)]
    buf_size: Option<usize>,
    /// Size of the pipes at either end, and of the buffer of a Unix socket that is written to
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size)]
    pipe_size: Option<usize>,
    /// Spin this long before sleeping
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    spin_budget: Option<Duration>,
    /// Stay on the CPU that it begins on
    #[arg(long)]
    stay: bool,
    /// Plan by this profile
    #[arg(long, value_name = "FILE", conflicts_with = "route")]
    profile: Option<PathBuf>,
    /// Bytes at most
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    limit: Option<u64>,
    /// Do jobs of 64 MiB again and again for this time
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    repeat_for: Option<Duration>,
    /// Repeat this long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    #[command(flatten)]
    placed: Placed,
    /// Write what was done to a file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    options.placed.settle()?;
    let json = options.json.as_deref().map(Output::open).transpose()?;
    let meter = Meter::new();
    if options.repeat_for.is_some() {
        repeated(options, options.warm_up, &meter)?;
    }
    let (calls, started, before) = (meter.read().calls, Instant::now(), Usage::of_this_process());
    let bytes = match options.repeat_for {
        Some(time) => repeated(options, time, &meter)?,
        None => job(options, options.limit, &meter)?,
    };
    let report = EndReport {
        mechanism: options.route.clone().unwrap_or_else(|| "plan".to_owned()),
        bytes,
        seconds: started.elapsed().as_secs_f64(),
        calls: meter.read().calls - calls,
        waits: meter.read().waits,
        usage: Usage::of_this_process().since(before),
        ..EndReport::default()
    };
    let Some(json) = json else { return Ok(()) };
    json.write(serde_json::to_string(&report)?.as_bytes())
}

fn repeated(options: &Options, time: Duration, meter: &Meter) -> anyhow::Result<u64> {
    let started = Instant::now();
    let call_bytes = options.buf_size.map_or(REPEATED_BYTES, |bytes| bytes as u64);
    let job_bytes = REPEATED_BYTES.min(call_bytes.saturating_mul(REPEATED_CALLS));
    let mut bytes = 0;
    while started.elapsed() < time {
        let moved = job(options, Some(job_bytes), meter)?;
        bytes += moved;
        if moved < job_bytes {
            // The source has ended, or the reader is gone: nothing more will ever move.
            break;
        }
    }
    Ok(bytes)
}

/// How many bytes moved. A reader that leaves has had enough, here as with the writing end.
fn job(options: &Options, limit: Option<u64>, meter: &Meter) -> anyhow::Result<u64> {
    if options.bare { bare(options, limit) } else { engine(options, limit, meter) }
}

fn engine(options: &Options, limit: Option<u64>, meter: &Meter) -> anyhow::Result<u64> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let (source, sink) = (Endpoint::source(stdin.as_fd())?, Endpoint::sink(stdout.as_fd())?);
    let mut job = Job::new(&source, &sink).allow_aliasing().allow_any_order();
    job.limit = limit;
    let knobs = Knobs {
        pipe_bytes: options.pipe_size,
        chunk_bytes: options.buf_size,
        wait: options.spin_budget.map_or(Wait::Block, Wait::Hybrid),
        cpu: if options.stay { Cpu::Stay } else { Cpu::Any },
        ..Knobs::default()
    };
    let carried = match &options.route {
        Some(name) => {
            let plan = Plan::only(name, &job, knobs)?;
            Transfer::new(&job, &plan).meter(meter).run().map_err(CarryError::from)
        }
        None => {
            let profile = options.profile.clone();
            let plan = PlanOptions { profile, ..PlanOptions::default() };
            plan.check()?;
            plan.carry(&Carrying { job, knobs, meter, cancel: None, planned: None })
        }
    };
    match carried {
        Ok(moved) => Ok(moved.bytes),
        Err(CarryError::Transfer(TransferError::Failed(failed))) if failed.errno == Errno::PIPE => {
            Ok(failed.offset)
        }
        Err(error) => Err(error.into()),
    }
}

/// The loop that everybody writes first.
fn bare(options: &Options, limit: Option<u64>) -> anyhow::Result<u64> {
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let len = options.buf_size.unwrap_or(256 << 10);
    let mut buffer = Memory::allocate(len, &Pages::default())?;
    let (mut bytes, limit) = (0, limit.unwrap_or(u64::MAX));
    while bytes < limit {
        let most = len.min(usize::try_from(limit - bytes).unwrap_or(usize::MAX));
        let count = rustix::io::read(&stdin, &mut buffer.as_mut_slice()[..most])?;
        if count == 0 {
            break;
        }
        let mut rest = &buffer.as_slice()[..count];
        while !rest.is_empty() {
            match rustix::io::write(&stdout, rest) {
                Ok(written) => {
                    bytes += written as u64;
                    rest = &rest[written..];
                }
                Err(Errno::PIPE) => return Ok(bytes),
                Err(errno) => return Err(errno.into()),
            }
        }
    }
    Ok(bytes)
}
