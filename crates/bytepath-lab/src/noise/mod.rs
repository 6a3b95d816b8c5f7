//! What strangers did to the machine while a sample ran: the hypervisor, other processes.
//!
//! Take a [`Snapshot`] before and one after the sample, say which CPUs it ran on and what its own
//! processes used, and [`disturbance`] tells the rest; [`Watch`] does that for what this process
//! starts itself. Everything is read from files that need no
//! privilege; what a machine does not have is `None`, never zero. A snapshot costs one read of each
//! file, some 50 µs on a small machine, outside the measured time.
//!
//! # How exact that is
//!
//! `/proc/stat` counts in ticks of 10 ms and rounds each counter down, so the difference of two
//! readings is off by up to one tick either way, 0.41 ticks in the standard deviation. An interval
//! of [`ERROR_DEVIATIONS`] such deviations is allowed for before anything is flagged: on one CPU
//! 2% of a second, but 22% of 100 ms. The idle time of a CPU is measured in nanoseconds before it
//! is rounded, wherever the kernel stops its tick on idle CPUs; user and system time are sampled at
//! the tick. So foreign time is what is left of the wall-clock time after idle, stolen and own
//! time, not a sum of sampled counters.
//!
//! `/proc/schedstat`, where the kernel was built with it, counts each CPU's busy time in
//! nanoseconds, and makes short samples judgeable. The own CPU time needs no finer source:
//! `getrusage` and `wait4` scale user and system time so that their sum is the scheduler's own
//! count (`cputime_adjust` in kernel/sched/cputime.c).
//!
//! Hints that cannot tell strangers from the sample's own processes (pressure, involuntary
//! switches, waiting for a CPU) never flag a sample alone. They confirm a foreign share that is too
//! high by one deviation of its error instead of [`ERROR_DEVIATIONS`].

pub mod kernel_threads;
mod pressure;
mod proc_stat;
mod schedstat;
mod snapshot;
mod watch;

pub use pressure::parse_some_total_us;
pub use proc_stat::{CpuTicks, parse_cpus};
pub use schedstat::{TaskTimes, parse_busy_ns, parse_task, process_times};
pub use snapshot::Snapshot;
pub use watch::Watch;

use std::time::Duration;

/// From this share of stolen CPU time on a sample is flagged: 2%, the size of effect that a run of
/// ten blocks can find.
pub const STEAL_SHARE_MAX: f64 = 0.02;

/// From this share of CPU time used by strangers on a sample is flagged. Higher than the one for
/// steal, because housekeeping of a few percent is everywhere and mostly finds idle CPUs.
pub const FOREIGN_SHARE_MAX: f64 = 0.05;

/// Half the width of the error allowed for, in standard deviations of rounding: 0.7% of undisturbed
/// readings at the threshold itself would lie beyond.
pub const ERROR_DEVIATIONS: f64 = 2.45;

/// Confirms a foreign share: for this share of the time some task on the machine waited for a CPU.
/// Only of a sample that may run on every CPU: pressure does not tell where a task waited, and on a
/// busy machine it stays above a half while a pinned sample has its CPU to itself.
pub const PSI_SHARE_MAX: f64 = 0.10;

/// Confirms a foreign share: involuntary switches per CPU second. Two processes that share a CPU
/// make some 300 (a slice is about 3 ms); one alone, a handful from kernel threads.
pub const INVOLUNTARY_PER_CPU_SECOND_MAX: f64 = 50.0;

/// Fewer involuntary switches than this confirm nothing, however short the sample.
pub const INVOLUNTARY_MIN: u64 = 5;

/// Confirms a foreign share: the sample's processes waited for a CPU for this share of the time.
pub const RUNQUEUE_WAIT_SHARE_MAX: f64 = 0.05;

/// The standard deviation of the difference of two readings that are each rounded down, in ticks:
/// 1/√6.
const ROUNDING_DEVIATION_TICKS: f64 = 0.408;

/// How many counters of a CPU go into its foreign share: idle, iowait, steal, irq, softirq.
const FOREIGN_COUNTERS: f64 = 5.0;

/// `/proc/schedstat` counts a task when it leaves the CPU, so each end of the sample may be off by
/// one time slice per CPU.
const SCHEDSTAT_ERROR_NS: f64 = 4e6;

const NS_PER_SECOND: f64 = 1e9;

/// What the sample's own processes used, all of them together, from `getrusage` or `wait4`. The
/// bench process counts among them where it shares CPUs with the sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnUse {
    /// User and system time.
    pub cpu: Duration,
    /// Involuntary context switches (`ru_nivcsw`).
    pub involuntary_switches: u64,
    /// How long they were runnable but waited for a CPU ([`process_times`]), where known.
    pub runqueue_wait: Option<Duration>,
}

/// What strangers did during a sample. Shares are of the time of the CPUs it ran on, 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Disturbance {
    /// What the hypervisor kept for others. `None` when the kernel does not tell.
    pub steal_share: Option<f64>,
    /// What other processes used, without interrupts, which mostly serve the sample itself.
    pub foreign_share: Option<f64>,
    /// How far `foreign_share` may be off.
    pub foreign_share_error: Option<f64>,
    /// For how much of the time some task on the whole machine waited for a CPU, the sample's own
    /// included. `None` where the kernel has no pressure information.
    pub psi_share: Option<f64>,
    /// Whether the sample should be measured again.
    pub flagged: bool,
    /// Why it is flagged, or what could not be told; empty when there is nothing to say.
    pub why: String,
}

/// What strangers did between the two snapshots to a sample that ran on `cpus` (all that it was
/// allowed to run on) and used `own`.
pub fn disturbance(
    before: &Snapshot,
    after: &Snapshot,
    cpus: &[usize],
    own: &OwnUse,
) -> Disturbance {
    let wall_ns = after.at.saturating_duration_since(before.at).as_nanos() as f64;
    let span = Span { before, after, cpus, cpu_ns: wall_ns * cpus.len() as f64 };
    if span.cpu_ns == 0.0 {
        return Disturbance { why: "no time or no CPU to judge".to_owned(), ..Default::default() };
    }
    let steal = span.steal();
    let foreign = span.foreign(own);
    let psi_share = span.psi_share(wall_ns);
    let confirmed = confirmation(psi_share.filter(|_| span.is_everywhere()), own, wall_ns);
    let reasons: Vec<String> = [
        span.hotplug(),
        steal.and_then(steal_reason),
        foreign.and_then(|share| foreign_reason(share, confirmed)),
    ]
    .into_iter()
    .flatten()
    .collect();
    Disturbance {
        steal_share: steal.map(|share| share.value),
        foreign_share: foreign.map(|share| share.value),
        foreign_share_error: foreign.map(|share| share.error),
        psi_share,
        flagged: !reasons.is_empty(),
        why: if reasons.is_empty() { span.unknown(foreign) } else { reasons.join("; ") },
    }
}

/// A share of CPU time, and how far it may be off.
#[derive(Clone, Copy, Debug)]
struct Share {
    value: f64,
    error: f64,
}

impl Share {
    fn at_least(self) -> f64 {
        self.value - self.error
    }

    fn at_most(self) -> f64 {
        self.value + self.error
    }
}

/// The time between two snapshots, and the CPUs of the sample.
struct Span<'a> {
    before: &'a Snapshot,
    after: &'a Snapshot,
    cpus: &'a [usize],
    cpu_ns: f64,
}

impl Span<'_> {
    /// By how much `counter` rose, summed over the CPUs of the sample, in nanoseconds. A counter
    /// that fell (`iowait` may) did not rise.
    fn ticked_ns(&self, counter: impl Fn(&CpuTicks) -> Option<u64>) -> Option<f64> {
        let mut ticks = 0;
        for cpu in self.cpus {
            let before = counter(self.before.cpus.get(cpu)?)?;
            let after = counter(self.after.cpus.get(cpu)?)?;
            ticks += after.saturating_sub(before);
        }
        Some(ticks as f64 * self.tick_ns())
    }

    fn tick_ns(&self) -> f64 {
        NS_PER_SECOND / self.after.ticks_per_second as f64
    }

    /// The error allowed for in a share made of `counters` counters of each CPU.
    fn rounding_share(&self, counters: f64) -> f64 {
        let deviation = ROUNDING_DEVIATION_TICKS * (counters * self.cpus.len() as f64).sqrt();
        ERROR_DEVIATIONS * deviation * self.tick_ns() / self.cpu_ns
    }

    fn steal(&self) -> Option<Share> {
        let value = self.ticked_ns(|ticks| ticks.steal)? / self.cpu_ns;
        Some(Share { value, error: self.rounding_share(1.0) })
    }

    /// By the finer source, unless the other one proves more: `/proc/schedstat` misses a stranger
    /// that never left its CPU during the sample.
    fn foreign(&self, own: &OwnUse) -> Option<Share> {
        let own_ns = own.cpu.as_nanos() as f64;
        match (self.foreign_by_schedstat(own_ns), self.foreign_by_idle(own_ns)) {
            (Some(fine), Some(coarse)) if coarse.at_least() > fine.at_most() => Some(coarse),
            (fine, coarse) => fine.or(coarse),
        }
    }

    fn foreign_by_idle(&self, own_ns: f64) -> Option<Share> {
        let not_busy = self.ticked_ns(|ticks| {
            Some(
                ticks.idle + ticks.iowait? + ticks.irq? + ticks.softirq? + ticks.steal.unwrap_or(0),
            )
        })?;
        let value = ((self.cpu_ns - not_busy - own_ns) / self.cpu_ns).clamp(0.0, 1.0);
        Some(Share { value, error: self.rounding_share(FOREIGN_COUNTERS) })
    }

    fn foreign_by_schedstat(&self, own_ns: f64) -> Option<Share> {
        let mut busy_ns = 0;
        for cpu in self.cpus {
            busy_ns += self.after.busy_ns.get(cpu)?.saturating_sub(*self.before.busy_ns.get(cpu)?);
        }
        let value = ((busy_ns as f64 - own_ns) / self.cpu_ns).clamp(0.0, 1.0);
        let error = SCHEDSTAT_ERROR_NS * (self.cpus.len() as f64).sqrt() / self.cpu_ns;
        Some(Share { value, error })
    }

    fn psi_share(&self, wall_ns: f64) -> Option<f64> {
        let waited_us = self.after.waited_us?.saturating_sub(self.before.waited_us?);
        Some((waited_us as f64 * 1e3 / wall_ns).min(1.0))
    }

    fn is_everywhere(&self) -> bool {
        self.after.cpus.keys().all(|cpu| self.cpus.contains(cpu))
    }

    fn hotplug(&self) -> Option<String> {
        let (before, after) = (&self.before.cpus, &self.after.cpus);
        let changed =
            self.cpus.iter().find(|cpu| before.contains_key(cpu) != after.contains_key(cpu))?;
        Some(format!("CPU {changed} went on- or offline during the sample"))
    }

    /// What to say of a sample that nothing is known against.
    fn unknown(&self, foreign: Option<Share>) -> String {
        match foreign {
            Some(share) if share.error > 1.0 - FOREIGN_SHARE_MAX => {
                "too short a sample to tell what other processes used".to_owned()
            }
            Some(_) => String::new(),
            None => "/proc/stat does not tell what other processes used".to_owned(),
        }
    }
}

fn steal_reason(share: Share) -> Option<String> {
    (share.at_least() > STEAL_SHARE_MAX)
        .then(|| format!("the hypervisor took {:.0}% of the CPU time", share.value * 100.0))
}

fn foreign_reason(share: Share, confirmed: Option<&'static str>) -> Option<String> {
    let used = format!("other processes used {:.0}% of the CPU time", share.value * 100.0);
    if share.at_least() > FOREIGN_SHARE_MAX {
        return Some(used);
    }
    let likely = share.value - share.error / ERROR_DEVIATIONS > FOREIGN_SHARE_MAX;
    let hint = confirmed.filter(|_| likely)?;
    Some(format!("{used} (±{:.0}%, confirmed by {hint})", share.error * 100.0))
}

/// Which hint says that tasks waited for a CPU during the sample.
fn confirmation(psi_share: Option<f64>, own: &OwnUse, wall_ns: f64) -> Option<&'static str> {
    let per_second = own.involuntary_switches as f64 / own.cpu.as_secs_f64();
    if own.involuntary_switches >= INVOLUNTARY_MIN && per_second > INVOLUNTARY_PER_CPU_SECOND_MAX {
        return Some("involuntary switches");
    }
    let waited_ns = own.runqueue_wait.map_or(0.0, |wait| wait.as_nanos() as f64);
    if waited_ns > RUNQUEUE_WAIT_SHARE_MAX * wall_ns {
        return Some("waiting for a CPU");
    }
    psi_share.filter(|share| *share > PSI_SHARE_MAX).map(|_| "CPU pressure")
}
