//! `ipc-bandwidth`: how near to the speed of shared memory bytes go to another process.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath::placement::NamedPlacement;
use bytepath_report::Unit;

use super::Description;
use crate::arm::{Arm, Work};
use crate::stream_work::StreamWork;
use crate::streams::{STREAMS, Stream};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "ipc-bandwidth",
    question: "How near to the speed of shared memory do bytes go to another process?",
    definition: "A process writes numbers, each word one more than the word before it, and another \
                 one adds up every word and compares the sums. memory is a bare ring of eight \
                 pieces of 64 KiB and two counts, whose ends look again and again and let the other \
                 run in between: what tune measures. The channels are written and read in place, in \
                 pieces of 64 KiB at most; they sleep, spin, or spin for 50 µs and then sleep. The \
                 pipe has its usual size. Context switches are the reader's.",
};

/// The arms: every way in every placement; the first of each placement is its reference.
pub fn arms(placements: &[NamedPlacement], program: &Path) -> Vec<Arm> {
    let of = |placement| STREAMS.iter().map(move |stream| arm(*stream, placement, program));
    placements.iter().flat_map(of).collect()
}

fn arm(stream: &'static dyn Stream, placement: &NamedPlacement, program: &Path) -> Arm {
    let cpus = placement.cpus.map(|[writer, reader]| [reader, writer]);
    let mut params = BTreeMap::from([("placement".to_owned(), placement.name.into())]);
    if let Some(cpus) = cpus {
        params.insert("cpus".to_owned(), cpus.to_vec().into());
    }
    let work = StreamWork { program: program.into(), stream, cpus };
    Arm {
        name: format!("{}@{}", stream.name(), placement.name),
        section: Some(placement.name.to_owned()),
        params,
        unit: Unit::GibPerSecond,
        touched: true,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}
