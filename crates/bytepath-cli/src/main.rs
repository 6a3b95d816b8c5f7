//! The `bytepath` command: parses, calls, prints, and ends with 0 (done), 1 (the work failed) or 2
//! (wrong usage).

mod bench;
mod carry;
mod ends;
mod output;
mod planning;
mod pv;
mod read;
mod tour;
mod values;
mod write;

use std::ffi::{OsStr, OsString};
use std::path::Path;
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
    Pv(pv::Options),
}

/// A command that behaves as a program that people know, in its own words and exit codes.
struct Classic {
    /// The program's name, ours as well.
    name: &'static str,
    /// Takes the words after the name.
    run: fn(Vec<OsString>) -> ExitCode,
}

/// Every command with a classic. A link by one of these names is that command.
const CLASSICS: &[Classic] = &[Classic { name: "pv", run: pv::main }];

/// The classic that is meant, by the name of the link or by the first word, and its words.
fn classic() -> Option<(&'static Classic, Vec<OsString>)> {
    let mut words = std::env::args_os();
    let named = |name: &OsStr| CLASSICS.iter().find(|classic| name == classic.name);
    let program = words.next()?;
    if let Some(classic) = Path::new(&program).file_name().and_then(named) {
        return Some((classic, words.collect()));
    }
    let classic = words.next().as_deref().and_then(named)?;
    Some((classic, words.collect()))
}

fn main() -> ExitCode {
    if let Some((classic, words)) = classic() {
        return (classic.run)(words);
    }
    let cli = Cli::parse_from(values::kebab_case(std::env::args_os()));
    let done = match cli.command {
        Command::Tour(options) => tour::run(&options),
        Command::Bench(options) => bench::run(&options),
        Command::Write(options) => write::run(&options),
        Command::Read(options) => read::run(&options),
        Command::Carry(options) => carry::run(&options),
        Command::Pv(_) => unreachable!("classics are answered before"),
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
