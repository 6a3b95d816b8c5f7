//! What the commands that are not shown in the help, the processes of a measurement, have in common:
//! which program they are, with whom they end, where they run, how they report.

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Context;
use bytepath::placement::pin_this_thread;
use bytepath_lab::ends::Starter;
use bytepath_lab::program::Program;
use clap::Args;
use serde::Serialize;

use crate::streams::stdout;
use crate::{ends, values};

/// The file of this program, of which the processes of a measurement are, too.
pub(crate) fn this_program() -> anyhow::Result<PathBuf> {
    let program = Program::this().context("cannot find this program's own file")?;
    Ok(program.path().to_owned())
}

#[derive(Args)]
pub(crate) struct Placed {
    /// The CPU to run on
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

impl Placed {
    /// From now on this process ends with its starter and stays on its CPU.
    pub(crate) fn settle(&self) -> anyhow::Result<()> {
        ends::end_with(self.starter)?;
        if let Some(cpu) = self.cpu {
            pin_this_thread(cpu)?.keep();
        }
        Ok(())
    }
}

/// Reports as JSON on standard output.
pub(crate) fn report(report: &impl Serialize) -> anyhow::Result<()> {
    writeln!(stdout(), "{}", serde_json::to_string(report)?).context("standard output")
}
