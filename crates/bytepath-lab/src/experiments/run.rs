//! `run`: pipelines of programs by the shell, and by `bytepath run`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use bytepath_report::Unit;

use super::Description;
use crate::arm::Arm;
use crate::cmd_work::Steps;
use crate::run_work::RunWork;
use crate::to_the_end::Tolerated;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "run",
    question: "How long does a pipeline take by the shell, and by bytepath run?",
    definition: "One shell is given the pipeline as its -c; bytepath run is given the same text and \
                 the same shell. From the start of that process to its end, its standard input \
                 empty or a file that is given, its standard output going to a file, which must \
                 hold the same bytes every time.",
};

/// What is asked for.
pub struct Asked<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// The shell.
    pub shell: &'a Path,
    /// The pipelines.
    pub pipelines: &'a [String],
    /// What the shell does before each sample, outside of the clock.
    pub prepare: Option<&'a str>,
    /// The standard input of each sample.
    pub input: Option<&'a Path>,
    /// Where the outputs are kept while they are compared.
    pub directory: &'a Path,
    /// Which exit codes are no failure.
    pub tolerated: Tolerated,
    /// More options for `bytepath run`.
    pub options: &'a [String],
}

/// The arms, each pipeline a section of its own, the shell first; and what is noted of them while they
/// run.
pub fn arms(asked: &Asked<'_>) -> (Vec<Arm>, Rc<RefCell<Vec<String>>>) {
    let notes = Rc::default();
    let arms = asked.pipelines.iter().flat_map(|text| pair(text, asked, &notes)).collect();
    (arms, notes)
}

fn pair(text: &str, asked: &Asked<'_>, notes: &Rc<RefCell<Vec<String>>>) -> [Arm; 2] {
    let several = asked.pipelines.len() > 1;
    let output = Rc::new(Cell::new(None));
    let shell = asked.shell.display().to_string();
    // It would be an option of either, if nothing stood before it.
    let before = if text.starts_with(['-', '+']) { " " } else { "" };
    let given = format!("{before}{text}");
    let ours = [asked.program.display().to_string(), "run".into(), "--no-summary".into()];
    let ours = ours.into_iter().chain(["--shell".into(), shell.clone()]);
    let ours: Vec<String> =
        ours.chain(asked.options.iter().cloned()).chain([given.clone()]).collect();
    let words = [("shell", vec![shell.clone(), "-c".into(), given]), ("bytepath", ours)];
    words.map(|(of, words)| {
        let name = if several { format!("{text}/{of}") } else { of.to_owned() };
        let work = RunWork {
            name: name.clone(),
            words,
            tells_of_stages: of == "bytepath",
            steps: Steps { program: asked.program.to_owned(), shell: vec![shell.clone()] },
            prepare: asked.prepare.map(str::to_owned),
            input: asked.input.map(Path::to_owned),
            directory: asked.directory.to_owned(),
            tolerated: asked.tolerated.clone(),
            output: output.clone(),
            has_complained: Cell::default(),
            notes: notes.clone(),
        };
        Arm {
            name,
            section: several.then(|| text.to_owned()),
            params: BTreeMap::from([("pipeline".to_owned(), text.into())]),
            unit: Unit::Seconds,
            touched: false,
            published: None,
            work: Ok(Box::new(work)),
        }
    })
}
