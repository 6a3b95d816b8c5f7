//! `file-pipe`: a real file through a pipe, the classic way and by our routes, one change at a
//! time, so that the ratio between the first and the last explains itself; and as the planner would.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytepath::placement::NamedPlacement;
use bytepath_report::Unit;

use super::Description;
use crate::arm::{Arm, Work};
use crate::pipe_work::{Expected, PipeWork, Writer};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "file-pipe",
    question: "How fast does a file go through a pipe, and what makes the difference?",
    definition: "A program moves a file from the page cache into a pipe; a reader in another \
                 process reads it and looks at every byte. The clock runs from the reader's first \
                 call to its last. Every sample is checked by length and byte sum.",
};

/// The classic way: its arm is the reference.
pub const CLASSIC: &str = "cat";

/// What is moved.
pub struct Job {
    /// The file; it is opened anew for each sample.
    pub file: PathBuf,
    /// What has to arrive.
    pub expected: Expected,
    /// The placement found to be best for a pipe, if any was measured.
    pub placement: Option<NamedPlacement>,
    /// The profile that the planner goes by, if there is one.
    pub profile: Option<PathBuf>,
}

/// The arm whose route and knobs the planner chooses.
pub const PLANNED: &str = "planner";

/// Options of `bytepath carry` for each arm, from the one next to the classic's own way to the best.
const STEPS: &[(&str, &[&str])] = &[
    ("read-write-1M-pipe", &["--route", "read-write", "--pipe-size", "1M"]),
    ("splice-1M-pipe", &["--route", "splice", "--pipe-size", "1M"]),
];

/// The arms; `program` is bytepath.
pub fn arms(job: &Job, program: &Path) -> Vec<Arm> {
    let cat = Writer::Program(vec!["cat".to_owned()], Some(job.file.clone()));
    let mut arms = vec![arm(CLASSIC.to_owned(), cat, None, job, program)];
    for (name, options) in STEPS {
        arms.push(arm((*name).to_owned(), carry(options, job), None, job, program));
    }
    if let Some(profile) = &job.profile {
        let profile = profile.display().to_string();
        let writer = carry(&["--profile", &profile], job);
        arms.push(arm(PLANNED.to_owned(), writer, None, job, program));
    }
    if let (Some(placement), Some((name, options))) = (&job.placement, STEPS.last()) {
        let name = format!("{name}@{}", placement.name);
        arms.push(arm(name, carry(options, job), Some(placement), job, program));
    }
    arms
}

fn carry(options: &[&str], job: &Job) -> Writer {
    let words = std::iter::once("carry").chain(options.iter().copied());
    Writer::Bytepath(words.map(str::to_owned).collect(), Some(job.file.clone()))
}

fn arm(
    name: String,
    writer: Writer,
    placement: Option<&NamedPlacement>,
    job: &Job,
    program: &Path,
) -> Arm {
    let (Writer::Bytepath(words, _) | Writer::Program(words, _)) = &writer;
    let params = BTreeMap::from([("writer".to_owned(), words.join(" ").into())]);
    let work = PipeWork {
        program: program.to_owned(),
        writer,
        reader: vec!["--inlet".to_owned(), "read-touch".to_owned()],
        between: None,
        cpus: placement.and_then(|placement| placement.cpus),
        expected: Some(job.expected),
    };
    Arm {
        name,
        params,
        unit: Unit::GibPerSecond,
        section: None,
        touched: true,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}
