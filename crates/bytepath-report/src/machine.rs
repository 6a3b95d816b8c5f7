//! What was true of the machine while it measured, flat, so that two records compare field by field.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The facts about a machine that can change a measurement. Null where a fact could not be learned.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The kernel's release and version, for example `6.18.5 #1 SMP PREEMPT_DYNAMIC`.
    pub kernel: String,
    /// The kernel's command line (`/proc/cmdline`).
    #[serde(default)]
    pub command_line: Option<String>,
    /// The hypervisor or container around the machine, for example `kvm`; `none` on bare metal.
    #[serde(default)]
    pub virtualisation: Option<String>,
    /// The CPU's own name.
    #[serde(default)]
    pub cpu_model: Option<String>,
    /// The CPUs that are online, as the kernel lists them, for example `0-3,8`.
    #[serde(default)]
    pub cpus_online: Option<String>,
    /// The CPUs that bytepath may run on, as the kernel lists them.
    #[serde(default)]
    pub cpus_allowed: Option<String>,
    /// How many NUMA nodes there are.
    #[serde(default)]
    pub numa_nodes: Option<u32>,
    /// The caches that the CPUs allowed can reach, each once.
    #[serde(default)]
    pub caches: Vec<Cache>,
    /// The memory, in bytes.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// The size of a base page, in bytes.
    pub page_bytes: u64,
    /// Transparent huge pages: `always`, `madvise` or `never`.
    #[serde(default)]
    pub thp_enabled: Option<String>,
    /// How hard the kernel works to make a huge page: `always`, `defer`, `defer+madvise`, `madvise`
    /// or `never`.
    #[serde(default)]
    pub thp_defrag: Option<String>,
    /// How many pages of the default huge page size are set aside (`vm.nr_hugepages`).
    #[serde(default)]
    pub hugetlb_pages: Option<u64>,
    /// The mitigations against CPU vulnerabilities: vulnerability to the kernel's words.
    #[serde(default)]
    pub mitigations: BTreeMap<String, String>,
    /// The frequency governor of the CPUs, for example `performance`; all of them where CPUs differ.
    #[serde(default)]
    pub governor: Option<String>,
    /// The largest pipe that a user without privilege may ask for, in bytes (`fs.pipe-max-size`).
    #[serde(default)]
    pub pipe_max_size: Option<u64>,
    /// How many pages one user's pipes may hold before the kernel makes new ones small
    /// (`fs.pipe-user-pages-soft`); 0 is no limit.
    #[serde(default)]
    pub pipe_user_pages_soft: Option<u64>,
    /// How much memory this user may lock, in bytes; 18446744073709551615 is no limit.
    #[serde(default)]
    pub memlock_bytes: Option<u64>,
    /// What io_uring answered when tried: `available`, or the refusal in words.
    #[serde(default)]
    pub io_uring: Option<String>,
    /// Whether memory lent to a pipe by vmsplice shows later writes to it, by trying. False where
    /// the kernel copies.
    #[serde(default)]
    pub vmsplice_aliases: Option<bool>,
    /// Whether the kernel tells pressure (`/proc/pressure`).
    #[serde(default)]
    pub psi: Option<bool>,
    /// The file system that holds the data of the run, for example `ext4`; all of them where there are
    /// several.
    #[serde(default)]
    pub file_system: Option<String>,
    /// Whether bytepath ran as root.
    #[serde(default)]
    pub user_is_root: bool,
}

/// One cache.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cache {
    /// 1 for the cache next to the core, and upwards.
    pub level: u32,
    /// `data`, `instruction` or `unified`.
    pub kind: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// The CPUs that share it, as the kernel lists them, for example `0-1`.
    pub cpus: String,
}
