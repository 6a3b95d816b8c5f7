//! Which CPUs there are and what they share: cores, caches, sockets and memory nodes.
//!
//! Read from /sys/devices/system/cpu, whose files are described in the kernel's
//! Documentation/ABI/testing/sysfs-devices-system-cpu. Costs about thirty small files per CPU, so
//! it is read only when a placement is asked for.

use std::path::Path;

use super::cpu_list::CpuList;
use super::files;

const CPU_ROOT: &str = "sys/devices/system/cpu";

/// The CPUs that are switched on, ascending by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    /// One entry for each CPU.
    pub cpus: Vec<Cpu>,
}

/// One CPU as the scheduler counts them: a hardware thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    /// The kernel's number.
    pub id: usize,
    /// The socket it sits in, where the machine tells (virtual and Arm machines may say -1).
    pub package: Option<usize>,
    /// The core within the socket.
    pub core: Option<usize>,
    /// The CPUs of the same core, itself among them.
    pub smt_siblings: CpuList,
    /// Its caches, in the order in which the kernel lists them; empty where it does not tell.
    pub caches: Vec<Cache>,
    /// The memory node it is near to.
    pub node: Option<usize>,
}

/// One cache of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cache {
    /// 1 is the nearest to the core.
    pub level: usize,
    /// What it holds.
    pub kind: CacheKind,
    /// Its size, where the machine tells.
    pub size_bytes: Option<u64>,
    /// The CPUs that use it.
    pub shared_by: CpuList,
}

/// What a cache holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheKind {
    /// Data alone.
    Data,
    /// Instructions alone: shared or not, it says nothing about moving bytes.
    Instruction,
    /// Both.
    Unified,
}

impl CacheKind {
    /// What people write behind the level: L1d, L1i, L2.
    pub(crate) fn letter(self) -> &'static str {
        match self {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        }
    }
}

impl Topology {
    /// Reads the tree below `root` (`/` for this machine).
    ///
    /// Where a tree leaves things out, as some containers and virtual machines do, so does the
    /// result: a CPU whose folder says nothing is taken for a core of its own.
    pub fn read(root: &Path) -> Topology {
        let cpus = online(root).iter().map(|id| cpu(root, id)).collect();
        Topology { cpus }
    }

    /// The CPU with the kernel's number `id`.
    pub fn cpu(&self, id: usize) -> Option<&Cpu> {
        let index = self.cpus.binary_search_by_key(&id, |cpu| cpu.id).ok()?;
        self.cpus.get(index)
    }

    /// The numbers of all CPUs here.
    pub fn online(&self) -> CpuList {
        self.cpus.iter().map(|cpu| cpu.id).collect()
    }

    /// How many sockets there are, at least one.
    pub fn sockets(&self) -> usize {
        let mut packages: Vec<_> = self.cpus.iter().map(|cpu| cpu.package).collect();
        packages.sort_unstable();
        packages.dedup();
        packages.len().max(1)
    }

    /// How many cores there are: CPUs that are SMT siblings count once.
    pub fn cores(&self) -> usize {
        self.cpus.iter().filter(|cpu| cpu.smt_siblings.first() == Some(cpu.id)).count()
    }

    /// The size of the largest cache that holds data, where the machine tells: what a working set
    /// must exceed for its figures to be about memory.
    pub fn largest_cache_bytes(&self) -> Option<u64> {
        let caches = self.cpus.iter().flat_map(|cpu| &cpu.caches);
        let caches = caches.filter(|cache| cache.kind != CacheKind::Instruction);
        caches.filter_map(|cache| cache.size_bytes).max()
    }
}

/// Some minimal systems have no `online` file; the folders `cpu0`, `cpu1`, … tell the same. Where
/// neither can be read, there are at least those that we may use.
fn online(root: &Path) -> CpuList {
    let listed = files::text(root, &format!("{CPU_ROOT}/online")).unwrap_or_default();
    let listed = CpuList::parse(&listed);
    if !listed.is_empty() {
        return listed;
    }
    let numbers = files::names(root, CPU_ROOT);
    let numbers: CpuList =
        numbers.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok()).collect();
    if !numbers.is_empty() {
        return numbers;
    }
    CpuList::of_this_thread().unwrap_or_else(|_| CpuList::from_iter([0]))
}

fn cpu(root: &Path, id: usize) -> Cpu {
    let folder = format!("{CPU_ROOT}/cpu{id}");
    Cpu {
        id,
        package: files::number(root, &format!("{folder}/topology/physical_package_id")),
        core: files::number(root, &format!("{folder}/topology/core_id")),
        smt_siblings: smt_siblings(root, &folder, id),
        caches: caches(root, &folder),
        node: node(root, &folder),
    }
}

/// `core_cpus_list` is the newer name (5.3) of `thread_siblings_list`.
fn smt_siblings(root: &Path, folder: &str, id: usize) -> CpuList {
    let siblings = ["core_cpus_list", "thread_siblings_list"]
        .iter()
        .find_map(|name| files::text(root, &format!("{folder}/topology/{name}")))
        .unwrap_or_default();
    let siblings = CpuList::parse(&siblings);
    if siblings.contains(id) { siblings } else { CpuList::from_iter([id]) }
}

fn caches(root: &Path, folder: &str) -> Vec<Cache> {
    let folder = format!("{folder}/cache");
    let indexes = files::names(root, &folder);
    let indexes = indexes.iter().filter(|name| name.starts_with("index"));
    indexes.filter_map(|index| cache(root, &format!("{folder}/{index}"))).collect()
}

fn cache(root: &Path, folder: &str) -> Option<Cache> {
    let kind = match files::text(root, &format!("{folder}/type"))?.as_str() {
        "Data" => CacheKind::Data,
        "Instruction" => CacheKind::Instruction,
        _ => CacheKind::Unified,
    };
    let shared_by = files::text(root, &format!("{folder}/shared_cpu_list")).unwrap_or_default();
    Some(Cache {
        level: files::number(root, &format!("{folder}/level"))?,
        kind,
        size_bytes: files::text(root, &format!("{folder}/size")).and_then(|size| bytes(&size)),
        shared_by: CpuList::parse(&shared_by),
    })
}

/// The kernel writes cache sizes as `32K`.
fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    let shift = match &size[digits.len()..] {
        "" => 0,
        "K" => 10,
        "M" => 20,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// A CPU's folder holds a link `node0` to its memory node.
fn node(root: &Path, folder: &str) -> Option<usize> {
    files::names(root, folder).iter().find_map(|name| name.strip_prefix("node")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::super::fixture::{self, CpuTree};
    use super::*;

    #[test]
    fn a_laptop_with_smt_has_siblings_and_one_shared_cache() {
        let topology = fixture::laptop();
        assert_eq!(topology.online().to_string(), "0-7");
        assert_eq!((topology.sockets(), topology.cores()), (1, 4));
        assert_eq!(topology.cpu(5).map(|cpu| cpu.smt_siblings.to_string()), Some("1,5".into()));
        assert_eq!(topology.largest_cache_bytes(), Some(8 << 20));
    }

    #[test]
    fn a_server_with_two_sockets_has_two_nodes() {
        let topology = fixture::two_sockets();
        assert_eq!(topology.sockets(), 2);
        assert_eq!(topology.cpu(0).and_then(|cpu| cpu.node), Some(0));
        assert_eq!(topology.cpu(4).and_then(|cpu| cpu.node), Some(1));
        assert_eq!(topology.cpu(4).and_then(|cpu| cpu.package), Some(1));
    }

    #[test]
    fn a_tree_without_caches_or_topology_still_lists_its_cpus() {
        let tree = CpuTree::new("0-1");
        let topology = tree.read();
        assert_eq!(topology.online().to_string(), "0-1");
        assert_eq!(topology.cores(), 2);
        assert_eq!(topology.largest_cache_bytes(), None);
        assert_eq!(topology.cpu(1).map(|cpu| cpu.caches.len()), Some(0));
    }

    #[test]
    fn an_empty_tree_has_the_cpus_that_we_may_use() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let allowed = CpuList::of_this_thread().expect("this runs on some");
        assert_eq!(Topology::read(root.path()).online(), allowed);
    }

    #[test]
    fn odd_values_are_left_out_and_do_not_panic() {
        let tree = CpuTree::new("0");
        tree.write(0, "topology/physical_package_id", "-1");
        tree.write(0, "topology/core_cpus_list", "");
        tree.write(0, "cache/index0/type", "Unified");
        tree.write(0, "cache/index0/level", "3");
        tree.write(0, "cache/index0/size", "99999999999999999999é");
        let topology = tree.read();
        let cpu = topology.cpu(0).expect("CPU 0 is online");
        assert_eq!(cpu.package, None);
        assert_eq!(cpu.smt_siblings.to_string(), "0");
        assert_eq!(cpu.caches.first().map(|cache| cache.size_bytes), Some(None));
    }

    #[test]
    fn this_machine_has_a_cpu() {
        let topology = Topology::read(Path::new("/"));
        assert!(!topology.cpus.is_empty());
        assert!(topology.cores() >= 1);
    }
}
