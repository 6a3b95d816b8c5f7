//! `cmd`: any commands, interleaved.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use bytepath_report::{EXIT_CODES, PEAK_AT_MOST, Record, Unit};
use serde_json::Value;

use super::Description;
use crate::arm::Arm;
use crate::cmd_work::{By, CmdWork, Steps};
use crate::facts::FILE_SYSTEM;
use crate::to_the_end::Tolerated;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "cmd",
    question: "How long do commands take?",
    definition: "Each command from its start to its end, its output dropped or, to be compared, \
                 written to a file.",
};

/// A command.
pub struct Asked {
    /// What it is called.
    pub name: String,
    /// Its text.
    pub text: String,
    /// Its words, where no shell is to read it.
    pub words: Vec<String>,
    /// The variables of which it is made, with the value that each has in it.
    pub values: Vec<(String, String)>,
    /// Done before each run.
    pub prepare: Option<String>,
    /// Done after each run.
    pub conclude: Option<String>,
}

/// What all commands share.
pub struct Shared<'a> {
    /// What runs a command.
    pub by: By,
    /// What does what is done before and after.
    pub steps: &'a Steps,
    /// The standard input of each run.
    pub input: Option<&'a Path>,
    /// Which exit codes are no failure.
    pub tolerated: Tolerated,
    /// Where outputs are compared, if they are.
    pub compared_in: Option<PathBuf>,
    /// Runs before the first block.
    pub warm_ups: u32,
}

/// The arms, a command each, and whether one of them turned out to be short.
pub fn arms(commands: &[Asked], shared: &Shared<'_>) -> (Vec<Arm>, Rc<Cell<bool>>) {
    let (given, is_short) = (Rc::new(RefCell::new(None)), Rc::new(Cell::new(false)));
    let arm = |asked: &Asked| {
        let words = match &shared.by {
            By::Shell(shell) => [&shell[..], &["-c".to_owned(), asked.text.clone()]].concat(),
            By::Itself => asked.words.clone(),
        };
        Arm {
            name: asked.name.clone(),
            section: None,
            params: params(
                &asked.text,
                asked.values.iter().map(|(name, value)| (name.clone(), value.clone().into())),
            ),
            unit: Unit::Seconds,
            touched: false,
            published: None,
            work: Ok(Box::new(CmdWork {
                name: asked.name.clone(),
                words,
                steps: shared.steps.clone(),
                prepare: asked.prepare.clone(),
                conclude: asked.conclude.clone(),
                input: shared.input.map(Path::to_owned),
                tolerated: shared.tolerated.clone(),
                compared_in: shared.compared_in.clone(),
                given: given.clone(),
                warm_ups: shared.warm_ups,
                is_short: is_short.clone(),
            })),
        }
    };
    (commands.iter().map(arm).collect(), is_short)
}

/// Parameters of a command that are no variables of it, or would be taken for what they do not mean.
const OWN: [&str; 4] = ["command", EXIT_CODES, PEAK_AT_MOST, FILE_SYSTEM];

/// The parameters of a command: its text, and what its variables stand for. One that is called like
/// a parameter of another kind has a prefix.
pub(crate) fn params(
    text: &str,
    values: impl Iterator<Item = (String, Value)>,
) -> BTreeMap<String, Value> {
    let named = |(name, value): (String, Value)| match OWN.contains(&name.as_str()) {
        true => (format!("parameter_{name}"), value),
        false => (name, value),
    };
    values.map(named).chain([("command".to_owned(), text.into())]).collect()
}

/// Says of runs that were short that they begin with the start of a shell.
pub fn warn_of_shell(record: &mut Record) {
    record.notes.push(
        "runs take less than 5 ms, of which the start of the shell is a part; -N does without one"
            .to_owned(),
    );
}
