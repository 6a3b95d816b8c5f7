//! The commands: the name of each, what it takes, and what it does.

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

use clap::{ArgMatches, Args, FromArgMatches};

use crate::classic::{Called, Classic};
use crate::{
    bench, call, carry, cat, clock, compare, completions, confine, cp, descriptor, doctor, drive,
    explain, fleet, generate, hand, history, import, load, null, pages, paging, pass, pv, read,
    report, requests, run, serve, stream, sweep, tee, touch, tour, trip, tune, write,
};

/// Commands that have a classic. They read their arguments as it does, and through a link of its
/// name they are it.
pub(crate) const CLASSICS: &[Classic] = &[
    cat::CLASSIC,
    cp::CLASSIC,
    Classic { name: "pv", run: |_, words| pv::main(words) },
    tee::CLASSIC,
];

/// A command.
struct Command {
    name: &'static str,
    takes: fn(clap::Command) -> clap::Command,
    run: fn(&ArgMatches) -> anyhow::Result<ExitCode>,
}

/// A command by its name, the options it takes, and the function that does what they ask for.
macro_rules! command {
    ($name:literal, $options:ty, $run:expr) => {
        Command {
            name: $name,
            takes: <$options as Args>::augment_args,
            run: |words| {
                let options = <$options>::from_arg_matches(words);
                let mut options = options.unwrap_or_else(|error| error.exit());
                Ok($run(&mut options)?.into_code())
            },
        }
    };
}

/// A command that is here for the help alone: it is one of the [`CLASSICS`].
macro_rules! answered_before {
    ($name:literal, $options:ty) => {
        Command {
            name: $name,
            takes: <$options as Args>::augment_args,
            run: |_| unreachable!("classics are answered before"),
        }
    };
}

/// All commands, in the order of the help: those that move, those that measure, those that show what was measured.
const COMMANDS: &[Command] = &[
    command!("cat", cat::Options, |options| {
        anyhow::Ok(cat::run(&Called::as_command("cat"), options))
    }),
    answered_before!("cp", cp::Options),
    answered_before!("pv", pv::Options),
    answered_before!("tee", tee::Options),
    command!("run", run::Options, run::run),
    command!("gen", generate::Options, generate::run),
    command!("null", null::Options, null::run),
    command!("write", write::Options, write::run),
    command!("read", read::Options, read::run),
    command!("tour", tour::Options, tour::run),
    command!("tune", tune::Options, tune::run),
    command!("doctor", doctor::Options, doctor::run),
    command!("bench", bench::Options, bench::run),
    command!("explain", explain::Options, explain::run),
    command!("pages", pages::Options, pages::run),
    command!("report", report::Options, report::run),
    command!("compare", compare::Options, compare::run),
    command!("history", history::Options, history::run),
    command!("import", import::Options, import::run),
    command!("fleet", fleet::Options, fleet::run),
    command!("completions", completions::Completions, |options| {
        completions::completions(options, &parser())
    }),
    command!("man", completions::Man, |options| completions::man(options, &parser())),
    // What bytepath starts itself.
    command!("touch", touch::Options, touch::run),
    command!("load", load::Options, load::run),
    command!("call", call::Options, call::run),
    command!("carry", carry::Options, carry::run),
    command!("confine", confine::Options, confine::run),
    command!("fetch", requests::Fetch, requests::fetch),
    command!("upstream", requests::Upstream, requests::upstream),
    command!("keepalive", requests::Keepalive, requests::keepalive),
    command!("hand", hand::Options, hand::run),
    command!("clock", clock::Options, clock::run),
    command!("pass", pass::Options, pass::run),
    command!("piece", cp::PieceOptions, cp::piece),
    command!("trip", trip::Options, trip::run),
    command!("stream", stream::Options, stream::run),
    command!("sweep", sweep::Options, sweep::run),
    command!("paging", paging::Options, paging::run),
    command!("descriptor", descriptor::Options, descriptor::run),
    command!("drive", drive::Options, drive::run),
    command!("serve", serve::Options, serve::run),
];

/// What a command that did not fail ends with.
trait IntoCode {
    fn into_code(self) -> ExitCode;
}

impl IntoCode for () {
    fn into_code(self) -> ExitCode {
        ExitCode::SUCCESS
    }
}

impl IntoCode for ExitCode {
    fn into_code(self) -> ExitCode {
        self
    }
}

impl Command {
    fn defined(&self) -> clap::Command {
        (self.takes)(clap::Command::new(self.name))
    }
}

fn without_commands() -> clap::Command {
    clap::Command::new("bytepath")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Moves bytes by the fastest route this machine offers, and proves it")
        .after_help(crate::values::NOTATION)
        .max_term_width(100)
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
}

/// The definition of all commands.
pub(crate) fn parser() -> clap::Command {
    without_commands().subcommands(COMMANDS.iter().map(Command::defined))
}

/// The definition that these words need: to define all commands takes longer than many of them run.
pub(crate) fn parser_of(words: &[OsString]) -> clap::Command {
    match words.get(1).and_then(|word| named(word)) {
        Some(command) => without_commands().subcommand(command.defined()),
        None => parser(),
    }
}

fn named(name: &OsStr) -> Option<&'static Command> {
    COMMANDS.iter().find(|command| name == command.name)
}

/// Does what these words ask for, which are those of a command of [`parser`].
pub(crate) fn run(words: &ArgMatches) -> anyhow::Result<ExitCode> {
    let (name, words) = words.subcommand().expect("the parser asks for a command");
    let command = named(OsStr::new(name)).expect("the parser takes these alone");
    (command.run)(words)
}
