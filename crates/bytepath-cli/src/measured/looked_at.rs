//! Arms that are run once more, after and apart from their samples, to say where their time goes.

use std::time::{Duration, Instant};

use bytepath_explain::trace::{self, Mode, Tracing};
use bytepath_explain::{Settings, Stacks, Watch, Whom, published};
use bytepath_lab::arm::{Arm, Measured, Timing, Work};
use bytepath_lab::interrupt;
use bytepath_lab::lab::Explain;
use bytepath_report::Explained;

use crate::said::say;
use crate::streams::stdout;
use crate::style::style;

/// An arm is looked at for at least so long: a thousand samples of each CPU.
const LOOKED_AT: Duration = Duration::from_secs(1);

/// An arm that is short is run no more often than this for it.
const RUNS_MAX: usize = 20;

/// Of work that serves others.
const CLIENTS_LEFT_OUT: &str = "shares and system calls are the service's own: its clients are left \
    out of them, and are among what is counted";

/// Says what of explanations is refused here, before time goes into samples.
pub(super) fn tell_refusals(how: Explain) {
    let tell = |why: &str| say(format_args!("bytepath: arms are explained by less: {why}"));
    match traced_by(how) {
        Some(mode) => {
            if let Err(error) = Tracing::start(mode) {
                say(format_args!("bytepath: arms are measured, but not traced: {error}"));
            }
        }
        None => Watch::start(Whom::Started, &[], &watched_by(how)).refused().for_each(tell),
    }
}

/// The mode of tracing that was asked for, if any was.
fn traced_by(how: Explain) -> Option<Mode> {
    Mode::ALL.iter().copied().find(|mode| Some(mode.name()) == how.trace)
}

fn watched_by(how: Explain) -> Settings {
    let stacks = if how.frame_pointers { Stacks::FramePointers } else { Stacks::Tables };
    Settings { hz: how.hz, stacks, ..Settings::default() }
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
    if let Some(mode) = traced_by(how) {
        let traced = traced(mode, arm, work, timing).map_err(|error| format!("{error:#}"));
        return traced.or_else(of_itself).map(|()| None);
    }
    let beside: Vec<String> = work.beside().iter().map(|name| (*name).to_owned()).collect();
    let has_load = !beside.is_empty();
    let settings = Settings { beside, ..watched_by(how) };
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
    let text = trace::shown::text(&traced, style());
    // Where it cannot be written, nor can the table that comes after it, which tells so.
    let _ = writeln!(stdout(), "── {} ──\n{text}", arm.name);
    Ok(())
}
