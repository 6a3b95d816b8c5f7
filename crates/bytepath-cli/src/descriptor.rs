//! `bytepath descriptor`: one call on a descriptor again and again, by several threads; the process
//! of arms of `bench fget`; not shown in the help.

use std::time::Duration;

use bytepath_lab::ends::Starter;
use bytepath_lab::fget::Situation;
use bytepath_lab::fget::calls::{self, CALLS, Call, Job};
use clap::Args;

use crate::usage::wrong_usage;
use crate::{ends, hidden, serve, values};

/// Call on a descriptor again and again, and say as JSON what it took
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The call: read, fstat, poll
    #[arg(long, value_name = "CALL", value_parser = call)]
    call: Call,
    /// Who shares which descriptors
    #[arg(long, value_name = "SITUATION", value_parser = serve::situation)]
    situation: Situation,
    /// Threads that call
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    /// Threads that open and close descriptors meanwhile
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1024))]
    neighbours: u16,
    /// Call on standard input's file, instead of one of each thread's own
    #[arg(long)]
    one_file: bool,
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

fn call(name: &str) -> Result<Call, String> {
    Call::named(name)
        .ok_or_else(|| values::unknown("call", name, CALLS.iter().map(|call| call.name())))
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    if !calls::SITUATIONS.contains(&options.situation) {
        let name = options.situation.name();
        return Err(wrong_usage(format!("{name} is a situation of services, not of single calls")));
    }
    let called = calls::run(&Job {
        call: options.call,
        situation: options.situation,
        threads: options.threads.into(),
        neighbours: options.neighbours.into(),
        one_file: options.one_file,
        warm_up: options.warm_up,
        time: options.time,
    })?;
    hidden::report(&called)
}
