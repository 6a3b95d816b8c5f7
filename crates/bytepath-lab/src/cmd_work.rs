//! The work of arms that are commands: each run from its start to its end, by `bytepath clock`, a
//! process of its own.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::time::Duration;

use bytepath_report::{Costs, PEAK_AT_MOST};

use crate::arm::{Outcome, Timing, Work};
use crate::clock::Clocked;
use crate::clocked::Asked;
use crate::descendants::end_with_all;
use crate::interrupt;
use crate::pipe_work::spawn_on;
use crate::to_the_end::{Tolerated, costs_of_run, file_in, hashed, said};

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
    /// What it is called in messages.
    pub name: String,
    /// The command.
    pub words: Vec<String>,
    /// What does what is done before and after.
    pub steps: Steps,
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
    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        // What was begun now would be cut off.
        if interrupt::wished() {
            return Err("interrupted".to_owned());
        }
        self.step("before", self.prepare.as_deref(), Steps::done)?;
        let run = self.run();
        // What a run leaves that failed, or was interrupted, would be in the way of the next one, too.
        let concluded = self.step("after", self.conclude.as_deref(), Steps::done_at_the_end);
        let clocked = match (run, concluded) {
            (Err(failed), Err(too)) => Err(format!("{failed}; and {too}")),
            (run, concluded) => run.and_then(|clocked| concluded.map(|()| clocked)),
        }?;
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
    /// One run, which did not fail, and gave what the others did.
    fn run(&self) -> Result<Clocked, String> {
        let directory = self.compared_in.as_deref();
        let mut output = directory.map(file_in).transpose()?;
        let clocked = self.clocked(output.as_ref())?;
        output.as_mut().map_or(Ok(()), |output| self.compare(output))?;
        Ok(clocked)
    }

    /// The same, whatever it gave.
    fn clocked(&self, output: Option<&File>) -> Result<Clocked, String> {
        let mut errors = file_in(&std::env::temp_dir())?;
        let asked = Asked {
            program: &self.steps.program,
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

    fn step(
        &self,
        when: &str,
        text: Option<&str>,
        done: fn(&Steps, &str) -> Result<(), String>,
    ) -> Result<(), String> {
        text.map_or(Ok(()), |text| {
            done(&self.steps, text)
                .map_err(|why| format!("what was to be done {when} each run failed: {why}"))
        })
    }
}

/// What has things done that are not measured; what it started ends with this process.
#[derive(Clone, Debug)]
pub struct Steps {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// The words of the shell.
    pub shell: Vec<String>,
}

impl Steps {
    /// Has the shell do something.
    ///
    /// # Errors
    /// It failed: the text, how it ended, and what it said last.
    pub fn done(&self, text: &str) -> Result<(), String> {
        self.done_by(text, |asked, errors| asked.clocked(errors))
    }

    /// The same, though the run is to end, or comes to be meanwhile; a second wish ends it.
    ///
    /// # Errors
    /// As those of [`Steps::done`], or that it was ended.
    pub fn done_at_the_end(&self, text: &str) -> Result<(), String> {
        let to_its_end = |command: &mut Command| {
            let mut child = Some(spawn_on(command, None)?);
            let running = child.as_mut().expect("it was just put there");
            if interrupt::wished_again_before_end(running) {
                end_with_all(&mut child);
                return Err(format!("{text} was not finished: a second signal ended it"));
            }
            running.wait().map_err(told)
        };
        self.done_by(text, |asked, errors| asked.clocked_by(errors, to_its_end))
    }

    fn done_by(
        &self,
        text: &str,
        run: impl FnOnce(&Asked<'_, String>, &mut File) -> Result<Clocked, String>,
    ) -> Result<(), String> {
        let mut errors = file_in(&std::env::temp_dir())?;
        let words = [&self.shell[..], &["-c".to_owned(), text.to_owned()]].concat();
        let program = self.program.as_path();
        let asked = Asked { program, words: &words, input: None, output: None, patience: PATIENCE };
        let clocked = run(&asked, &mut errors)?;
        match (clocked.not_started(&words[0]), clocked.status()) {
            (Some(why), _) => Err(why),
            (None, status) if status.success() => Ok(()),
            (None, status) => Err(format!("{text} ({status}){}", said(&mut errors))),
        }
    }
}

fn outcome(clocked: &Clocked) -> Outcome {
    let at_most = clocked.peak_bytes.or(clocked.own_bytes);
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
