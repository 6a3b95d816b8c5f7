//! `bytepath bench memory`: how fast memory is, as a curve over block sizes.

use std::time::Duration;

use bytepath::machine::Machine;
use bytepath::pages::PageSize;
use bytepath_lab::experiments::memory::{self, Axes, QUICK_SIZES, SIZES, Setup};
use bytepath_lab::hugetlb_pool::Lent;
use bytepath_lab::memory::{Sweep, peers};
use clap::Args;

use super::choosing::{Listing, listed, once_each, those_matching};
use super::measuring::{ALL, Measuring, Sampling, Times, telling};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::{against_first, well_named};
use crate::{sweep, values};

/// How fast is memory? Reading, writing, filling and copying, by block, page size and threads
#[derive(Args)]
#[command(mut_args(telling(ALL, [USUAL, QUICK])))]
pub(super) struct Memory {
    /// Only these: read, read-avx2, read-avx512, write, write-avx2, write-avx512, write-nt, fill,
    /// copy, copy-avx2, copy-avx512, copy-nt
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = sweep::sweep)]
    ops: Vec<&'static Sweep>,
    /// Block sizes; 16K, 256K, 4M, 64M and 1G unless given, without 1G with --quick
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = sweep::block)]
    size: Vec<usize>,
    /// What blocks are made of: base, huge (transparent), hugetlb (the pool)
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = sweep::pages)]
    pages: Vec<PageSize>,
    /// Numbers of threads, each with blocks of its own, and a CPU as long as there are enough
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: Vec<u32>,
    /// Programs to measure beside, with the same block sizes: sysbench, mbw
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = peer)]
    peer: Vec<String>,
    /// Lend the hugetlb pool the pages that are needed, as root, and take them back afterwards
    #[arg(long)]
    hugetlb_pool: bool,
    /// Only arms whose name, or part of it before or after the /, matches: 'copy*', '16KiB'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

/// Some 100 arms in under two minutes.
const USUAL: Sampling =
    Sampling { blocks: 10, time: Duration::from_millis(30), warm_up: Duration::from_millis(10) };
const QUICK: Sampling =
    Sampling { blocks: 3, time: Duration::from_millis(20), warm_up: Duration::from_millis(5) };

fn peer(name: &str) -> Result<String, String> {
    match peers::NAMES.contains(&name) {
        true => Ok(name.to_owned()),
        false => Err(values::unknown("peer", name, peers::NAMES.iter().copied())),
    }
}

pub(super) fn run(options: &Memory) -> anyhow::Result<()> {
    let program = this_program()?;
    let machine = Machine::this();
    let cpus: Vec<usize> = machine.allowed_cpus().iter().collect();
    if cpus.is_empty() {
        anyhow::bail!("no CPU is allowed");
    }
    once_each(&options.size, "--size")?;
    let axes = Axes {
        sweeps: options.ops.clone(),
        sizes: options.size.clone(),
        pages: options.pages.clone(),
        threads: options.threads.iter().map(|threads| *threads as usize).collect(),
        peers: options.peer.clone(),
    };
    let setup = Setup {
        program: &program,
        cpus,
        topology: machine.cpus(),
        available_bytes: bytepath::machine::memory_room().bytes,
        sizes: if options.measuring.quick { QUICK_SIZES } else { SIZES },
    };
    let arms = well_named(those_matching(memory::arms(&axes, &setup), &options.arms)?)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let lent = lent(options.hugetlb_pool, needed_from_pool(&arms))?;
    let settings =
        options.times.in_place_of(options.measuring.settings_between(USUAL, QUICK, None));
    let record = against_first(memory::DESCRIPTION.recorded(), arms, &settings)?;
    drop(lent);
    show(&record, memory::curve(&record).as_deref(), outputs)
}

/// Lends pages to the pool where that was asked for.
pub(super) fn lent(wished: bool, bytes: u64) -> anyhow::Result<Option<Lent>> {
    if !wished || bytes == 0 {
        return Ok(None);
    }
    Ok(Some(Lent::lend(bytes).map_err(anyhow::Error::msg)?))
}

/// What the largest arm needs of the pool. They run one after the other.
fn needed_from_pool(arms: &[bytepath_lab::arm::Arm]) -> u64 {
    let number = |arm: &bytepath_lab::arm::Arm, name: &str| {
        arm.params.get(name).and_then(serde_json::Value::as_u64)
    };
    let needs = |arm: &bytepath_lab::arm::Arm| {
        let from_pool = arm.params.get("pages").is_some_and(|pages| pages == "hugetlb");
        let block = number(arm, "block_bytes")?.next_multiple_of(2 << 20);
        // Two blocks where it copies; a ring has a page of its own besides.
        let bytes = block * 2 * number(arm, "threads").unwrap_or(1);
        (from_pool && arm.work.is_ok()).then_some(bytes)
    };
    arms.iter().filter_map(needs).max().unwrap_or(0)
}
