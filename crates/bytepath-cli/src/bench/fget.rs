//! `bytepath bench fget`: what a descriptor costs.

use std::time::Duration;

use bytepath::machine::Machine;
use bytepath_lab::experiments::fget::{self, Axes};
use bytepath_lab::fget::serve::Family;
use bytepath_lab::fget_work;
use clap::{Args, ValueEnum};

use super::choosing::{Listing, listed, those_matching};
use super::measuring::{ALL, Measuring, Sampling, Times, telling};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::{against_first, well_named};
use crate::serve;

/// What does a descriptor cost? A service in situations that differ in who shares its table
///
/// The service listens on Unix sockets without a name in the file system, and on TCP ports of
/// loopback that the kernel picks; nothing leaves this machine.
#[derive(Args)]
#[command(mut_args(telling(ALL, [USUAL, QUICK])))]
pub(super) struct Fget {
    /// Threads that serve or call; 1 and as many as there are CPUs (at least 2) unless given
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: Vec<u16>,
    /// Connections
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Vec<u32>,
    /// Threads that open and close descriptors all the time, in each process, beside those that serve
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "0", value_parser = clap::value_parser!(u16).range(0..=64))]
    neighbours: Vec<u16>,
    /// How clients connect: unix, tcp
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "unix,tcp", value_parser = serve::family)]
    sockets: Vec<Family>,
    /// What the threads that call do it on: own (a file each), one (all on the same open file)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "own,one")]
    file: Vec<Files>,
    /// Threads of clients, at most one a connection
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    clients: u16,
    /// A real service under the same load, beside: memcached
    #[arg(long, value_name = "PROGRAM")]
    peer: Option<Peer>,
    /// Only arms whose name, or part of it at a /, matches: 'unix', 'private-table', 'read'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Files {
    Own,
    One,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Peer {
    Memcached,
}

const USUAL: Sampling =
    Sampling { blocks: 10, time: Duration::from_millis(100), warm_up: Duration::from_millis(20) };
const QUICK: Sampling =
    Sampling { blocks: 3, time: Duration::from_millis(50), warm_up: Duration::from_millis(10) };

pub(super) fn run(options: &Fget) -> anyhow::Result<()> {
    let program = this_program()?;
    let axes = Axes {
        threads: match options.threads.is_empty() {
            true => vec![1, Machine::this().allowed_cpus().iter().count().clamp(2, 64)],
            false => options.threads.iter().map(|count| usize::from(*count)).collect(),
        },
        connections: options.connections.iter().map(|count| *count as usize).collect(),
        neighbours: options.neighbours.iter().map(|count| usize::from(*count)).collect(),
        families: options.sockets.clone(),
        one_file: options.file.iter().map(|file| *file == Files::One).collect(),
        clients: options.clients.into(),
        memcached: options.peer.map(|Peer::Memcached| fget_work::memcached()),
    };
    let arms = well_named(fget::arms(&axes, &program))?;
    let arms = those_matching(arms, &options.arms)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let mut settings =
        options.times.in_place_of(options.measuring.settings_between(USUAL, QUICK, None));
    settings.others.insert("clients".into(), options.clients.into());
    let record = against_first(fget::DESCRIPTION.recorded(), arms, &settings)?;
    show(&record, None, outputs)
}
