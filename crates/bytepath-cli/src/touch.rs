//! `bytepath touch`: memory written and read. The process of the arms of `bench swap`; not shown in
//! the help.

use std::io::{Read as _, Write as _};

use bytepath_lab::swap::contents::{Contents, KINDS};
use bytepath_lab::swap::toucher::{self, Job, PIECE_BYTES, WRITTEN};
use clap::Args;

use crate::streams::stdout;
use crate::{hidden, values};

/// Get memory and write it, 1 MiB at a time; say so, wait for a byte, read it in order and at random,
/// and report as JSON on standard output
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// How much memory, in whole MiB
    #[arg(long, value_name = "SIZE", value_parser = whole_pieces)]
    size: u64,
    /// What it holds: integers, text, random
    #[arg(long, value_name = "KIND", value_parser = contents, default_value = "integers")]
    contents: Contents,
    /// Pages that are read in random order at most
    #[arg(long, value_name = "N", default_value_t = u64::MAX)]
    random_pages: u64,
    /// Draw the random order from this seed
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// What pages hold, by its name.
pub(crate) fn contents(name: &str) -> Result<Contents, String> {
    KINDS.iter().find(|(known, _)| *known == name).map(|(_, kind)| *kind).ok_or_else(|| {
        let names: Vec<_> = KINDS.iter().map(|(name, _)| *name).collect();
        format!("there are no contents {name:?}; there are: {}", names.join(", "))
    })
}

/// A size in whole pieces.
pub(crate) fn whole_pieces(text: &str) -> Result<u64, String> {
    match values::size(text)? {
        bytes if bytes.is_multiple_of(PIECE_BYTES as u64) => Ok(bytes),
        _ => Err(format!("memory is taken 1 MiB at a time, and {text} is no multiple of that")),
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let Options { size, contents, random_pages, seed } = *options;
    let written = || {
        // Nobody who listens is nobody who wants to be waited for.
        let said = stdout().write_all(WRITTEN);
        if said.is_ok() {
            let _ = std::io::stdin().read(&mut [0]);
        }
    };
    let report = toucher::touch(&Job { bytes: size, contents, random_pages, seed }, written)?;
    hidden::report(&report)
}
