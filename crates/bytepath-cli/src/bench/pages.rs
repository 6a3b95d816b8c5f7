//! `bytepath bench pages`: what looking up, making, mapping and walking pages costs.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bytepath::machine::Machine;
use bytepath::pages::PageSize;
use bytepath_lab::experiments::pages;
use bytepath_lab::touches::Made;
use clap::Args;

use super::choosing::{Listing, listed, those_matching};
use super::measuring::{ALL, Measuring, Sampling, Times, directory, telling};
use super::memory::lent;
use super::results::show;
use crate::hidden::this_program;
use crate::measured::against_first;
use crate::paging;

/// What do pages cost? To look up and hold (get_user_pages), to fault in, to map, to walk to
#[derive(Args)]
#[command(mut_args(telling(ALL, [USUAL, QUICK])))]
pub(super) struct PagesOptions {
    /// Only areas of these kinds: base, huge, hugetlb, untouched
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = paging::made)]
    area: Vec<Made>,
    /// Only arms whose name, or part of it before or after the /, matches: 'vmsplice', 'stride-*'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// Make the file of o-direct in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Lend the hugetlb pool the pages that are needed, as root, and take them back afterwards
    #[arg(long)]
    hugetlb_pool: bool,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

/// 50 arms in under a minute.
const USUAL: Sampling =
    Sampling { blocks: 10, time: Duration::from_millis(40), warm_up: Duration::from_millis(10) };
const QUICK: Sampling =
    Sampling { blocks: 3, time: Duration::from_millis(30), warm_up: Duration::from_millis(5) };

pub(super) fn run(options: &PagesOptions) -> anyhow::Result<()> {
    let program = this_program()?;
    let directory = directory(&options.dir)?;
    // The last CPU: the first handles most interrupts on many machines.
    let cpu = Machine::this().allowed_cpus().iter().last().context("no CPU is allowed")?;
    let setup = pages::Setup { program: &program, directory: &directory, cpu };
    let arms = those_matching(pages::arms(&options.area, &setup), &options.arms)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let from_pool = |arm: &bytepath_lab::arm::Arm| {
        let area = arm.params.get("area")?.as_str()?;
        let bytes = arm.params.get("area_bytes")?.as_u64()?;
        (area == PageSize::Hugetlb.name()).then_some(bytes.next_multiple_of(2 << 20))
    };
    // One area is made while the other is still there, where a ring keeps it.
    let needed = 2 * arms.iter().filter_map(from_pool).max().unwrap_or(0);
    let lent = lent(options.hugetlb_pool, needed)?;
    let mut settings =
        options.times.in_place_of(options.measuring.settings_between(USUAL, QUICK, None));
    settings.others.insert("directory".into(), directory.display().to_string().into());
    let record = against_first(pages::DESCRIPTION.recorded(), arms, &settings)?;
    drop(lent);
    show(&record, pages::saves(&record).as_deref(), outputs)
}
