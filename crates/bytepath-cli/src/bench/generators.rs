//! `bytepath bench gen`: made-up bytes into a pipe, beside yes, seq, dd and their like.

use bytepath::placement::Placement;
use bytepath_lab::experiments::generators;
use clap::Args;

use super::choosing::{Listing, listed, placements, those_matching};
use super::measuring::{ALL, Measuring, Sampling, Times, telling};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::{against_first, well_named};
use crate::values;

/// How fast do bytes that are made up go through a pipe? Beside yes, seq, dd, openssl
#[derive(Args)]
#[command(mut_args(telling(ALL, [USUAL, QUICK])))]
pub(super) struct Generators {
    /// Only these: yes, zeros, random, pattern, text, lines, fizzbuzz
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = kind)]
    kind: Vec<String>,
    /// Where the ends run: same-cpu, cross-cpu, …; all that this machine has unless given
    #[arg(long, value_name = "PLACEMENT", value_parser = values::placements)]
    placement: Vec<Vec<Placement>>,
    /// Only arms whose name, or part of it at a /, matches: 'bytepath*', 'splice@same-cpu'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

const USUAL: Sampling = Sampling {
    blocks: 10,
    time: std::time::Duration::from_millis(100),
    warm_up: std::time::Duration::from_millis(20),
};
const QUICK: Sampling = Sampling {
    blocks: 3,
    time: std::time::Duration::from_millis(40),
    warm_up: std::time::Duration::from_millis(10),
};

fn kind(name: &str) -> Result<String, String> {
    match generators::kinds().any(|kind| kind == name) {
        true => Ok(name.to_owned()),
        false => {
            let kinds: Vec<_> = generators::kinds().collect();
            Err(format!("nothing is called {name:?}; there are: {}", kinds.join(", ")))
        }
    }
}

pub(super) fn run(options: &Generators) -> anyhow::Result<()> {
    let program = this_program()?;
    let placements = placements(&options.placement.concat())?;
    let arms = generators::arms(&options.kind, &placements, &program);
    let arms = well_named(those_matching(arms, &options.arms)?)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let settings =
        options.times.in_place_of(options.measuring.settings_between(USUAL, QUICK, None));
    let record = against_first(generators::DESCRIPTION.recorded(), arms, &settings)?;
    show(&record, None, outputs)
}
