//! What is compared: every medium that has the wait, for every size of messages, in every placement.

use std::collections::BTreeMap;
use std::path::PathBuf;

use bytepath::placement::NamedPlacement;
use bytepath_lab::arm::{Arm, Work};
use bytepath_report::{Unit, numbers};
use clap::ValueEnum;

use crate::media::{Medium, Wait};
use crate::work::{Asks, PeerWork};

/// A question.
pub(crate) struct Experiment {
    name: &'static str,
    question: &'static str,
    definition: &'static str,
    unit: Unit,
    asks: Asks,
}

pub(crate) const LATENCY: Experiment = Experiment {
    name: "peers-latency",
    question: "How long does a message take to another process and back, by whom?",
    definition: "A process writes a message of so many bytes where it will be read, another takes the \
                 sum of its words and writes as many back. The value is the median trip of a sample.",
    unit: Unit::Nanoseconds,
    asks: Asks::Latency,
};

pub(crate) const THROUGHPUT: Experiment = Experiment {
    name: "peers-throughput",
    question: "How many bytes a second go to another process in messages, by whom?",
    definition: "A process writes one message of so many bytes after the other where they will be \
                 read, another takes the sum of the words of each.",
    unit: Unit::GibPerSecond,
    asks: Asks::Throughput,
};

impl Experiment {
    pub(crate) fn recorded(&self) -> bytepath_report::Experiment {
        bytepath_report::Experiment {
            name: self.name.into(),
            question: self.question.into(),
            definition: self.definition.into(),
        }
    }
}

/// What the arms differ in besides.
pub(crate) struct Axes {
    pub(crate) program: PathBuf,
    pub(crate) placements: Vec<NamedPlacement>,
    pub(crate) sizes: Vec<usize>,
    /// Only arms whose name holds one of these; all where there is none.
    pub(crate) only: Vec<String>,
}

/// Who is compared where both ends wait so. The first is who others are compared with.
fn media(wait: Wait) -> &'static [Medium] {
    match wait {
        Wait::Spin => &[Medium::Iceoryx2, Medium::Bytepath, Medium::BytepathAtomic],
        Wait::Block => &[
            Medium::Iceoryx2,
            Medium::Bytepath,
            Medium::BytepathAtomic,
            Medium::BytepathHybrid,
            Medium::PythonPipe,
            Medium::PythonQueue,
        ],
    }
}

pub(crate) fn of(experiment: &Experiment, axes: &Axes) -> Vec<Arm> {
    let mut arms = Vec::new();
    for placement in &axes.placements {
        let Some(cpus) = placement.cpus else { continue };
        for wait in [Wait::Spin, Wait::Block] {
            for &bytes in &axes.sizes {
                let those = media(wait).iter();
                arms.extend(those.map(|&medium| {
                    let work = PeerWork {
                        program: axes.program.clone(),
                        asks: experiment.asks,
                        medium,
                        wait,
                        bytes,
                        cpus,
                    };
                    arm(experiment, placement.name, work)
                }));
            }
        }
    }
    arms.retain(|arm| axes.only.is_empty() || axes.only.iter().any(|part| arm.name.contains(part)));
    arms
}

fn arm(experiment: &Experiment, placement: &str, work: PeerWork) -> Arm {
    let size = numbers::bytes(work.bytes as u64).replace(' ', "");
    let section = format!("{size}/{}@{placement}", word(work.wait));
    Arm {
        name: format!("{}/{section}", word(work.medium)),
        params: BTreeMap::from([
            ("io_bytes".to_owned(), work.bytes.into()),
            ("wait".to_owned(), word(work.wait).into()),
            ("placement".to_owned(), placement.into()),
            ("cpus".to_owned(), work.cpus.to_vec().into()),
        ]),
        section: Some(section),
        unit: experiment.unit,
        touched: true,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

/// A value's name on the command line.
pub(crate) fn word(value: impl ValueEnum) -> String {
    value.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}
