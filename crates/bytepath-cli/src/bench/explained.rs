//! Experiments that are run for their explanations, and how those are shown.

use std::collections::HashSet;
use std::path::PathBuf;

use bytepath_explain::profile::Profile;
use bytepath_report::{Explained, Record};

use super::measuring::Measuring;
use super::{Copy, Files, Ipc, Pipes};
use crate::interrupt;
use crate::shown::{Named, Shown};

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
    interrupt::ended(|| options.run())
}

impl Explains for Pipes {
    fn measuring(&mut self) -> &mut Measuring {
        &mut self.measuring
    }

    fn run(&self) -> anyhow::Result<()> {
        super::pipes::run(self)
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
