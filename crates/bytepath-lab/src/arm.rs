//! An arm: one way of doing an experiment's work, and what one run of it gives.

use std::collections::BTreeMap;
use std::time::Duration;

use bytepath_report::{Costs, Figures, Published, Unit};
use hdrhistogram::Histogram;
use serde_json::Value;

/// One way of doing an experiment's work.
pub struct Arm {
    /// Its name, suffixed with the placement: `write-read@same-cpu`.
    pub name: String,
    /// Arms of one section do the same work, and are compared with the first of them that runs;
    /// those of none with the run's reference.
    pub section: Option<String>,
    /// What it is made of, for the record.
    pub params: BTreeMap<String, Value>,
    /// The unit of its values.
    pub unit: Unit,
    /// Whether the reader looks at every byte.
    pub touched: bool,
    /// The figure that somebody published for it.
    pub published: Option<Published>,
    /// The work, or why it cannot be done here and what would change that.
    pub work: Result<Box<dyn Work>, String>,
}

/// How long one sample of an arm is to take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Timing {
    /// Before the clock starts.
    pub warm_up: Duration,
    /// What is measured.
    pub measured: Measured,
}

/// Longer than this over the time that it should take, a sample is given up.
const PATIENCE: Duration = Duration::from_secs(60);

impl Timing {
    /// The time after which a sample is given up.
    pub(crate) fn patience(&self) -> Duration {
        PATIENCE
            + match self.measured {
                Measured::Time(time) => time + self.warm_up,
                // The slowest machines move 64 MiB/s.
                Measured::Bytes(bytes) => Duration::from_secs(bytes >> 26),
            }
    }
}

/// What is measured in one sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Measured {
    /// As much as can be done in this time.
    Time(Duration),
    /// So many bytes, however long it takes.
    Bytes(u64),
}

/// Work that can be measured again and again, each time in fresh processes.
pub trait Work {
    /// The CPUs that it may run on; all when empty.
    fn cpus(&self) -> &[usize] {
        &[]
    }

    /// Whether the kernel's own threads do part of the work, so that they are no strangers.
    fn is_served_by_the_kernel(&self) -> bool {
        false
    }

    /// What processes call themselves that only make the load, where the work is what serves them:
    /// who explains the work leaves them out.
    fn beside(&self) -> &'static [&'static str] {
        &[]
    }

    /// Does the work once.
    ///
    /// # Errors
    /// Why it could not be done, with the remedy, for a person.
    fn sample(&self, timing: &Timing) -> Result<Outcome, String>;

    /// Does as little of the work as shows whether it can be done at all.
    ///
    /// # Errors
    /// As [`Work::sample`].
    fn trial(&self, timing: &Timing) -> Result<(), String> {
        let timing = match timing.measured {
            Measured::Time(_) => {
                Timing { warm_up: Duration::ZERO, measured: Measured::Time(TRIAL_TIME) }
            }
            Measured::Bytes(_) => *timing,
        };
        self.sample(&timing).map(drop)
    }
}

/// A trial run by time is this long: enough to see whether an arm can run at all.
pub(crate) const TRIAL_TIME: Duration = Duration::from_millis(1);

/// What is found of a way that promises nothing: whether the bytes came as they were sent.
pub const INTACT: &str = "intact";

/// What one run of an arm gave.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// The value, in the arm's unit.
    pub value: f64,
    /// How long the measured part took.
    pub seconds: f64,
    /// What it cost.
    pub costs: Costs,
    /// What the run turned out to be made of: sizes really obtained. The last sample's are told, so
    /// that what differs from one to the next belongs into `costs` or `figures`; of [`INTACT`] whether
    /// it holds for all samples that count.
    pub found: BTreeMap<String, Value>,
    /// The exit code, where it is one run of a program; of all samples that count it is told how many
    /// ended with which.
    pub code: Option<i32>,
    /// How long each of its operations took, where they are clocked; those of all samples that count
    /// are told together.
    pub latencies: Option<Histogram<u64>>,
    /// What it tells beside its value; of all samples that count the medians are told.
    pub figures: Figures,
}
