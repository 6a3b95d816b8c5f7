//! `bytepath load`: the clients of the arms of `bench fget`; not shown in the help.

use std::ffi::CString;
use std::time::Duration;

use bytepath_lab::ends::Starter;
use bytepath_lab::fget::load::{self, Load};
use clap::Args;

use crate::{ends, hidden, values};

/// Ask a service small things, and say as JSON how often it answered and what it took of the CPU
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// Where it listens: unix:PATH, unix:@NAME or tcp:ADDRESS; connections take turns over several
    #[arg(long, value_name = "ADDRESS", required = true)]
    address: Vec<String>,
    /// A process that serves
    #[arg(long, value_name = "PID")]
    server: Vec<u32>,
    /// Connections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    connections: u32,
    /// Threads of clients
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    clients: u16,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = values::some_time)]
    time: Duration,
    /// For so long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    // Without a name it would only be explained along with the service.
    let _ = rustix::thread::set_name(&CString::new(load::NAME)?);
    let load = Load {
        addresses: options.address.clone(),
        connections: options.connections as usize,
        clients: options.clients.into(),
        servers: options.server.clone(),
        warm_up: options.warm_up,
        time: options.time,
    };
    hidden::report(&load.run()?)
}
