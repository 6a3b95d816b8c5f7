//! Measures this machine once, so that every mover can choose by it: what single operations cost,
//! and how fast each choice of route and settings moves bytes between each pair of ends.

mod check;
mod costs;
mod handing;
pub mod outlets;
pub mod pipes;

use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytepath::machine::{self, Machine, MemoryRoom, memory_room};
use bytepath::profile::{Cost, End, MachineKey, Measured, Pair, Place, Profile, SCHEMA, Setting};
use bytepath_report::{Arm, Experiment, Record, Status};

use crate::arm::{self, Timing};
use crate::ends::GIB;
use crate::experiments::pairs::{self, PAIRS};
use crate::file_set::{is_room, size_hint};
use crate::interrupt;
use crate::lab::{Blocks, Settings};
use crate::pair_work::unnamed;
use crate::stats;

pub use check::{MARGIN, Regret};
pub use costs::spin_budget;
pub use handing::hand;

/// How thoroughly it is measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effort {
    /// How many rounds in which every choice of a pair is measured once.
    pub rounds: Rounds,
    /// Bytes of one sample of a pair, at least.
    pub bytes: u64,
    /// About how long a sample goes on, at least, where there is no end to what can be moved: in less,
    /// the processes have hardly found their CPUs.
    pub time: Duration,
    /// How often all choices of a pair are looked at, to find those that are worth measuring well.
    pub looks: u32,
    /// A look moves so much less than a sample.
    pub look_share: u64,
}

/// How many rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Rounds {
    /// So many for each pair.
    Exactly(u32),
    /// As many as fit into this time for all that is measured, at least 3 for each pair.
    Within(Duration),
}

impl Effort {
    /// Half a minute.
    pub const DEFAULT: Effort = Effort {
        rounds: Rounds::Within(Duration::from_secs(27)),
        bytes: 64 << 20,
        time: Duration::from_millis(20),
        looks: 3,
        look_share: 4,
    };
    /// Eight seconds, for figures that are only roughly right.
    pub const QUICK: Effort = Effort {
        rounds: Rounds::Within(Duration::from_secs(6)),
        bytes: 16 << 20,
        time: Duration::from_millis(8),
        looks: 2,
        look_share: 1,
    };

    fn timing(self) -> Timing {
        Timing { warm_up: self.time / 4, measured: arm::Measured::Time(self.time) }
    }
}

/// Shares the time of a run out among the parts that are still to be measured: two thirds of it to
/// all alike, and what is left to those that are still in doubt.
#[derive(Debug)]
pub struct Budget {
    rounds: Rounds,
    began: Instant,
    parts_left: u32,
}

/// Less time than this is not worth another run, which takes three blocks however long they are.
const FINALS_FROM: Duration = Duration::from_millis(300);

impl Budget {
    /// For so many parts; the time begins now.
    pub fn new(effort: Effort, parts: usize) -> Budget {
        let parts_left = u32::try_from(parts).unwrap_or(u32::MAX);
        Budget { rounds: effort.rounds, began: Instant::now(), parts_left }
    }

    /// The blocks of the next part.
    pub fn next_part(&mut self) -> Blocks {
        let parts = self.parts_left.max(1);
        self.parts_left = self.parts_left.saturating_sub(1);
        match self.rounds {
            Rounds::Exactly(blocks) => Blocks::Exactly(blocks),
            Rounds::Within(time) => {
                Blocks::Within((time * 2 / 3).saturating_sub(self.began.elapsed()) / parts)
            }
        }
    }

    /// The time that is left, shared by doubt: `own` of `all` that is still to be dispelled; nothing
    /// where that is too short for another run.
    pub fn finals(&self, own: f64, all: f64) -> Option<Blocks> {
        let Rounds::Within(time) = self.rounds else { return None };
        if own <= 0.0 {
            return None;
        }
        let time = time.saturating_sub(self.began.elapsed()).mul_f64((own / all).min(1.0));
        (time >= FINALS_FROM).then_some(Blocks::Within(time))
    }
}

/// A directory to measure in, with the file that is moved.
pub struct Site {
    directory: PathBuf,
    /// It has no name, so that nothing can leave it behind.
    file: std::fs::File,
    place: Place,
}

/// Why nothing could be measured in a directory.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// No files could be made in it.
    #[error("cannot make files of {bytes} bytes in {}: {error}{}", directory.display(),
        size_hint(error, "take fewer --bytes, or ", "; name another directory with --dir"))]
    File {
        /// The directory.
        directory: PathBuf,
        /// How large each file had to be.
        bytes: u64,
        /// The kernel's word.
        error: std::io::Error,
    },
    /// The run is to end.
    #[error("interrupted before anything was measured")]
    Interrupted,
    /// It is in memory, of which there is too little.
    #[error(
        "cannot make files of {bytes} bytes in {}, which is in memory: {room}; name another directory with --dir, \
         or fewer --bytes", directory.display()
    )]
    NoRoom {
        /// The directory.
        directory: PathBuf,
        /// How large each file had to be.
        bytes: u64,
        /// What there is.
        room: MemoryRoom,
    },
    /// Its file system cannot be told.
    #[error(transparent)]
    FileSystem(#[from] machine::FileSystemError),
}

/// What is left to the processes that move files in memory.
const SPARE_BYTES: u64 = 8 << 20;

impl Site {
    /// Makes the file that is moved.
    ///
    /// # Errors
    /// There is no room, or no right to it.
    pub fn prepare(directory: &Path, bytes: u64) -> Result<Site, SiteError> {
        let failed = |error| SiteError::File { directory: directory.into(), bytes, error };
        let mut file = unnamed(directory).map_err(failed)?;
        let found = machine::file_system_of(file.as_fd())?;
        let room = memory_room();
        // One is copied to another.
        let both = bytes.saturating_mul(2);
        // The kernel would end this process as their pages come.
        let needed = both.saturating_add(SPARE_BYTES);
        let has_room = room.bytes.saturating_add(room.swap_bytes) >= needed;
        if matches!(found.name.as_str(), "tmpfs" | "ramfs") && !has_room {
            return Err(SiteError::NoRoom { directory: directory.into(), bytes, room });
        }
        is_room(directory, both).map_err(failed)?;
        fill(&mut file, bytes).map_err(failed)?;
        if interrupt::wished() {
            return Err(SiteError::Interrupted);
        }
        // Written back now, so that the disk is quiet while it is measured.
        file.sync_data().map_err(failed)?;
        let device = rustix::fs::fstat(&file).map_err(|errno| failed(errno.into()))?.st_dev;
        let place = Place {
            directory: directory.into(),
            file_system: found.name,
            options: found.options,
            device,
            earlier: None,
        };
        Ok(Site { directory: directory.into(), file, place })
    }

    /// A name for the file while this process has it.
    pub fn file(&self) -> PathBuf {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()).into()
    }
}

/// Bytes that neither compress nor repeat, so that no file system stores fewer; not all of them where the run
/// is to end.
fn fill(file: &mut impl std::io::Write, bytes: u64) -> std::io::Result<()> {
    let mut random = fastrand::Rng::new();
    let mut piece = vec![0; 1 << 20];
    let mut left = bytes;
    while left > 0 && !interrupt::wished() {
        random.fill(&mut piece);
        let count = usize::try_from(left).map_or(piece.len(), |left| left.min(piece.len()));
        file.write_all(&piece[..count])?;
        left -= count as u64;
    }
    file.flush()
}

/// The profile of this machine with the figures of single operations, and no pairs yet; `program`
/// is bytepath.
pub fn begin(machine: &Machine, program: &Path, effort: Effort) -> Profile {
    Profile {
        schema: SCHEMA.into(),
        made: humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string(),
        bytepath: env!("CARGO_PKG_VERSION").into(),
        machine: MachineKey::of(machine),
        disturbed: None,
        costs: costs::measure(machine, program, effort),
        outlets: Vec::new(),
        pairs: Vec::new(),
        named: None,
    }
}

/// The pairs to be measured at a site: those without a file only at the first, as they are the same
/// everywhere.
pub fn pairs_at(first_site: FirstSite) -> Vec<(End, End)> {
    let has_file = |(source, sink): &(End, End)| *source == End::File || *sink == End::File;
    let all = PAIRS.iter().copied();
    match first_site {
        FirstSite::Yes => all.collect(),
        FirstSite::No => all.filter(has_file).collect(),
    }
}

/// Whether a site is the first of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstSite {
    /// It is.
    Yes,
    /// Another was measured before.
    No,
}

/// A run of one pair's choices.
pub struct PairRun<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// Where it is measured.
    pub site: &'a Site,
    /// How thoroughly.
    pub effort: Effort,
    /// How long spinning is worth while.
    pub spin: Option<Duration>,
    /// Where the random orders come from.
    pub seed: u64,
    /// Routes that are measured beside those that always are.
    pub routes: &'a [&'static str],
}

/// A choice that gives less than this share of the best in a scan is not measured again, and at most
/// so many are: the fewer, the more often each. One that is many times slower, as the classic often
/// is, would take most of the time to move as much.
const CONTENDS_FROM: f64 = 0.6;
const CONTENDERS_MAX: usize = 6;

/// So many blocks give an interval.
const BLOCKS_ALONE: u32 = 6;

impl PairRun<'_> {
    /// Every choice, roughly.
    pub fn scan(&self, pair: (End, End)) -> Prepared {
        let bytes = (self.effort.bytes / self.effort.look_share).max(1);
        let blocks = Blocks::Exactly(self.effort.looks);
        self.of(pair, &self.settings(pair), None, (blocks, bytes))
    }

    /// The choices that a scan leaves, and the planner's by the profile at `planned` if there is one.
    pub fn contenders(
        &self,
        pair: (End, End),
        scanned: &Pair,
        planned: Option<&Path>,
        blocks: Blocks,
    ) -> Prepared {
        let mut ranked: Vec<&Measured> = scanned.choices.iter().collect();
        ranked.sort_by(|a, b| b.overall_gib_per_s.total_cmp(&a.overall_gib_per_s));
        let least = ranked.first().map_or(0.0, |best| best.overall_gib_per_s * CONTENDS_FROM);
        let contends = |choice: &&Measured| choice.overall_gib_per_s >= least;
        let left: Vec<Setting> = ranked
            .into_iter()
            .take(CONTENDERS_MAX)
            .filter(contends)
            .map(|choice| choice.choice.clone())
            .collect();
        // What is ahead of all others needs a figure, but no comparison.
        let alone = left.len() == 1 && planned.is_none() && matches!(blocks, Blocks::Within(_));
        let blocks = if alone { Blocks::Exactly(BLOCKS_ALONE) } else { blocks };
        self.of(pair, &left, planned, (blocks, self.sample_bytes(pair, scanned)))
    }

    /// The contenders that came out about as fast as the best of them, to be measured more often.
    pub fn finals(&self, pair: (End, End), contended: &Pair, blocks: Blocks) -> Prepared {
        let level: Vec<Setting> =
            contended.about_as_fast(|_| true).map(|measured| measured.choice.clone()).collect();
        self.of(pair, &level, None, (blocks, self.sample_bytes(pair, contended)))
    }

    /// What the best choice moves in the time of a sample; of a file no more than there is.
    fn sample_bytes(&self, (source, _): (End, End), known: &Pair) -> u64 {
        let speeds = known.choices.iter().map(|choice| choice.overall_gib_per_s);
        let best = speeds.fold(0.0, f64::max);
        match source {
            End::File => self.effort.bytes,
            _ => self.effort.bytes.max((best * GIB * self.effort.time.as_secs_f64()) as u64),
        }
    }

    fn settings(&self, (source, sink): (End, End)) -> Vec<Setting> {
        let mut settings = pairs::settings(source, sink, self.spin);
        settings.extend(pairs::further(self.routes, &settings));
        settings
    }

    fn of(
        &self,
        (source, sink): (End, End),
        settings: &[Setting],
        planned: Option<&Path>,
        (blocks, bytes): (Blocks, u64),
    ) -> Prepared {
        let file = self.site.file();
        let directory = &self.site.directory;
        let setup = pairs::Setup { program: self.program, directory, file: &file, inlet: "read" };
        let mut arms: Vec<arm::Arm> =
            settings.iter().map(|setting| pairs::arm(source, sink, setting, &setup)).collect();
        arms.extend(planned.map(|profile| pairs::planned(source, sink, profile, &setup)));
        let mut experiment = pairs::DESCRIPTION.recorded();
        experiment.name = format!("{source} to {sink}");
        Prepared {
            experiment,
            reference: arms.first().map(|arm| arm.name.clone()).unwrap_or_default(),
            arms,
            settings: Settings {
                blocks,
                seed: self.seed,
                timing: Timing { warm_up: Duration::ZERO, measured: arm::Measured::Bytes(bytes) },
                others: Default::default(),
                explain: None,
            },
        }
    }

    /// Why a route gave no figure in a scan of a pair, though it suits ends of these kinds.
    pub fn refused<'r>(&self, pair: (End, End), scan: &'r Record, route: &str) -> Option<&'r str> {
        let settings = self.settings(pair);
        let setting = settings.iter().find(|setting| setting.route == route)?;
        let arm = scan.arms.iter().find(|arm| arm.name == setting.to_string())?;
        let why = arm.why.as_deref().filter(|_| arm.status == Status::Unavailable)?;
        // So a plan for that route alone says of kinds.
        (!why.starts_with(&format!("route {route} is refused"))).then_some(why)
    }

    /// What the records of a pair say of its choices, by all their samples.
    pub fn measured(&self, (source, sink): (End, End), records: &[Record]) -> Pair {
        let choices = self
            .settings((source, sink))
            .into_iter()
            .filter_map(|setting| measured(setting, records))
            .collect();
        let has_file = source == End::File || sink == End::File;
        let place = has_file.then(|| self.site.place.clone());
        Pair { source, sink, place, bytes: Some(self.effort.bytes), choices }
    }
}

/// How much of the time for finals a pair needs, beside others: nothing where one choice is ahead of
/// all, else the more, the wider the intervals of those that are level; where one has none, as if it were
/// as wide as its figure.
pub fn doubt(contended: &Pair) -> f64 {
    let width = |measured: &Measured| {
        let width = |[low, high]: [f64; 2]| (high - low) / measured.overall_gib_per_s;
        measured.ci95.map_or(1.0, width).clamp(0.0, 1.0)
    };
    let level: Vec<f64> = contended.about_as_fast(|_| true).map(width).collect();
    if level.len() > 1 { level.iter().sum() } else { 0.0 }
}

/// The better figures of two, choice by choice: those of the contenders, and of the scan for the
/// others.
pub fn joined(scanned: Pair, contenders: Pair) -> Pair {
    let again = |old: Measured| {
        let found = contenders.choices.iter().find(|new| new.choice == old.choice);
        found.cloned().unwrap_or(old)
    };
    Pair { choices: scanned.choices.into_iter().map(again).collect(), ..contenders.clone() }
}

fn measured(choice: Setting, records: &[Record]) -> Option<Measured> {
    let name = choice.to_string();
    let ran = |arm: &&Arm| arm.name == name && arm.status == Status::Ok;
    let arms: Vec<&Arm> =
        records.iter().filter_map(|record| record.arms.iter().find(ran)).collect();
    let values: Vec<f64> = arms.iter().flat_map(|arm| counted(arm)).collect();
    let median = stats::median(&values)?;
    let interval = stats::median_interval(&values).ok();
    let ci95 = interval.map(|interval| [interval.low, interval.high].map(kept));
    Some(Measured {
        choice,
        gib_per_s: kept(median),
        ci95,
        overall_gib_per_s: kept(overall(values).unwrap_or(median)),
        cpu_s_per_gib: kept(cpu_s_per_gib(&arms)),
    })
}

/// The digits of a figure that mean something, and a few more: movers read them before they move a
/// byte.
fn kept(figure: f64) -> f64 {
    if figure == 0.0 || !figure.is_finite() {
        return figure;
    }
    const DIGITS: i32 = 5;
    let scale = 10f64.powi(DIGITS - 1 - figure.abs().log10().floor() as i32);
    (figure * scale).round() / scale
}

/// The values of an arm that count.
fn counted(arm: &Arm) -> impl Iterator<Item = f64> {
    arm.samples.iter().filter(|sample| !sample.superseded).map(|sample| sample.value)
}

/// What all samples took of the CPU: each moved as much.
fn cpu_s_per_gib(arms: &[&Arm]) -> f64 {
    let of_arm = |arm: &Arm| {
        let costs = arm.costs.unwrap_or_default();
        let cpu =
            costs.cpu_user_s_per_gib.unwrap_or(0.0) + costs.cpu_system_s_per_gib.unwrap_or(0.0);
        (counted(arm).count() as f64, cpu)
    };
    let (samples, cpu) = arms
        .iter()
        .map(|arm| of_arm(arm))
        .fold((0.0, 0.0), |all, (count, cpu)| (all.0 + count, all.1 + count * cpu));
    cpu / samples.max(1.0)
}

/// The bytes of all samples but the slowest by their time; every sample moves as much.
fn overall(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let kept = if values.len() > 1 { &values[1..] } else { &values[..] };
    let times: f64 = kept.iter().map(|value| 1.0 / value).sum();
    (times > 0.0).then(|| kept.len() as f64 / times)
}

/// What [`lab::run`](crate::lab::run) is to run.
pub struct Prepared {
    /// The question.
    pub experiment: Experiment,
    /// The choices.
    pub arms: Vec<arm::Arm>,
    /// The classic's name.
    pub reference: String,
    /// How.
    pub settings: Settings,
}

/// The figure of this name, if it was measured.
pub fn cost<'p>(profile: &'p Profile, name: &str) -> Option<&'p Cost> {
    profile.costs.iter().find(|cost| cost.name == name)
}

#[cfg(test)]
mod tests {
    use bytepath_report::{Sample, Unit};

    use super::*;

    #[test]
    fn the_overall_speed_is_all_bytes_by_all_time_without_the_slowest_sample() {
        assert_eq!(overall(vec![]), None);
        assert_eq!(overall(vec![5.0]), Some(5.0));
        assert_eq!(overall(vec![1.0, 4.0, 4.0]), Some(4.0));
        // 1 and 1/3 of a second for two of them.
        assert_eq!(overall(vec![0.1, 3.0, 1.0]), Some(1.5));
    }

    #[test]
    fn figures_keep_five_digits() {
        for (figure, five) in [(0.0, 0.0), (123_456.7, 123_460.0), (-1.234_56, -1.2346)] {
            assert_eq!(kept(figure), five);
        }
        assert_eq!(serde_json::to_string(&kept(0.114_745_333)).expect("JSON"), "0.11475");
        assert!(kept(f64::NAN).is_nan());
    }

    #[test]
    fn a_sample_that_was_measured_again_is_not_counted() {
        let sample = |value, superseded| Sample { value, superseded, ..Sample::default() };
        let samples = [(8.0, true), (8.0, false), (2.0, true), (4.0, false)];
        let samples = samples.map(|(value, superseded)| sample(value, superseded)).into();
        let arm = Arm { samples, ..Arm::new("an arm", Unit::GibPerSecond) };
        assert_eq!(counted(&arm).collect::<Vec<_>>(), [8.0, 4.0]);
    }
}
