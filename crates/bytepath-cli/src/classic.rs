//! What commands that stand in for a classic share: being called by its name, its way with
//! arguments, and its way of saying what is wrong.

pub(crate) mod choice;
mod getopt;

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use rustix::io::Errno;

use crate::errno::word;
use crate::live::before_message;
use crate::quote::quoted;
use crate::streams::{stderr, stdout};
use crate::sys::start;
pub(crate) use getopt::Order;
use getopt::{Asked, Misuse};

/// A command that has a classic, whose options, messages, exit codes and behaviour it has too.
pub(crate) struct Classic {
    /// The classic's name, and the command's.
    pub(crate) name: &'static str,
    /// Does the work that these words ask for.
    pub(crate) run: fn(&Called, Vec<OsString>) -> ExitCode,
}

/// The classic that the words call, by a link of its name or as the command of that name, and the
/// words that are left to it.
pub(crate) fn called(
    classics: &[Classic],
    mut words: Vec<OsString>,
) -> Result<(&Classic, Called, Vec<OsString>), Vec<OsString>> {
    let of_name = |name: Option<&OsStr>| {
        classics.iter().find(|classic| name == Some(OsStr::new(classic.name)))
    };
    let link = words.first().map(OsString::as_os_str).unwrap_or_default();
    if let Some(classic) = of_name(Path::new(link).file_name()) {
        let name = link.to_owned();
        let called = Called { phrase: name.clone(), name };
        return Ok((classic, called, words.split_off(1)));
    }
    match of_name(words.get(1).map(OsString::as_os_str)) {
        Some(classic) => Ok((classic, Called::as_command(classic.name), words.split_off(2))),
        None => Err(words),
    }
}

/// A definition of options, and the files that are named beside them. Those are no part of what is read
/// by the definition: reading a word so takes as long as a system call.
pub(crate) trait TakesFiles: Args {
    fn files(&mut self) -> &mut Vec<OsString>;
}

/// An option as it was written, its name in full: `-a`, `--backup`.
pub(crate) struct Written {
    /// With its dashes.
    pub(crate) name: String,
    /// After the equals sign, or as the next word.
    pub(crate) value: Option<OsString>,
}

/// What is wrong with an option, if anything is.
pub(crate) type Check<'c> = &'c dyn Fn(&Written) -> Result<(), String>;

impl Written {
    fn of(word: &OsStr) -> Written {
        let mut parts = word.as_bytes().splitn(2, |byte| *byte == b'=');
        let name = String::from_utf8_lossy(parts.next().unwrap_or_default()).into_owned();
        let value = parts.next().map(|value| OsStr::from_bytes(value).to_owned());
        Written { name, value }
    }
}

/// How a classic was called: what it calls itself.
pub(crate) struct Called {
    /// In front of its messages. As with the classics, it is the link as it was written.
    pub(crate) name: OsString,
    /// What to type to call it again.
    phrase: OsString,
}

impl Called {
    /// As a command of bytepath. Its messages are the classic's all the same.
    pub(crate) fn as_command(name: &str) -> Called {
        Called { name: name.into(), phrase: format!("bytepath {name}").into() }
    }

    /// The options of this definition, or how to end at once: after the help, the version, or a
    /// word on what is wrong, with `wrong_usage` as exit code.
    ///
    /// # Errors
    /// The exit code.
    pub(crate) fn options<O: TakesFiles>(
        &self,
        words: Vec<OsString>,
        wrong_usage: u8,
    ) -> Result<O, ExitCode> {
        self.ordered_options(words, wrong_usage).map(|(options, _)| options)
    }

    /// As [`Called::options`], and the options in the order in which they were written, for
    /// classics whose options override parts of each other.
    ///
    /// # Errors
    /// The exit code.
    pub(crate) fn ordered_options<O: TakesFiles>(
        &self,
        words: Vec<OsString>,
        wrong_usage: u8,
    ) -> Result<(O, Vec<Written>), ExitCode> {
        self.checked_options(words, wrong_usage, &|_| Ok(()))
    }

    /// As [`Called::ordered_options`], for classics that look at an option's value, and say what is wrong
    /// with it, before they read the next word.
    ///
    /// # Errors
    /// The exit code.
    pub(crate) fn checked_options<O: TakesFiles>(
        &self,
        words: Vec<OsString>,
        wrong_usage: u8,
        check: Check<'_>,
    ) -> Result<(O, Vec<Written>), ExitCode> {
        let name = self.phrase.to_string_lossy().into_owned();
        let command = clap::Command::new("bytepath").bin_name(name).max_term_width(100);
        let mut command = O::augment_args(command);
        let asked = getopt::read(&command, words.into_iter(), Order::of_environment(), check);
        let (words, operands) = match asked {
            Ok(Asked::Work(options, operands)) => (options, operands),
            Ok(Asked::Help) => return Err(self.print(&command.render_long_help().to_string())),
            Ok(Asked::Version) => return Err(self.print(&self.version())),
            Err(Misuse(what)) => return Err(self.misused(&what, wrong_usage)),
        };
        let written = words.iter().map(|word| Written::of(word)).collect();
        // As with the classics, a flag may be repeated, and the last of several values counts.
        let command = command.no_binary_name(true).args_override_self(true);
        let taken =
            command.try_get_matches_from(words).and_then(|found| O::from_arg_matches(&found));
        taken
            .map(|mut options| {
                *options.files() = operands;
                (options, written)
            })
            .map_err(|error| self.misused(first_part(&error).as_bytes(), wrong_usage))
    }

    fn version(&self) -> String {
        let name = Path::new(&self.name).file_name().unwrap_or_default().to_string_lossy();
        format!("{name} (bytepath) {}\n", env!("CARGO_PKG_VERSION"))
    }

    /// Prints what was asked for; it is the work, so failing to is a failure.
    fn print(&self, text: &str) -> ExitCode {
        match stdout().write_all(text.as_bytes()).and_then(|()| crate::output::kept()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                self.write_failed(errno)
            }
        }
    }

    /// Says what is wrong with the arguments, and where to look.
    pub(crate) fn misused(&self, what: &[u8], exit_code: u8) -> ExitCode {
        self.say_bytes(what);
        let phrase = self.phrase.as_bytes();
        say_raw(&[b"Try '", phrase, b" --help' for more information.\n"].concat());
        ExitCode::from(exit_code)
    }

    /// Says a line in the classic's form: its name, a colon, the message.
    pub(crate) fn say(&self, message: impl std::fmt::Display) {
        let _ = self.said(message);
    }

    /// The same, where what is said is the work.
    pub(crate) fn said(&self, message: impl std::fmt::Display) -> std::io::Result<()> {
        said_raw(&[self.name.as_bytes(), b": ", message.to_string().as_bytes(), b"\n"].concat())
    }

    /// Says what is wrong with a file.
    pub(crate) fn say_of(&self, file: &OsStr, message: impl std::fmt::Display) {
        let message = message.to_string();
        self.say_bytes(&[&quoted(file), b": ".as_slice(), message.as_bytes()].concat());
    }

    pub(crate) fn say_bytes(&self, message: &[u8]) {
        say_raw(&[self.name.as_bytes(), b": ", message, b"\n"].concat());
    }

    /// Ends after standard output could not be written: as the classics do, which the signal of a
    /// broken pipe ends without a word.
    pub(crate) fn write_failed(&self, errno: Errno) -> ExitCode {
        if errno == Errno::PIPE {
            end_by_broken_pipe();
        }
        self.say(format_args!("write error: {}", word(errno)));
        ExitCode::FAILURE
    }
}

/// Whether the signal of a broken pipe would have ended the process: it is not ignored, and this is not
/// the first of its container, which no default action reaches.
pub(crate) fn ends_by_broken_pipe() -> bool {
    !start::pipe_was_ignored() && !rustix::process::getpid().is_init()
}

/// Comes back only where the signal would not have ended the process.
pub(crate) fn end_by_broken_pipe() {
    if ends_by_broken_pipe() {
        crate::metrics::ended_by(signal_hook::consts::SIGPIPE);
        let _ = signal_hook::low_level::emulate_default_handler(signal_hook::consts::SIGPIPE);
    }
}

/// In one write, so that messages of several processes do not mix. Where nobody can hear it, the
/// work and the exit code are what they are all the same.
fn say_raw(line: &[u8]) {
    let _ = said_raw(line);
}

/// The same, where what is said is the work.
fn said_raw(line: &[u8]) -> std::io::Result<()> {
    stderr().write_all(&[before_message().as_bytes(), line].concat())
}

/// What is wrong, without the advice that follows it: the classic's own comes instead.
fn first_part(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\n").next().unwrap_or_default().trim_end().to_owned()
}
