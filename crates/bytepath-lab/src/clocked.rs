//! A command that `bytepath clock` runs from its start to its end, and ends, with all that it started, when
//! this process is gone.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use crate::clock::Clocked;
use crate::descendants::in_group_of_its_own;
use crate::ends::Starter;
use crate::interrupt::wished_within;
use crate::pipe_work::SIGNAL_PATIENCE;
use crate::to_the_end::{Ending, file_in, said, to_the_end};

/// What is to be run.
pub(crate) struct Asked<'a, Word> {
    /// The `bytepath` executable.
    pub(crate) program: &'a Path,
    /// The command.
    pub(crate) words: &'a [Word],
    /// Its standard input; nothing unless given.
    pub(crate) input: Option<&'a Path>,
    /// Where its standard output goes; it is dropped where this is none.
    pub(crate) output: Option<&'a File>,
    /// It may take so long.
    pub(crate) patience: Duration,
}

impl<Word: AsRef<OsStr>> Asked<'_, Word> {
    /// Runs it; what it complains of is in `errors`.
    pub(crate) fn clocked(&self, errors: &mut File) -> Result<Clocked, String> {
        let clocked = self.clocked_by(errors, |clock| to_the_end(clock, self.patience))?;
        match clocked.signal {
            // What is sent to all processes may come to this one last.
            Some(signal) if is_wish(signal) && wished_within(SIGNAL_PATIENCE) => {
                Err("interrupted".into())
            }
            _ => Ok(clocked),
        }
    }

    /// The same, with the clock run to its end by `run`.
    pub(crate) fn clocked_by(
        &self,
        errors: &mut File,
        run: impl FnOnce(&mut Command) -> Result<ExitStatus, String>,
    ) -> Result<Clocked, String> {
        let folder = std::env::temp_dir();
        let mut report = file_in(&folder)?;
        let mut clock = Command::new(self.program);
        clock.arg("clock").args(Starter::this().words());
        if let Some(input) = self.input {
            clock.arg("--input").arg(input);
        }
        // What the command writes goes to the clock's standard input: its output is the report's.
        match self.output {
            Some(file) => clock.arg("--output-to-stdin").stdin(file.try_clone().map_err(told)?),
            None => clock.stdin(Stdio::null()),
        };
        clock.arg("--").args(self.words);
        clock.stdout(report.try_clone().map_err(told)?).stderr(errors.try_clone().map_err(told)?);
        // What ends all processes of this one's group leaves the clock, to end the command.
        in_group_of_its_own(&mut clock);
        let status = run(&mut clock)?;
        let mut text = String::new();
        report.rewind().and_then(|()| report.read_to_string(&mut text)).map_err(told)?;
        serde_json::from_str(&text).map_err(|_| {
            // What the clock could not write, it could not say either.
            match report.write_all(&[0; 4096]) {
                Err(error) => full(&folder, &error),
                Ok(()) => format!("its clock failed ({status}){}", said(errors)),
            }
        })
    }
}

/// Whether the run is to end where this process gets the signal.
fn is_wish(signal: i32) -> bool {
    let wishes = [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM];
    wishes.iter().any(|wish| wish.as_raw() == signal)
}

impl Clocked {
    /// How the command ended, where it could be started.
    pub(crate) fn ending(&self) -> Ending {
        self.signal.map_or_else(|| Ending::Code(self.code.unwrap_or_default()), Ending::Signal)
    }

    /// The same, as wait(2) tells it.
    pub(crate) fn status(&self) -> ExitStatus {
        ExitStatus::from_raw(self.signal.or(self.code.map(|code| code << 8)).unwrap_or(0))
    }

    /// Why the command could not be started, if so.
    pub(crate) fn not_started(&self, word: &str) -> Option<String> {
        let error = std::io::Error::from_raw_os_error(self.errno?);
        Some(match error.kind() {
            std::io::ErrorKind::NotFound => {
                format!("{word} was not found; is it installed, and in PATH?")
            }
            std::io::ErrorKind::PermissionDenied => format!("{word} is not executable"),
            _ => format!("{word} cannot be started: {error}"),
        })
    }
}

fn full(folder: &Path, error: &std::io::Error) -> String {
    format!("cannot write into {}: {error}; set TMPDIR", folder.display())
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}
