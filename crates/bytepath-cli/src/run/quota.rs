//! What quotas of CPU (cgroups) did while a pipeline ran: the kernel counts the time in which a
//! quota stops a program as a wait for a CPU.

use std::path::Path;

use bytepath::machine::Machine;
use bytepath_lab::doctor::{CpuQuota, cpu_quotas};

use super::verdict::Stopped;

/// The quotas that this process and what it starts are under, as they stood at the beginning.
#[derive(Debug)]
pub(super) struct Quotas(Vec<CpuQuota>);

impl Quotas {
    pub(super) fn now() -> Quotas {
        Quotas(cpu_quotas(Path::new("/"), Machine::this().cgroups()))
    }

    /// What the one did that stopped them for longest since then.
    pub(super) fn stopped(&self) -> Option<Stopped> {
        let Quotas(before) = self;
        if before.is_empty() {
            return None;
        }
        let Quotas(now) = Quotas::now();
        let stopped = now.iter().filter_map(|now| {
            let before = before.iter().find(|before| before.folder == now.folder)?;
            let seconds = now.stopped_s - before.stopped_s;
            (seconds > 0.0).then_some(Stopped { cpus: now.cpus, seconds })
        });
        stopped.max_by(|one, other| one.seconds.total_cmp(&other.seconds))
    }
}
