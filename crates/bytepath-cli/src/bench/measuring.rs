//! The options of experiments that say how much is sampled and where results go, and what holds
//! unless they are given.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use bytepath_lab::arm::{Measured, Timing};
use bytepath_lab::lab::{Blocks, Settings};
use bytepath_lab::schedule::fresh_seed;
use clap::{Arg, Args};

use super::again;
use crate::shown::Shown;
use crate::values;

/// Options of every experiment.
#[derive(Args, Default)]
pub(crate) struct Measuring {
    /// 3 blocks of short samples
    #[arg(long)]
    pub(super) quick: bool,
    /// How many blocks: rounds in which every arm runs once
    #[arg(long, value_name = "N", conflicts_with = "until_ci", value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub(super) blocks: Option<u32>,
    /// Go on until every 95% interval, also of ratios, is narrower than ± so many percent, in place of --blocks
    #[arg(long, value_name = "PERCENT", value_parser = values::percent(values::PART))]
    pub(super) until_ci: Option<f64>,
    /// Draw the random orders from this seed, as an earlier record names it
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(super) seed: Option<u64>,
    /// Write the record to a file; - for standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write every sample to a file as CSV; - for standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Write a page for people to a file: plots, costs, the machine; see bytepath report
    #[arg(long, value_name = "FILE")]
    pub(super) report: Option<PathBuf>,
    /// Draw the medians and their intervals below the table
    #[arg(long)]
    pub(super) plot: bool,
    /// Do not keep the run; see bytepath history
    #[arg(long)]
    pub(super) no_store: bool,
    /// Run each arm once more after its samples, and say where its time goes; see bytepath explain
    #[arg(long)]
    pub(super) explain: bool,
    #[command(flatten, next_help_heading = "With --explain")]
    pub(super) shown: Shown,
}

/// Options of experiments whose arms run for a time.
#[derive(Args, Default)]
pub(crate) struct Times {
    /// Time per sample
    #[arg(long, value_name = "TIME", value_parser = values::some_time)]
    pub(super) time: Option<Duration>,
    /// Time per sample before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up)]
    pub(super) warm_up: Option<Duration>,
}

impl Times {
    pub(super) fn are_given(&self) -> bool {
        self.time.is_some() || self.warm_up.is_some()
    }

    /// These settings, with the times that are given.
    pub(super) fn in_place_of(&self, mut settings: Settings) -> Settings {
        let timing = &mut settings.timing;
        timing.measured = self.time.map_or(timing.measured, Measured::Time);
        timing.warm_up = self.warm_up.unwrap_or(timing.warm_up);
        settings
    }
}

/// How much is sampled unless told otherwise.
#[derive(Clone, Copy)]
pub(super) struct Sampling {
    pub(super) blocks: u32,
    pub(super) time: Duration,
    pub(super) warm_up: Duration,
}

impl Sampling {
    /// The default run of `pipes` takes under 3 minutes on 2 CPUs.
    pub(super) const USUAL: Sampling = Sampling {
        blocks: 10,
        time: Duration::from_millis(300),
        warm_up: Duration::from_millis(100),
    };
    /// A quick one takes under 30 seconds.
    pub(super) const QUICK: Sampling = Sampling {
        blocks: 3,
        time: Duration::from_millis(150),
        warm_up: Duration::from_millis(50),
    };
    /// Many short blocks tell differences under 1% on a machine whose speed wanders by 10%.
    pub(super) const FINE: Sampling = Sampling {
        blocks: 400,
        time: Duration::from_millis(50),
        warm_up: Duration::from_millis(10),
    };
    pub(super) const FINE_QUICK: Sampling =
        Sampling { blocks: 3, time: Duration::from_millis(30), warm_up: Duration::from_millis(5) };
}

/// The options whose help tells how much is sampled unless they are given; and parts of them.
pub(super) const ALL: &[&str] = &["blocks", "time", "warm_up"];
pub(super) const BLOCKS: &[&str] = &["blocks"];
pub(super) const TIMES: &[&str] = &["time", "warm_up"];

/// Has the help of options tell what holds unless they are given: usually, and with --quick.
pub(super) fn telling(
    options: &'static [&'static str],
    [usual, quick]: [Sampling; 2],
) -> impl FnMut(Arg) -> Arg {
    telling_with("", options, [usual, quick])
}

/// As [`telling`], where they have an effect with another option alone.
pub(super) fn telling_with(
    other: &'static str,
    options: &'static [&'static str],
    [usual, quick]: [Sampling; 2],
) -> impl FnMut(Arg) -> Arg {
    move |option| {
        let id = option.get_id().as_str();
        let of = |sampling: Sampling| match id {
            "blocks" => sampling.blocks.to_string(),
            "time" => written(sampling.time),
            _ => written(sampling.warm_up),
        };
        match options.contains(&id) {
            true => {
                let more = format!("{other}{} unless given, {} with --quick", of(usual), of(quick));
                adding(option, &more)
            }
            false => option,
        }
    }
}

/// A time, as it can be given.
fn written(time: Duration) -> String {
    if time.is_zero() { "0s".to_owned() } else { format!("{time:?}") }
}

/// The option, with more in its help.
pub(super) fn adding(option: Arg, more: &str) -> Arg {
    let help = option.get_help().map(ToString::to_string).unwrap_or_default();
    option.help(format!("{help}; {more}"))
}

impl Measuring {
    pub(super) fn settings(&self, bytes: Option<u64>) -> Settings {
        self.settings_between(Sampling::USUAL, Sampling::QUICK, bytes)
    }

    /// The settings, as `usual`, or as `quick` when that is asked for, where the user says nothing
    /// else.
    pub(super) fn settings_between(
        &self,
        usual: Sampling,
        quick: Sampling,
        bytes: Option<u64>,
    ) -> Settings {
        let usual = if self.quick { quick } else { usual };
        let seed = self.seed.unwrap_or_else(fresh_seed);
        let measured = match bytes {
            Some(bytes) => Measured::Bytes(bytes),
            None => Measured::Time(usual.time),
        };
        Settings {
            blocks: match self.until_ci {
                Some(percent) => Blocks::UntilCi(percent),
                None => Blocks::Exactly(self.blocks.unwrap_or(usual.blocks)),
            },
            seed,
            timing: Timing { warm_up: usual.warm_up, measured },
            others: again::command(seed),
            explain: self.explain.then(|| self.shown.for_arms()),
        }
    }

    /// Whether it is left to the experiment how many blocks there are.
    pub(super) fn leaves_blocks_open(&self) -> bool {
        self.blocks.is_none() && self.until_ci.is_none() && !self.quick
    }
}

/// The directory that was asked for, wherever this process goes.
pub(crate) fn directory(asked: &Path) -> anyhow::Result<PathBuf> {
    std::fs::canonicalize(asked).with_context(|| format!("cannot measure in {}", asked.display()))
}

/// A seed, as records name it.
fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is no seed; it is a whole number of up to 64 bits"))
}
