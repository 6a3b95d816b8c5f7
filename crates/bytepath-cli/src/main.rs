//! The `bytepath` command: parses, calls, prints, and ends with 0 (done), 1 (the work failed) or 2
//! (wrong usage).

// The entry is in `sys::start`.
#![cfg_attr(all(not(test), target_env = "gnu"), no_main)]

mod bench;
mod call;
mod carry;
mod cat;
mod classic;
mod clock;
mod compare;
mod completions;
mod confine;
mod cp;
mod descriptor;
mod device;
mod doctor;
mod drive;
mod ends;
mod explain;
mod fleet;
mod generate;
mod hand;
mod history;
mod import;
mod joined;
mod kept;
mod live;
mod load;
mod metrics;
mod null;
mod output;
mod pages;
mod paging;
mod pass;
mod planning;
mod pv;
mod read;
mod records;
mod report;
mod requests;
mod run;
mod serve;
mod stream;
mod sweep;
mod sys;
mod tee;
mod touch;
mod tour;
mod trip;
mod tune;
mod values;
mod write;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use clap::error::ErrorKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

use classic::{Called, Classic};

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

/// Commands that have a classic. They read their arguments as it does, and through a link of its
/// name they are it.
const CLASSICS: &[Classic] = &[
    cat::CLASSIC,
    cp::CLASSIC,
    Classic { name: "pv", run: |_, words| pv::main(words) },
    tee::CLASSIC,
];

#[derive(Subcommand)]
enum Command {
    Cat(cat::Options),
    Cp(cp::Options),
    Null(null::Options),
    Gen(Box<generate::Options>),
    Tee(tee::Options),
    Run(Box<run::Options>),
    Touch(touch::Options),
    Tour(tour::Options),
    Tune(tune::Options),
    Doctor(doctor::Options),
    Bench(Box<bench::Options>),
    Explain(Box<explain::Options>),
    Report(report::Options),
    Import(import::Options),
    Fleet(fleet::Options),
    Compare(compare::Options),
    History(history::Options),
    Pages(pages::Options),
    Write(write::Options),
    Read(read::Options),
    Load(load::Options),
    Call(call::Options),
    Carry(carry::Options),
    Confine(confine::Options),
    Fetch(requests::Fetch),
    Upstream(requests::Upstream),
    Keepalive(requests::Keepalive),
    Hand(hand::Options),
    Clock(clock::Options),
    Pass(pass::Options),
    Piece(cp::PieceOptions),
    Trip(trip::Options),
    Stream(stream::Options),
    Sweep(sweep::Options),
    Paging(paging::Options),
    Descriptor(descriptor::Options),
    Drive(Box<drive::Options>),
    Serve(serve::Options),
    Completions(completions::Completions),
    Man(completions::Man),
    Pv(Box<pv::Options>),
}

fn main() -> ExitCode {
    let code = answered();
    metrics::ended_with(code);
    code
}

fn answered() -> ExitCode {
    match classic::called(CLASSICS, std::env::args_os().collect()) {
        Ok((classic, called, words)) => (classic.run)(&called, words),
        Err(words) => ours(words),
    }
}

/// Commands that have no classic.
fn ours(words: Vec<OsString>) -> ExitCode {
    survive_file_size_limits();
    let words = Cli::command().get_matches_from(values::kebab_case(words.into_iter()));
    let cli = Cli::from_arg_matches(&words).unwrap_or_else(|error| error.exit());
    name_ends(&words);
    let done = match cli.command {
        Command::Cat(options) => return cat::run(&Called::as_command("cat"), &options),
        Command::Null(options) => null::run(&options),
        Command::Gen(options) => generate::run(&options),
        Command::Run(options) => match run::run(&options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Explain(mut options) => match explain::run(&mut options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Tour(options) => tour::run(&options),
        Command::Tune(options) => tune::run(&options),
        Command::Doctor(options) => match doctor::run(&options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Bench(options) => bench::run(&options),
        Command::Report(options) => report::run(&options),
        Command::Import(options) => import::run(&options),
        Command::Fleet(options) => fleet::run(&options),
        Command::Compare(options) => match compare::run(&options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::History(options) => history::run(&options),
        Command::Pages(options) => match pages::run(&options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Write(options) => write::run(&options),
        Command::Read(options) => read::run(&options),
        Command::Load(options) => load::run(&options),
        Command::Call(options) => call::run(&options),
        Command::Carry(options) => carry::run(&options),
        Command::Hand(options) => hand::run(&options),
        Command::Touch(options) => touch::run(&options),
        Command::Fetch(options) => requests::fetch(&options),
        Command::Upstream(options) => requests::upstream(&options),
        Command::Keepalive(options) => requests::keepalive(&options),
        Command::Confine(options) => match confine::run(&options) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Clock(options) => clock::run(&options),
        Command::Pass(options) => pass::run(&options),
        Command::Piece(options) => cp::piece(&options),
        Command::Trip(options) => trip::run(&options),
        Command::Stream(options) => stream::run(&options),
        Command::Sweep(options) => sweep::run(&options),
        Command::Paging(options) => paging::run(&options),
        Command::Descriptor(options) => descriptor::run(&options),
        Command::Drive(options) => drive::run(&options),
        Command::Serve(options) => serve::run(&options),
        Command::Completions(options) => completions::completions(&options, &Cli::command()),
        Command::Man(options) => completions::man(&options, &Cli::command()),
        Command::Cp(_) | Command::Pv(_) | Command::Tee(_) => {
            unreachable!("classics are answered before")
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(error, &words),
    }
}

/// The ends of measurements are processes of this one program: their threads are named by what they
/// do, so that lists of processes, and profiles, tell them apart.
fn name_ends(words: &ArgMatches) {
    const ENDS: [&str; 9] =
        ["call", "carry", "drive", "hand", "pass", "read", "stream", "trip", "write"];
    let Some(end) = words.subcommand_name().filter(|name| ENDS.contains(name)) else { return };
    // A name is a convenience.
    if let Ok(name) = std::ffi::CString::new(format!("bytepath {end}")) {
        let _ = rustix::thread::set_name(&name);
    }
}

/// A write past RLIMIT_FSIZE sends SIGXFSZ, which ends a program without a word. Once it is caught,
/// the write fails with EFBIG, which is reported. It is caught rather than ignored because programs
/// that are started from here inherit what is ignored, and theirs is not ours to change.
fn survive_file_size_limits() {
    // Where handlers are refused, the signal ends the program as it always does.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

fn failed(error: anyhow::Error, words: &ArgMatches) -> ExitCode {
    match error.downcast::<WrongUsage>() {
        Ok(WrongUsage(message)) => usage_error(words, message).exit(),
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

/// Wrong usage that shows only when the arguments are looked at together: what is wrong.
#[derive(Debug)]
struct WrongUsage(String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

fn wrong_usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::msg(WrongUsage(message.into()))
}

/// The error with the usage of the command that was called, as the parser itself would have said it.
fn usage_error(mut words: &ArgMatches, message: String) -> clap::Error {
    let mut called = Cli::command();
    // Gives commands of commands the names by which they are called.
    called.build();
    let mut called = &mut called;
    while let Some((name, rest)) = words.subcommand() {
        let below = called.find_subcommand_mut(name);
        called = below.expect("the words were parsed by the same definition");
        words = rest;
    }
    called.error(ErrorKind::ValueValidation, message)
}

/// Whether somebody who read what this program prints had enough of it, as `head` has: no reason
/// to complain.
fn reader_left(error: &anyhow::Error) -> bool {
    let broken = |cause: &std::io::Error| cause.kind() == std::io::ErrorKind::BrokenPipe;
    error.chain().any(|cause| cause.downcast_ref().is_some_and(broken))
}
