//! What several runs of one experiment say about each other, as `bytepath compare` tells it.
//!
//! The doc comments of these types are the descriptions in the published JSON Schema. Fields are
//! only ever added within one major version; a reader ignores the fields it does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arm::{Better, Status, Unit, Verdict};
use crate::numbers;
use crate::record::{Build, Experiment};
use crate::write;

mod markdown;
mod text;

/// Runs of one experiment beside each other: each against the first, the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The name and major version of this format.
    pub schema: ComparisonSchema,
    /// The bytepath that compared.
    pub bytepath: String,
    /// The experiment, as the base's record has it.
    pub experiment: Experiment,
    /// The runs in the order given; the first is the base.
    pub runs: Vec<ComparedRun>,
    /// What differs between the runs: machine, program, settings.
    pub differences: Vec<Difference>,
    /// What the intervals take account of.
    pub method: Method,
    /// The arms, in the order of the base's record, then those that it does not have.
    pub arms: Vec<ComparedArm>,
    /// What else a reader of the figures should know, a sentence each.
    pub notes: Vec<String>,
}

/// The name of the format, which carries its major version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ComparisonSchema {
    /// Version 1.
    #[default]
    #[serde(rename = "bytepath.comparison/1")]
    V1,
}

/// A run that was compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedRun {
    /// How it was named: an id, a file, `last`.
    pub name: String,
    /// The id of its record.
    pub id: String,
    /// When it started: RFC 3339.
    pub started: String,
    /// The bytepath that measured.
    pub bytepath: Build,
    /// How many blocks it has.
    pub blocks: u32,
    /// Whether its own A/A control was clean.
    pub trusted: bool,
    /// The median over its samples of the share of CPU time that other processes used meanwhile.
    pub foreign_cpu_share: Option<f64>,
    /// The median over its samples of the share of CPU time that the hypervisor kept for others.
    pub steal_share: Option<f64>,
}

/// Something that is not the same in all runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What, by its place in the record: `machine.kernel`, `settings.measured_s`.
    pub what: String,
    /// Its value in each run, in their order; null where the run does not know it.
    pub values: Vec<Option<String>>,
}

/// What the intervals take account of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Method {
    /// The share of comparisons of equal runs in which all intervals hold 1 together.
    pub confidence: f64,
    /// How many intervals hold together: each is made wider for the others (Bonferroni).
    pub intervals: u32,
    /// Differences up to this share do not matter: an interval within it is called `same`.
    pub margin: f64,
    /// How many further runs told how far runs of one thing lie apart; 0 where that is assumed to be
    /// as far as parts of a run do.
    pub repeats: u32,
    /// What is assumed or was measured, in a sentence.
    pub between: String,
}

/// An arm in all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedArm {
    /// Its name.
    pub name: String,
    /// The unit of its medians.
    pub unit: Unit,
    /// Whether a higher or a lower value is the better one.
    pub better: Better,
    /// What each run says of it, in their order; null where the run does not have it.
    pub runs: Vec<Option<ArmInRun>>,
}

/// An arm in one run, and that against the base.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmInRun {
    /// Whether it ran.
    pub status: Status,
    /// Why it did not run, or why it cannot be compared.
    pub why: Option<String>,
    /// The median over its blocks.
    pub median: Option<f64>,
    /// The 95% interval of the median within the run.
    pub ci95: Option<[f64; 2]>,
    /// Its figure in this run divided by that in the base, of the plain values: for seconds, 0.5 is
    /// twice as fast. Null for the base. Each figure is the mean over fifths of the run, on a
    /// logarithmic scale, of their medians, so it is not quite the quotient of the medians.
    pub ratio: Option<f64>,
    /// From where to where that ratio may lie, so that all intervals hold together.
    pub ratio_interval: Option<[f64; 2]>,
    /// What the interval says about this run against the base.
    pub verdict: Option<Verdict>,
    /// The smallest difference, as a share, that would have been found in 4 of 5 such comparisons.
    pub shows_from: Option<f64>,
}

impl ComparedArm {
    /// By which share the arm is slower than in the base, in the run of this index, where it is
    /// found to be slower: 0.05 is 5% less of a rate, or 5% more of a time.
    pub fn slower_by(&self, run: usize) -> Option<f64> {
        let arm = self.runs.get(run)?.as_ref()?;
        let ratio = arm.ratio.filter(|_| arm.verdict == Some(Verdict::Slower))?;
        Some(match self.better {
            Better::Higher => 1.0 - ratio,
            Better::Lower => ratio - 1.0,
        })
    }

    /// By which share the arm may be slower than in the base, in the run of this index, whatever is
    /// found: the slower end of the interval. Below 0 it is surely faster.
    pub fn slower_by_at_most(&self, run: usize) -> Option<f64> {
        let [low, high] = self.runs.get(run)?.as_ref()?.ratio_interval?;
        Some(match self.better {
            Better::Higher => 1.0 - low,
            Better::Lower => high - 1.0,
        })
    }
}

impl Comparison {
    /// As JSON, indented, with a newline at its end.
    ///
    /// # Errors
    /// A figure is not finite.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        write::json(self)
    }

    /// The letter by which a run is called in tables: A is the base.
    pub fn letter(run: usize) -> String {
        match u8::try_from(run) {
            Ok(run @ 0..26) => char::from(b'A' + run).to_string(),
            _ => format!("run {}", run + 1),
        }
    }
}

/// A verdict with what it rests on: `same within ±3%`, `undecided: would show 8%`.
fn words(arm: &ArmInRun) -> String {
    match (arm.verdict, arm.shows_from) {
        (Some(Verdict::Undecided), Some(from)) => {
            format!("undecided: would show {}", percent(from))
        }
        (Some(verdict), _) => crate::verdict::words(verdict, arm.ratio_interval),
        (None, _) => numbers::UNKNOWN.to_owned(),
    }
}

/// A share as percents: 8%, 0.5%; what doubles or more as a ratio: 3.40x.
fn percent(share: f64) -> String {
    match share * 100.0 {
        percent if !percent.is_finite() => numbers::UNKNOWN.to_owned(),
        percent if percent < 0.95 => format!("{percent:.1}%"),
        percent if percent < 99.5 => format!("{percent:.0}%"),
        percent => numbers::ratio(percent / 100.0 + 1.0),
    }
}

/// The ratio and its interval as cells of a table.
fn ratio_cells(arm: Option<&ArmInRun>) -> [String; 2] {
    let interval = arm.and_then(|arm| arm.ratio_interval);
    let ratio = arm.and_then(|arm| arm.ratio).map(|of| numbers::ratio_within(of, interval));
    [ratio, interval.map(numbers::ratio_interval)]
        .map(|cell| cell.unwrap_or_else(|| numbers::UNKNOWN.to_owned()))
}

/// Why there is no figure of an arm in a run, in a word for a table.
fn absence(arm: Option<&ArmInRun>) -> &'static str {
    match arm {
        None => "absent",
        Some(arm) if arm.status == Status::Unavailable => "n/a",
        Some(_) => "not comparable",
    }
}

/// What a reader must know below the tables: what the verdicts rest on, and what could not be
/// compared.
fn remarks(comparison: &Comparison) -> Vec<String> {
    let method = &comparison.method;
    let confidence = format!("{:.0}% of comparisons of equal runs", method.confidence * 100.0);
    let holds = match method.intervals {
        1 => format!("The interval holds 1 in {confidence}"),
        many => format!("The {many} intervals hold 1 together in {confidence} (Bonferroni)"),
    };
    let base = Comparison::letter(0);
    let mut remarks = vec![
        format!(
            "{base} and the letters after it are medians; ratios are to {base}, and not of these \
             medians: where samples spread far the two may contradict each other, and the interval \
             is of the ratio."
        ),
        format!(
            "Above 1 is more of the unit. {holds}; within ±{}% is called same.",
            // As it was given: a short float forgets what division and product left.
            (method.margin * 100.0) as f32
        ),
    ];
    remarks.push(method.between.clone());
    if comparison.arms.iter().flat_map(|arm| arm.runs.iter().flatten()).any(is_undecided) {
        remarks.push(
            "\"would show x\" is the smallest difference that would have been found in 4 of 5 \
             comparisons with so many blocks."
                .to_owned(),
        );
    }
    for arm in &comparison.arms {
        for (index, run) in arm.runs.iter().enumerate() {
            if let Some(why) = run.as_ref().and_then(|run| run.why.as_ref()) {
                remarks.push(format!("{} in {}: {why}", arm.name, Comparison::letter(index)));
            }
        }
    }
    remarks.extend(comparison.notes.iter().cloned());
    remarks
}

fn is_undecided(arm: &ArmInRun) -> bool {
    arm.verdict == Some(Verdict::Undecided)
}

/// A run in a line: its id, when, by what.
fn line_of(run: &ComparedRun) -> String {
    let Build { version, build } = &run.bytepath;
    let doubt = if run.trusted { "" } else { ", UNTRUSTED" };
    let id = if run.id == run.name { String::new() } else { format!("{}, ", run.id) };
    format!(
        "{} ({id}{}, {}, bytepath {version} {build}{doubt})",
        run.name,
        run.started,
        numbers::counted(u64::from(run.blocks), "block")
    )
}

/// A difference in a line: `machine.kernel: A 6.1, B 6.18`.
fn difference(difference: &Difference) -> String {
    let value = |(index, value): (usize, &Option<String>)| {
        let value = value.as_deref().unwrap_or("unknown");
        format!("{} {value}", Comparison::letter(index))
    };
    let values: Vec<_> = difference.values.iter().enumerate().map(value).collect();
    format!("{}: {}", difference.what, values.join(", "))
}
