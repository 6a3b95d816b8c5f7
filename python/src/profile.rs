//! Which choices of a profile are best, as the planner sees it.

use bytepath::profile::{End, Measured, Pair, Setting};
use pyo3::prelude::*;

/// A choice, as a profile's JSON has it.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Choice {
    route: String,
    #[pyo3(default)]
    stays: bool,
    gib_per_s: f64,
    ci95: Option<[f64; 2]>,
    overall_gib_per_s: f64,
    cpu_s_per_gib: f64,
}

impl From<Choice> for Measured {
    fn from(choice: Choice) -> Measured {
        let Choice { route, stays, gib_per_s, ci95, overall_gib_per_s, cpu_s_per_gib } = choice;
        let (chunk_bytes, pipe_bytes, spin_ns) = (None, None, None);
        let choice = Setting { route, chunk_bytes, pipe_bytes, spin_ns, stays };
        Measured { choice, gib_per_s, ci95, overall_gib_per_s, cpu_s_per_gib }
    }
}

/// The best of a pair's choices: its route, and its speed in GiB/s.
#[pyfunction]
pub(crate) fn best_choice(source: &str, choices: Vec<Choice>) -> Option<(String, f64)> {
    let source = if source == "socket" { End::Socket } else { End::File };
    let choices = choices.into_iter().map(Measured::from).collect();
    let pair = Pair { source, sink: End::File, place: None, bytes: None, choices };
    pair.best(|_| true).map(|best| (best.choice.route.clone(), best.overall_gib_per_s))
}
