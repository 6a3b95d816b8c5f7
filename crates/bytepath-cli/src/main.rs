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
mod close;
mod closed;
mod commands;
mod compare;
mod completions;
mod confine;
mod cp;
mod descriptor;
mod device;
mod doctor;
mod drive;
mod ending;
mod ends;
mod errno;
mod explain;
mod fleet;
mod generate;
mod hand;
mod hidden;
mod history;
mod import;
mod interrupt;
mod joined;
mod kept;
mod left;
mod live;
mod load;
mod measured;
mod metrics;
mod null;
mod output;
mod page;
mod pages;
mod paging;
mod pass;
mod patterns;
mod planning;
mod pv;
mod quote;
mod read;
mod records;
mod report;
mod requests;
mod run;
mod said;
mod serve;
mod shown;
mod stat;
mod stream;
mod streams;
mod style;
mod sweep;
mod sys;
mod tee;
mod touch;
mod tour;
mod trip;
mod tune;
mod usage;
mod values;
mod write;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

use bytepath::machine::Machine;
use clap::ArgMatches;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use said::{printed, said_of, say};
use usage::WrongUsage;

fn main() -> ExitCode {
    // `bytepath run` places its stages while they work, by what they may use in the beginning.
    Machine::this().keep_allowed_cpus();
    let code = sys::start::with_room(answered);
    metrics::ended_with(code);
    code
}

fn answered() -> ExitCode {
    answer(std::env::args_os().collect())
}

fn answer(words: Vec<OsString>) -> ExitCode {
    match classic::called(commands::CLASSICS, words) {
        Ok((classic, called, words)) => (classic.run)(&called, words),
        Err(words) if words.get(1).is_some_and(|word| word == "help") => answer(asked_of(words)),
        Err(words) => ours(words),
    }
}

/// `bytepath help cp` is `bytepath cp --help`.
fn asked_of(mut words: Vec<OsString>) -> Vec<OsString> {
    words.remove(1);
    words.push("--help".into());
    words
}

/// Commands that have no classic.
fn ours(words: Vec<OsString>) -> ExitCode {
    survive_file_size_limits();
    let words = values::kebab_case(words.into_iter());
    let words = match commands::parser_of(&words).try_get_matches_from(words.clone()) {
        Ok(words) => words,
        Err(error) if error.kind() == ErrorKind::InvalidUtf8 => {
            let odd = words.iter().filter(|word| word.to_str().is_none()).map(quote::shown);
            let odd = format!("not UTF-8: {}\n", odd.collect::<Vec<_>>().join(" "));
            return told(&clap::Error::raw(ErrorKind::InvalidUtf8, odd));
        }
        Err(error) => return told(&with_a_space(without_hidden(error), &words)),
    };
    name_ends(&words);
    match commands::run(&words).and_then(|code| output::ended_well().map(|()| code)) {
        Ok(code) => code,
        Err(error) => failed(error, &words),
    }
}

/// The error without tips that name commands which nobody is to call by hand.
fn without_hidden(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::Strings(names)) = error.remove(ContextKind::SuggestedSubcommand) else {
        return error;
    };
    let parser = commands::parser();
    let is_hidden = |name: &str| parser.find_subcommand(name).is_some_and(|it| it.is_hide_set());
    let names: Vec<String> = names.into_iter().filter(|name| !is_hidden(name)).collect();
    match names.is_empty() {
        // Other tips, of which there are none here, would leave a blank line.
        true => error.remove(ContextKind::Suggested),
        false => error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(names)),
    };
    error
}

/// The error with a tip that works: behind "--", `run` takes no text but words.
fn with_a_space(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    let is_run = words.get(1).is_some_and(|word| word == "run");
    if is_run && error.remove(ContextKind::Suggested).is_some() {
        let tip = "to run a text that begins with '-', put a space in front of it".into();
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
    }
    error
}

/// Tells what was asked for in the place of work (help, the version), or what is wrong with the words.
fn told(error: &clap::Error) -> ExitCode {
    // The parser prints by what takes any output for one that can be written.
    let writable = if error.use_stderr() { Ok(()) } else { streams::stdout_is_writable() };
    let printed = error.print().and_then(|()| Ok(writable?)).and_then(|()| output::kept());
    match printed {
        Err(failed) if !error.use_stderr() && failed.kind() != std::io::ErrorKind::BrokenPipe => {
            say(format_args!("bytepath: standard output: {}", errno::word_of(&failed)));
            return ExitCode::FAILURE;
        }
        _ => {}
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(1))
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
/// that are started from here inherit what is ignored, and theirs is not ours to change. One that is
/// ignored already stays so.
fn survive_file_size_limits() {
    if sys::actions::is_ignored(signal_hook::consts::SIGXFSZ) {
        return;
    }
    // Where handlers are refused, the signal ends the program as it always does.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

fn failed(error: anyhow::Error, words: &ArgMatches) -> ExitCode {
    match error.downcast::<WrongUsage>() {
        Ok(WrongUsage(message)) => told(&usage_error(words, message)),
        Err(error) => match printed(Err(error)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => said_of(&error),
        },
    }
}

/// The error with the usage of the command that was called, as the parser itself would have said it.
fn usage_error(mut words: &ArgMatches, message: String) -> clap::Error {
    let mut called = commands::parser();
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
