//! `bytepath fetch`, `bytepath upstream`, `bytepath keepalive`: the processes of the arms of `bench
//! keepalive`; not shown in the help.

use std::io::Write as _;
use std::time::Duration;

use anyhow::Context;
use bytepath_lab::keepalive::client::{self, BEGINS, Job};
use bytepath_lab::keepalive::stage::{self, Sample};
use bytepath_lab::keepalive::{Address, Connections, Load, Protocol, upstream};
use clap::Args;

use crate::hidden::this_program;
use crate::streams::stdout;
use crate::{hidden, values};

/// Ask an upstream again and again, and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Fetch {
    /// http or fastcgi
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol, default_value = "http")]
    protocol: Protocol,
    /// new: one for each request; kept
    #[arg(long, value_name = "HOW", value_parser = connections, default_value = "kept")]
    connections: Connections,
    /// How many connections at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=CONCURRENCY_MAX), default_value_t = 64)]
    concurrency: u32,
    /// Requests per second, made whether others are answered or not; as fast as they are unless given
    #[arg(long, value_name = "N", value_parser = rate)]
    rate: Option<f64>,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "1s")]
    time: Duration,
    /// For so long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    /// tcp:PORT (of the loopback interface) or unix:PATH
    #[arg(value_name = "ADDRESS", value_parser = address)]
    address: Address,
}

/// Answer every request with the same few bytes, until it is ended
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Upstream {
    /// http or fastcgi
    #[arg(long, value_name = "PROTOCOL", value_parser = protocol, default_value = "http")]
    protocol: Protocol,
    /// tcp:PORT (of the loopback interface) or unix:PATH
    #[arg(value_name = "ADDRESS", value_parser = address)]
    address: Address,
}

/// Run an upstream, a client, and nginx between them, and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Keepalive {
    /// What they are, as JSON
    #[arg(long, value_name = "JSON", value_parser = sample)]
    sample: Box<Sample>,
}

/// More connections than this no process usually may have.
pub(crate) const CONCURRENCY_MAX: i64 = 4000;

fn protocol(name: &str) -> Result<Protocol, String> {
    Protocol::named(name).ok_or_else(|| values::unknown("protocol", name, ["http", "fastcgi"]))
}

fn connections(name: &str) -> Result<Connections, String> {
    [Connections::New, Connections::Kept]
        .into_iter()
        .find(|connections| connections.name() == name)
        .ok_or_else(|| format!("connections are new or kept, and not {name:?}"))
}

fn address(text: &str) -> Result<Address, String> {
    let port = |port: &str| port.parse().ok().filter(|port| *port > 0).map(Address::Tcp);
    match text.split_once(':') {
        Some(("tcp", number)) => port(number).ok_or_else(|| format!("{number:?} is no port")),
        Some(("unix", path)) if !path.is_empty() => Ok(Address::Unix(path.into())),
        _ => Err(format!("{text:?} is no address; write tcp:PORT or unix:PATH")),
    }
}

/// Requests per second.
pub(crate) fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if (1.0..=1e6).contains(&rate) => Ok(rate),
        _ => Err(format!("{text:?} is no rate between 1 and 1000000 requests a second")),
    }
}

fn sample(text: &str) -> Result<Box<Sample>, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub(crate) fn fetch(options: &Fetch) -> anyhow::Result<()> {
    let job = Job {
        protocol: options.protocol,
        address: options.address.clone(),
        connections: options.connections,
        concurrency: options.concurrency as usize,
        load: options.rate.map_or(Load::Saturation, Load::Rate),
        warm_up: options.warm_up,
        time: options.time,
    };
    let begins = || {
        // Whoever listens notices when nothing more comes.
        let _ = stdout().write_all(BEGINS);
    };
    let report = client::ask(&job, begins)?;
    hidden::report(&report)
}

pub(crate) fn upstream(options: &Upstream) -> anyhow::Result<()> {
    upstream::serve(options.protocol, &options.address).context("cannot serve")
}

pub(crate) fn keepalive(options: &Keepalive) -> anyhow::Result<()> {
    let program = this_program()?;
    let report = stage::run(&options.sample, &program).map_err(anyhow::Error::msg)?;
    hidden::report(&report)
}
