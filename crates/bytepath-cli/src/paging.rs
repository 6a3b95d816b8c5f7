//! `bytepath paging`: touches pages by one way, again and again. The process of the arms of `bench
//! pages`; not shown in the help.

use std::path::PathBuf;
use std::time::Duration;

use bytepath_lab::touches::{self, Made, Setting, TOUCHES, Touch};
use clap::Args;

use crate::hidden::{self, Placed};
use crate::usage::wrong_usage;
use crate::values;

/// Touch pages by one way, and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The way
    #[arg(long, value_name = "WAY", value_parser = way)]
    way: &'static Touch,
    /// What the area is made of: base, huge, hugetlb, untouched
    #[arg(long, value_name = "KIND", value_parser = made, default_value = "base")]
    area: Made,
    /// Make the file in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// For so long
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "300ms")]
    time: Duration,
    /// For so long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    #[command(flatten)]
    placed: Placed,
}

/// A way by its name.
fn way(name: &str) -> Result<&'static Touch, String> {
    touches::by_name(name)
        .ok_or_else(|| values::unknown("way", name, TOUCHES.iter().map(|touch| touch.name)))
}

/// A kind of area by its name.
pub(crate) fn made(name: &str) -> Result<Made, String> {
    Made::named(name)
        .ok_or_else(|| values::unknown("area", name, Made::ALL.iter().map(|made| made.name())))
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    options.placed.settle()?;
    let Options { way, area, .. } = options;
    if !way.on.contains(area) {
        return Err(wrong_usage(format!("{} is not measured on {} areas", way.name, area.name())));
    }
    let setting =
        Setting { made: *area, area_bytes: way.area_bytes, directory: options.dir.clone() };
    let report = touches::run(way, &setting, options.warm_up, options.time)?;
    hidden::report(&report)
}
