//! A memory cgroup whose processes have so much memory and no more.

use std::path::{Path, PathBuf};

use crate::cgroups::{Group, Hierarchy, Version};

/// A group with a limit, or one without.
#[derive(Debug)]
pub(super) struct MemoryGroup {
    group: Group,
}

impl MemoryGroup {
    /// A group of so much memory, that may have so much more in swap.
    pub(super) fn make(limit_bytes: Option<u64>, swap_bytes: u64) -> Result<MemoryGroup, String> {
        let group = MemoryGroup { group: Hierarchy::of("memory")?.group()? };
        let Some(limit) = limit_bytes else { return Ok(group) };
        match group.group.version {
            Version::V1 => {
                group.set("memory.limit_in_bytes", &limit.to_string())?;
                if group.group.path().join(MEMSW).exists() {
                    group.set(MEMSW, &limit.saturating_add(swap_bytes).to_string())?;
                }
            }
            Version::V2 => {
                group.set("memory.max", &limit.to_string())?;
                group.set("memory.swap.max", &swap_bytes.to_string())?;
            }
        }
        Ok(group)
    }

    pub(super) fn set(&self, file: &str, value: &str) -> Result<(), String> {
        self.group.set(file, value)
    }

    pub(super) fn path(&self) -> &Path {
        self.group.path()
    }

    /// The groups that a process is put into for a sample: this one, and others.
    pub(super) fn joined(&self, others: Vec<PathBuf>) -> Vec<PathBuf> {
        std::iter::once(self.path().to_owned()).chain(others).collect()
    }

    /// How often the kernel ended one of its processes because there was no memory left.
    pub(super) fn killed(&self) -> u64 {
        let file = match self.group.version {
            Version::V1 => "memory.oom_control",
            Version::V2 => "memory.events",
        };
        self.group.number(file, Some("oom_kill ")).unwrap_or(0)
    }

    /// The most memory that it had at once.
    pub(super) fn most_bytes(&self) -> Option<u64> {
        let file = match self.group.version {
            Version::V1 => "memory.max_usage_in_bytes",
            Version::V2 => "memory.peak",
        };
        self.group.number(file, None)
    }

    /// Major faults so far.
    pub(super) fn major_faults(&self) -> Option<u64> {
        self.group.number("memory.stat", Some("pgmajfault "))
    }

    /// For how many seconds some process waited for memory: of the group, or of the machine where
    /// groups have no pressure information; none where the kernel keeps none.
    pub(super) fn waited_s(&self) -> Option<f64> {
        let text = match self.group.version {
            Version::V2 => self.group.text("memory.pressure"),
            Version::V1 => std::fs::read_to_string("/proc/pressure/memory").unwrap_or_default(),
        };
        crate::noise::parse_some_total_us(&text).map(|us| us as f64 / 1e6)
    }
}

/// The file of version 1 that limits memory and swap together; there unless swap is not accounted.
const MEMSW: &str = "memory.memsw.limit_in_bytes";
