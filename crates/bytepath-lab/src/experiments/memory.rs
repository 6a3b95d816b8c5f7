//! `memory`: how fast is memory, by operation, block size, page size and threads, and between two
//! processes.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath::machine::{CacheKind, Topology};
use bytepath::pages::PageSize;
use bytepath_report::{Published, Record, Status, Unit, numbers};
use serde_json::Value;

use super::Description;
use crate::arm::{Arm, Work};
use crate::memory::peers::{MEMORY_PEERS, MemoryPeer};
use crate::memory::{SWEEPS, Sweep};
use crate::memory_work::{PeerWork, ShareWork, SweepWork};
use crate::tools::versions;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "memory",
    question: "How fast are reading, writing and copying memory, block by block, on this machine?",
    definition: "Each thread sweeps over blocks of its own from start to end, again and again: \
                 read sums or combines the words, write stores a word everywhere, fill is memset, \
                 copy goes from one block to another of the same size and counts each byte once; \
                 nt goes past the caches. Blocks are there and in their pages before the clock \
                 starts. Between processes, one copies every byte into a ring that both have \
                 mapped, and the other copies it out and sums it, 64 KiB at a time; CPU time and \
                 switches there are the reader's.",
};

/// Block sizes unless told otherwise: within L1, L2, about the L3, and beyond.
pub const SIZES: &[usize] = &[16 << 10, 256 << 10, 4 << 20, 64 << 20, 1 << 30];
/// Of a quick run.
pub const QUICK_SIZES: &[usize] = &[16 << 10, 256 << 10, 4 << 20, 64 << 20];

/// Ring sizes between processes.
const RING_BYTES: usize = 512 << 10;

/// The share of the available memory that an arm may take.
const MEMORY_SHARE_MAX: f64 = 0.7;

/// What is crossed.
#[derive(Debug, Clone, Default)]
pub struct Axes {
    /// Ways; a choice that shows each question once where none is given.
    pub sweeps: Vec<&'static Sweep>,
    /// Block sizes.
    pub sizes: Vec<usize>,
    /// Page sizes.
    pub pages: Vec<PageSize>,
    /// Numbers of threads.
    pub threads: Vec<usize>,
    /// Peers by name.
    pub peers: Vec<String>,
}

/// Where arms run.
pub struct Setup<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// The CPUs that threads run on, in order.
    pub cpus: Vec<usize>,
    /// The machine's CPUs, for the caches.
    pub topology: &'a Topology,
    /// Memory that is there to be had, in bytes.
    pub available_bytes: u64,
    /// Block sizes where none are asked for.
    pub sizes: &'a [usize],
}

/// The arms.
pub fn arms(axes: &Axes, setup: &Setup<'_>) -> Vec<Arm> {
    let sizes = if axes.sizes.is_empty() { setup.sizes } else { &axes.sizes };
    let peers: Vec<_> = axes.peers.iter().map(String::as_str).collect();
    let versions = versions(&peers);
    let plain = axes.pages.is_empty() && axes.threads.is_empty();
    let mut arms = Vec::new();
    for &bytes in sizes {
        for sweep in if axes.sweeps.is_empty() { all() } else { axes.sweeps.clone() } {
            for (pages, threads) in combinations(axes, setup, sweep, bytes, plain) {
                arms.push(arm(sweep, bytes, pages, threads, setup));
            }
        }
        let peers =
            MEMORY_PEERS.iter().filter(|peer| axes.peers.iter().any(|name| name == peer.name));
        arms.extend(peers.map(|peer| {
            let mut arm = peer_arm(peer, bytes, setup);
            let version = versions.get_key_value(peer.name);
            arm.params.extend(version.map(|(name, version)| (name.clone(), version.clone())));
            arm
        }));
    }
    if axes.sweeps.is_empty() && plain {
        let pages = [PageSize::Base, PageSize::Huge, PageSize::Hugetlb];
        arms.extend(pages.map(|pages| share_arm(pages, setup)));
    }
    arms
}

fn all() -> Vec<&'static Sweep> {
    SWEEPS.iter().collect()
}

/// Page sizes and threads of a way at a block size: all that were asked for, crossed; unless told
/// otherwise base pages and one thread, and the others where they may make a difference.
fn combinations(
    axes: &Axes,
    setup: &Setup<'_>,
    sweep: &Sweep,
    bytes: usize,
    plain: bool,
) -> Vec<(PageSize, usize)> {
    if !plain {
        let pages = if axes.pages.is_empty() { &[PageSize::Base][..] } else { &axes.pages };
        let threads = if axes.threads.is_empty() { &[1][..] } else { &axes.threads };
        return pages.iter().flat_map(|p| threads.iter().map(|t| (*p, *t))).collect();
    }
    let mut all = vec![(PageSize::Base, 1)];
    let is_basic = ["read", "write", "copy"].contains(&sweep.name);
    if is_basic && bytes >= 4 << 20 {
        all.extend([(PageSize::Huge, 1), (PageSize::Hugetlb, 1)]);
    }
    if is_basic && setup.cpus.len() > 1 {
        all.push((PageSize::Base, setup.cpus.len()));
    }
    all
}

fn arm(
    sweep: &'static Sweep,
    bytes: usize,
    pages: PageSize,
    threads: usize,
    setup: &Setup<'_>,
) -> Arm {
    let size = size(bytes);
    let mut name = format!("{}/{size}", sweep.name);
    if pages != PageSize::Base {
        name += &format!("+{}", pages.name());
    }
    if threads > 1 {
        name += &format!("x{threads}");
    }
    let mut params = params(bytes, pages, setup);
    params.insert("way".to_owned(), sweep.summary.into());
    params.insert("threads".to_owned(), threads.into());
    if let Some(at_once) = sweep.instruction_bytes {
        params.insert("instruction_bytes".to_owned(), at_once.into());
    }
    let cpus: Vec<_> = setup.cpus.iter().copied().cycle().take(threads).collect();
    let program = setup.program.to_owned();
    let needed = (bytes * sweep.blocks * threads) as u64;
    let work = match fits(needed, setup.available_bytes) {
        Ok(()) => Ok(Box::new(SweepWork { program, sweep, bytes, pages, cpus }) as Box<dyn Work>),
        Err(why) => Err(why),
    };
    Arm {
        name,
        section: Some(size),
        params,
        unit: Unit::GibPerSecond,
        touched: sweep.reads,
        published: published(sweep.name, bytes, threads).filter(|_| pages == PageSize::Base),
        work,
    }
}

/// Beyond what is there, memory would be swapped and not measured.
fn fits(needed: u64, available: u64) -> Result<(), String> {
    if needed as f64 <= available as f64 * MEMORY_SHARE_MAX {
        return Ok(());
    }
    Err(format!(
        "it needs {} of memory and {} are available; take smaller blocks (--size) or fewer threads",
        numbers::bytes(needed),
        numbers::bytes(available)
    ))
}

fn share_arm(pages: PageSize, setup: &Setup<'_>) -> Arm {
    let last = setup.cpus.len() - 1;
    let cpus = [setup.cpus[0], setup.cpus[last.min(1)]];
    let work = ShareWork { program: setup.program.to_owned(), bytes: RING_BYTES, pages, cpus };
    let published = match pages {
        PageSize::Base => Some((5.0, "4 KiB pages")),
        PageSize::Huge => Some((20.0, "2 MiB pages")),
        PageSize::Hugetlb => None,
    };
    Arm {
        name: format!("between-processes+{}", pages.name()),
        section: Some("between processes".to_owned()),
        params: params(RING_BYTES, pages, setup),
        unit: Unit::GibPerSecond,
        touched: true,
        published: published.map(|(value, pages)| Published {
            value,
            source: "a ring in shared memory, every byte written by one and read by the other"
                .into(),
            note: Some(format!("{pages}, a virtual machine with 2 CPUs")),
        }),
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

fn peer_arm(peer: &'static MemoryPeer, bytes: usize, setup: &Setup<'_>) -> Arm {
    let size = size(bytes);
    let cpu = [setup.cpus[0]];
    Arm {
        name: format!("{}-{}/{size}", peer.name, peer.does),
        section: Some(size),
        params: params(bytes, PageSize::Base, setup),
        unit: Unit::GibPerSecond,
        touched: peer.does != "write",
        published: published(&format!("{}-{}", peer.name, peer.does), bytes, 1),
        // One that is missing is known before anything runs.
        work: peer
            .command(bytes, bytes as u64)
            .map(|_| Box::new(PeerWork { peer, bytes, cpu }) as Box<dyn Work>),
    }
}

fn params(bytes: usize, pages: PageSize, setup: &Setup<'_>) -> BTreeMap<String, Value> {
    let mut params = BTreeMap::from([
        ("block_bytes".to_owned(), bytes.into()),
        ("pages".to_owned(), pages.name().into()),
    ]);
    if let Some(within) = cache_of(bytes, setup) {
        params.insert("fits_into".to_owned(), within.into());
    }
    params
}

/// The smallest cache of the first CPU that holds a block, or memory; `None` where the machine does not
/// tell how large its caches are.
fn cache_of(bytes: usize, setup: &Setup<'_>) -> Option<String> {
    let caches = &setup.topology.cpu(setup.cpus[0])?.caches;
    let data = caches.iter().filter(|cache| cache.kind != CacheKind::Instruction);
    let sizes: Vec<_> = data.filter_map(|cache| Some((cache.level, cache.size_bytes?))).collect();
    let holds = sizes.iter().filter(|(_, size)| *size >= bytes as u64);
    match holds.map(|(level, _)| level).min() {
        Some(level) => Some(format!("L{level}")),
        None => (!sizes.is_empty()).then(|| "memory".to_owned()),
    }
}

/// `256KiB`, as it stands in names.
fn size(bytes: usize) -> String {
    numbers::bytes(bytes as u64).replace(' ', "")
}

/// What was published for sweeps over blocks of a gibibyte by one thread.
fn published(name: &str, bytes: usize, threads: usize) -> Option<Published> {
    if bytes != 1 << 30 || threads != 1 {
        return None;
    }
    let (mib, source) = match name {
        "read" | "sysbench-read" => {
            (15_921.0, "mazzo.li, \"How fast are Linux pipes anyway?\", 2022")
        }
        "copy" | "mbw-memcpy" => (5.7 * 1024.0, "mbw, a virtual machine with 2 CPUs, 2026"),
        "mbw-dumb" => (11.4 * 1024.0, "mbw, a virtual machine with 2 CPUs, 2026"),
        "mbw-mcblock" => (9.8 * 1024.0, "mbw, a virtual machine with 2 CPUs, 2026"),
        _ => return None,
    };
    let note = (mib == 15_921.0).then(|| "sysbench memory, 1 GiB blocks, i7-8550U".to_owned());
    Some(Published { value: mib / 1024.0, source: source.to_owned(), note })
}

/// The curve in a sentence: the best read at each size, with the cache that holds it where that is known.
pub fn curve(record: &Record) -> Option<String> {
    let mut points: Vec<(u64, Option<String>, f64)> = Vec::new();
    for arm in &record.arms {
        let param = |name: &str| arm.params.get(name);
        let is_read = arm.name.starts_with("read") && param("threads") == Some(&1.into());
        let (Some(median), true) = (arm.median, is_read && arm.status == Status::Ok) else {
            continue;
        };
        let bytes = param("block_bytes").and_then(Value::as_u64)?;
        let cache = param("fits_into").and_then(Value::as_str).map(str::to_owned);
        match points.iter_mut().find(|(known, ..)| *known == bytes) {
            Some((.., best)) => *best = best.max(median),
            None => points.push((bytes, cache, median)),
        }
    }
    if points.is_empty() {
        return None;
    }
    let told = points.iter().any(|(_, cache, _)| cache.is_some());
    let point = |(bytes, cache, best): &(u64, Option<String>, f64)| {
        let cache = cache.as_ref().map(|cache| format!(" ({cache})")).unwrap_or_default();
        format!("{} at {}{cache}", numbers::figure(*best), numbers::bytes(*bytes))
    };
    let points: Vec<_> = points.iter().map(point).collect();
    Some(format!(
        "One thread reads at most, in GiB/s by block{}: {}",
        if told { " and what holds it" } else { "" },
        points.join(", ")
    ))
}
