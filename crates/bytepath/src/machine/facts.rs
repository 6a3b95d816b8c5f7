//! All facts about a machine as plain values: to describe one by hand, to record one, to print one.

use std::collections::BTreeMap;
use std::fmt::Display;

use super::{
    Answer, Call, Cgroups, Cpu, CpuList, HugePool, Kernel, Limit, Memory, PipeLimits,
    ResourceLimits, Ring, RingFeatures, Topology, User,
};
use crate::size::shown as size;

/// What is true on a machine. Fields have the names of [`Machine`](super::Machine)'s questions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// The kernel and the processor.
    pub kernel: Kernel,
    /// The CPUs and what they share.
    pub cpus: Topology,
    /// The CPUs that this process may use.
    pub allowed_cpus: CpuList,
    /// How large pipes may be, and are.
    pub pipes: PipeLimits,
    /// Limits on this process's resources.
    pub limits: ResourceLimits,
    /// Memory and page sizes.
    pub memory: Memory,
    /// Which calls answer. In a description by hand, a call that is not named answers.
    pub calls: BTreeMap<Call, Answer>,
    /// io_uring.
    pub ring: Ring,
    /// Pressure information.
    pub pressure: Answer,
    /// cgroups.
    pub cgroups: Cgroups,
    /// Who we are.
    pub user: User,
}

impl Facts {
    /// An ordinary machine that does not exist, for tests to change: two CPUs, pages of 4 KiB,
    /// pipes of 64 KiB that may grow to 1 MiB, a user who is not root, and every call answers,
    /// io_uring too.
    pub fn ordinary() -> Facts {
        Facts {
            kernel: Kernel::default(),
            cpus: Topology { cpus: vec![ordinary_cpu(0), ordinary_cpu(1)] },
            allowed_cpus: CpuList::parse("0-1"),
            pipes: ordinary_pipes(),
            limits: ordinary_limits(),
            memory: Memory { total_bytes: 8 << 30, page_bytes: 4096, ..Memory::default() },
            calls: BTreeMap::new(),
            ring: Ring::Available(RingFeatures { bits: u32::MAX, operations: u128::MAX }),
            pressure: Answer::Yes,
            cgroups: Cgroups::default(),
            user: User::default(),
        }
    }

    /// Everything as pairs of a plain name and its value, in reading order.
    pub fn list(&self) -> Vec<(String, String)> {
        [
            self.list_kernel(),
            self.list_cpus(),
            self.list_memory(),
            self.list_limits(),
            self.list_calls(),
            self.list_surroundings(),
        ]
        .concat()
    }

    fn list_kernel(&self) -> Vec<(String, String)> {
        let kernel = &self.kernel;
        let mut list = vec![
            fact("kernel", said(&kernel.release)),
            fact("kernel build", said(&kernel.version)),
            fact("kernel command line", said(&kernel.command_line)),
            fact("architecture", said(&kernel.architecture)),
            fact("virtualisation", &kernel.virtualisation),
            fact("processor", said(&kernel.cpu_model)),
            fact("governor", joined(&kernel.governors, "none (the kernel does not choose)")),
        ];
        let mitigations = kernel.mitigations.iter();
        list.extend(
            mitigations.map(|(name, state)| fact(format!("mitigation {name}"), said(state))),
        );
        list
    }

    fn list_cpus(&self) -> Vec<(String, String)> {
        let cpus = &self.cpus;
        let mut list = vec![
            fact("CPUs online", cpus.online()),
            fact("CPUs allowed", &self.allowed_cpus),
            fact("cores", cpus.cores()),
            fact("sockets", cpus.sockets()),
        ];
        list.extend(cpus.cpus.iter().map(|cpu| fact(format!("CPU {}", cpu.id), described(cpu))));
        list
    }

    fn list_memory(&self) -> Vec<(String, String)> {
        let memory = &self.memory;
        let mut list = vec![
            fact("memory", format!("{:.1} GiB", memory.total_bytes as f64 / f64::from(1 << 30))),
            fact("page size", size(memory.page_bytes as u64)),
            fact("huge page size", told(memory.pmd_bytes.map(|bytes| size(bytes as u64)))),
            fact("transparent huge pages", told(memory.thp_enabled.as_ref())),
            fact("transparent huge pages, defrag", told(memory.thp_defrag.as_ref())),
            fact("transparent huge pages, shared memory", told(memory.thp_shmem.as_ref())),
        ];
        list.extend(memory.huge_pools.iter().map(pool));
        list
    }

    fn list_limits(&self) -> Vec<(String, String)> {
        let (pipes, limits) = (&self.pipes, &self.limits);
        let bytes = |bytes: Option<usize>| told(bytes.map(|bytes| size(bytes as u64)));
        vec![
            fact("pipe size by default", bytes(pipes.default_bytes)),
            fact("largest pipe that was given", bytes(pipes.largest_bytes)),
            fact("fs.pipe-max-size", bytes(pipes.max_bytes)),
            fact("fs.pipe-user-pages-soft", told(pipes.user_pages_soft)),
            fact("fs.pipe-user-pages-hard", told(pipes.user_pages_hard)),
            fact("locked memory", limit(limits.locked_memory_bytes, size)),
            fact("open files", limit(limits.open_files, |files| files.to_string())),
        ]
    }

    fn list_calls(&self) -> Vec<(String, String)> {
        let calls = self.calls.iter().map(|(call, answer)| fact(call.name(), answer));
        calls.chain([fact("io_uring", &self.ring)]).collect()
    }

    fn list_surroundings(&self) -> Vec<(String, String)> {
        vec![
            fact("pressure information (PSI)", &self.pressure),
            fact("cgroups", self.cgroups.generations()),
            fact("user is root", if self.user.root { "yes" } else { "no" }),
            fact("capabilities", self.user.capabilities),
            fact("seccomp filter", if self.user.seccomp { "yes" } else { "no" }),
        ]
    }
}

fn ordinary_cpu(id: usize) -> Cpu {
    let own = CpuList::from_iter([id]);
    Cpu {
        id,
        package: Some(0),
        core: Some(id),
        smt_siblings: own,
        caches: Vec::new(),
        node: Some(0),
    }
}

fn ordinary_pipes() -> PipeLimits {
    PipeLimits {
        max_bytes: Some(1 << 20),
        user_pages_soft: Some(16_384),
        user_pages_hard: Some(0),
        default_bytes: Some(64 << 10),
        largest_bytes: Some(1 << 20),
    }
}

fn ordinary_limits() -> ResourceLimits {
    ResourceLimits {
        locked_memory_bytes: Limit { soft: Some(8 << 20), hard: Some(8 << 20) },
        open_files: Limit { soft: Some(1024), hard: Some(524_288) },
    }
}

fn fact(name: impl Into<String>, value: impl Display) -> (String, String) {
    (name.into(), value.to_string())
}

fn said(text: &str) -> &str {
    if text.is_empty() { "not told" } else { text }
}

fn told(value: Option<impl Display>) -> String {
    value.map_or_else(|| "not told".to_owned(), |value| value.to_string())
}

fn joined(words: &[String], none: &str) -> String {
    if words.is_empty() { none.to_owned() } else { words.join(" ") }
}

fn limit(limit: Limit, shown: impl Fn(u64) -> String) -> String {
    let [soft, hard] =
        [limit.soft, limit.hard].map(|bound| bound.map_or("unlimited".to_owned(), &shown));
    if soft == hard { soft } else { format!("{soft} (may be raised to {hard})") }
}

fn pool(pool: &HugePool) -> (String, String) {
    let HugePool { page_bytes, total_pages, free_pages } = pool;
    fact(
        format!("huge pages of {}", size(*page_bytes)),
        format!("{free_pages} of {total_pages} free"),
    )
}

fn described(cpu: &Cpu) -> String {
    let mut words = vec![
        format!("socket {}", told(cpu.package)),
        format!("core {}", told(cpu.core)),
        format!("threads {}", cpu.smt_siblings),
        format!("node {}", told(cpu.node)),
    ];
    words.extend(cpu.caches.iter().map(|cache| {
        let size = told(cache.size_bytes.map(size));
        format!("L{}{} {size} shared by {}", cache.level, cache.kind.letter(), cache.shared_by)
    }));
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_shows_how_far_it_may_be_raised() {
        let limits = ordinary_limits();
        assert_eq!(limit(limits.locked_memory_bytes, size), "8 MiB");
        assert_eq!(limit(limits.open_files, |n| n.to_string()), "1024 (may be raised to 524288)");
        assert_eq!(limit(Limit::default(), size), "unlimited");
    }

    #[test]
    fn an_ordinary_machine_lists_each_fact_under_its_own_name() {
        let list = Facts::ordinary().list();
        let names: std::collections::BTreeSet<_> = list.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), list.len());
        assert!(list.iter().all(|(_, value)| !value.is_empty()));
    }
}
