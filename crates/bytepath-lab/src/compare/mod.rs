//! Holds runs of one experiment against each other, arm by arm: each run against the first.

mod alike;
mod false_positives;

use std::collections::BTreeSet;

use bytepath_report::{
    Arm, ArmInRun, ComparedArm, ComparedRun, Comparison, ComparisonSchema, Method, Record, Sample,
    Status, numbers, verdict,
};

use crate::stats::{self, Between, EQUIVALENCE_MARGIN, PARTS, RunRatio, Spread};
use alike::{Arms, by_name};
pub use alike::{is_itself, is_like, same_work};
pub use false_positives::{FalsePositives, false_positives};

/// Records of very many runs at once are no comparison that anybody could read.
pub const RUNS_MAX: usize = 26;

/// So many reasons why arms have no figures are told; most often they are alike.
const REASONS_MAX: usize = 3;

/// Others used so much more of the CPUs in one run than in another that it is worth a word.
const FOREIGN_SHARE_WORTH_TELLING: f64 = 0.05;

/// A run to be compared, and how it was named.
#[derive(Debug, Clone)]
pub struct Run {
    /// An id, a file, `last`.
    pub name: String,
    /// What it left.
    pub record: Record,
}

/// How runs are compared.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Differences up to this share do not matter.
    pub margin: f64,
    /// Compare also what is not the same work.
    pub force: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Settings { margin: EQUIVALENCE_MARGIN, force: false }
    }
}

/// Why runs are not compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// There is nothing to compare with.
    #[error("a comparison takes 2 to {RUNS_MAX} runs, not {0}")]
    Count(usize),
    /// The same run twice.
    #[error("{0} and {1} are the same run; a run says nothing about how far runs lie apart")]
    Itself(String, String),
    /// They did different work.
    #[error("{a} and {b} are not of the same work: {what}; --force compares them all the same")]
    OtherWork {
        /// The base.
        a: String,
        /// The run that is not of its work.
        b: String,
        /// What is not the same.
        what: String,
    },
    /// They have no arm in common.
    #[error("no arm is in all of them with figures{0}")]
    NoArm(String),
}

/// Compares the runs with the first of them. `others` are further runs, of which those count that
/// are like one that is compared, and not that run itself: they tell how far runs of one thing lie apart.
/// Without them, they were left out by request.
///
/// # Errors
/// As [`CompareError`] tells.
pub fn compare(
    runs: &[Run],
    others: Option<&[Record]>,
    settings: &Settings,
) -> Result<Comparison, CompareError> {
    let [base, rest @ ..] = runs else { return Err(CompareError::Count(0)) };
    if rest.is_empty() || runs.len() > RUNS_MAX {
        return Err(CompareError::Count(runs.len()));
    }
    different_runs(runs)?;
    let mut notes = Vec::new();
    for run in rest {
        let Err(what) = same_work(&base.record, &run.record) else {
            notes.extend(alike::has_other_input(&base.record, &run.record).then(|| {
                format!(
                    "{} read another file than {}, of the same size: whether both hold the same is not \
                     recorded",
                    run.name, base.name
                )
            }));
            continue;
        };
        if !settings.force {
            let (a, b) = (base.name.clone(), run.name.clone());
            return Err(CompareError::OtherWork { a, b, what });
        }
        notes.push(format!("{} is not of the work of {}: {what}", run.name, base.name));
    }
    notes.extend(runs.iter().filter_map(untrusted));
    notes.extend(busier(runs));
    let names = arms_of(runs);
    let arms: Vec<Arms<'_>> = runs.iter().map(|run| by_name(&run.record)).collect();
    let pairs = names.iter().map(|name| comparable(&arms, name)).sum();
    if pairs == 0 {
        return Err(CompareError::NoArm(why_none(runs)));
    }
    let repeats = Repeats::of(runs, others);
    let compared: Vec<_> =
        names.iter().map(|name| arm(&arms, name, &repeats, pairs, settings)).collect();
    notes.extend(repeats.assumed_for(&compared));
    let records: Vec<_> = runs.iter().map(|run| &run.record).collect();
    notes.extend(alike::params(&arms, &names));
    Ok(Comparison {
        schema: ComparisonSchema::V1,
        bytepath: env!("CARGO_PKG_VERSION").to_owned(),
        experiment: base.record.experiment.clone(),
        runs: runs.iter().map(told).collect(),
        differences: alike::differences(&records),
        method: Method {
            confidence: 0.95,
            intervals: u32::try_from(pairs).unwrap_or(u32::MAX),
            margin: settings.margin,
            repeats: u32::try_from(repeats.count()).unwrap_or(u32::MAX),
            between: repeats.sentence(),
        },
        arms: compared,
        notes,
    })
}

fn different_runs(runs: &[Run]) -> Result<(), CompareError> {
    for (index, run) in runs.iter().enumerate() {
        // Of runs without any samples nobody knows.
        let has_samples = run.record.arms.iter().any(|arm| !arm.samples.is_empty());
        let same = |other: &&Run| has_samples && is_itself(&other.record, &run.record);
        if let Some(other) = runs[..index].iter().find(same) {
            return Err(CompareError::Itself(other.name.clone(), run.name.clone()));
        }
    }
    Ok(())
}

fn untrusted(run: &Run) -> Option<String> {
    let why = || run.record.untrusted_why.as_deref().unwrap_or("its record does not say why");
    (!run.record.trusted).then(|| format!("{} is not trusted: {}", run.name, why()))
}

/// Whether the machine was busy with other work in one run and not in the base.
fn busier(runs: &[Run]) -> Vec<String> {
    let share = |run: &Run| share_of(&run.record, |sample| sample.foreign_cpu_share);
    let Some(base) = share(&runs[0]) else { return Vec::new() };
    let differs = |run: &Run| {
        let other = share(run)?;
        ((other - base).abs() >= FOREIGN_SHARE_WORTH_TELLING).then(|| {
            format!(
                "other processes used {:.0}% of the CPUs in {} and {:.0}% in {}: a difference may \
                 be theirs",
                base * 100.0,
                runs[0].name,
                other * 100.0,
                run.name
            )
        })
    };
    runs[1..].iter().filter_map(differs).collect()
}

/// The names of the arms, as the base has them, then those of the others.
fn arms_of(runs: &[Run]) -> Vec<String> {
    let mut known = BTreeSet::new();
    let all = runs.iter().flat_map(|run| &run.record.arms).map(|arm| &arm.name);
    all.filter(|name| known.insert(*name)).cloned().collect()
}

/// In how many runs this arm can be held against the base's.
fn comparable(runs: &[Arms<'_>], name: &str) -> usize {
    let has = |run: &&Arms<'_>| run.get(name).is_some_and(|arm| has_figure(arm));
    match has(&&runs[0]) {
        true => runs[1..].iter().filter(has).count(),
        false => 0,
    }
}

fn has_figure(arm: &Arm) -> bool {
    arm.status == Status::Ok && stats::median_interval(&arm.counted()).is_ok()
}

fn why_none(runs: &[Run]) -> String {
    if runs.iter().any(|run| run.record.blocks < 3) {
        return ": fewer than 3 blocks have no interval; run more, with --blocks".to_owned();
    }
    let arms = runs.iter().flat_map(|run| run.record.arms.iter().map(move |arm| (run, arm)));
    let why = |(run, arm): (&Run, &Arm)| {
        let why = match arm.status {
            Status::Unavailable => arm.why.clone(),
            Status::Ok => stats::median_interval(&arm.counted()).err().map(|why| why.to_string()),
        };
        Some(format!("{} in {}: {}", arm.name, run.name, why?))
    };
    let reasons: Vec<_> = arms.filter_map(why).take(REASONS_MAX).collect();
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

fn arm(
    runs: &[Arms<'_>],
    name: &str,
    repeats: &Repeats<'_>,
    pairs: usize,
    settings: &Settings,
) -> ComparedArm {
    let base = runs[0].get(name);
    let known = runs.iter().find_map(|run| run.get(name)).expect("a run has the arm");
    let between = repeats.between(name);
    let in_run = |(index, run): (usize, &Arms<'_>)| {
        let arm = run.get(name)?;
        let shown = ArmInRun {
            status: arm.status,
            why: arm.why.clone(),
            median: arm.median,
            ci95: arm.ci95,
            ratio: None,
            ratio_interval: None,
            verdict: None,
            shows_from: None,
        };
        Some(match base.filter(|_| index > 0) {
            Some(base) => against(shown, arm, base, between, pairs, settings),
            None => shown,
        })
    };
    ComparedArm {
        name: name.to_owned(),
        unit: known.unit,
        better: known.better,
        runs: runs.iter().enumerate().map(in_run).collect(),
    }
}

/// What the arm says against the base's.
fn against(
    shown: ArmInRun,
    arm: &Arm,
    base: &Arm,
    between: Between,
    pairs: usize,
    settings: &Settings,
) -> ArmInRun {
    if arm.status != Status::Ok || base.status != Status::Ok {
        return shown;
    }
    if (arm.unit, arm.better) != (base.unit, base.better) {
        let why =
            format!("it is in {}, and in {} in the base", arm.unit.as_str(), base.unit.as_str());
        return ArmInRun { why: Some(why), ..shown };
    }
    match RunRatio::of(&arm.counted(), &base.counted(), between, pairs) {
        Ok(found) => ArmInRun {
            ratio: Some(found.ratio),
            ratio_interval: Some(found.interval.into()),
            verdict: Some(verdict::of(found.interval, arm.better, settings.margin)),
            shows_from: Some(found.shows_from),
            ..shown
        },
        Err(why) => {
            let whose = if has_figure(arm) { "of the base, " } else { "" };
            ArmInRun { why: Some(format!("{whose}{why}")), ..shown }
        }
    }
}

fn told(run: &Run) -> ComparedRun {
    let record = &run.record;
    ComparedRun {
        name: run.name.clone(),
        id: record.id.clone(),
        started: record.started.clone(),
        bytepath: record.bytepath.clone(),
        blocks: record.blocks,
        trusted: record.trusted,
        foreign_cpu_share: share_of(record, |sample| sample.foreign_cpu_share),
        steal_share: share_of(record, |sample| sample.steal_share),
    }
}

fn share_of(record: &Record, share: fn(&Sample) -> Option<f64>) -> Option<f64> {
    let samples =
        record.arms.iter().flat_map(|arm| &arm.samples).filter(|sample| !sample.superseded);
    let shares: Vec<f64> = samples.filter_map(share).filter(|share| share.is_finite()).collect();
    stats::median(&shares)
}

/// Further runs of what is compared, in groups of like ones.
struct Repeats<'a> {
    groups: Vec<Vec<Arms<'a>>>,
    left_out: bool,
}

impl<'a> Repeats<'a> {
    fn of(runs: &[Run], others: Option<&'a [Record]>) -> Repeats<'a> {
        let left_out = others.is_none();
        let compared = |other: &Record| runs.iter().any(|run| is_itself(&run.record, other));
        let mut groups: Vec<(&Record, Vec<Arms<'a>>)> = Vec::new();
        for run in runs {
            if !groups.iter().any(|(first, _)| is_like(first, &run.record)) {
                groups.push((&run.record, Vec::new()));
            }
        }
        let others = others.unwrap_or_default();
        for (index, other) in others.iter().enumerate() {
            // A copy of a run is no further run.
            if compared(other) || others[..index].iter().any(|known| is_itself(known, other)) {
                continue;
            }
            if let Some((_, group)) = groups.iter_mut().find(|(first, _)| is_like(first, other)) {
                group.push(by_name(other));
            }
        }
        let groups = groups.into_iter().map(|(_, group)| group).collect();
        Repeats { groups, left_out }
    }

    /// How many of them told anything: a group of one does not.
    fn count(&self) -> usize {
        match self.missing() {
            0 => self.groups.iter().map(Vec::len).filter(|count| *count > 1).sum(),
            _ => 0,
        }
    }

    /// How many more it takes until they tell anything: the first of a group does not.
    fn missing(&self) -> usize {
        let degrees: usize = self.groups.iter().map(|group| group.len().saturating_sub(1)).sum();
        let first = usize::from(self.groups.iter().all(Vec::is_empty));
        (stats::BETWEEN_DEGREES_MIN + first).saturating_sub(degrees)
    }

    fn between(&self, arm: &str) -> Between {
        let values: Vec<Vec<Vec<f64>>> = self
            .groups
            .iter()
            .map(|group| {
                let found = group.iter().filter_map(|run| {
                    let arm = run.get(arm)?;
                    (arm.status == Status::Ok).then(|| arm.counted())
                });
                found.collect()
            })
            .collect();
        let groups = values.iter().map(|group| group.iter().map(Vec::as_slice).collect());
        Spread::of(groups).map_or(Between::Assumed, Between::Measured)
    }

    /// The arms of which, other than of the rest, too few of them tell anything.
    fn assumed_for(&self, arms: &[ComparedArm]) -> Option<String> {
        let has_ratio =
            |arm: &&ComparedArm| arm.runs.iter().flatten().any(|run| run.ratio.is_some());
        let is_assumed = |arm: &&ComparedArm| self.between(&arm.name) == Between::Assumed;
        let names = arms.iter().filter(has_ratio).filter(is_assumed).map(|arm| arm.name.as_str());
        let names: Vec<_> = names.filter(|_| self.count() > 0).collect();
        (!names.is_empty()).then(|| {
            format!(
                "how far runs lie apart is assumed of {}: too few further runs have a figure of it",
                names.join(", ")
            )
        })
    }

    fn sentence(&self) -> String {
        let of_parts = format!(
            "Ratios are of geometric means over the medians of the parts of a run, of which there are \
             {PARTS} at most."
        );
        let assumed = "Assumed is twice the variance between the parts of a run";
        match self.count() {
            0 if self.left_out => format!(
                "{of_parts} How far runs of one thing lie apart here was not to be asked of other runs \
                 (--alone). {assumed}."
            ),
            0 => format!(
                "{of_parts} How far runs of one thing lie apart here is not known. {assumed}; {} of the \
                 same thing in the store would tell.",
                numbers::counted(self.missing() as u64, "more run")
            ),
            count => format!(
                "{of_parts} How far runs of one thing lie apart was measured, from {count} further runs \
                 of the store that are of the same build, machine, work and length as one of these; it \
                 counts where it is more than twice the variance between the parts of a run."
            ),
        }
    }
}
