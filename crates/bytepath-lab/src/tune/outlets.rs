//! How fast each outlet writes into a pipe, by what is sent and by who reads: what generators choose
//! by. The ends run where the scheduler puts them, as they will.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use bytepath::outlets::{self, Use};
use bytepath::profile::{Sending, Sent};
use bytepath_report::{Experiment, Record, Status, Unit};

use super::{Effort, Prepared, kept};
use crate::arm::Arm;
use crate::lab::{Blocks, Settings};
use crate::pipe_work::{PipeWork, Writer};

/// How a reader takes what comes.
const READERS: [&str; 2] = ["read", "splice-null"];

/// What is sent where an outlet may repeat, and where it may not.
const KINDS: [(Use, &str); 2] = [(Use::Repeats, "zeros"), (Use::Streams, "fizzbuzz")];

/// What is tried. Those that write to lent pages again are not: nobody is ever sent by them unasked.
fn settings(sends: Use, spin: Option<Duration>) -> Vec<Sending> {
    let huge = |outlet| Sending { huge_pages: true, ..Sending::by(outlet) };
    let sleeping = match sends {
        Use::Repeats => vec![Sending::by("write"), Sending::by("tee"), Sending::by("wide-tee")],
        Use::Streams => vec![Sending::by("write"), Sending::by("gift"), huge("gift")],
    };
    let spinning = |settings: &Sending| {
        let spin_ns = u64::try_from(spin?.as_nanos()).ok();
        Some(Sending { spin_ns, ..settings.clone() })
    };
    let spinning: Vec<_> = sleeping.iter().filter_map(spinning).collect();
    sleeping.into_iter().chain(spinning).collect()
}

fn name(sends: Use, settings: &Sending, reader: &str) -> String {
    let kind = KINDS.iter().find(|(known, _)| *known == sends).map_or("", |(_, kind)| *kind);
    format!("{kind} by {settings}, to {reader}")
}

/// The run that measures it; `program` is bytepath.
pub fn prepared(
    program: &Path,
    spin: Option<Duration>,
    (effort, blocks): (Effort, Blocks),
    seed: u64,
) -> Prepared {
    let mut arms = Vec::new();
    for (sends, kind) in KINDS {
        for settings in settings(sends, spin) {
            for reader in READERS {
                let name = name(sends, &settings, reader);
                arms.push(arm(name, words(kind, &settings), reader, program));
            }
        }
    }
    Prepared {
        experiment: Experiment {
            name: "outlets".into(),
            question: "By which outlet do bytes that are made up go into a pipe?".into(),
            definition: format!(
                "A writer that makes bytes and a reader, joined by a pipe; {} ms each",
                effort.time.as_millis()
            ),
        },
        reference: arms.first().map(|arm| arm.name.clone()).unwrap_or_default(),
        arms,
        settings: Settings {
            blocks,
            seed,
            timing: effort.timing(),
            others: Default::default(),
            explain: None,
        },
    }
}

/// The writer, as anybody could run it by hand.
fn words(kind: &str, settings: &Sending) -> Vec<String> {
    let mut words = vec!["gen".to_owned(), kind.to_owned(), "--outlet".to_owned()];
    words.push(settings.outlet.clone());
    // Others have no buffers whose pages could be chosen.
    if outlets::by_name(&settings.outlet).is_some_and(|outlet| outlet.used_for() == Use::Streams) {
        let pages = if settings.huge_pages { "huge" } else { "base" };
        words.extend(["--pages".to_owned(), pages.to_owned()]);
    }
    if let Some(ns) = settings.spin_ns {
        let budget = format!("{}us", ns as f64 / 1000.0);
        words.extend(["--wait", "hybrid", "--spin-budget"].map(str::to_owned));
        words.push(budget);
    }
    words
}

fn arm(name: String, writer: Vec<String>, reader: &str, program: &Path) -> Arm {
    let reader = ["--inlet", reader, "--buf-size", "1M"].map(str::to_owned).to_vec();
    Arm {
        name,
        section: None,
        params: BTreeMap::new(),
        unit: Unit::GibPerSecond,
        touched: false,
        published: None,
        work: Ok(Box::new(PipeWork {
            program: program.to_owned(),
            writer: Writer::Bytepath(writer, None),
            reader,
            between: None,
            cpus: None,
            expected: None,
        })),
    }
}

/// What its record says; what could not be measured with both readers is left out.
pub fn sent(record: &Record, spin: Option<Duration>) -> Vec<Sent> {
    let median = |name: String| {
        let arm = record.arms.iter().find(|arm| arm.name == name && arm.status == Status::Ok)?;
        arm.median.filter(|median| *median > 0.0).map(kept)
    };
    let sent = |used_for: Use, choice: Sending| {
        let [read, splice] = READERS.map(|reader| median(name(used_for, &choice, reader)));
        Some(Sent { used_for, read_gib_per_s: read?, splice_gib_per_s: splice?, choice })
    };
    let kinds = KINDS.iter().map(|(used_for, _)| *used_for);
    kinds
        .flat_map(|used_for| {
            settings(used_for, spin).into_iter().filter_map(move |choice| sent(used_for, choice))
        })
        .collect()
}
