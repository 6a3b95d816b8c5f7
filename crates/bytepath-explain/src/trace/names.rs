//! Names for stacks: places are gathered first, each once, and named together.

use std::collections::HashMap;

use crate::symbols;
use crate::world::{Place, World};

/// Places that are to be named.
#[derive(Default)]
pub(super) struct Places {
    all: Vec<Place>,
    numbers: HashMap<Place, usize>,
}

/// Functions that are only there because programs of ours were: everything behind the first is cut
/// off.
const OURS: [&str; 5] =
    ["bpf_trace_run", "__bpf_trace_", "__traceiter_", "perf_trace_", "trace_call_bpf"];

impl Places {
    /// Numbers for addresses of the kernel.
    pub(super) fn of_kernel(&mut self, addresses: &[u64]) -> Vec<usize> {
        addresses.iter().map(|address| self.number(Place::Kernel(*address))).collect()
    }

    /// Numbers for addresses of a process in one of its programs.
    pub(super) fn of_user(
        &mut self,
        world: &World,
        (pid, programs): (u32, u32),
        addresses: &[u64],
    ) -> Vec<usize> {
        let places = world.places_then(pid, programs, addresses);
        places.into_iter().map(|place| self.number(place)).collect()
    }

    fn number(&mut self, place: Place) -> usize {
        *self.numbers.entry(place).or_insert_with(|| {
            self.all.push(place);
            self.all.len() - 1
        })
    }

    /// Names all of them.
    pub(super) fn named(self, world: &World, missing: &mut Vec<String>) -> Names {
        let named = symbols::of_places(&world.files, &self.all, missing);
        let name = |functions: Vec<crate::profile::Symbol>| {
            functions.into_iter().map(|function| function.name).collect()
        };
        Names(named.into_iter().map(name).collect())
    }
}

/// For each place its functions, the outermost first.
pub(super) struct Names(Vec<Vec<String>>);

impl Names {
    /// The functions of a stack whose places come innermost first; the outermost first.
    pub(super) fn stack(&self, places: &[usize]) -> Vec<String> {
        let functions = places.iter().rev().flat_map(|place| self.0[*place].iter());
        let ours = |name: &&String| OURS.iter().any(|start| name.starts_with(start));
        functions.take_while(|name| !ours(name)).cloned().collect()
    }
}
