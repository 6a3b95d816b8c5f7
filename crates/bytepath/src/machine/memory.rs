//! How much memory there is and in which page sizes it comes.

use std::path::Path;

use super::files;

const THP: &str = "sys/kernel/mm/transparent_hugepage";
const HUGETLB: &str = "sys/kernel/mm/hugepages";

/// Memory and page sizes. Whether asking for a huge page gives one is only known by asking for it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    /// All memory of the machine (not of a container's limit).
    pub total_bytes: u64,
    /// The base page.
    pub page_bytes: usize,
    /// The page that a page-middle-directory entry maps: 2 MiB on x86-64, 2, 32 or 512 MiB on
    /// aarch64.
    pub pmd_bytes: Option<usize>,
    /// Transparent huge pages for private memory: `always`, `madvise` or `never`.
    pub thp_enabled: Option<String>,
    /// When the kernel stops to make room for one: `always`, `defer`, `defer+madvise`, `madvise`,
    /// `never`.
    pub thp_defrag: Option<String>,
    /// The same for shared memory and memfd: `always`, `within_size`, `advise`, `never`, …
    pub thp_shmem: Option<String>,
    /// Reserved huge pages, by size.
    pub huge_pools: Vec<HugePool>,
}

/// The huge pages of one size that were set aside for MAP_HUGETLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HugePool {
    /// The size of a page.
    pub page_bytes: u64,
    /// Pages set aside.
    pub total_pages: u64,
    /// Pages of these that nobody uses.
    pub free_pages: u64,
}

impl Memory {
    /// Asks the kernel, and reads the files below `root` (`/` for this machine).
    pub fn read(root: &Path) -> Memory {
        let chosen =
            |name| files::text(root, &format!("{THP}/{name}")).and_then(|text| chosen(&text));
        Memory {
            total_bytes: memory_bytes(),
            page_bytes: rustix::param::page_size(),
            pmd_bytes: files::number(root, &format!("{THP}/hpage_pmd_size")),
            thp_enabled: chosen("enabled"),
            thp_defrag: chosen("defrag"),
            thp_shmem: chosen("shmem_enabled"),
            huge_pools: huge_pools(root),
        }
    }
}

/// The bytes of memory that the kernel has.
fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    system.totalram.saturating_mul(system.mem_unit.into())
}

/// The kernel writes a choice as `always [madvise] never`.
fn chosen(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    let (word, _) = rest.split_once(']')?;
    Some(word.to_owned())
}

fn huge_pools(root: &Path) -> Vec<HugePool> {
    let names = files::names(root, HUGETLB);
    let mut pools: Vec<HugePool> = names.iter().filter_map(|name| huge_pool(root, name)).collect();
    pools.sort_by_key(|pool| pool.page_bytes);
    pools
}

/// A pool is a folder such as `hugepages-2048kB`.
fn huge_pool(root: &Path, name: &str) -> Option<HugePool> {
    let page_kib: u64 = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
    Some(HugePool {
        page_bytes: page_kib.checked_mul(1024)?,
        total_pages: files::number(root, &format!("{HUGETLB}/{name}/nr_hugepages"))?,
        free_pages: files::number(root, &format!("{HUGETLB}/{name}/free_hugepages"))?,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_choice_in_brackets_is_the_one() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise".to_owned()));
        assert_eq!(chosen("always madvise never"), None);
        assert_eq!(chosen("]["), None);
    }

    #[test]
    fn pools_are_listed_by_size_and_odd_folders_left_out() {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (name, total) in
            [("hugepages-1048576kB", "0"), ("hugepages-2048kB", "8"), ("other", "1")]
        {
            let folder = root.path().join(HUGETLB).join(name);
            fs::create_dir_all(&folder).expect("a folder for a pool");
            fs::write(folder.join("nr_hugepages"), total).expect("its pages");
            fs::write(folder.join("free_hugepages"), total).expect("its free pages");
        }
        let pools = Memory::read(root.path()).huge_pools;
        let pools: Vec<_> = pools.iter().map(|pool| (pool.page_bytes, pool.free_pages)).collect();
        assert_eq!(pools, [(2 << 20, 8), (1 << 30, 0)]);
    }

    #[test]
    fn this_machine_has_memory_in_pages() {
        let memory = Memory::read(Path::new("/"));
        assert!(memory.page_bytes.is_power_of_two());
        assert!(memory.total_bytes > memory.page_bytes as u64);
    }
}
