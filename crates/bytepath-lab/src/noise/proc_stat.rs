//! What each CPU did since boot, from `/proc/stat`.

use std::collections::BTreeMap;

/// What one CPU did since boot, in ticks (proc_stat(5); hundredths of a second almost everywhere).
///
/// Counters that an older kernel does not print are `None`. Guest time is left out: the kernel
/// counts it within user and nice time already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// In user mode.
    pub user: u64,
    /// In user mode at a lowered priority.
    pub nice: u64,
    /// In the kernel.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a task waited for storage. May go backwards a little.
    pub iowait: Option<u64>,
    /// In hardware interrupts.
    pub irq: Option<u64>,
    /// In software interrupts.
    pub softirq: Option<u64>,
    /// Taken by the hypervisor for others.
    pub steal: Option<u64>,
}

/// The CPUs of the text of `/proc/stat`, by number. CPUs that are offline are not in the text; lines
/// that cannot be understood are left out.
pub fn parse_cpus(text: &str) -> BTreeMap<usize, CpuTicks> {
    text.lines().filter_map(parse_cpu).collect()
}

fn parse_cpu(line: &str) -> Option<(usize, CpuTicks)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    let ticks: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
    let &[user, nice, system, idle, ref newer @ ..] = ticks.as_slice() else { return None };
    let newer = |position: usize| newer.get(position).copied();
    let ticks = CpuTicks {
        user,
        nice,
        system,
        idle,
        iowait: newer(0),
        irq: newer(1),
        softirq: newer(2),
        steal: newer(3),
    };
    Some((cpu, ticks))
}
