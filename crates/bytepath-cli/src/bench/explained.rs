//! Arms that are run once more, after and apart from their samples, to say where their time goes.

use std::collections::HashSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath_explain::profile::Profile;
use bytepath_explain::trace::{self, Mode, Tracing};
use bytepath_explain::{Settings, Stacks, Watch, Whom, published};
use bytepath_lab::arm::{Arm, Measured, Timing, Work};
use bytepath_lab::interrupt;
use bytepath_lab::lab::Explain;
use bytepath_report::{Explained, Record};

use super::{Copy, Files, Ipc, Measuring, Pipes};
use crate::explain::shown::{Named, Shown};

/// An arm is looked at for at least so long: a thousand samples of each CPU.
const LOOKED_AT: Duration = Duration::from_secs(1);

/// An arm that is short is run no more often than this for it.
const RUNS_MAX: usize = 20;

/// Of work that serves others.
const CLIENTS_LEFT_OUT: &str = "shares and system calls are the service's own: its clients are left \
    out of them, and are among what is counted";

/// An experiment that `explain` runs.
pub(crate) trait Explains {
    /// The options that all experiments have.
    fn measuring(&mut self) -> &mut Measuring;
    /// Runs it.
    fn run(&self) -> anyhow::Result<()>;
}

/// Runs an experiment for its explanations: with few samples, unless more are asked for, of little.
pub(crate) fn explain(options: &mut dyn Explains) -> anyhow::Result<()> {
    let measuring = options.measuring();
    measuring.explain = true;
    measuring.quick = true;
    super::interrupt::ended(|| options.run())
}

impl Explains for Pipes {
    fn measuring(&mut self) -> &mut Measuring {
        &mut self.measuring
    }

    fn run(&self) -> anyhow::Result<()> {
        super::pipes(self)
    }
}

impl Explains for Files {
    fn measuring(&mut self) -> &mut Measuring {
        &mut self.measuring
    }

    fn run(&self) -> anyhow::Result<()> {
        super::files::run(self)
    }
}

impl Explains for Copy {
    fn measuring(&mut self) -> &mut Measuring {
        &mut self.measuring
    }

    fn run(&self) -> anyhow::Result<()> {
        super::copy::run(self)
    }
}

impl Explains for Ipc {
    fn measuring(&mut self) -> &mut Measuring {
        &mut self.measuring
    }

    fn run(&self) -> anyhow::Result<()> {
        super::ipc::run(self)
    }
}

/// Runs an arm while samples are taken; none where somebody wishes the end, or what was found is
/// told and not kept.
///
/// # Errors
/// The arm fails this time, or cannot be traced.
pub(super) fn looked_at(
    arm: &Arm,
    work: &dyn Work,
    timing: &Timing,
    how: Explain,
) -> Result<Option<Explained>, String> {
    if let Some(mode) = Mode::ALL.iter().find(|mode| Some(mode.name()) == how.trace) {
        let traced = traced(*mode, arm, work, timing).map_err(|error| format!("{error:#}"));
        return traced.or_else(of_itself).map(|()| None);
    }
    let stacks = if how.frame_pointers { Stacks::FramePointers } else { Stacks::Tables };
    let beside: Vec<String> = work.beside().iter().map(|name| (*name).to_owned()).collect();
    let has_load = !beside.is_empty();
    let settings = Settings { hz: how.hz, stacks, beside, ..Settings::default() };
    let measured = match timing.measured {
        Measured::Time(time) => Measured::Time(time.max(LOOKED_AT)),
        bytes @ Measured::Bytes(_) => bytes,
    };
    let timing = Timing { measured, ..*timing };
    let watch = Watch::start(Whom::Started, work.cpus(), &settings);
    let began = Instant::now();
    let mut ran = Ok(());
    for _ in 0..RUNS_MAX {
        ran = work.sample(&timing).map(|_| ());
        if ran.is_err() || began.elapsed() >= LOOKED_AT || interrupt::wished() {
            break;
        }
    }
    let mut explained = watch.stop().explained;
    ran.or_else(of_itself)?;
    if has_load {
        explained.missing.push(CLIENTS_LEFT_OUT.to_owned());
    }
    published::beside(&arm.name, &mut explained);
    Ok(Some(explained).filter(|_| !interrupt::wished()))
}

/// The error, where it is the arm's own: one that is told to end says so in its own way.
fn of_itself(why: String) -> Result<(), String> {
    if interrupt::wished() { Ok(()) } else { Err(why) }
}

/// Runs an arm once while it is traced, and tells what was found on standard output.
fn traced(mode: Mode, arm: &Arm, work: &dyn Work, timing: &Timing) -> anyhow::Result<()> {
    use std::io::Write as _;
    let mut tracing = Tracing::start(mode)?;
    tracing.arm()?;
    let ran = work.sample(timing);
    tracing.disarm();
    let traced = tracing.finish(&arm.name)?;
    ran.map_err(anyhow::Error::msg)?;
    let text = trace::shown::text(&traced);
    // Where it cannot be written, nor can the table that comes after it, which tells so.
    let _ = writeln!(std::io::stdout(), "── {} ──\n{text}", arm.name);
    Ok(())
}

/// An arm by its name, its explanation, and the samples that the record keeps.
pub(super) type Arms<'a> = [(&'a str, &'a Explained, Profile)];

/// The arms of a record that are explained.
pub(super) fn arms(record: &Record) -> Vec<(&str, &Explained, Profile)> {
    let explained = |arm: &'_ bytepath_report::Arm| -> Option<Profile> {
        let kept = &arm.explained.as_ref()?.stacks;
        Some(Profile::from_folded(kept.iter().map(|stack| (stack.frames.as_str(), stack.count))))
    };
    let arms = record.arms.iter();
    arms.filter_map(|arm| Some((arm.name.as_str(), arm.explained.as_ref()?, explained(arm)?)))
        .collect()
}

/// All explanations, arm by arm.
pub(super) fn text(arms: &Arms<'_>, shown: &Shown) -> String {
    let mut said: HashSet<&str> = HashSet::new();
    let mut text = String::new();
    for (name, explained, profile) in arms {
        // What is missing is so for all of them, and said with the first.
        let new = explained.missing.iter().filter(|missing| said.insert(missing)).cloned();
        let explained = Explained { missing: new.collect(), ..(*explained).clone() };
        let named = Named { name, explained: &explained, profile };
        text += &format!("\n── {name} ──\n{}\n", shown.text(&named).trim_end());
    }
    text
}

/// The files that were asked for, and what is to be in them.
pub(super) fn made(arms: &Arms<'_>, shown: &Shown) -> Vec<anyhow::Result<(PathBuf, Vec<u8>)>> {
    let named = arms.iter().map(|(name, explained, profile)| Named { name, explained, profile });
    let named: Vec<Named<'_>> = named.collect();
    shown.made(&named)
}
