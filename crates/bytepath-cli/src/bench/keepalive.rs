//! `bytepath bench keepalive`: a connection for each request, or one that is kept.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bytepath_lab::experiments::keepalive;
use clap::Args;

use super::choosing::{Listing, listed, those_matching};
use super::measuring::{ALL, Measuring, Sampling, Times, telling};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::against_first;
use crate::requests::{CONCURRENCY_MAX, rate};

/// What does a connection for each request cost? nginx and its upstream, with and without keepalive
#[derive(Args)]
#[command(mut_args(telling(ALL, [USUAL, QUICK])))]
pub(super) struct Keepalive {
    /// Only arms whose name, or part of it at a /, matches: 'proxy_pass', 'tcp-*', saturation
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// How many connections the client has at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CONCURRENCY_MAX), default_value_t = 64)]
    connections: u32,
    /// Requests per second of the arms at a rate
    #[arg(long, value_name = "N", value_parser = rate, default_value = "1000")]
    rate: f64,
    /// How many idle connections nginx keeps to the upstream
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CONCURRENCY_MAX), default_value_t = 60)]
    keepalive: u32,
    /// nginx's worker processes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), default_value_t = 1)]
    workers: u32,
    /// Keep files of the run in this directory; that for temporary files unless given
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

/// 32 arms in 5 minutes.
const USUAL: Sampling =
    Sampling { blocks: 10, time: Duration::from_millis(500), warm_up: Duration::from_millis(100) };
const QUICK: Sampling =
    Sampling { blocks: 3, time: Duration::from_millis(200), warm_up: Duration::from_millis(50) };

pub(super) fn run(options: &Keepalive) -> anyhow::Result<()> {
    let program = this_program()?;
    let directory = options.dir.clone().unwrap_or_else(std::env::temp_dir);
    let directory = std::fs::canonicalize(&directory)
        .with_context(|| format!("cannot keep files in {}", directory.display()))?;
    let setup = keepalive::Setup {
        program: &program,
        directory: &directory,
        concurrency: options.connections as usize,
        rate: options.rate,
        keepalive: options.keepalive,
        workers: options.workers,
    };
    let arms = those_matching(keepalive::arms(&setup), &options.arms)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let mut settings =
        options.times.in_place_of(options.measuring.settings_between(USUAL, QUICK, None));
    settings.others.insert("connections".into(), options.connections.into());
    settings.others.insert("rate".into(), options.rate.into());
    settings.others.insert("keepalive".into(), options.keepalive.into());
    settings.others.insert("workers".into(), options.workers.into());
    let record = against_first(keepalive::DESCRIPTION.recorded(), arms, &settings)?;
    show(&record, keepalive::shows(&record).as_deref(), outputs)
}
