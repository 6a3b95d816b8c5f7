//! What the kernel's counters say at one moment.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use super::{CpuTicks, parse_busy_ns, parse_cpus, parse_some_total_us};

/// What the kernel's counters say at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The moment.
    pub at: Instant,
    /// How many ticks `cpus` counts in a second.
    pub ticks_per_second: u64,
    /// The CPUs that are online, by number; empty where `/proc/stat` cannot be read.
    pub cpus: BTreeMap<usize, CpuTicks>,
    /// How long each CPU ran tasks, in nanoseconds; empty where there is no `/proc/schedstat`.
    pub busy_ns: BTreeMap<usize, u64>,
    /// How long some task waited for a CPU, in microseconds; `None` without pressure information.
    pub waited_us: Option<u64>,
}

impl Snapshot {
    /// Reads the counters. What cannot be read here is empty, and [`super::disturbance`] says so.
    pub fn take() -> Snapshot {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Snapshot {
            at: Instant::now(),
            ticks_per_second: rustix::param::clock_ticks_per_second(),
            cpus: parse_cpus(&read("/proc/stat")),
            busy_ns: parse_busy_ns(&read("/proc/schedstat")),
            waited_us: parse_some_total_us(&read("/proc/pressure/cpu")),
        }
    }
}
