//! What a process has used, by getrusage(2).

use bytepath_report::Costs;
use nix::sys::resource::{UsageWho, getrusage};
use serde::{Deserialize, Serialize};

use super::GIB;

/// Resources used, as differences between two moments or since the start of the process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds of CPU in user space.
    pub user_s: f64,
    /// Seconds of CPU in the kernel.
    pub system_s: f64,
    /// Times that it gave up its CPU to wait.
    pub switches_voluntary: u64,
    /// Times that its CPU was taken from it.
    pub switches_involuntary: u64,
    /// Page faults, minor and major.
    pub faults: u64,
    /// Of these, the ones that waited for a device.
    #[serde(default)]
    pub major_faults: u64,
}

impl Usage {
    /// What this process has used so far; nothing where the kernel does not tell.
    pub fn of_this_process() -> Usage {
        Usage::of(UsageWho::RUSAGE_SELF)
    }

    /// What the processes that this one started, and that have ended, have used.
    pub fn of_children() -> Usage {
        Usage::of(UsageWho::RUSAGE_CHILDREN)
    }

    fn of(who: UsageWho) -> Usage {
        let Ok(usage) = getrusage(who) else { return Usage::default() };
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Usage {
            user_s: seconds(usage.user_time()),
            system_s: seconds(usage.system_time()),
            switches_voluntary: count(usage.voluntary_context_switches()),
            switches_involuntary: count(usage.involuntary_context_switches()),
            faults: count(usage.minor_page_faults() + usage.major_page_faults()),
            major_faults: count(usage.major_page_faults()),
        }
    }

    /// What was used since `before`.
    pub fn since(self, before: Usage) -> Usage {
        Usage {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
            switches_voluntary: self.switches_voluntary - before.switches_voluntary,
            switches_involuntary: self.switches_involuntary - before.switches_involuntary,
            faults: self.faults - before.faults,
            major_faults: self.major_faults - before.major_faults,
        }
    }

    /// Both together.
    pub fn with(self, other: Usage) -> Usage {
        Usage {
            user_s: self.user_s + other.user_s,
            system_s: self.system_s + other.system_s,
            switches_voluntary: self.switches_voluntary + other.switches_voluntary,
            switches_involuntary: self.switches_involuntary + other.switches_involuntary,
            faults: self.faults + other.faults,
            major_faults: self.major_faults + other.major_faults,
        }
    }

    /// Seconds of CPU.
    pub fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }

    /// Context switches of both kinds.
    pub fn switches(&self) -> u64 {
        self.switches_voluntary + self.switches_involuntary
    }
}

/// What each GiB of so many bytes cost; not known where there were none. Calls where they were
/// counted.
pub(crate) fn costs_per_gib(usage: &Usage, calls: Option<u64>, bytes: u64) -> Costs {
    let gib = bytes as f64 / GIB;
    let per_gib = |amount: f64| (bytes > 0).then(|| amount / gib);
    Costs {
        cpu_user_s_per_gib: per_gib(usage.user_s),
        cpu_system_s_per_gib: per_gib(usage.system_s),
        syscalls_per_gib: calls.and_then(|calls| per_gib(calls as f64)),
        context_switches_per_gib: per_gib(usage.switches() as f64),
        page_faults_per_gib: per_gib(usage.faults as f64),
        ..Costs::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_gib_cost_is_not_known_where_no_bytes_were_moved() {
        let usage = Usage { user_s: 1.0, faults: 8, switches_voluntary: 2, ..Usage::default() };
        assert_eq!(costs_per_gib(&usage, Some(6), 0), Costs::default());
        let costs = costs_per_gib(&usage, Some(6), 2 << 30);
        let wanted = Costs {
            cpu_user_s_per_gib: Some(0.5),
            cpu_system_s_per_gib: Some(0.0),
            syscalls_per_gib: Some(3.0),
            context_switches_per_gib: Some(1.0),
            page_faults_per_gib: Some(4.0),
            ..Costs::default()
        };
        assert_eq!(costs, wanted);
        assert_eq!(costs_per_gib(&usage, None, 2 << 30).syscalls_per_gib, None);
    }
}
