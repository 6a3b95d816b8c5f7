//! `bytepath bench pipes`: the ladder of pipes.

use anyhow::Context;
use bytepath::Wait;
use bytepath::placement::Placement;
use bytepath_lab::arm::Arm;
use bytepath_lab::experiments::pipes;
use bytepath_lab::peers::{PEERS, Peer};
use bytepath_report::Record;
use clap::Args;

use super::choosing::{Listing, listed, placements};
use super::measuring::{ALL, Measuring, Sampling, Times, telling};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::{measured, well_named};
use crate::patterns::{by_each, is_named, patterns};
use crate::usage::wrong_usage;
use crate::values;

/// How fast can a pipe be? The ladder of mazzo.li (2022), on every placement of the ends
#[derive(Args, Default)]
#[command(mut_args(telling(ALL, [Sampling::USUAL, Sampling::QUICK])))]
pub(crate) struct Pipes {
    /// Only arms whose name (or part before the @) matches: 'vmsplice-*', '*@same-cpu'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// Where the ends run: same-cpu, cross-cpu, …; all that this machine has unless given
    #[arg(long, value_name = "PLACEMENT", value_parser = values::placements)]
    placement: Vec<Vec<Placement>>,
    /// Sizes of the pipe; each arm's own unless given
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = values::buffer_size)]
    pipe_size: Vec<usize>,
    /// Sizes of the buffers
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = values::buffer_size)]
    buf_size: Vec<usize>,
    /// Waits, for arms that do not show one of their own: block, poll, spin, poll-spin, hybrid
    #[arg(long, value_name = "WAIT", value_delimiter = ',', value_parser = values::wait)]
    wait: Vec<Wait>,
    /// Classics to put between the same ends: pv, cat, dd, tee, mbuffer
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = peer)]
    peer: Vec<&'static Peer>,
    /// Bytes per sample, instead of a time
    #[arg(long, value_name = "SIZE", value_parser = values::size, conflicts_with = "time")]
    bytes: Option<u64>,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    pub(super) measuring: Measuring,
}

impl Pipes {
    /// The whole ladder in three blocks of short samples.
    pub(crate) fn quick() -> Self {
        Pipes { measuring: Measuring { quick: true, ..Measuring::default() }, ..Pipes::default() }
    }
}

pub(super) fn peer(name: &str) -> Result<&'static Peer, String> {
    bytepath_lab::peers::by_name(name)
        .ok_or_else(|| values::unknown("peer", name, PEERS.iter().map(|peer| peer.name)))
}

pub(super) fn run(options: &Pipes) -> anyhow::Result<()> {
    let arms = pipes_arms(options)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let record = measure_pipes(arms, options)?;
    show(&record, pipes::dominating(&record).as_deref(), outputs)
}

/// Runs the arms of `pipes` and gives the record.
pub(crate) fn measure_pipes(arms: Vec<Arm>, options: &Pipes) -> anyhow::Result<Record> {
    let reference = pipes::reference(&arms).context("no arm to measure")?.to_owned();
    let settings = options.times.in_place_of(options.measuring.settings(options.bytes));
    measured(pipes::DESCRIPTION.recorded(), arms, &reference, &settings)
}

/// The arms that the options ask for.
pub(crate) fn pipes_arms(options: &Pipes) -> anyhow::Result<Vec<Arm>> {
    let axes = pipes::Axes {
        placements: placements(&options.placement.concat())?,
        pipe_bytes: options.pipe_size.clone(),
        buf_bytes: options.buf_size.clone(),
        waits: options.wait.clone(),
        peers: options.peer.clone(),
    };
    let program = this_program()?;
    // A peer that is asked for by name runs whatever else is chosen.
    let peers = options.peer.iter().map(|peer| pipes::peer_arm(peer));
    let globs = match options.arms.is_empty() {
        true => Vec::new(),
        false => options.arms.iter().cloned().chain(peers).collect(),
    };
    well_named(chosen(pipes::arms(&axes, &program), &globs)?)
}

fn chosen(arms: Vec<Arm>, globs: &[String]) -> anyhow::Result<Vec<Arm>> {
    let chosen = by_each(arms, globs, &patterns(globs)?, |glob, arm| is_named(glob, &arm.name));
    chosen.map_err(|none| {
        let names: Vec<_> = pipes::names().collect();
        wrong_usage(format!("{none}; there are, each @ a placement: {}", names.join(", ")))
    })
}
