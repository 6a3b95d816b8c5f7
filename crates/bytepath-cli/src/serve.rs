//! `bytepath serve`: the service of the arms of `bench fget`; not shown in the help.

use bytepath_lab::ends::Starter;
use bytepath_lab::fget::serve::{Family, Service};
use bytepath_lab::fget::{SITUATIONS, Situation};
use clap::Args;

use crate::streams::stdout;
use crate::{ends, values};

/// Answer small requests until the clients have left; says as JSON where it listens, then what it did
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// Who shares which descriptors
    #[arg(long, value_name = "SITUATION", value_parser = situation)]
    situation: Situation,
    /// Threads that answer
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Connections that are waited for
    #[arg(long, value_name = "N")]
    connections: usize,
    /// Threads that open and close descriptors meanwhile
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    neighbours: u16,
    /// How clients connect: unix or tcp
    #[arg(long, value_name = "FAMILY", value_parser = family)]
    family: Family,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

/// A situation by its name.
pub(crate) fn situation(name: &str) -> Result<Situation, String> {
    Situation::named(name).ok_or_else(|| {
        values::unknown("situation", name, SITUATIONS.iter().map(|situation| situation.name()))
    })
}

/// A family of sockets by its name.
pub(crate) fn family(name: &str) -> Result<Family, String> {
    Family::named(name)
        .ok_or_else(|| format!("no sockets {name:?}; there are: {}", Family::NAMES.join(", ")))
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    let service = Service {
        situation: options.situation,
        threads: options.threads.into(),
        connections: options.connections,
        neighbours: options.neighbours.into(),
        family: options.family,
    };
    Ok(service.run(&mut stdout())?)
}
