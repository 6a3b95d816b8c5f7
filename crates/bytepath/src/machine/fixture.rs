//! CPU trees of other machines, written into temporary folders, for tests.

use std::fs;

use tempfile::TempDir;

use super::Topology;

/// A folder that looks like the root of a machine's /sys/devices/system/cpu.
pub(crate) struct CpuTree(TempDir);

/// A cache in a [`CpuTree`].
pub(crate) struct CacheFile {
    pub(crate) index: usize,
    pub(crate) level: usize,
    pub(crate) size: &'static str,
}

impl CpuTree {
    pub(crate) fn new(online: &str) -> CpuTree {
        let tree = CpuTree(tempfile::tempdir().expect("a temporary folder"));
        let folder = tree.0.path().join("sys/devices/system/cpu");
        fs::create_dir_all(&folder).expect("a folder for the CPUs");
        fs::write(folder.join("online"), online).expect("a list of CPUs");
        tree
    }

    pub(crate) fn write(&self, cpu: usize, name: &str, text: &str) {
        let file = self.0.path().join(format!("sys/devices/system/cpu/cpu{cpu}/{name}"));
        fs::create_dir_all(file.parent().expect("a file below a folder")).expect("its folder");
        fs::write(file, format!("{text}\n")).expect("a file of the tree");
    }

    /// Places a CPU: its socket, its core and the CPUs of that core.
    pub(crate) fn core(&self, cpu: usize, package: usize, core: usize, siblings: &str) {
        self.write(cpu, "topology/physical_package_id", &package.to_string());
        self.write(cpu, "topology/core_id", &core.to_string());
        self.write(cpu, "topology/core_cpus_list", siblings);
        self.write(cpu, &format!("node{package}/cpulist"), "");
    }

    pub(crate) fn cache(&self, cpu: usize, cache: &CacheFile, shared_by: &str) {
        let CacheFile { index, level, size } = cache;
        self.write(cpu, &format!("cache/index{index}/level"), &level.to_string());
        self.write(cpu, &format!("cache/index{index}/type"), "Unified");
        self.write(cpu, &format!("cache/index{index}/size"), size);
        self.write(cpu, &format!("cache/index{index}/shared_cpu_list"), shared_by);
    }

    pub(crate) fn read(&self) -> Topology {
        Topology::read(self.0.path())
    }
}

const L2: CacheFile = CacheFile { index: 2, level: 2, size: "512K" };
const L3: CacheFile = CacheFile { index: 3, level: 3, size: "8192K" };

/// Four cores, two threads each (0 and 4, 1 and 5, …), one L3.
pub(crate) fn laptop() -> Topology {
    let tree = CpuTree::new("0-7");
    for cpu in 0..8 {
        let siblings = format!("{},{}", cpu % 4, cpu % 4 + 4);
        tree.core(cpu, 0, cpu % 4, &siblings);
        tree.cache(cpu, &L2, &siblings);
        tree.cache(cpu, &L3, "0-7");
    }
    tree.read()
}

/// Two sockets of four cores without SMT; each pair of cores has an L3 of its own.
pub(crate) fn two_sockets() -> Topology {
    let tree = CpuTree::new("0-7");
    for cpu in 0..8 {
        tree.core(cpu, cpu / 4, cpu % 4, &cpu.to_string());
        tree.cache(cpu, &L2, &cpu.to_string());
        tree.cache(cpu, &L3, &format!("{}-{}", cpu / 2 * 2, cpu / 2 * 2 + 1));
    }
    tree.read()
}

/// A virtual machine of two CPUs that share an L3.
pub(crate) fn two_cpus() -> Topology {
    let tree = CpuTree::new("0-1");
    for cpu in 0..2 {
        tree.core(cpu, 0, cpu, &cpu.to_string());
        tree.cache(cpu, &L2, &cpu.to_string());
        tree.cache(cpu, &L3, "0-1");
    }
    tree.read()
}

/// A virtual machine whose two CPUs are the two threads of one core.
pub(crate) fn two_threads() -> Topology {
    let tree = CpuTree::new("0-1");
    for cpu in 0..2 {
        tree.core(cpu, 0, 0, "0-1");
        tree.cache(cpu, &L2, "0-1");
        tree.cache(cpu, &L3, "0-1");
    }
    tree.read()
}

/// One CPU.
pub(crate) fn one_cpu() -> Topology {
    let tree = CpuTree::new("0");
    tree.core(0, 0, 0, "0");
    tree.cache(0, &L2, "0");
    tree.read()
}
