//! Which CPUs the two ends of a movement run on, and how a thread is put there.
//!
//! What a byte costs between two CPUs depends on what they share: nothing to pass on at all (one
//! CPU, in turns), a core, a cache, a socket. A machine has some of these and not others.

mod pair;
mod pin;

use std::fmt;
use std::str::FromStr;

use rustix::io::Errno;

use crate::machine::{CpuList, Topology};

pub use pin::{Pinned, leave_cpu, pin_this_thread};

/// Where the source's and the sink's end run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Placement {
    /// Wherever the scheduler puts them.
    Free,
    /// Both on one CPU.
    SameCpu,
    /// On two threads of one core.
    SmtSibling,
    /// On two cores that share a cache (L2 or L3).
    SharedCache,
    /// On two cores of one socket that share no cache.
    SameSocket,
    /// On two sockets.
    CrossSocket,
    /// On another CPU, the nearest that is not of the same core; a thread of the same core where
    /// there is no other core.
    CrossCpu,
    /// On these CPUs.
    Pinned {
        /// The CPU of the reading end of the movement, which writes into what lies between.
        source: usize,
        /// The CPU of the writing end of the movement.
        sink: usize,
    },
}

/// A placement that a machine has, with the CPUs that stand for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedPlacement {
    /// What it is called here: [`Placement::name`], except that the only kind of other CPU that a
    /// machine has is called `cross-cpu`.
    pub name: &'static str,
    /// What it really is.
    pub placement: Placement,
    /// The CPU of the end that writes into what lies between, and of the end that reads from it;
    /// `None` for [`Placement::Free`].
    pub cpus: Option<[usize; 2]>,
}

/// Why a placement cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PlacementError {
    /// The text names no placement.
    #[error("there is no placement {text:?}; the placements are {names}, or two CPUs such as 2,3")]
    NoSuchName {
        /// What was given.
        text: String,
        /// The names that there are.
        names: String,
    },
    /// The machine has no two CPUs of that kind, or this process may not use them.
    #[error("this process has no placement {wanted} on CPUs {allowed}; it has {available}")]
    NotHere {
        /// The placement asked for.
        wanted: &'static str,
        /// The CPUs that this process may use.
        allowed: CpuList,
        /// The names that would do.
        available: String,
    },
    /// The CPU is switched off, does not exist, or is outside this process's set.
    #[error(
        "cannot run on CPU {cpu}: this process may use CPUs {allowed}; choose one of \
         these, or widen its set (taskset, cpuset)"
    )]
    CpuNotAllowed {
        /// The CPU asked for.
        cpu: usize,
        /// The CPUs that this process may use.
        allowed: CpuList,
    },
    /// The kernel refuses to place the thread for another reason.
    #[error(
        "cannot run on CPU {cpu}: {errno}; a seccomp filter may forbid sched_setaffinity, as systemd's \
         SystemCallFilter=~@resources does; where a placement can be chosen, free does without"
    )]
    Refused {
        /// The CPU asked for.
        cpu: usize,
        /// The kernel's word.
        errno: Errno,
    },
    /// The kernel does not tell, or does not take back, the CPUs that this thread may use.
    #[error(
        "cannot {what} the CPUs that this thread may use: {errno}; where a placement can be chosen, \
         free does without"
    )]
    Affinity {
        /// `read` or `restore`.
        what: &'static str,
        /// The kernel's word.
        errno: Errno,
    },
}

impl Placement {
    /// Every placement with a name of its own, from the nearest to the farthest.
    pub const NAMED: &[Placement] = &[
        Placement::Free,
        Placement::SameCpu,
        Placement::SmtSibling,
        Placement::SharedCache,
        Placement::SameSocket,
        Placement::CrossSocket,
        Placement::CrossCpu,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Free => "free",
            Placement::SameCpu => "same-cpu",
            Placement::SmtSibling => "smt-sibling",
            Placement::SharedCache => "shared-cache",
            Placement::SameSocket => "same-socket",
            Placement::CrossSocket => "cross-socket",
            Placement::CrossCpu => CROSS_CPU,
            Placement::Pinned { .. } => "pinned",
        }
    }

    /// The placements that `allowed` CPUs of a machine have, from the nearest to the farthest, each
    /// with the pair of CPUs that stands for it. Pure; empty only where no CPU is allowed.
    ///
    /// The rules:
    /// * `same-cpu` is always there. Each kind of pair that exists follows: `smt-sibling`,
    ///   `shared-cache`, `same-socket`, `cross-socket`.
    /// * Where only one kind of pair exists, it is called `cross-cpu`, since there is nothing to
    ///   tell it from; [`NamedPlacement::placement`] still says which it is.
    /// * Pairs without a thread of CPU 0's core are preferred, then pairs without CPU 0, where many
    ///   machines handle most interrupts. Among equals the lowest numbers win. The writer has the
    ///   lower number.
    pub fn distinct(topology: &Topology, allowed: &CpuList) -> Vec<NamedPlacement> {
        let mut here = pair::distinct(topology, allowed);
        if let [_same_cpu, only] = here.as_mut_slice() {
            only.name = CROSS_CPU;
        }
        here
    }

    /// The CPUs of the writing and the reading end on this machine; `None` for [`Placement::Free`].
    ///
    /// Takes every specific name that exists, also where the machine has a single kind of pair, and
    /// `cross-cpu` wherever there is another CPU.
    ///
    /// # Errors
    ///
    /// When the machine has no such pair among the `allowed` CPUs: the error names what it has.
    pub fn cpus(
        self,
        topology: &Topology,
        allowed: &CpuList,
    ) -> Result<Option<(usize, usize)>, PlacementError> {
        let here = pair::distinct(topology, allowed);
        let found = match self {
            Placement::Free => return Ok(None),
            Placement::Pinned { source, sink } => return pinned(source, sink, allowed).map(Some),
            Placement::CrossCpu => NEAREST_OTHER.iter().find_map(|kind| pair_of(&here, *kind)),
            _ => pair_of(&here, self),
        };
        found.map(Some).ok_or_else(|| PlacementError::NotHere {
            wanted: self.name(),
            allowed: allowed.clone(),
            available: available(&here),
        })
    }
}

const CROSS_CPU: &str = "cross-cpu";

/// What `cross-cpu` stands for, the first that exists.
const NEAREST_OTHER: &[Placement] =
    &[Placement::SharedCache, Placement::SameSocket, Placement::CrossSocket, Placement::SmtSibling];

fn pair_of(here: &[NamedPlacement], wanted: Placement) -> Option<(usize, usize)> {
    let found = here.iter().find(|named| named.placement == wanted)?;
    found.cpus.map(|[writer, reader]| (writer, reader))
}

fn pinned(source: usize, sink: usize, allowed: &CpuList) -> Result<(usize, usize), PlacementError> {
    match [source, sink].into_iter().find(|cpu| !allowed.contains(*cpu)) {
        Some(cpu) => Err(PlacementError::CpuNotAllowed { cpu, allowed: allowed.clone() }),
        None => Ok((source, sink)),
    }
}

fn available(here: &[NamedPlacement]) -> String {
    let other = if here.len() > 1 { Some(CROSS_CPU) } else { None };
    let names = [Placement::Free.name()].into_iter();
    let names = names.chain(here.iter().map(|named| named.name)).chain(other);
    names.collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Placement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Pinned { source, sink } => write!(out, "{source},{sink}"),
            named => out.write_str(named.name()),
        }
    }
}

impl FromStr for Placement {
    type Err = PlacementError;

    fn from_str(text: &str) -> Result<Placement, PlacementError> {
        let named = Placement::NAMED.iter().copied().find(|placement| placement.name() == text);
        named.or_else(|| two_cpus(text)).ok_or_else(|| PlacementError::NoSuchName {
            text: text.to_owned(),
            names: Placement::NAMED.iter().map(|named| named.name()).collect::<Vec<_>>().join(", "),
        })
    }
}

fn two_cpus(text: &str) -> Option<Placement> {
    let (source, sink) = text.split_once(',')?;
    Some(Placement::Pinned { source: source.trim().parse().ok()?, sink: sink.trim().parse().ok()? })
}

#[cfg(test)]
mod tests;
