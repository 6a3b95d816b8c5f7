//! `bytepath doctor`: what holds this machine back, what it costs, and the setting that changes it;
//! `--apply` changes it.

mod apply;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use bytepath::Profile;
use bytepath::machine::Machine;
use bytepath_lab::doctor::{self, Examined, Here};
use bytepath_report::{Applied, Diagnosis, DiagnosisSchema, Health};
use clap::Args;

use crate::interrupt;
use crate::output::{self, Output};
use crate::planning::named_profile;
use crate::said::{self, say};
use crate::usage::wrong_usage;

/// Say what holds this machine back, what it costs and which setting changes it
///
/// Looks at limits, memory, the kernel's ways, groups, the file system, the network, and at what may be
/// seen; what poor settings cost is known where `bytepath tune` has measured. Ends with 1 where
/// something poor was found. Changes nothing unless told to by --apply.
#[derive(Args)]
pub(crate) struct Options {
    /// Look at the file system of this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// What tune measured; bytepath/profile.json in $XDG_STATE_HOME or ~/.local/state unless given
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Also write it as JSON; - is standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Change these settings of the running machine, or, with no name, those that you confirm on the
    /// terminal; says how each is undone
    #[arg(long, value_name = "NAME", num_args = 0..)]
    apply: Option<Vec<String>>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    interrupt::heeded();
    let read = options.profile.as_deref().map(Path::as_os_str);
    let json = options.json.as_deref();
    let alone = json.is_some_and(output::is_stdout);
    output::spares("--json", json, read).map_err(wrong_usage)?;
    let json = json.map(Output::open).transpose()?;
    let profile = profile(options.profile.as_deref())?;
    let mut found = examined(options, profile.as_ref());
    let (mut applied, mut refused) = (Vec::new(), 0);
    if let Some(names) = &options.apply {
        // Nothing is changed whose undo nobody could be told.
        output::is_writable()?;
        for one in apply::chosen(names, &found)? {
            // A signal waits until what was changed is said.
            let changing = interrupt::Measuring::begin();
            match apply::applied(one) {
                Ok(changed) => {
                    tell(&changed);
                    applied.extend(changed);
                }
                Err(error) => {
                    say(format_args!("bytepath: {error}"));
                    refused += 1;
                }
            }
            drop(changing);
            if let Some(signal) = interrupt::came() {
                crate::ending::by_signal(signal);
            }
        }
        // What a setting is now is looked at, not assumed.
        found = examined(options, profile.as_ref());
    }
    let diagnosis = diagnosis(found, applied, profile.as_ref());
    let text = bytepath_report::json(&diagnosis)?;
    let written = json.map_or(Ok(()), |json| json.write(text.as_bytes()));
    let shown = if alone { Ok(()) } else { table::print(&diagnosis).context("standard output") };
    said::also(written, said::printed(shown))?;
    let well = refused == 0 && diagnosis.poor == 0;
    Ok(if well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Says at once what was changed: a reader of standard output may leave, a disk be full, or somebody tire of
/// waiting before the table is there, and then nobody would know how it is undone.
fn tell(applied: &[Applied]) {
    for Applied { name, file, from, to, undo } in applied {
        say(format_args!("bytepath: changed {name}: {file} was {from} and is {to}; undo: {undo}"));
    }
}

/// What tune measured, if it is of this machine as it is; one that was named has to be.
fn profile(named: Option<&Path>) -> anyhow::Result<Option<Profile>> {
    if let Some(path) = named {
        return Ok(Some(named_profile(path)?));
    }
    let usual = Profile::default_path().and_then(|path| Profile::read(&path).ok());
    Ok(usual.filter(|profile| profile.check_machine(Machine::this()).is_ok()))
}

fn examined(options: &Options, profile: Option<&Profile>) -> Vec<Examined> {
    // Not the one that remembers: settings may have changed since.
    let machine = Machine::default();
    let here = Here { root: Path::new("/"), machine: &machine, profile, place: &options.dir };
    doctor::examine(&here)
}

fn diagnosis(found: Vec<Examined>, applied: Vec<Applied>, profile: Option<&Profile>) -> Diagnosis {
    let findings: Vec<_> = found.into_iter().map(|one| one.finding).collect();
    let poor = findings.iter().filter(|finding| finding.verdict == Health::Poor).count();
    Diagnosis {
        schema: DiagnosisSchema::V1,
        bytepath: env!("CARGO_PKG_VERSION").to_owned(),
        measured: profile.map(|profile| profile.made.to_string()),
        findings,
        applied,
        poor: poor as u64,
    }
}
