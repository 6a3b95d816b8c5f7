//! `bytepath bench run`: pipelines by the shell and by `bytepath run`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use bytepath_lab::experiments::run::{self, Asked};
use bytepath_lab::lab::Blocks;
use clap::Args;
use serde_json::Value;

use super::choosing::{Listing, listed};
use super::cmd::{failed, tolerated};
use super::input::Input;
use super::measuring::{BLOCKS, Measuring, Sampling, directory, telling};
use super::results::print;
use crate::hidden::this_program;
use crate::measured::against_first;
use crate::usage::wrong_usage;
use crate::values;

/// How long does a pipeline take by the shell, and by bytepath run?
#[derive(Args)]
#[command(mut_args(telling(BLOCKS, [Sampling::USUAL, Sampling::QUICK])))]
pub(super) struct Run {
    /// What you would type into a shell, each pipeline as one argument
    #[arg(required = true)]
    pipeline: Vec<String>,
    /// The shell; $SHELL, or else /bin/sh, unless given
    #[arg(long, value_name = "PATH")]
    shell: Option<PathBuf>,
    /// Have the shell do this before each sample, outside of the clock: 'rm -rf x; mkdir x'
    #[arg(long, value_name = "COMMAND")]
    prepare: Option<String>,
    /// Give bytepath run this option too, such as --no-place; may be given more than once
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    with: Vec<String>,
    /// Measure pipelines that end with another code than 0, or by a signal, too; or those alone
    /// that end with one of these codes
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    ignore_failure: Option<String>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    listing: Listing,
    /// Begin no further block after this time, once there are 3
    #[arg(long, value_name = "TIME", value_parser = values::some_time, conflicts_with_all = ["blocks", "until_ci", "quick"])]
    within: Option<Duration>,
    /// Keep outputs in this directory while they are compared
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    measuring: Measuring,
}

impl Run {
    /// What the work is, for the record. Of several pipelines, the arms' names say which.
    fn describe(&self, settings: &mut BTreeMap<String, Value>) {
        let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
        if let [pipeline] = &self.pipeline[..] {
            set("pipeline", pipeline.as_str().into());
        }
        if let Some(prepare) = &self.prepare {
            set("prepare", prepare.as_str().into());
        }
        if !self.with.is_empty() {
            set("with", self.with.clone().into());
        }
        self.input.describe(settings);
    }
}

pub(super) fn run(options: &Run) -> anyhow::Result<()> {
    if options.pipeline.iter().any(|text| text.trim().is_empty()) {
        return Err(wrong_usage("a pipeline is empty"));
    }
    if let Some(index) = (1..options.pipeline.len())
        .find(|&at| options.pipeline[..at].contains(&options.pipeline[at]))
    {
        return Err(wrong_usage(format!(
            "{:?} would run twice: give each once",
            options.pipeline[index]
        )));
    }
    let program = this_program()?;
    let directory = directory(&options.dir)?;
    let input = options.input.file()?;
    let shell = crate::run::shell(options.shell.as_deref());
    let (arms, notes) = run::arms(&Asked {
        program: &program,
        shell: &shell,
        pipelines: &options.pipeline,
        prepare: options.prepare.as_deref(),
        input: input.as_deref(),
        directory: &directory,
        tolerated: tolerated(options.ignore_failure.as_deref())?,
        options: &options.with,
    });
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    // A sample is as large as the pipeline makes it; what is asked for here is only told.
    let mut settings = options.measuring.settings(Some(0));
    if let Some(within) = options.within {
        settings.blocks = Blocks::Within(within);
    }
    settings.others.insert("shell".into(), shell.display().to_string().into());
    options.describe(&mut settings.others);
    let mut record = against_first(run::DESCRIPTION.recorded(), arms, &settings)?;
    record.notes.append(&mut notes.borrow_mut());
    record.notes.extend(options.input.unread());
    print(&record, None, outputs)?;
    failed(&record, "arms")
}
