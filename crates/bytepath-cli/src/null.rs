//! `bytepath null`: takes bytes as fast as they come, and drops them.

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::fd::AsFd;
use std::time::Instant;

use anyhow::{Context, bail};
use bytepath::endpoint::EndpointError;
use bytepath::inlets::{self, Inlet, Setup};
use bytepath::{Endpoint, Kind, Meter, Refusal, Stop};
use clap::Args;

use crate::live::rate;
use crate::said::say;
use crate::streams::stdout;
use crate::sys::start;

/// What a pipe is made, as the planner makes it: what everybody may have.
const PIPE_BYTES: usize = 1 << 20;

/// Bytes of one read.
const READ_BYTES: usize = 256 << 10;

/// Take bytes as fast as they come, and drop them
///
/// With no FILE, or when FILE is -, standard input is taken. The pages of a pipe are dropped
/// without being looked at, so that whoever writes into it is not held up; everything else is read.
#[derive(Args)]
pub(crate) struct Options {
    /// Look at every byte, as a program that uses them would
    #[arg(long)]
    touch: bool,
    /// Print how many bytes came
    #[arg(long)]
    count: bool,
    /// Leave pipes at the size they have, instead of making them larger
    #[arg(long)]
    no_enlarge: bool,
    /// Say on standard error by which way it went and why, and what came
    #[arg(long)]
    explain_plan: bool,
    /// The files; - is standard input
    #[arg(value_name = "FILE", default_value = "-", hide_default_value = true)]
    files: Vec<OsString>,
}

/// Takes all files; one that fails is told of, and the next is gone on with.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let meter = Meter::new();
    let mut failed = 0;
    for name in &options.files {
        if let Err(error) = one(name, options, &meter) {
            say(format_args!("bytepath: {error:#}"));
            failed += 1;
        }
    }
    if options.count {
        writeln!(stdout(), "{}", meter.bytes()).context("standard output")?;
    }
    match (failed, options.files.len()) {
        (0, _) => Ok(()),
        (failed, all) => bail!("{failed} of {all} inputs could not be taken to their end"),
    }
}

fn one(name: &OsStr, options: &Options, meter: &Meter) -> anyhow::Result<()> {
    if name != "-" {
        let shown = || crate::quote::shown(name);
        let source = Endpoint::open_source(name).map_err(|error| match error {
            EndpointError::Open { errno, .. } => EndpointError::Open { path: shown(), errno },
            EndpointError::Directory { .. } => EndpointError::Directory { name: shown() },
            other => other,
        })?;
        return drop_all(&source, options, meter).with_context(shown);
    }
    if start::was_closed(0) {
        bail!("standard input is closed; was it redirected with <&-?");
    }
    let source = std::io::stdin();
    drop_all(&Endpoint::source(source.as_fd())?, options, meter).context("standard input")
}

/// Takes everything by the first of the inlets that does it.
fn drop_all(source: &Endpoint<'_>, options: &Options, meter: &Meter) -> anyhow::Result<()> {
    if source.kind() == Kind::Pipe && !options.no_enlarge {
        // One that may not be enlarged works as it is.
        let _ = source.set_pipe_bytes(PIPE_BYTES);
    }
    // A splice drops what the pipe holds in one call; a read goes through a buffer that stays in
    // the cache.
    let (splice, read) = (PIPE_BYTES, READ_BYTES);
    let ways: &[_] = match options.touch {
        true => &[("read-touch", read)],
        false => &[("splice-null", splice), ("read", read)],
    };
    let mut told = Told { came_before: meter.bytes(), began: Instant::now(), refused: Vec::new() };
    for (name, buf_bytes) in ways {
        let Some(inlet) = inlets::by_name(name) else { continue };
        let setup = Setup { buf_bytes: *buf_bytes, untouched: true, ..Setup::new(meter) };
        match taken(inlet, source, &setup) {
            // The next takes what is left: nothing that came is under way.
            Err(Stop::Declined(why)) => {
                // It names inlets, of which there is no choice here.
                told.refused.push((name, Refusal { remedy: None, ..why }));
            }
            done => {
                if options.explain_plan {
                    told.explain(inlet, ways, meter);
                }
                return Ok(done?);
            }
        }
    }
    bail!("no inlet takes bytes from a {}", source.kind())
}

/// What is told of one input with --explain-plan.
struct Told {
    came_before: u64,
    began: Instant,
    refused: Vec<(&'static str, Refusal)>,
}

impl Told {
    fn explain(&self, taken: &dyn Inlet, ways: &[(&str, usize)], meter: &Meter) {
        say(format_args!("plan: by rules; what is dropped goes by the first of these that can"));
        for (place, (name, _)) in ways.iter().enumerate() {
            let summary = inlets::by_name(name).map_or("", Inlet::summary);
            say(format_args!("  {}. {name}: {summary}", place + 1));
        }
        if ways.iter().all(|(name, _)| *name != "splice-null") {
            say(format_args!("  not splice-null: --touch is to look at every byte"));
        }
        for (name, why) in &self.refused {
            say(format_args!("  not {name}: {why}"));
        }
        let bytes = meter.bytes() - self.came_before;
        let rate = rate(bytes, self.began.elapsed());
        say(format_args!("came: {bytes} bytes by {}, {rate}", taken.name()));
    }
}

fn taken(inlet: &dyn Inlet, source: &Endpoint<'_>, setup: &Setup<'_>) -> Result<(), Stop> {
    inlet.suits(source).map_err(Stop::Declined)?;
    inlet.open(source, setup)?.take_all(u64::MAX).map(drop)
}
