//! What is done about an output that cannot be written: the classic's modes.

use std::ffi::OsStr;

use rustix::io::Errno;

use crate::classic::Written;
use crate::classic::choice::{Choice, chosen};

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// None was asked for: a broken pipe ends the program by its signal, the rest is told of.
    Signal,
    /// Everything is told of.
    Warn,
    /// Everything but broken pipes is told of.
    WarnNoPipe,
    /// Everything is told of and ends the program.
    Exit,
    /// Everything but broken pipes is told of and ends the program.
    ExitNoPipe,
}

const MODES: &[Choice<Mode>] = &[
    ("warn", Mode::Warn),
    ("warn-nopipe", Mode::WarnNoPipe),
    ("exit", Mode::Exit),
    ("exit-nopipe", Mode::ExitNoPipe),
];

impl Mode {
    /// The mode that the options come to; the last that names one counts.
    ///
    /// # Errors
    /// What is wrong with a value.
    pub(super) fn of(written: &[Written]) -> Result<Mode, String> {
        let mut mode = Mode::Signal;
        for option in written {
            mode = match (option.name.as_str(), &option.value) {
                ("-p", _) | ("--output-error", None) => Mode::WarnNoPipe,
                ("--output-error", Some(word)) => named(word)?,
                _ => mode,
            };
        }
        Ok(mode)
    }

    /// Whether this error is one to tell of, and to fail for.
    pub(super) fn tells(self, errno: Errno) -> bool {
        errno != Errno::PIPE || matches!(self, Mode::Warn | Mode::Exit)
    }

    /// Whether an error that is told of ends the program.
    pub(super) fn exits(self) -> bool {
        matches!(self, Mode::Exit | Mode::ExitNoPipe)
    }

    /// Whether readers that leave are no matter, so that nothing is left to do once all have left.
    pub(super) fn lets_readers_go(self) -> bool {
        matches!(self, Mode::WarnNoPipe | Mode::ExitNoPipe)
    }
}

fn named(word: &OsStr) -> Result<Mode, String> {
    chosen("--output-error", word, MODES)
}
