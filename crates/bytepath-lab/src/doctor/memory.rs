//! Page sizes, and what happens where memory is short.

use std::path::PathBuf;

use bytepath::pages::{PageSize, PagesError, SharedMemory, page_bytes};
use bytepath::shell::quoted;
use bytepath_report::numbers;

use super::{Change, Examined, Here, bytes};
use crate::swap::areas::{self, Active};

/// Every kernel has it.
const MM: &str = "sys/kernel/mm";
/// There where the kernel has it built in, or its module is loaded.
const ZRAM: &str = "sys/class/zram-control";
const ZSWAP: &str = "sys/module/zswap/parameters/enabled";
const THP: &str = "sys/kernel/mm/transparent_hugepage";

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    vec![transparent(here), shared(here), defrag(here), pools(here), swap(here)]
}

pub(super) fn transparent(here: &Here<'_>) -> Examined {
    let name = "thp";
    let file = format!("{THP}/enabled");
    let gain = || {
        let (base, huge) =
            (here.cost("memory copy, pages of 4 KiB"), here.cost("memory copy, pages of 2 MiB"));
        match (base, huge) {
            (Some(base), None) => {
                Some(format!("copying memory stays at {} GiB/s", numbers::figure(base)))
            }
            (Some(base), Some(huge)) => {
                Some(format!("copying memory gains {} by them", numbers::ratio(huge / base)))
            }
            _ => None,
        }
    };
    let why = "programs that ask for 2 MiB pages touch fewer page tables";
    match here.machine.memory().thp_enabled.as_deref() {
        Some("never") => {
            Examined::poor(name, "no transparent huge pages", "every buffer is in pages of 4 KiB")
                .costs(gain())
                .by(format!("echo madvise > /{file}"))
                .changed_by(here.change(&file, "madvise"))
        }
        Some(chosen) => Examined::good(name, chosen.to_owned(), why),
        None if here.root.join(MM).is_dir() && !here.root.join(THP).exists() => {
            Examined::poor(name, "none", "this kernel has no transparent huge pages")
                .costs(gain())
                .by("a kernel with CONFIG_TRANSPARENT_HUGEPAGE")
        }
        None => Examined::unknown(name, format!("/{file} cannot be read")),
    }
}

/// Huge pages between processes come on advice, or by moving memory into them, which the setting does
/// not forbid on every kernel: so it is tried.
pub(super) fn shared(here: &Here<'_>) -> Examined {
    let name = "thp-shared";
    let file = format!("{THP}/shmem_enabled");
    let chosen = here.machine.memory().thp_shmem.clone();
    let found = chosen.clone().unwrap_or_else(|| "not told".to_owned());
    let got = SharedMemory::create(page_bytes(PageSize::Huge), PageSize::Huge)
        .and_then(|memory| memory.huge_bytes());
    match got {
        Ok(1..) => {
            let why = "memory between processes may have pages of 2 MiB";
            return Examined::good(name, found, why);
        }
        Ok(0) | Err(PagesError::NoHuge(_)) if chosen.is_some() => {}
        Ok(0) | Err(PagesError::NoHuge(_)) => {
            let why = "the kernel does not tell whether shared memory may have them";
            return Examined::unknown(name, why);
        }
        Err(error) => return Examined::unknown(name, error.to_string()),
    }
    let gain = || {
        let gain =
            here.cost("memory read, pages of 2 MiB")? / here.cost("memory read, pages of 4 KiB")?;
        Some(format!("within one process reading gains {} by them", numbers::ratio(gain)))
    };
    if matches!(chosen.as_deref(), Some("never" | "deny")) {
        return Examined::poor(name, found, "memory between processes has no 2 MiB pages")
            .costs(gain())
            .by(format!("echo advise > /{file}"))
            .changed_by(here.change(&file, "advise"));
    }
    let why = "memory between processes got no 2 MiB pages: it may be fragmented";
    Examined::poor(name, found, why)
        .costs(gain())
        .by("echo 1 > /proc/sys/vm/compact_memory, or a pool: see hugetlb")
}

fn defrag(here: &Here<'_>) -> Examined {
    let name = "thp-defrag";
    match here.machine.memory().thp_defrag.as_deref() {
        Some("never") => {
            let file = format!("{THP}/defrag");
            let why = "the kernel makes no room for huge pages, so that they are had by luck";
            Examined::poor(name, "never", why)
                .by(format!("echo madvise > /{file}"))
                .changed_by(here.change(&file, "madvise"))
        }
        Some("always") => {
            let file = format!("{THP}/defrag");
            let why = "any program may wait for the kernel to make room for a huge page";
            Examined::poor(name, "always", why)
                .by(format!("echo madvise > /{file}"))
                .changed_by(here.change(&file, "madvise"))
        }
        Some(chosen) => {
            Examined::good(name, chosen.to_owned(), "room is made for those who ask for it")
        }
        None => Examined::unknown(name, "the kernel does not tell (transparent_hugepage/defrag)"),
    }
}

fn pools(here: &Here<'_>) -> Examined {
    let name = "hugetlb";
    let pools = &here.machine.memory().huge_pools;
    let set_aside: Vec<String> = pools
        .iter()
        .filter(|pool| pool.total_pages > 0)
        .map(|pool| {
            let (free, all) = (pool.free_pages, pool.total_pages);
            format!("{free} of {all} pages of {} free", bytes(pool.page_bytes))
        })
        .collect();
    let spent = pools.iter().find(|pool| pool.total_pages > 0 && pool.free_pages == 0);
    if pools.is_empty() {
        return Examined::unknown(name, "the kernel tells of no pools (CONFIG_HUGETLBFS)");
    }
    if set_aside.is_empty() {
        let why = "transparent huge pages do for most; shared memory that must have huge pages takes \
                   them from a pool: sysctl -w vm.nr_hugepages=N";
        return Examined::good(name, "no pages set aside", why);
    }
    match spent {
        // vm.nr_hugepages is of the pool of the usual size alone.
        Some(pool) => {
            Examined::poor(name, set_aside.join(", "), "the pool is used up").by(format!(
                "echo N > /{MM}/hugepages/hugepages-{}kB/nr_hugepages, with N above {}",
                pool.page_bytes >> 10,
                pool.total_pages
            ))
        }
        None => Examined::good(name, set_aside.join(", "), "they can be had"),
    }
}

/// An area of swap has no higher priority.
const PRIORITY_MAX: i32 = 32767;

/// Where pages go when memory is short.
fn swap(here: &Here<'_>) -> Examined {
    let name = "swap";
    let Some(table) = here.text("proc/swaps") else {
        return Examined::unknown(name, "/proc/swaps cannot be read");
    };
    let areas = areas::parsed(table.as_bytes());
    let (zram, disks): (Vec<&Active>, Vec<&Active>) =
        areas.iter().partition(|area| area.path.to_string_lossy().starts_with("/dev/zram"));
    if areas.is_empty() {
        return Examined::good(
            name,
            "none",
            "nothing is swapped; where memory is short, processes are killed: compressed memory \
             (zram) makes room",
        );
    }
    let one = |area: &Active| format!("{} ({} used)", area.path.display(), bytes(area.used_bytes));
    let found = areas.iter().map(one).collect::<Vec<_>>().join(", ");
    // Nothing gets above what has the highest priority there is; without one, an area comes last.
    let (foremost, others): (Vec<&Active>, Vec<&Active>) =
        disks.iter().partition(|area| area.priority >= PRIORITY_MAX);
    let lowered =
        foremost.iter().map(|area| format!("swapoff {0} && swapon {0}", quoted(&area.path)));
    let highest = others.iter().map(|area| area.priority).max();
    let above = highest.map_or(100, |highest| (highest + 1).max(100));
    let late = zram.iter().filter(|area| highest.is_some_and(|disk| area.priority <= disk));
    let raised =
        late.map(|area| format!("swapoff {0} && swapon -p {above} {0}", quoted(&area.path)));
    let settings: Vec<String> = raised.chain(lowered).collect();
    if !zram.is_empty() && !settings.is_empty() {
        let why = "compressed memory (zram) is no sooner used than a disk, which is waited for: its \
                   priority is not the higher one";
        return Examined::poor(name, found, why).by(settings.join(" && "));
    }
    let used: u64 = disks.iter().map(|area| area.used_bytes).sum();
    // What zswap holds has its place on the disk too.
    let held = zswapped_bytes(here);
    if used > 0 && held >= used / 2 {
        let why = "zswap holds most of it compressed in memory, before any disk";
        return Examined::good(name, found, why);
    }
    if used > 0 {
        return Examined::poor(
            name,
            found,
            "memory lies on a disk and is waited for; compressed memory (zram) is ten times as fast",
        )
        .by(format!(
            "{}{}z=$(zramctl --find --size {}M --algorithm lz4) && mkswap $z && swapon -p {above} $z{}",
            // What it holds would be compressed twice.
            if has_zswap(here) { format!("echo N > /{ZSWAP} && ") } else { String::new() },
            if here.root.join(ZRAM).is_dir() { "" } else { "modprobe zram && " },
            here.machine.memory().total_bytes >> 21,
            settings.iter().map(|setting| format!(" && {setting}")).collect::<String>()
        ));
    }
    let why = match zram.is_empty() {
        true => "on a disk, and not in use",
        false => "compressed memory comes before any disk",
    };
    Examined::good(name, found, why)
}

fn has_zswap(here: &Here<'_>) -> bool {
    here.text(ZSWAP).is_some_and(|told| told.starts_with('Y'))
}

/// What zswap holds in memory, compressed; 0 where it is off, or does not tell (before Linux 5.19).
fn zswapped_bytes(here: &Here<'_>) -> u64 {
    let told = here.text("proc/meminfo").filter(|_| has_zswap(here)).unwrap_or_default();
    let line = told.lines().find_map(|line| line.strip_prefix("Zswapped:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.unwrap_or(0) << 10
}

/// The governors' files, of which there is one for each policy.
pub(super) fn policies_change(here: &Here<'_>, file: &str, to: &str) -> Option<Change> {
    let folder = "sys/devices/system/cpu/cpufreq";
    let file = |name: &String| PathBuf::from(format!("{folder}/{name}/{file}"));
    let files: Vec<(PathBuf, String)> = here
        .names(folder)
        .iter()
        .filter(|name| name.starts_with("policy"))
        .map(|name| (file(name), to.to_owned()))
        .collect();
    Change::of(here.root, &files)
}
