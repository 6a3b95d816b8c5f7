//! One way of doing the experiment's work, as measured: its samples, what they say, what they cost.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::explained::Explained;

/// An arm: one way of doing the experiment's work, with every sample of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Arm {
    /// The name of the arm, unique in the record.
    pub name: String,
    /// What distinguishes the arm from the others (route, chunk, pipe size, …), by name.
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    /// The unit of `samples[].value`, `median`, `ci95` and `published.value`.
    pub unit: Unit,
    /// Whether a higher or a lower value is the better one.
    pub better: Better,
    /// Whether the arm ran.
    pub status: Status,
    /// Why the arm could not run (errno, limit, missing feature), and what would allow it. Null
    /// when it ran.
    #[serde(default)]
    pub why: Option<String>,
    /// The samples: one per block, and one more for each repeat of a disturbed one. Empty when the
    /// arm could not run at all; one that failed in a later block keeps those before it.
    #[serde(default)]
    pub samples: Vec<Sample>,
    /// The median over the blocks.
    #[serde(default)]
    pub median: Option<f64>,
    /// The 95% interval of the median over the blocks: [low, high].
    #[serde(default)]
    pub ci95: Option<[f64; 2]>,
    /// The median over the blocks of this arm's value divided by the reference arm's value in the
    /// same block; of imported samples, which nothing joins in blocks, that of the geometric means over
    /// the medians of the parts of a run, of which there are 5 at most. Of the plain values: for
    /// seconds, 0.5 is twice as fast.
    #[serde(default)]
    pub ratio: Option<f64>,
    /// The 95% interval of `ratio`: [low, high].
    #[serde(default)]
    pub ratio_ci95: Option<[f64; 2]>,
    /// What `ratio_ci95` says about this arm against the reference.
    #[serde(default)]
    pub verdict: Option<Verdict>,
    /// What the work cost beside its time.
    #[serde(default)]
    pub costs: Option<Costs>,
    /// Whether the reader looked at the bytes. Where it did not, the bytes were moved but nobody
    /// read them.
    pub touched: bool,
    /// What others have published for this arm.
    #[serde(default)]
    pub published: Option<Published>,
    /// Whether this is the arm that the ratios are against. At most one in a record, or in each of
    /// its sections.
    #[serde(default)]
    pub reference: bool,
    /// The section of the record that the arm belongs to, where it has sections: arms that do the
    /// same work, and whose ratios are against the section's own reference arm.
    #[serde(default)]
    pub section: Option<String>,
    /// Where its time went, from runs apart from the samples; null unless that was asked for.
    #[serde(default)]
    pub explained: Option<Explained>,
}

impl Arm {
    /// An arm that runs, without samples yet; `better` follows from the unit, and `touched` is
    /// false until whoever runs the arm knows better.
    pub fn new(name: impl Into<String>, unit: Unit) -> Arm {
        Arm {
            name: name.into(),
            params: BTreeMap::new(),
            unit,
            better: unit.better(),
            status: Status::Ok,
            why: None,
            samples: Vec::new(),
            median: None,
            ci95: None,
            ratio: None,
            ratio_ci95: None,
            verdict: None,
            costs: None,
            touched: false,
            published: None,
            reference: false,
            section: None,
            explained: None,
        }
    }

    /// The ratio to the reference, which is 1 of that itself, unless it failed.
    pub(crate) fn ratio_or_reference(&self) -> Option<f64> {
        let is_measured = self.reference && self.status == Status::Ok;
        self.ratio.or(is_measured.then_some(1.0))
    }

    /// An arm that cannot run here; `why` holds the reason and what would allow it.
    pub fn unavailable(name: impl Into<String>, unit: Unit, why: impl Into<String>) -> Arm {
        Arm { status: Status::Unavailable, why: Some(why.into()), ..Arm::new(name, unit) }
    }

    /// The values that count, one a block, in the order of the blocks.
    pub fn counted(&self) -> Vec<f64> {
        Sample::counted(&self.samples)
    }

    /// How many samples are flagged as disturbed.
    pub fn flagged(&self) -> usize {
        self.samples.iter().filter(|sample| sample.flagged).count()
    }
}

/// The parameters that tell which share of its pages the page cache has afterwards of what an arm
/// copied, and of the copy: from 0 to 1.
pub const RESIDENT: [&str; 2] = ["source_resident", "copy_resident"];

/// The parameter that tells, where the peak of memory is not known, that it was at most so many bytes.
pub const PEAK_AT_MOST: &str = "peak_memory_at_most_bytes";

/// The parameter that tells of a program how many of its runs that count ended with which exit code,
/// where some ended with another than 0. That of one that a signal ended is 128 and its number, as in
/// shells.
pub const EXIT_CODES: &str = "exit_codes";

/// The unit of an arm's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Unit {
    /// Gibibytes (2^30 bytes) per second.
    #[serde(rename = "GiB/s")]
    GibPerSecond,
    /// Operations per second.
    #[serde(rename = "op/s")]
    OpsPerSecond,
    /// Seconds for the whole work.
    #[serde(rename = "s")]
    Seconds,
    /// Nanoseconds for one operation.
    #[serde(rename = "ns")]
    Nanoseconds,
}

impl Unit {
    /// The unit as it is written in records and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            Unit::GibPerSecond => "GiB/s",
            Unit::OpsPerSecond => "op/s",
            Unit::Seconds => "s",
            Unit::Nanoseconds => "ns",
        }
    }

    /// Whether it tells of bytes moved, which somebody may have looked at or not.
    pub fn is_of_bytes(self) -> bool {
        self == Unit::GibPerSecond
    }

    /// Which direction is the better one: rates want to be high, times low.
    pub fn better(self) -> Better {
        match self {
            Unit::GibPerSecond | Unit::OpsPerSecond => Better::Higher,
            Unit::Seconds | Unit::Nanoseconds => Better::Lower,
        }
    }
}

/// Which direction is the better one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// A higher value is better.
    Higher,
    /// A lower value is better.
    Lower,
}

impl Better {
    /// The word as it is written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
        }
    }
}

/// Whether an arm ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It ran.
    Ok,
    /// It cannot run on this machine; `why` says what stood in the way.
    Unavailable,
}

impl Status {
    /// The word as it is written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Ok => "ok",
            Status::Unavailable => "unavailable",
        }
    }
}

/// What the interval of the ratio says about an arm against the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The whole interval lies on the better side of 1.
    Faster,
    /// The whole interval lies on the worse side of 1.
    Slower,
    /// The whole interval lies so close to 1 that the difference does not matter.
    Same,
    /// The interval is too wide to say.
    Undecided,
}

impl Verdict {
    /// The word as it is written in records; [`crate::verdict::words`] says more.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Faster => "faster",
            Verdict::Slower => "slower",
            Verdict::Same => "same",
            Verdict::Undecided => "undecided",
        }
    }
}

/// One measurement of one arm in one block.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// The block, counted from 0.
    pub block: u32,
    /// The position of this arm in the random order of the block, counted from 0.
    pub order: u32,
    /// What was measured, in the arm's unit.
    pub value: f64,
    /// Whether something disturbed the sample. Flagged samples stay in the record.
    #[serde(default)]
    pub flagged: bool,
    /// What disturbed it; null when nothing did.
    #[serde(default)]
    pub flag_why: Option<String>,
    /// Whether a later sample of the same block replaces this one in the statistics. Always
    /// flagged; kept so that anybody can compute the figures with it.
    #[serde(default)]
    pub superseded: bool,
    /// The share of CPU time that the hypervisor kept for others meanwhile, 0 to 1.
    #[serde(default)]
    pub steal_share: Option<f64>,
    /// The share of CPU time that other processes used meanwhile, 0 to 1.
    #[serde(default)]
    pub foreign_cpu_share: Option<f64>,
    /// How long the measured part ran, in seconds of wall-clock time.
    pub seconds: f64,
}

impl Sample {
    /// The values that count, one a block, in the order of the blocks.
    pub fn counted(samples: &[Sample]) -> Vec<f64> {
        let mut counted: Vec<&Sample> =
            samples.iter().filter(|sample| !sample.superseded).collect();
        counted.sort_by_key(|sample| sample.block);
        counted.iter().map(|sample| sample.value).collect()
    }
}

/// What the work cost, both ends together, for each GiB (2^30 bytes) moved; for each operation where
/// the work is operations rather than bytes; for each run where it is a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Costs {
    /// CPU seconds in user space per GiB.
    pub cpu_user_s_per_gib: Option<f64>,
    /// CPU seconds in the kernel per GiB.
    pub cpu_system_s_per_gib: Option<f64>,
    /// System calls per GiB.
    pub syscalls_per_gib: Option<f64>,
    /// Context switches per GiB, voluntary and involuntary.
    pub context_switches_per_gib: Option<f64>,
    /// Page faults per GiB, minor and major.
    pub page_faults_per_gib: Option<f64>,
    /// CPU nanoseconds per operation, in user space and in the kernel.
    pub cpu_ns_per_op: Option<f64>,
    /// System calls per operation.
    pub syscalls_per_op: Option<f64>,
    /// Context switches per operation, voluntary and involuntary.
    pub context_switches_per_op: Option<f64>,
    /// CPU seconds in user space of one run, where the work is one run of a command.
    pub cpu_user_s_per_run: Option<f64>,
    /// CPU seconds in the kernel of one run.
    pub cpu_system_s_per_run: Option<f64>,
    /// Context switches of one run, voluntary and involuntary.
    pub context_switches_per_run: Option<f64>,
    /// Page faults of one run, minor and major.
    pub page_faults_per_run: Option<f64>,
    /// The most memory that a process of the run held at once, in bytes. Null where that is less than
    /// what the process that started it held, which the kernel counts in.
    pub peak_memory_bytes: Option<f64>,
}

impl Costs {
    /// Every cost, in the order of the fields.
    pub fn each(&mut self) -> [&mut Option<f64>; 13] {
        // Taken apart without `..`, so that a new cost cannot be forgotten here.
        let Costs {
            cpu_user_s_per_gib,
            cpu_system_s_per_gib,
            syscalls_per_gib,
            context_switches_per_gib,
            page_faults_per_gib,
            cpu_ns_per_op,
            syscalls_per_op,
            context_switches_per_op,
            cpu_user_s_per_run,
            cpu_system_s_per_run,
            context_switches_per_run,
            page_faults_per_run,
            peak_memory_bytes,
        } = self;
        [
            cpu_user_s_per_gib,
            cpu_system_s_per_gib,
            syscalls_per_gib,
            context_switches_per_gib,
            page_faults_per_gib,
            cpu_ns_per_op,
            syscalls_per_op,
            context_switches_per_op,
            cpu_user_s_per_run,
            cpu_system_s_per_run,
            context_switches_per_run,
            page_faults_per_run,
            peak_memory_bytes,
        ]
    }

    /// CPU seconds per GiB, user and system together; none unless both are known.
    pub fn cpu_s_per_gib(&self) -> Option<f64> {
        Some(self.cpu_user_s_per_gib? + self.cpu_system_s_per_gib?)
    }
}

/// A figure that somebody published for an arm, on another machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Published {
    /// The figure, in the arm's unit.
    pub value: f64,
    /// Who published it, where and when.
    pub source: String,
    /// What to know before comparing: that machine, its kernel, what was done differently.
    #[serde(default)]
    pub note: Option<String>,
}
