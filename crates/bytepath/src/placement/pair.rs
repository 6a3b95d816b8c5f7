//! Finds, for each kind of placement that a machine has, the pair of CPUs that stands for it.

use super::{NamedPlacement, Placement};
use crate::machine::{CacheKind, Cpu, CpuList, Topology};

/// The kinds of pairs, from the nearest to the farthest.
const KINDS: [Placement; 4] =
    [Placement::SmtSibling, Placement::SharedCache, Placement::SameSocket, Placement::CrossSocket];

/// One CPU for both ends, then each kind of pair that exists, under their own names.
pub(super) fn distinct(topology: &Topology, allowed: &CpuList) -> Vec<NamedPlacement> {
    let cpus: Vec<Place> = topology
        .cpus
        .iter()
        .filter(|cpu| allowed.contains(cpu.id))
        .map(|cpu| Place::of(cpu, topology))
        .collect();
    let sets = preferred(&cpus);
    let same = sets.iter().flatten().next().map(|cpu| named(Placement::SameCpu, [cpu.id; 2]));
    let pairs = KINDS.iter().filter_map(|kind| {
        let found = sets.iter().find_map(|set| first_pair(set, *kind))?;
        Some(named(*kind, found))
    });
    same.into_iter().chain(pairs).collect()
}

/// First the CPUs away from CPU 0's core, then those other than CPU 0, then all.
fn preferred<'a>(cpus: &'a [Place]) -> [Vec<&'a Place>; 3] {
    let away = |place: &&'a Place| !place.beside_cpu_0;
    let other = |place: &&'a Place| place.id != 0;
    [cpus.iter().filter(away).collect(), cpus.iter().filter(other).collect(), cpus.iter().collect()]
}

fn first_pair(cpus: &[&Place], kind: Placement) -> Option<[usize; 2]> {
    cpus.iter().enumerate().find_map(|(index, writer)| {
        let reader = cpus[index + 1..].iter().find(|reader| relation(writer, reader) == kind)?;
        Some([writer.id, reader.id])
    })
}

fn named(placement: Placement, cpus: [usize; 2]) -> NamedPlacement {
    NamedPlacement { name: placement.name(), placement, cpus: Some(cpus) }
}

/// What decides how near a CPU is to another, in few words: machines may have a thousand CPUs, and
/// all pairs are looked at.
struct Place {
    id: usize,
    core: usize,
    package: Option<usize>,
    /// For each cache that several cores may share, its level and the lowest CPU that uses it.
    shared_caches: Vec<(usize, usize)>,
    beside_cpu_0: bool,
}

impl Place {
    fn of(cpu: &Cpu, topology: &Topology) -> Place {
        let caches = cpu.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
        let beside = topology.cpu(0).is_some_and(|zero| zero.smt_siblings.contains(cpu.id));
        Place {
            id: cpu.id,
            core: cpu.smt_siblings.first().unwrap_or(cpu.id),
            package: cpu.package,
            shared_caches: caches
                .filter_map(|cache| Some((cache.level, cache.shared_by.first()?)))
                .collect(),
            beside_cpu_0: cpu.id == 0 || beside,
        }
    }
}

/// Where a machine does not tell its sockets (`None` beside `None`), it counts as one.
fn relation(one: &Place, other: &Place) -> Placement {
    if one.core == other.core {
        Placement::SmtSibling
    } else if one.shared_caches.iter().any(|cache| other.shared_caches.contains(cache)) {
        Placement::SharedCache
    } else if one.package == other.package {
        Placement::SameSocket
    } else {
        Placement::CrossSocket
    }
}
