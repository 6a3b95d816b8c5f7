//! The work of arms that are whole pipelines: a program that runs one, from its start to its end.

use std::cell::Cell;
use std::fs::File;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use crate::arm::{Outcome, Timing, Work};
use crate::clocked::Asked;
use crate::cmd_work::Steps;
use crate::to_the_end::{Ending, Tolerated, costs_of_run, file_in, hashed, said};

/// A pipeline that takes longer is not measured.
const PATIENCE: Duration = Duration::from_secs(600);

/// What came out of a pipeline: the code with which it ended, how many bytes, and their hash.
pub(crate) type Output = (i32, u64, u64);

/// A pipeline, again and again.
pub(crate) struct RunWork {
    /// The program that runs it, with its words.
    pub(crate) words: Vec<String>,
    /// What does `prepare`.
    pub(crate) steps: Steps,
    /// Done before each sample.
    pub(crate) prepare: Option<String>,
    /// Where the output is kept.
    pub(crate) directory: PathBuf,
    /// Which exit codes are no failure.
    pub(crate) tolerated: Tolerated,
    /// What came out first; all arms of a pipeline have to give the same.
    pub(crate) output: Rc<Cell<Option<Output>>>,
}

impl Work for RunWork {
    fn cpus(&self) -> &[usize] {
        &[]
    }

    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        if let Some(prepare) = &self.prepare {
            self.steps
                .done(prepare)
                .map_err(|why| format!("what was to be done before each sample failed: {why}"))?;
        }
        let mut output = file_in(&self.directory)?;
        let mut errors = file_in(&std::env::temp_dir())?;
        let asked = Asked {
            program: &self.steps.program,
            words: &self.words,
            input: None,
            output: Some(&output),
            patience: PATIENCE,
        };
        let clocked = asked.clocked(&mut errors)?;
        let (seconds, ending) = (clocked.seconds, clocked.ending());
        let failure = || self.tolerated.failure(ending);
        if let Some(why) = clocked.not_started(&self.words[0]).or_else(failure) {
            return Err(format!("{why}{}", said(&mut errors)));
        }
        self.check(ending, &mut output)?;
        let (costs, code) = (costs_of_run(clocked.usage), Some(ending.code()));
        Ok(Outcome { value: seconds, seconds, costs, code, ..Outcome::default() })
    }
}

impl RunWork {
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
