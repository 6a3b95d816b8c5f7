//! Works that do what a test says, and a run of them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use bytepath_lab::arm::{Arm, Measured, Outcome, Timing, Work};
use bytepath_lab::lab::{self, Blocks, LabError, Observer, Settings};
use bytepath_lab::schedule::Turn;
use bytepath_report::{Experiment, Record, Unit};

/// What a work gives when it is done for the n-th time, from 0; the trial is the first.
pub(crate) type Script = Box<dyn Fn(u32) -> Result<f64, String>>;

struct Scripted {
    script: Script,
    done: Cell<u32>,
}

impl Work for Scripted {
    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        let value = (self.script)(self.done.replace(self.done.get() + 1))?;
        Ok(Outcome { value, seconds: 0.001, ..Outcome::default() })
    }
}

/// An arm that follows a script.
pub(crate) fn arm(name: &str, script: impl Fn(u32) -> Result<f64, String> + 'static) -> Arm {
    worked(name, Ok(Box::new(Scripted { script: Box::new(script), done: Cell::new(0) })))
}

/// An arm that always gives about the same; the figures differ a little, as real ones do.
pub(crate) fn steady(name: &str, value: f64) -> Arm {
    arm(name, move |done| Ok(value * (1.0 + f64::from(done % 3) / 1e4)))
}

pub(crate) fn worked(name: &str, work: Result<Box<dyn Work>, String>) -> Arm {
    Arm {
        name: name.to_owned(),
        section: None,
        params: BTreeMap::new(),
        unit: Unit::GibPerSecond,
        touched: true,
        published: None,
        work,
    }
}

pub(crate) fn settings(blocks: Blocks) -> Settings {
    let measured = Measured::Time(Duration::from_millis(1));
    Settings {
        blocks,
        seed: 42,
        timing: Timing { warm_up: Duration::ZERO, measured },
        others: BTreeMap::new(),
        explain: None,
    }
}

/// What an observer was told.
#[derive(Clone, Default)]
pub(crate) struct Told {
    /// After so many samples the run is interrupted.
    pub(crate) interrupted_after: Option<usize>,
    pub(crate) unavailable: Rc<RefCell<Vec<String>>>,
    pub(crate) turns: Rc<RefCell<Vec<(u32, String)>>>,
}

impl Observer for Told {
    fn begin(&mut self, _: usize, _: Option<u32>) {}

    fn unavailable(&mut self, arm: &str, why: &str) {
        self.unavailable.borrow_mut().push(format!("{arm}: {why}"));
    }

    fn sample(&mut self, turn: &Turn, arm: &str) {
        self.turns.borrow_mut().push((turn.block, arm.to_owned()));
    }

    fn interrupted(&self) -> bool {
        self.interrupted_after.is_some_and(|samples| self.turns.borrow().len() >= samples)
    }
}

/// Runs the arms; the first is the reference.
pub(crate) fn run(arms: Vec<Arm>, blocks: Blocks) -> (Result<Record, LabError>, Told) {
    run_told(arms, blocks, Told::default())
}

/// The same, watched by an observer that interrupts.
pub(crate) fn run_told(
    arms: Vec<Arm>,
    blocks: Blocks,
    told: Told,
) -> (Result<Record, LabError>, Told) {
    let reference = arms.first().map(|arm| arm.name.clone()).unwrap_or_default();
    let mut observer = told.clone();
    let settings = settings(blocks);
    let record = lab::run(Experiment::default(), arms, &reference, &settings, &mut observer);
    (record, told)
}

/// Runs the arms for some blocks to a record.
pub(crate) fn recorded(arms: Vec<Arm>, blocks: u32) -> Record {
    run(arms, Blocks::Exactly(blocks)).0.expect("an arm can run")
}

/// An arm of the record.
pub(crate) fn found<'a>(record: &'a Record, name: &str) -> &'a bytepath_report::Arm {
    record.arms.iter().find(|arm| arm.name == name).expect("every arm is in the record")
}
