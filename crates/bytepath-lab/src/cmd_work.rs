//! The work of arms that are commands: each run from its start to its end, by `bytepath clock`, a
//! process of its own.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use bytepath_report::{Costs, PEAK_AT_MOST};

use crate::arm::{Outcome, Timing, Work};
use crate::clock::Clocked;
use crate::clocked::Asked;
use crate::descendants::end_with_all;
use crate::interrupt;
use crate::pipe_work::spawn_on;
use crate::to_the_end::{Tolerated, costs_of_run, file_in, hashed, said, to_the_end};

/// A command that takes longer is not measured.
pub const PATIENCE: Duration = Duration::from_secs(3600);

/// What runs a command's text.
#[derive(Clone, Debug)]
pub enum By {
    /// A shell by its words, as its `-c`.
    Shell(Vec<String>),
    /// Nobody: it is split into words as a shell would, and started as it is.
    Itself,
}

/// What the first command gave, which the others have to give too.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    name: String,
    bytes: u64,
    hash: u64,
}

/// A command, again and again.
#[derive(Clone)]
pub struct CmdWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// What it is called in messages.
    pub name: String,
    /// The command.
    pub words: Vec<String>,
    /// The words of the shell for what is done before and after.
    pub shell: Vec<String>,
    /// Done before each run, outside of the clock.
    pub prepare: Option<String>,
    /// Done after each run, outside of the clock.
    pub conclude: Option<String>,
    /// Its standard input; nothing unless given.
    pub input: Option<PathBuf>,
    /// Which exit codes are no failure.
    pub tolerated: Tolerated,
    /// Where outputs are kept while they are compared; they are dropped where this is none.
    pub compared_in: Option<PathBuf>,
    /// What came out first, of all commands that are compared.
    pub given: Rc<RefCell<Option<Given>>>,
    /// Runs before the first block; the last of them shows whether the command works.
    pub warm_ups: u32,
    /// Whether a run was too short for figures that begin with a shell's start.
    pub is_short: Rc<Cell<bool>>,
}

/// A run shorter than this is mostly the start of its shell.
const SHORT: f64 = 0.005;

impl Work for CmdWork {
    fn cpus(&self) -> &[usize] {
        &[]
    }

    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        self.step("before", self.prepare.as_deref())?;
        let directory = self.compared_in.as_deref();
        let mut output = directory.map(file_in).transpose()?;
        let clocked = self.clocked(output.as_ref())?;
        if let Some(output) = &mut output {
            self.compare(output)?;
        }
        self.step("after", self.conclude.as_deref())?;
        if clocked.seconds < SHORT {
            self.is_short.set(true);
        }
        Ok(outcome(&clocked))
    }

    fn trial(&self, timing: &Timing) -> Result<(), String> {
        (0..self.warm_ups.max(1)).try_for_each(|_| self.sample(timing).map(drop))
    }
}

impl CmdWork {
    /// One run, which did not fail.
    fn clocked(&self, output: Option<&File>) -> Result<Clocked, String> {
        let mut errors = file_in(&std::env::temp_dir())?;
        let asked = Asked {
            program: &self.program,
            words: &self.words,
            input: self.input.as_deref(),
            output,
            patience: PATIENCE,
        };
        let clocked = asked.clocked(&mut errors)?;
        match self.failure(&clocked) {
            None => Ok(clocked),
            Some(why) => Err(format!("{why}{}", said(&mut errors))),
        }
    }

    /// Why the run counts as failed, if it does.
    fn failure(&self, clocked: &Clocked) -> Option<String> {
        let failure = || self.tolerated.failure(clocked.ending());
        clocked.not_started(&self.words[0]).or_else(failure)
    }

    fn compare(&self, output: &mut File) -> Result<(), String> {
        let (bytes, hash) = hashed(output).map_err(told)?;
        let mut given = self.given.borrow_mut();
        let first = given.get_or_insert_with(|| Given { name: self.name.clone(), bytes, hash });
        if (first.bytes, first.hash) == (bytes, hash) {
            return Ok(());
        }
        let whose = match first.name == self.name {
            true => "its first output".to_owned(),
            false => format!("that of {}", first.name),
        };
        Err(match first.bytes == bytes {
            true => format!("its output differs from {whose}: other bytes, as many ({bytes})"),
            false => format!("its output differs from {whose}: {bytes} bytes, not {}", first.bytes),
        })
    }

    fn step(&self, when: &str, text: Option<&str>) -> Result<(), String> {
        text.map_or(Ok(()), |text| {
            by_shell(&self.shell, text)
                .map_err(|why| format!("what was to be done {when} each run failed: {why}"))
        })
    }
}

/// Has a shell do something that is not measured.
///
/// # Errors
/// It failed: the text, how it ended, and what it said last.
pub fn by_shell(shell: &[String], text: &str) -> Result<(), String> {
    by_shell_with(shell, text, |command| to_the_end(command, PATIENCE))
}

/// The same, though the run is to end; a second wish ends it.
///
/// # Errors
/// As those of [`by_shell`], or that it was ended.
pub fn by_shell_at_the_end(shell: &[String], text: &str) -> Result<(), String> {
    by_shell_with(shell, text, |command| {
        let mut child = Some(spawn_on(command, None)?);
        let running = child.as_mut().expect("it was just put there");
        if interrupt::wished_again_before_end(running) {
            end_with_all(&mut child);
            return Err(format!("{text} was not finished: a second signal ended it"));
        }
        running.wait().map_err(told)
    })
}

fn by_shell_with(
    shell: &[String],
    text: &str,
    run: impl FnOnce(&mut Command) -> Result<ExitStatus, String>,
) -> Result<(), String> {
    let mut errors = file_in(&std::env::temp_dir())?;
    let mut command = Command::new(&shell[0]);
    command.args(&shell[1..]).args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(errors.try_clone().map_err(told)?);
    match run(&mut command)? {
        status if status.success() => Ok(()),
        status => Err(format!("{text} ({status}){}", said(&mut errors))),
    }
}

fn outcome(clocked: &Clocked) -> Outcome {
    let at_most = clocked.own_bytes.filter(|_| clocked.peak_bytes.is_none());
    let at_most = at_most.map(|bytes| (PEAK_AT_MOST.to_owned(), bytes.into()));
    Outcome {
        value: clocked.seconds,
        seconds: clocked.seconds,
        costs: Costs {
            peak_memory_bytes: clocked.peak_bytes.map(|bytes| bytes as f64),
            ..costs_of_run(clocked.usage)
        },
        code: Some(clocked.ending().code()),
        found: at_most.into_iter().collect(),
        ..Outcome::default()
    }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}
