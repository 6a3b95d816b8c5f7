//! `bytepath sweep`: sweeps over memory, alone or as one of two processes that share some. The
//! processes of the arms of `bench memory`; not shown in the help.

use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::Context;
use bytepath::pages::PageSize;
use bytepath::placement::pin_this_thread;
use bytepath_lab::ends::Starter;
use bytepath_lab::memory::{self, BLOCK_BYTES_MIN, Job, SWEEPS, Sweep, share};
use clap::Args;

use crate::usage::wrong_usage;
use crate::{ends, hidden, values};

/// Sweep over blocks of memory, and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The way; or share-write, share-read: the ends of a ring, by the socket on standard input
    #[arg(long, value_name = "WAY", value_parser = way)]
    way: Way,
    /// Bytes of a block
    #[arg(long, value_name = "SIZE", value_parser = block, default_value = "256K")]
    block: usize,
    /// What blocks are made of: base, huge, hugetlb
    #[arg(long, value_name = "PAGES", value_parser = pages, default_value = "base")]
    pages: PageSize,
    /// The CPU of each thread
    #[arg(long, value_name = "LIST", value_delimiter = ',', required = true)]
    cpus: Vec<usize>,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "300ms")]
    time: Duration,
    /// For so long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
}

#[derive(Clone, Copy)]
enum Way {
    Sweep(&'static Sweep),
    ShareWrite,
    ShareRead,
}

fn way(name: &str) -> Result<Way, String> {
    match name {
        "share-write" => Ok(Way::ShareWrite),
        "share-read" => Ok(Way::ShareRead),
        name => sweep(name).map(Way::Sweep),
    }
}

/// A sweep by its name.
pub(crate) fn sweep(name: &str) -> Result<&'static Sweep, String> {
    memory::by_name(name)
        .ok_or_else(|| values::unknown("sweep", name, SWEEPS.iter().map(|sweep| sweep.name)))
}

/// Bytes of a block.
pub(crate) fn block(text: &str) -> Result<usize, String> {
    match values::buffer_size(text)? {
        bytes if bytes.is_multiple_of(BLOCK_BYTES_MIN) => Ok(bytes),
        _ => Err(format!("a block is a multiple of {BLOCK_BYTES_MIN} bytes")),
    }
}

/// A page size by its name.
pub(crate) fn pages(name: &str) -> Result<PageSize, String> {
    PageSize::named(name).ok_or_else(|| {
        format!("there are no pages {name:?}; there are: {}", PageSize::NAMES.join(", "))
    })
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    let (bytes, pages) = (options.block, options.pages);
    let report = match options.way {
        Way::Sweep(sweep) => memory::run(&Job {
            sweep,
            bytes,
            pages,
            cpus: options.cpus.clone(),
            warm_up: options.warm_up,
            time: options.time,
        })?,
        end => {
            let [cpu] = options.cpus[..] else {
                return Err(wrong_usage("an end of a ring runs on one CPU"));
            };
            pin_this_thread(cpu)?.keep();
            let link = std::io::stdin().as_fd().try_clone_to_owned().context("standard input")?;
            match end {
                Way::ShareWrite => return Ok(share::write(link, bytes, pages)?),
                _ => share::read(link, bytes, options.warm_up, options.time)?,
            }
        }
    };
    hidden::report(&report)
}
