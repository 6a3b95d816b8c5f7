//! bytepath's channel beside iceoryx2 and Python's multiprocessing: how long messages take there and
//! back, and how many go one way; the same messages, CPUs, waits and checks for all of them. See
//! README.md.

mod arms;
mod content;
mod end;
mod measure;
mod media;
mod work;

use clap::{Parser, Subcommand};

use measure::{Measure, run};

#[derive(Parser)]
#[command(about = "bytepath's channel beside iceoryx2 and Python's multiprocessing")]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// How long does a message take to another process and back?
    Latency(Measure),
    /// How many bytes a second go to another process?
    Throughput(Measure),
    /// One of the two processes of a sample
    #[command(hide = true)]
    End(end::Options),
}

fn main() -> anyhow::Result<()> {
    iceoryx2::prelude::set_log_level(iceoryx2::prelude::LogLevel::Error);
    match Command::parse().what {
        What::Latency(measure) => run(&measure, arms::LATENCY),
        What::Throughput(measure) => run(&measure, arms::THROUGHPUT),
        What::End(options) => end::run(&options),
    }
}
