//! Wrong usage, said as pv says it: a line, and where a name was wrong a second that points to the
//! help.

use std::fmt;
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, CommandFactory};

use super::options::Options;
use super::say;
use super::status::Status;
use crate::errno::word_of;

/// Why the words after the program's name cannot be followed.
pub(crate) enum Wrong {
    /// Help or version was asked for.
    Asked(clap::Error),
    /// The line to say, without the program's name.
    Said {
        line: String,
        /// Whether the help would help.
        help: bool,
    },
}

impl Wrong {
    /// A value, or options together, that cannot be.
    pub(crate) fn plain(line: impl Into<String>) -> Wrong {
        Wrong::Said { line: line.into(), help: false }
    }

    /// Tells it, and gives the exit code.
    pub(crate) fn exit(self) -> ExitCode {
        match self {
            Wrong::Asked(text) => match text.print() {
                Ok(()) => ExitCode::SUCCESS,
                // Who read it had enough, as `head` has.
                Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
                Err(error) => {
                    say(format_args!("{}", word_of(&error)));
                    Status::TRANSFER.into()
                }
            },
            Wrong::Said { line, help } => {
                say(format_args!("{line}"));
                if help {
                    crate::say(format_args!("Try `pv --help' for more information."));
                }
                Status::MEMORY.into()
            }
        }
    }
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Wrong::Asked(_) => f.write_str("asked for help"),
            Wrong::Said { line, .. } => f.write_str(line),
        }
    }
}

/// A value that is not what its option takes.
pub(crate) fn expected(letter: char, value: &str, what: &str) -> Wrong {
    Wrong::plain(format!("-{letter}: {value:?} is no {what}; write for example 500, 10K or 1.5G"))
}

impl From<clap::Error> for Wrong {
    fn from(error: clap::Error) -> Wrong {
        let context = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            _ => None,
        };
        let said = |line: String| Wrong::Said { line, help: true };
        match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Wrong::Asked(error),
            ErrorKind::UnknownArgument => {
                let name = context(ContextKind::InvalidArg).unwrap_or_default();
                match name.strip_prefix("--").map(possible) {
                    Some(names) if names.len() > 1 => said(format!(
                        "option '{name}' is ambiguous; possibilities: {}",
                        names.join(" ")
                    )),
                    Some(_) => said(format!("unrecognized option '{name}'")),
                    None => said(format!("invalid option -- '{}'", name.trim_start_matches('-'))),
                }
            }
            ErrorKind::InvalidValue
                if context(ContextKind::InvalidValue).is_none_or(|value| value.is_empty()) =>
            {
                let name = context(ContextKind::InvalidArg).unwrap_or_default();
                let name = name.split(' ').next().unwrap_or_default();
                said(format!("option '{name}' requires an argument"))
            }
            // A parser's own words, or clap's for what is rare; without the name of clap's line.
            _ => {
                let text = error.to_string();
                let line = text.lines().next().unwrap_or_default();
                let mut line = line.trim_start_matches("error: ").to_owned();
                let mut others = text.lines().map(str::trim);
                if let Some(values) = others.find(|line| line.starts_with("[possible values")) {
                    line += &format!(" {values}");
                }
                Wrong::plain(line)
            }
        }
    }
}

/// The options that begin so, as getopt_long(3) names them.
fn possible(begins: &str) -> Vec<String> {
    let command = Options::command();
    let names = command.get_arguments().filter_map(Arg::get_long);
    names.filter(|name| name.starts_with(begins)).map(|name| format!("'--{name}'")).collect()
}
