//! The work of arms that are whole pipelines: a program that runs one, from its start to its end.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use serde_json::Value;

use crate::arm::{Outcome, Timing, Work};
use crate::clocked::Asked;
use crate::cmd_work::Steps;
use crate::left::Folder;
use crate::to_the_end::{Ending, Tolerated, costs_of_run, file_in, first_line, hashed, said};

/// A pipeline that takes longer is not measured.
const PATIENCE: Duration = Duration::from_secs(600);

/// What came out of a pipeline: the code with which it ended, how many bytes, and their hash.
pub(crate) type Output = (i32, u64, u64);

/// The code by which shells tell of a stage whose reader has left: pipelines usually end so.
const LEFT_BY_ITS_READER: i64 = 128 + 13;

/// A pipeline, again and again.
pub(crate) struct RunWork {
    /// What the arm is called in notes.
    pub(crate) name: String,
    /// The program that runs it, with its words.
    pub(crate) words: Vec<String>,
    /// Whether that program is `bytepath run`, which knows how each stage ended.
    pub(crate) tells_of_stages: bool,
    /// What does `prepare`.
    pub(crate) steps: Steps,
    /// Done before each sample.
    pub(crate) prepare: Option<String>,
    /// Its standard input; nothing unless given.
    pub(crate) input: Option<PathBuf>,
    /// Where the output is kept.
    pub(crate) directory: PathBuf,
    /// Which exit codes are no failure.
    pub(crate) tolerated: Tolerated,
    /// What came out first; all arms of a pipeline have to give the same.
    pub(crate) output: Rc<Cell<Option<Output>>>,
    /// Whether its standard error was told of.
    pub(crate) has_complained: Cell<bool>,
    /// What readers of the figures should know of the pipelines.
    pub(crate) notes: Rc<RefCell<Vec<String>>>,
}

impl Work for RunWork {
    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        self.sample_of(&self.words)
    }

    /// How stages ended is looked at here alone, so that no sample has more to do.
    fn trial(&self, timing: &Timing) -> Result<(), String> {
        // One file of results is all that `run` takes, and the user may have named one.
        if !self.tells_of_stages || self.words.iter().any(|word| word.starts_with("--json")) {
            return self.sample(timing).map(drop);
        }
        let folder = Folder::make(&std::env::temp_dir()).map_err(told)?;
        let told = folder.path().join("stages");
        let mut words = self.words.clone();
        words.insert(2, format!("--json={}", told.display()));
        self.sample_of(&words)?;
        self.note_stages(&told);
        Ok(())
    }
}

impl RunWork {
    /// One run, by these words.
    fn sample_of(&self, words: &[String]) -> Result<Outcome, String> {
        if let Some(prepare) = &self.prepare {
            self.steps
                .done(prepare)
                .map_err(|why| format!("what was to be done before each sample failed: {why}"))?;
        }
        let mut output = file_in(&self.directory)?;
        let mut errors = file_in(&std::env::temp_dir())?;
        let asked = Asked {
            program: &self.steps.program,
            words,
            input: self.input.as_deref(),
            output: Some(&output),
            patience: PATIENCE,
        };
        let clocked = asked.clocked(&mut errors)?;
        let (seconds, ending) = (clocked.seconds, clocked.ending());
        let failure = || self.tolerated.failure(ending);
        if let Some(why) = clocked.not_started(&words[0]).or_else(failure) {
            return Err(format!("{why}{}", said(&mut errors)));
        }
        self.check(ending, &mut output)?;
        if let Some(line) = first_line(&mut errors).filter(|_| !self.has_complained.replace(true)) {
            self.note(format_args!("it wrote to standard error: {line}"));
        }
        let (costs, code) = (costs_of_run(clocked.usage), Some(ending.code()));
        Ok(Outcome { value: seconds, seconds, costs, code, ..Outcome::default() })
    }

    fn note(&self, what: std::fmt::Arguments<'_>) {
        self.notes.borrow_mut().push(format!("{}: {what}", self.name));
    }

    /// Notes which stages failed though the pipeline did not.
    fn note_stages(&self, told: &Path) {
        let text = std::fs::read_to_string(told).unwrap_or_default();
        let ran: Value = serde_json::from_str(&text).unwrap_or_default();
        let failed = |stage: &Value| {
            let (status, command) = (stage["status"].as_i64()?, stage["command"].as_str()?);
            // That of the pipeline is told anyway.
            let is_known = [Some(0), Some(LEFT_BY_ITS_READER), ran["exit"].as_i64()];
            (!is_known.contains(&Some(status))).then(|| format!("{command} ended with {status}"))
        };
        let failed: Vec<_> =
            ran["stages"].as_array().into_iter().flatten().filter_map(failed).collect();
        if !failed.is_empty() {
            self.note(format_args!("of its stages, {}", failed.join(", ")));
        }
    }

    /// The first output is the measure of all others.
    fn check(&self, ending: Ending, output: &mut File) -> Result<(), String> {
        let (bytes, hash) = hashed(output).map_err(told)?;
        let found = (ending.code(), bytes, hash);
        let first = self.output.get().unwrap_or(found);
        self.output.set(Some(first));
        let differs = match first {
            first if first == found => return Ok(()),
            (code, _, _) if code != found.0 => format!("code {}, not {code}", found.0),
            (_, other, _) if other != bytes => format!("{bytes} bytes, not {other}"),
            _ => format!("other bytes, as many ({bytes})"),
        };
        Err(format!(
            "it gave other output than the first run: {differs}; a pipeline can only be measured if it \
             gives the same every time: end it with >/dev/null, or measure it by bench cmd, which \
             compares nothing unless asked to"
        ))
    }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}
