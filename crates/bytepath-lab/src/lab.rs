//! Runs an experiment: every arm once a block, in random order, in fresh processes; the reference
//! arm once more under another name; disturbed samples again; and makes the record.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath::machine::Machine;
use bytepath_report::{
    Control, Costs, EXIT_CODES, Experiment, Explained, Figures, Latency, PEAK_AT_MOST, Record,
    Sample, SchemaName, Status, Unit, figures, latency, numbers, verdict,
};
use hdrhistogram::Histogram;
use serde_json::Value;

use crate::arm::{Arm, INTACT, Measured, Outcome, Timing, Work};
use crate::facts;
use crate::noise::{Disturbance, Watch};
use crate::program::Program;
use crate::schedule::{Lineup, Repeat, Schedule, Turn};
use crate::stats::{
    Decision, EQUIVALENCE_MARGIN, Ratio, StatsError, UNTIL_CI_CONSECUTIVE, UntilCi, median,
    median_interval, outliers,
};

/// The name under which the reference arm runs once more.
pub const CONTROL_SUFFIX: &str = " (A/A)";

/// How an experiment is run.
#[derive(Debug, Clone)]
pub struct Settings {
    /// How many blocks.
    pub blocks: Blocks,
    /// Where the random orders come from.
    pub seed: u64,
    /// How long a sample takes.
    pub timing: Timing,
    /// Further settings, for the record.
    pub others: BTreeMap<String, Value>,
    /// How arms are explained after their samples; not at all where there is none.
    pub explain: Option<Explain>,
}

/// How arms are looked at by an observer that explains them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Explain {
    /// Samples a second, of each CPU.
    pub hz: u32,
    /// Whether stacks are found by frame pointers alone.
    pub frame_pointers: bool,
    /// What is traced instead of taking samples, by the observer's name for it.
    pub trace: Option<&'static str>,
}

/// How many blocks are run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Blocks {
    /// So many.
    Exactly(u32),
    /// Until every arm's 95% intervals, of its median and of its ratio, are narrower than ± so many percent.
    UntilCi(f64),
    /// As many as fit into this time, but no fewer than 3: fewer have no interval. What came so far
    /// has no say in where the run ends.
    Within(Duration),
}

/// The fewest blocks of a run that is limited by time.
const BLOCKS_WITHIN_MIN: u32 = 3;

/// Watches a run.
pub trait Observer {
    /// The run has so many samples in so many blocks; unknown where it depends on the intervals.
    fn begin(&mut self, arms: usize, blocks: Option<u32>);

    /// An arm cannot run here.
    fn unavailable(&mut self, arm: &str, why: &str);

    /// A sample is about to be taken.
    fn sample(&mut self, turn: &Turn, arm: &str);

    /// Runs an arm as it likes, after and apart from the samples, to say where its time goes; none
    /// where that is not for the record, or somebody wishes the end.
    ///
    /// # Errors
    /// Why it cannot be said.
    fn explain(
        &mut self,
        _: &Arm,
        _: &dyn Work,
        _: &Timing,
        _: Explain,
    ) -> Result<Option<Explained>, String> {
        Ok(None)
    }

    /// Whether the run is to end now, with what is complete. Asked after each sample.
    fn interrupted(&self) -> bool {
        false
    }
}

/// Why there is no record.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// Nothing to measure.
    #[error("no arm can run here:\n{0}")]
    NoArm(String),
    /// Nothing was measured that could be told, but why some arms cannot run, or failed, if any.
    #[error("interrupted before the first block was complete{0}")]
    Interrupted(String),
    /// Nor then: what would have been measured from there on is not this program.
    #[error("{REPLACED} {} before the first block was complete; measure again", .0.display())]
    Replaced(PathBuf),
}

impl LabError {
    /// The same, with why these cannot run, and those of these that failed did.
    fn with(self, unavailable: &[Arm], running: &[Running]) -> LabError {
        let reasons = reasons(unavailable, running);
        match self {
            LabError::Interrupted(_) if !reasons.is_empty() => {
                LabError::Interrupted(format!(", and before that, arms failed:\n{reasons}"))
            }
            other => other,
        }
    }
}

/// How it is said that the next workers would not be of this program.
const REPLACED: &str = "another file took the place of";

/// Why the run is to end now, if it is.
fn end_now(observer: &dyn Observer) -> Option<LabError> {
    if observer.interrupted() {
        return Some(LabError::Interrupted(String::new()));
    }
    let program = Program::this().ok().filter(|program| program.is_replaced());
    program.map(|program| LabError::Replaced(program.path().to_owned()))
}

/// Runs `arms` of an experiment; the first arm that can run is the reference where `reference`
/// cannot.
///
/// A run that is interrupted gives the record of the blocks that are complete, and a note of that. So
/// does one that finds another file in the place of this program's own, of which its workers are.
///
/// # Errors
/// No arm can run, or the run ended before a block was complete.
pub fn run(
    experiment: Experiment,
    arms: Vec<Arm>,
    reference: &str,
    settings: &Settings,
    observer: &mut dyn Observer,
) -> Result<Record, LabError> {
    let (started, began) = (std::time::SystemTime::now(), Instant::now());
    let mut bench = Bench::prepare(arms, &settings.timing, observer)?;
    let reference_index = bench.reference(reference);
    let could_run = bench.running.iter().any(|running| running.arm.name == reference);
    let ends = match settings.blocks {
        Blocks::Within(time) => Some(began + time),
        Blocks::Exactly(_) | Blocks::UntilCi(_) => None,
    };
    if let Err(early) = bench.measure(reference_index, settings, ends, observer) {
        bench.keep_complete_blocks(settings.blocks, early)?;
    } else if let Some(how) = settings.explain {
        bench.explain(&settings.timing, how, observer);
    }
    let started = humantime::format_rfc3339_seconds(started).to_string();
    let mut record = bench.record(reference_index, experiment);
    // Nothing of the run's own tells it from others: a seed may be given, and fleets begin in one second.
    record.id = format!("{}-{started}-{:08x}", record.experiment.name, fastrand::u32(..));
    record.started = started;
    record.settings = recorded(settings);
    record.machine.file_system = facts::file_system(&record);
    if record.reference().is_none_or(|arm| arm.name != reference) {
        let why = match record.arms.iter().any(|arm| arm.name == reference) {
            true if could_run => "failed",
            true => "cannot run here",
            false => "was not asked for",
        };
        record.notes.push(format!(
            "the reference arm {reference} {why}; ratios are to {}",
            record.reference().map_or("none", |arm| arm.name.as_str())
        ));
    }
    Ok(record)
}

fn recorded(settings: &Settings) -> BTreeMap<String, Value> {
    let mut all = settings.others.clone();
    all.insert("seed".into(), settings.seed.into());
    all.insert("warm_up_s".into(), settings.timing.warm_up.as_secs_f64().into());
    match settings.timing.measured {
        Measured::Time(time) => all.insert("measured_s".into(), time.as_secs_f64().into()),
        Measured::Bytes(bytes) => all.insert("measured_bytes".into(), bytes.into()),
    };
    match settings.blocks {
        Blocks::Exactly(blocks) => all.insert("blocks".into(), blocks.into()),
        Blocks::UntilCi(percent) => all.insert("until_ci_percent".into(), percent.into()),
        Blocks::Within(time) => all.insert("within_s".into(), time.as_secs_f64().into()),
    };
    all
}

/// An arm that can run, and what it has given so far.
struct Running {
    arm: Arm,
    work: Box<dyn Work>,
    samples: Vec<Sample>,
    costs: Vec<Costs>,
    /// What the sample that counts told in the block that is not over.
    pending: Option<Outcome>,
    /// The rest is of complete blocks.
    found: BTreeMap<String, Value>,
    /// Of the samples that count.
    latencies: Option<Histogram<u64>>,
    figures: Vec<Figures>,
    codes: BTreeMap<i32, usize>,
    failed: Option<Failed>,
    explained: Option<Explained>,
}

impl Running {
    /// A block is complete, so that what was told in it counts.
    fn keep(&mut self, block: u32) {
        let taken = self.pending.take().map_or(Ok(()), |outcome| self.take(outcome));
        if let Err(why) = taken {
            self.failed.get_or_insert(Failed { block, why });
        }
    }

    /// It failed, and what it gave before in that block has nothing beside it: the reference arm and the
    /// A/A control are one work.
    fn fail(&mut self, block: u32, why: String) {
        self.samples.retain(|sample| sample.block < block);
        self.costs.truncate(self.samples.len());
        self.pending = None;
        self.failed = Some(Failed { block, why });
    }

    /// What a sample that counts told beside its value.
    fn take(&mut self, outcome: Outcome) -> Result<(), String> {
        // A bound holds for all of them where it is the largest.
        let peak = |found: &BTreeMap<_, Value>| found.get(PEAK_AT_MOST).and_then(Value::as_u64);
        let at_most = peak(&self.found).max(peak(&outcome.found));
        // And what was damaged once is not intact.
        let is_damaged = |found: &BTreeMap<_, Value>| found.get(INTACT) == Some(&false.into());
        let damaged = is_damaged(&self.found) || is_damaged(&outcome.found);
        self.found = outcome.found;
        self.found.extend(damaged.then(|| (INTACT.to_owned(), false.into())));
        self.found.extend(at_most.map(|bytes| (PEAK_AT_MOST.to_owned(), bytes.into())));
        self.figures.push(outcome.figures);
        if let Some(code) = outcome.code {
            *self.codes.entry(code).or_default() += 1;
        }
        match (&mut self.latencies, outcome.latencies) {
            (Some(all), Some(latencies)) => {
                all.add(latencies).map_err(|error| format!("its latencies: {error}"))?;
            }
            (all, latencies) => *all = all.take().or(latencies),
        }
        Ok(())
    }

    /// What is told of all its samples together, by the names of parameters.
    fn told(&self) -> BTreeMap<String, Value> {
        let mut told = self.found.clone();
        let latency = self.latencies.as_ref().and_then(|all| Latency::of(all).ok());
        if let Some(value) = latency.and_then(|latency| serde_json::to_value(latency).ok()) {
            told.insert(latency::PARAM.to_owned(), value);
        }
        let figures = Figures::medians(&self.figures);
        if let Ok(value) = serde_json::to_value(&figures)
            && !figures.0.is_empty()
        {
            told.insert(figures::PARAM.to_owned(), value);
        }
        if self.codes.keys().any(|code| *code != 0) {
            let counts = self.codes.iter().map(|(code, count)| (code.to_string(), (*count).into()));
            told.insert(EXIT_CODES.to_owned(), Value::Object(counts.collect()));
        }
        told
    }
}

/// When an arm failed, and why.
struct Failed {
    block: u32,
    why: String,
}

struct Bench {
    running: Vec<Running>,
    unavailable: Vec<Arm>,
    control: Vec<Sample>,
    /// The order of the arms as they were given, by name.
    order: Vec<String>,
    blocks: u32,
    notes: Vec<String>,
}

impl Bench {
    /// Tries every arm once, so that one that cannot run is known, with its reason, before the
    /// blocks begin.
    fn prepare(
        arms: Vec<Arm>,
        timing: &Timing,
        observer: &mut dyn Observer,
    ) -> Result<Bench, LabError> {
        let order = arms.iter().map(|arm| arm.name.clone()).collect();
        let (mut running, mut unavailable) = (Vec::new(), Vec::new());
        for mut arm in arms {
            let refused = Err("it was already started".to_owned());
            let work = std::mem::replace(&mut arm.work, refused);
            let tried = work.and_then(|work| work.trial(timing).map(|()| work));
            if let Some(early) = end_now(observer) {
                return Err(early.with(&unavailable, &running));
            }
            match tried {
                Ok(work) => running.push(Running {
                    arm,
                    work,
                    samples: Vec::new(),
                    costs: Vec::new(),
                    pending: None,
                    found: BTreeMap::new(),
                    latencies: None,
                    figures: Vec::new(),
                    codes: BTreeMap::new(),
                    failed: None,
                    explained: None,
                }),
                Err(why) => {
                    observer.unavailable(&arm.name, &why);
                    unavailable.push(Arm { work: Err(why), ..arm });
                }
            }
        }
        if running.is_empty() {
            return Err(LabError::NoArm(reasons(&unavailable, &[])));
        }
        Ok(Bench { running, unavailable, control: Vec::new(), order, blocks: 0, notes: Vec::new() })
    }

    fn reference(&self, name: &str) -> usize {
        self.running.iter().position(|running| running.arm.name == name).unwrap_or(0)
    }

    /// Takes the samples.
    ///
    /// # Errors
    /// Why it ended early.
    fn measure(
        &mut self,
        reference: usize,
        settings: &Settings,
        ends: Option<Instant>,
        observer: &mut dyn Observer,
    ) -> Result<(), LabError> {
        let lineup = Lineup::new(self.running.len(), reference);
        let (blocks, mut rule) = match settings.blocks {
            Blocks::Exactly(blocks) => (blocks, None),
            Blocks::UntilCi(percent) => (u32::MAX, Some(UntilCi::new(percent))),
            Blocks::Within(_) => (u32::MAX, None),
        };
        observer.begin(lineup.in_a_block(), (blocks < u32::MAX).then_some(blocks));
        let mut schedule = Schedule::new(lineup, blocks, settings.seed);
        while let Some(turn) = schedule.next() {
            let work_of = lineup.work_of(turn.arm);
            observer.sample(&turn, &self.running[work_of].arm.name);
            let could_run = self.running[work_of].failed.is_none();
            self.turn(turn, work_of, lineup, settings, &mut schedule);
            if let Some(early) = end_now(observer) {
                // Its processes were interrupted too.
                self.running[work_of].failed.take_if(|_| could_run);
                return Err(early);
            }
            if !schedule.block_finished() {
                continue;
            }
            self.blocks = turn.block + 1;
            self.running.iter_mut().for_each(|running| running.keep(turn.block));
            if self.running.iter().all(|running| running.failed.is_some()) {
                schedule.stop();
            }
            let out_of_time = ends.is_some_and(|ends| Instant::now() >= ends);
            if out_of_time && self.blocks >= BLOCKS_WITHIN_MIN {
                schedule.stop();
            }
            if let Some(rule) = &mut rule {
                let decision = rule.after_block(self.widest(reference));
                self.notes.extend(decided(decision, self.blocks));
                if decision != Decision::Continue {
                    schedule.stop();
                }
            }
        }
        Ok(())
    }

    /// Has every arm that ran explained, until somebody wishes the end.
    fn explain(&mut self, timing: &Timing, how: Explain, observer: &mut dyn Observer) {
        // The arms that are not, by the reason, which most often is the same for all.
        let mut without: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        for running in self.running.iter_mut().filter(|running| running.failed.is_none()) {
            let explained = match end_now(observer) {
                None => observer.explain(&running.arm, running.work.as_ref(), timing, how),
                Some(_) => Ok(None),
            };
            match explained {
                Ok(None) if end_now(observer).is_some() => {
                    self.notes.push("interrupted before every arm was explained".to_owned());
                    break;
                }
                Ok(explained) => running.explained = explained,
                Err(why) => without.entry(why).or_default().push(&running.arm.name),
            }
        }
        let note = |(why, arms): (String, Vec<&str>)| {
            format!("{NOT_EXPLAINED} {}: {why}", arms.join(", "))
        };
        self.notes.extend(without.into_iter().map(note));
    }

    /// Drops what is of a block that did not come to its end: an arm that failed in it was most
    /// likely interrupted, and samples that have no others beside them cannot be compared. What they
    /// told was not taken yet.
    fn keep_complete_blocks(&mut self, wanted: Blocks, early: LabError) -> Result<(), LabError> {
        let complete = self.blocks;
        if complete == 0 {
            return Err(early.with(&self.unavailable, &self.running));
        }
        for running in &mut self.running {
            // Samples come block by block, each with its costs.
            running.samples.retain(|sample| sample.block < complete);
            running.costs.truncate(running.samples.len());
            running.failed.take_if(|failed| failed.block >= complete);
        }
        self.control.retain(|sample| sample.block < complete);
        let mut note = match wanted {
            Blocks::Exactly(blocks) => format!("{INTERRUPTED} {complete} of {blocks} blocks"),
            Blocks::UntilCi(_) | Blocks::Within(_) => {
                format!("{INTERRUPTED} {}", blocks(complete))
            }
        };
        if let LabError::Replaced(path) = early {
            note += &format!(": {REPLACED} {}", path.display());
        }
        self.notes.push(note);
        Ok(())
    }

    fn turn(
        &mut self,
        turn: Turn,
        work_of: usize,
        lineup: Lineup,
        settings: &Settings,
        schedule: &mut Schedule,
    ) {
        let is_control = turn.arm == lineup.control();
        let running = &mut self.running[work_of];
        if running.failed.is_some() {
            return;
        }
        let (outcome, noise) = match observed(running.work.as_ref(), &settings.timing) {
            Ok(observed) => observed,
            Err(why) => {
                running.fail(turn.block, why);
                if work_of == lineup.reference() {
                    self.control.retain(|sample| sample.block < turn.block);
                }
                return;
            }
        };
        let again = noise.flagged && schedule.repeat(turn) == Repeat::Queued;
        let sample = Sample {
            block: turn.block,
            order: turn.order,
            value: outcome.value,
            flagged: noise.flagged,
            flag_why: noise.flagged.then_some(noise.why),
            superseded: again,
            steal_share: noise.steal_share,
            foreign_cpu_share: noise.foreign_share,
            seconds: outcome.seconds,
        };
        if is_control {
            self.control.push(sample);
            return;
        }
        running.costs.push(outcome.costs);
        running.samples.push(sample);
        if !again {
            running.pending = Some(outcome);
        }
    }

    /// The widest interval of any arm, as a share of its median or of its ratio, on which the verdict
    /// rests.
    fn widest(&self, reference: usize) -> f64 {
        let values: Vec<_> =
            self.running.iter().map(|running| Sample::counted(&running.samples)).collect();
        let width = |(index, of): (usize, usize)| {
            let own = median_interval(&values[index]).ok()?;
            let own = own.relative_half_width(median(&values[index])?);
            // Of an arm whose reference failed there is no ratio to wait for.
            let ratio = Ratio::of(&values[index], &values[of]).ok().filter(|_| index != of);
            let ratio = ratio.map(|ratio| ratio.interval.relative_half_width(ratio.median));
            Some(own.max(ratio.unwrap_or(0.0)))
        };
        let arms = self.references(reference).into_iter().enumerate();
        arms.filter(|(index, _)| self.running[*index].failed.is_none())
            .map(|arm| width(arm).unwrap_or(f64::INFINITY))
            .reduce(f64::max)
            .unwrap_or(f64::INFINITY)
    }

    /// For each arm, the one that it is compared with: the first of its section that did not fail,
    /// or the run's reference.
    fn references(&self, reference: usize) -> Vec<usize> {
        let first_of = |section: &String| {
            self.running.iter().position(|running| {
                running.arm.section.as_ref() == Some(section) && running.failed.is_none()
            })
        };
        let of = |(index, running): (usize, &Running)| match &running.arm.section {
            Some(section) => first_of(section).unwrap_or(index),
            None => reference,
        };
        self.running.iter().enumerate().map(of).collect()
    }

    fn record(self, reference: usize, experiment: Experiment) -> Record {
        let compared = Sample::counted(&self.running[reference].samples);
        let references = self.references(reference);
        let values: Vec<_> =
            references.iter().map(|of| Sample::counted(&self.running[*of].samples)).collect();
        let control = Ratio::of(&Sample::counted(&self.control), &compared);
        let why = match &control {
            Ok(control) => verdict::untrusted_why(control),
            Err(why) => Some(format!("the A/A control tells nothing: {why}")),
        };
        let control_name = format!("{}{CONTROL_SUFFIX}", self.running[reference].arm.name);
        let mut notes = self.notes;
        let failed = self.running[reference].failed.is_some();
        let failed = failed.then(|| self.running[reference].arm.name.clone());
        let mut arms: Vec<bytepath_report::Arm> = Vec::new();
        for (index, running) in self.running.into_iter().enumerate() {
            let compared = &values[index];
            arms.push(finished(running, references[index] == index, compared, &mut notes));
        }
        if let Some(name) = failed {
            // A section whose reference it is not has ratios all the same.
            let has_ratios = arms.iter().any(|arm| !arm.reference && arm.ratio.is_some());
            let what = match (has_ratios, &control) {
                (false, _) => "so there are no ratios",
                (true, Err(_)) => "so there is no A/A control",
                (true, Ok(_)) => "so the A/A control ends there",
            };
            notes.push(format!("the reference arm {name} failed, {what}"));
        }
        arms.extend(self.unavailable.into_iter().map(unavailable));
        arms.sort_by_key(|arm| self.order.iter().position(|name| *name == arm.name));
        Record {
            schema: SchemaName::V1,
            id: String::new(),
            started: String::new(),
            bytepath: Program::this().map(Program::build).unwrap_or_default(),
            machine: facts::of(Machine::this()),
            experiment,
            settings: BTreeMap::new(),
            blocks: self.blocks,
            trusted: why.is_none(),
            untrusted_why: why,
            control: control.ok().map(|control| Control {
                arm: control_name,
                ratio: control.median,
                ratio_ci95: [control.interval.low, control.interval.high],
                samples: self.control,
            }),
            arms,
            notes,
        }
    }
}

/// How the note begins that tells of an interruption.
const INTERRUPTED: &str = "interrupted after";

/// After how many blocks the run was interrupted, if it was, as a clause.
pub fn interruption(record: &Record) -> Option<&str> {
    record.notes.iter().map(String::as_str).find(|note| note.starts_with(INTERRUPTED))
}

/// How the note begins of arms that were to be explained, and are not.
const NOT_EXPLAINED: &str = "not explained:";

/// What a record's notes say of arms that were to be explained, and are not.
pub fn not_explained(record: &Record) -> Vec<&str> {
    let notes = record.notes.iter().map(String::as_str);
    notes.filter(|note| note.starts_with(NOT_EXPLAINED)).collect()
}

/// How the reason begins of an arm that could run, and then failed.
const FAILED: &str = "it failed in block";

/// Whether an arm could run, and then failed.
pub fn has_failed(arm: &bytepath_report::Arm) -> bool {
    arm.status == Status::Unavailable && arm.why.as_ref().is_some_and(|why| why.starts_with(FAILED))
}

/// Why arms cannot run, and those of the running ones that failed did: arm by arm, or once where all that
/// there are have the same reason.
fn reasons(unavailable: &[Arm], running: &[Running]) -> String {
    let cannot = unavailable.iter().filter_map(|arm| Some((&arm.name, arm.work.as_ref().err()?)));
    let failed = running.iter().filter_map(|one| Some((&one.arm.name, &one.failed.as_ref()?.why)));
    let all: Vec<(&String, &String)> = cannot.chain(failed).collect();
    match all[..] {
        [(_, why), _, ..] if running.is_empty() && all.iter().all(|(_, other)| *other == why) => {
            format!("  all {}: {why}", all.len())
        }
        _ => {
            let lines = all.iter().map(|(name, why)| format!("  {name}: {why}"));
            lines.collect::<Vec<_>>().join("\n")
        }
    }
}

/// So many blocks, in words.
fn blocks(count: u32) -> String {
    format!("{count} block{}", if count == 1 { "" } else { "s" })
}

/// What to say when a run until the intervals are narrow comes to its end.
fn decided(decision: Decision, blocks: u32) -> Option<String> {
    match decision {
        Decision::Continue => None,
        Decision::Reached => Some(format!(
            "stopped after {blocks} blocks: the intervals, also of ratios, are as narrow as asked for"
        )),
        Decision::GaveUp => Some(format!(
            "given up after {blocks} blocks: intervals, maybe of ratios, were not narrow enough \
             {UNTIL_CI_CONSECUTIVE} times in a row"
        )),
    }
}

/// One sample with what strangers did meanwhile.
fn observed(work: &dyn Work, timing: &Timing) -> Result<(Outcome, Disturbance), String> {
    let watch = Watch::begin(work.is_served_by_the_kernel());
    let outcome = work.sample(timing)?;
    let everywhere: Vec<usize> = Machine::this().allowed_cpus().iter().collect();
    let cpus = if work.cpus().is_empty() { &everywhere } else { work.cpus() };
    let mut distinct = cpus.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    Ok((outcome, watch.end(&distinct)))
}

/// How many times as much the one arm gave as the other: the median over the blocks, as tables have it.
pub(crate) fn times(one: &bytepath_report::Arm, other: &bytepath_report::Arm) -> Option<f64> {
    let blocks = Ratio::of(&one.counted(), &other.counted());
    // Of too few blocks there are the medians alone.
    blocks.ok().map(|ratio| ratio.median).or_else(|| Some(one.median? / other.median?))
}

fn finished(
    running: Running,
    reference: bool,
    compared: &[f64],
    notes: &mut Vec<String>,
) -> bytepath_report::Arm {
    let told = running.told();
    let Running { arm, samples, costs, codes, failed, explained, .. } = running;
    let mut shown = bytepath_report::Arm {
        params: arm.params.into_iter().chain(told).collect(),
        touched: arm.touched,
        published: arm.published,
        section: arm.section,
        reference,
        explained,
        ..bytepath_report::Arm::new(arm.name, arm.unit)
    };
    if let Some(Failed { block, why }) = failed {
        return bytepath_report::Arm {
            status: Status::Unavailable,
            why: Some(format!("{FAILED} {}: {why}", block + 1)),
            samples,
            ..shown
        };
    }
    let values = Sample::counted(&samples);
    notes.extend(warnings(&shown.name, shown.unit, &values));
    notes.extend(failures(&shown.name, &codes));
    shown.median = median(&values);
    shown.ci95 = median_interval(&values).ok().map(|interval| [interval.low, interval.high]);
    let count = |(_, sample): &(&Costs, &Sample)| !sample.superseded;
    let costs: Vec<&Costs> =
        costs.iter().zip(&samples).filter(count).map(|(costs, _)| costs).collect();
    let costs = median_costs(&costs);
    if costs.peak_memory_bytes.is_some() {
        shown.params.remove(PEAK_AT_MOST);
    }
    shown.costs = Some(costs);
    shown.samples = samples;
    match Ratio::of(&values, compared) {
        // How far its own blocks are apart says nothing of how far it is from itself.
        _ if reference => shown.ratio = shown.median.map(|_| 1.0),
        Ok(ratio) => {
            shown.ratio = Some(ratio.median);
            shown.ratio_ci95 = Some([ratio.interval.low, ratio.interval.high]);
            shown.verdict = Some(verdict::of(ratio.interval, shown.better, EQUIVALENCE_MARGIN));
        }
        Err(_) => {}
    }
    shown
}

fn unavailable(arm: Arm) -> bytepath_report::Arm {
    let why = arm.work.err().unwrap_or_default();
    bytepath_report::Arm {
        params: arm.params,
        touched: arm.touched,
        published: arm.published,
        section: arm.section,
        ..bytepath_report::Arm::unavailable(arm.name, arm.unit, why)
    }
}

/// Why an arm has no interval and nothing can be said of it, for a value that is in it. Of too few
/// blocks, everybody sees how many there are.
pub(crate) fn no_interval(name: &str, values: &[f64]) -> Option<String> {
    let why = median_interval(values).err()?;
    let odd = matches!(why, StatsError::NotPositive { .. });
    odd.then(|| format!("{name}: no interval or verdict: {why}"))
}

/// What a reader of the figures should know: outliers are kept, and named.
fn warnings(name: &str, unit: Unit, values: &[f64]) -> Vec<String> {
    let mut notes: Vec<String> = no_interval(name, values).into_iter().collect();
    let outliers = outliers(values).iter().filter(|outlier| **outlier).count();
    if outliers > 0 {
        notes.push(format!(
            "{name}: {outliers} of {} samples are outliers; they count",
            values.len()
        ));
    }
    if let Some(drift) = crate::stats::drift(values) {
        notes.push(format!("{name}: drifts by {:+.0}% over the run", drift.total_share * 100.0));
    }
    if let Some(modes) = crate::stats::two_modes(values) {
        let unit = unit.as_str();
        let [low, high] = [modes.low, modes.high].map(numbers::figure);
        notes.push(format!(
            "{name}: runs in two modes, around {low} {unit} and around {high} {unit}"
        ));
    }
    notes
}

/// Of runs of a program that failed and count all the same, how many did, and with which codes.
fn failures(name: &str, codes: &BTreeMap<i32, usize>) -> Option<String> {
    let all: usize = codes.values().sum();
    let failed = all - codes.get(&0).unwrap_or(&0);
    let with: Vec<_> = codes.keys().filter(|code| **code != 0).map(i32::to_string).collect();
    (failed > 0).then(|| {
        format!("{name}: {failed} of {all} runs ended with {}; they count", with.join(" or "))
    })
}

fn median_costs(costs: &[&Costs]) -> Costs {
    let mut medians = Costs::default();
    for (field, of_all) in medians.each().into_iter().enumerate() {
        let known = costs.iter().filter_map(|costs| *Costs::clone(costs).each()[field]);
        *of_all = median(&known.collect::<Vec<_>>());
    }
    Costs { peak_memory_bytes: median_peak(costs), ..medians }
}

/// A run whose peak is not known had a smaller one than those of which it is.
fn median_peak(costs: &[&Costs]) -> Option<f64> {
    let known = costs.iter().filter(|costs| costs.peak_memory_bytes.is_some()).count();
    let peaks: Vec<_> = costs.iter().map(|costs| costs.peak_memory_bytes.unwrap_or(0.0)).collect();
    median(&peaks).filter(|_| known * 2 > peaks.len())
}

/// An observer that looks away.
pub struct Quiet;

impl Observer for Quiet {
    fn begin(&mut self, _: usize, _: Option<u32>) {}
    fn unavailable(&mut self, _: &str, _: &str) {}
    fn sample(&mut self, _: &Turn, _: &str) {}
}
