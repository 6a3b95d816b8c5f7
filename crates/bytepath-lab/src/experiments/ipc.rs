//! `ipc`: a big file from one process to another, by every way there is.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath::placement::NamedPlacement;
use bytepath_report::{Record, Unit};

use super::Description;
use crate::arm::{Arm, Work};
use crate::pass_work::PassWork;
use crate::passing::splice::Splice;
use crate::passing::{Keeps, WAYS, Way};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "ipc",
    question: "How fast does a big file go from one process to another?",
    definition: "A process reads a file that is in the page cache and hands its bytes to another, \
                 which writes them to a new file, takes their XXH3 checksum, or drops them. Both \
                 are set up before the clock runs, from the moment at which the sender may begin \
                 until the receiver has all of them where they go and the sender is done. memfd-pass \
                 and gift-pipe make memory while it runs: a piece that is handed over is gone. Every \
                 sample's bytes are counted, and their checksum is compared with the file's; where \
                 they are dropped, that is done once, before the first block.",
};

/// What is passed and how.
pub struct Setup<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// The file.
    pub file: &'a Path,
    /// What it has.
    pub bytes: u64,
    /// Its XXH3 checksum.
    pub checksum: u64,
    /// What becomes of the bytes.
    pub keeps: Keeps,
    /// Where files are made.
    pub directory: &'a Path,
}

/// The arms: every way in every placement, each placement a section.
pub fn arms(placements: &[NamedPlacement], setup: &Setup<'_>) -> Vec<Arm> {
    let ways = |placement| WAYS.iter().map(move |way| arm(*way, placement, setup));
    placements.iter().flat_map(ways).collect()
}

fn arm(way: &'static dyn Way, placement: &NamedPlacement, setup: &Setup<'_>) -> Arm {
    let mut params = BTreeMap::from([
        ("way".to_owned(), way.how().into()),
        ("sink".to_owned(), setup.keeps.name().into()),
        ("placement".to_owned(), placement.name.into()),
    ]);
    if let Some(cpus) = placement.cpus {
        params.insert("cpus".to_owned(), cpus.to_vec().into());
    }
    let work = PassWork {
        program: setup.program.into(),
        way,
        keeps: setup.keeps,
        file: setup.file.into(),
        bytes: setup.bytes,
        checksum: setup.checksum,
        directory: setup.directory.into(),
        cpus: placement.cpus,
    };
    Arm {
        name: format!("{}@{}", way.name(), placement.name),
        section: Some(placement.name.to_owned()),
        params,
        unit: Unit::GibPerSecond,
        touched: setup.keeps == Keeps::Checksum,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

/// What the survey published of splice, where this run repeats it, else what differs, in a sentence;
/// none where splice was not measured.
pub fn published(record: &Record, keeps: Keeps) -> Option<String> {
    let measured = |name: &str| name.split_once('@').is_some_and(|(way, _)| way == Splice.name());
    record.arms.iter().find(|arm| measured(&arm.name) && arm.median.is_some())?;
    let says = match keeps {
        Keeps::File => {
            "The survey that this repeats (2015) published that splice, into a pipe and out of it, \
             wins by 30% to 55%"
        }
        Keeps::Checksum => {
            "pipe-splice is read at the receiver, which looks at the bytes; --sink file repeats the \
             survey of 2015, which spliced them on into a file"
        }
        Keeps::Nothing => {
            "pipe-splice drops the bytes at the receiver; --sink file repeats the survey of 2015, \
             which spliced them on into a file"
        }
    };
    Some(says.to_owned())
}
