//! The `bytepath` command: parses, calls, prints, and ends with 0 (done), 1 (the work failed) or 2
//! (wrong usage).

mod bench;
mod carry;
mod ends;
mod output;
#[expect(dead_code, reason = "the movers that use it come one by one")]
mod planning;
#[expect(dead_code, reason = "the command that draws with it comes with the transfer")]
mod pv;
mod read;
mod tour;
mod values;
mod write;

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// Moves bytes by the fastest route this machine offers, and proves it.
#[derive(Parser)]
#[command(
    name = "bytepath",
    version,
    about = "Moves bytes by the fastest route this machine offers, and proves it",
    max_term_width = 100,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Tour(tour::Options),
    Bench(bench::Options),
    Write(write::Options),
    Read(read::Options),
    Carry(carry::Options),
}

fn main() -> ExitCode {
    let cli = Cli::parse_from(values::kebab_case(std::env::args_os()));
    let done = match cli.command {
        Command::Tour(options) => tour::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Write(options) => write::run(&options),
        Command::Read(options) => read::run(&options),
        Command::Carry(options) => carry::run(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error),
    }
}

fn failed(error: anyhow::Error) -> ExitCode {
    match error.downcast::<clap::Error>() {
        Ok(usage) => usage.exit(),
        Err(error) if reader_left(&error) => ExitCode::SUCCESS,
        Err(error) => {
            say(format_args!("bytepath: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Says a line on standard error in one write, so that two ends that fail together do not mix theirs.
/// Where nobody can hear it, the work and the exit code are what they are all the same.
fn say(line: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Wrong usage that shows only when the arguments are looked at together.
fn wrong_usage(message: impl std::fmt::Display) -> anyhow::Error {
    Cli::command().error(ErrorKind::ValueValidation, message).into()
}

/// Whether somebody who read what this program prints had enough of it, as `head` has: no reason
/// to complain.
fn reader_left(error: &anyhow::Error) -> bool {
    let broken = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(broken))
}
