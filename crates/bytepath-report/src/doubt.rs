//! What there is to doubt about a record, before anybody believes its figures.

use std::time::{Duration, SystemTime};

use crate::arm::{Arm, Status};
use crate::numbers;
use crate::record::{Build, Record};

/// A reason for doubt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Doubt {
    /// What kind it is.
    pub kind: Kind,
    /// What is wrong and what would help, in a sentence or two.
    pub text: String,
}

/// The kinds of doubt, the gravest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// The figures may be wrong.
    Untrusted,
    /// The run was ended before it was complete.
    Interrupted,
    /// Strangers disturbed it, or its intervals are wide.
    Noisy,
    /// Another program measured, without a control.
    Imported,
    /// Nothing in the run shows that it measured what it says.
    Uncontrolled,
    /// The machine or the program is no longer what it was.
    Stale,
}

impl Kind {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Kind::Untrusted => "untrusted",
            Kind::Interrupted => "interrupted",
            Kind::Noisy => "noisy",
            Kind::Imported => "imported",
            Kind::Uncontrolled => "no control",
            Kind::Stale => "stale",
        }
    }
}

/// What is true where and when the record is looked at; a record is stale beside it.
#[derive(Clone, Debug, Default)]
pub struct Here {
    /// The time.
    pub now: Option<SystemTime>,
    /// This bytepath.
    pub bytepath: Option<Build>,
    /// This machine's kernel and CPU, as a record of it would tell them.
    pub kernel_and_cpu: Option<(String, Option<String>)>,
}

/// More flagged samples than this share make a run noisy.
const FLAGGED_SHARE_MAX: f64 = 0.1;

/// An interval that reaches further than this to either side, as a share of the median, is wide.
const HALF_WIDTH_MAX: f64 = 0.25;

/// More wide intervals than this share make a run noisy.
const WIDE_SHARE_MAX: f64 = 0.2;

/// A record older than this is stale.
const AGE_MAX: Duration = Duration::from_secs(90 * 24 * 3600);

/// The settings by which a record says that it was imported: a text that says from where.
pub const IMPORTED: &str = "imported_from";

/// Every doubt, the gravest first.
pub fn of(record: &Record, here: &Here) -> Vec<Doubt> {
    let mut doubts = Vec::new();
    let mut say = |kind, text| doubts.push(Doubt { kind, text });
    if !record.trusted {
        let why = record.untrusted_why.as_deref().unwrap_or("the record does not say why");
        say(Kind::Untrusted, format!("Do not rely on these figures: {why}."));
    }
    for note in record.notes.iter().filter(|note| note.starts_with("interrupted after")) {
        say(Kind::Interrupted, format!("The run was {note}; the figures are of these."));
    }
    for text in noise(record) {
        say(Kind::Noisy, text);
    }
    let imported = record.settings.get(IMPORTED).and_then(|from| from.as_str());
    if let Some(from) = imported {
        say(
            Kind::Imported,
            format!(
                "Measured by another program ({from}), one arm after the other and without an A/A \
                 control; the machine is not known."
            ),
        );
    } else if record.control.is_none() && record.trusted {
        say(
            Kind::Uncontrolled,
            "The run had no A/A control, so nothing shows how far an arm differs from itself."
                .to_owned(),
        );
    }
    for text in stale(record, here) {
        say(Kind::Stale, text);
    }
    doubts.sort_by_key(|doubt| doubt.kind);
    doubts
}

fn noise(record: &Record) -> Vec<String> {
    let mut told = Vec::new();
    let samples: usize = record.arms.iter().map(|arm| arm.samples.len()).sum();
    let flagged: usize = record.arms.iter().map(Arm::flagged).sum();
    if samples > 0 && flagged as f64 > FLAGGED_SHARE_MAX * samples as f64 {
        told.push(format!(
            "Others on the machine disturbed {flagged} of {}; a quieter machine or more blocks would \
             narrow the intervals.",
            numbers::counted(samples as u64, "sample")
        ));
    }
    let ran: Vec<&Arm> =
        record.arms.iter().filter(|arm| arm.status == Status::Ok && arm.ci95.is_some()).collect();
    let wide = ran.iter().filter(|arm| half_width(arm) > HALF_WIDTH_MAX).count();
    if !ran.is_empty() && wide as f64 > WIDE_SHARE_MAX * ran.len() as f64 {
        told.push(format!(
            "The intervals of {wide} of {} reach further than {}% to either side; only large \
             differences are such.",
            numbers::counted(ran.len() as u64, "arm"),
            HALF_WIDTH_MAX * 100.0
        ));
    }
    told
}

/// Half the width of the interval, as a share of the median.
fn half_width(arm: &Arm) -> f64 {
    match (arm.ci95, arm.median) {
        (Some([low, high]), Some(median)) if median != 0.0 => ((high - low) / 2.0 / median).abs(),
        _ => 0.0,
    }
}

fn stale(record: &Record, here: &Here) -> Vec<String> {
    let mut told = Vec::new();
    let started = humantime::parse_rfc3339_weak(&record.started).ok();
    let age = started.zip(here.now).and_then(|(then, now)| now.duration_since(then).ok());
    if let Some(age) = age.filter(|age| *age > AGE_MAX) {
        told.push(format!(
            "Measured {} ago.",
            numbers::counted(age.as_secs() / (24 * 3600), "day")
        ));
    }
    if record.settings.contains_key(IMPORTED) {
        return told;
    }
    if let Some(build) = here.bytepath.as_ref().filter(|build| **build != record.bytepath) {
        told.push(format!(
            "Measured by bytepath {} ({}); this page was made by {} ({}).",
            record.bytepath.version, record.bytepath.build, build.version, build.build
        ));
    }
    if let Some((kernel, cpu)) = &here.kernel_and_cpu {
        let same_cpu = cpu.is_some() && *cpu == record.machine.cpu_model;
        if same_cpu && *kernel != record.machine.kernel {
            told.push(format!(
                "Measured under Linux {}; a machine with the same CPU runs Linux {kernel} here now.",
                record.machine.kernel
            ));
        }
    }
    told
}
