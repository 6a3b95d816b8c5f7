//! `ipc-latency`: how long some bytes take to another process and back.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath::placement::NamedPlacement;
use bytepath_report::{Unit, numbers};

use super::Description;
use crate::arm::{Arm, Work};
use crate::trip_work::TripWork;
use crate::trips::{MEDIA, Medium};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "ipc-latency",
    question: "How long do some bytes take to another process and back?",
    definition: "A process writes so many bytes, another reads them and writes them back, and the \
                 first one reads them and compares them with what it sent; each trip is timed. \
                 eventfd and futex carry a number of 8 bytes and no more. The channels' ends sleep, \
                 spin, or spin for 50 µs and then sleep; on one CPU they let each other run in the \
                 place of spinning. The value is the median trip of a sample; \
                 percentiles are of the trips of all samples; CPU time and switches are those of the \
                 process that begins.",
};

/// Bytes of a trip unless told otherwise.
pub const SIZES: &[usize] = &[8, 512, 4 << 10, 64 << 10, 1 << 20];

/// The fewest: a trip's number.
pub const SIZE_MIN: usize = 8;

/// The arms: every medium that carries each of the sizes, in every placement.
pub fn arms(placements: &[NamedPlacement], sizes: &[usize], program: &Path) -> Vec<Arm> {
    let mut arms = Vec::new();
    for placement in placements {
        for &bytes in sizes {
            let media = MEDIA.iter().filter(|medium| medium.carries(bytes));
            arms.extend(media.map(|medium| arm(*medium, bytes, placement, program)));
        }
    }
    arms
}

fn arm(
    medium: &'static dyn Medium,
    bytes: usize,
    placement: &NamedPlacement,
    program: &Path,
) -> Arm {
    let size = numbers::bytes(bytes as u64).replace(' ', "");
    let mut params = BTreeMap::from([
        ("io_bytes".to_owned(), bytes.into()),
        ("placement".to_owned(), placement.name.into()),
    ]);
    if let Some(cpus) = placement.cpus {
        params.insert("cpus".to_owned(), cpus.to_vec().into());
    }
    let work = TripWork { program: program.into(), medium, bytes, cpus: placement.cpus };
    Arm {
        name: format!("{}/{size}@{}", medium.name(), placement.name),
        section: Some(format!("{size}@{}", placement.name)),
        params,
        unit: Unit::Nanoseconds,
        touched: true,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}
