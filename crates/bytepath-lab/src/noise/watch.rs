//! A stretch of time in which it is watched what strangers do.

use std::time::Duration;

use super::{Disturbance, OwnUse, Snapshot, disturbance, kernel_threads};
use crate::ends::Usage;

/// Watches from its beginning to its end.
#[derive(Debug)]
pub struct Watch {
    before: Snapshot,
    used: OwnUse,
    /// What the kernel's threads had used, where they work for what is watched.
    served: Option<Duration>,
}

impl Watch {
    /// Begins, and says whether the kernel's threads are no strangers.
    pub fn begin(is_served_by_the_kernel: bool) -> Watch {
        let served = is_served_by_the_kernel.then(kernel_threads::cpu_time);
        Watch { served, before: Snapshot::take(), used: own_use() }
    }

    /// What strangers did on these CPUs. What this process has used meanwhile, and what all that it
    /// started and that have ended, is its own.
    pub fn end(self, cpus: &[usize]) -> Disturbance {
        let (after, all) = (Snapshot::take(), own_use());
        let served = self.served.map(|served| kernel_threads::cpu_time().saturating_sub(served));
        let own = OwnUse {
            cpu: all.cpu.saturating_sub(self.used.cpu) + served.unwrap_or_default(),
            involuntary_switches: all.involuntary_switches - self.used.involuntary_switches,
            runqueue_wait: None,
        };
        disturbance(&self.before, &after, cpus, &own)
    }
}

fn own_use() -> OwnUse {
    let (own, children) = (Usage::of_this_process(), Usage::of_children());
    OwnUse {
        cpu: Duration::from_secs_f64(own.cpu_s() + children.cpu_s()),
        involuntary_switches: own.switches_involuntary + children.switches_involuntary,
        runqueue_wait: None,
    }
}
