//! `bytepath bench copy`: file to file and tree to tree, on one file system after the other.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use bytepath_lab::copies::copiers::{COPIERS, Copier, by_name};
use bytepath_lab::copies::ground::{self, Ground};
use bytepath_lab::copies::material::{self, Amount};
use bytepath_lab::copies::work::{Cache, Until};
use bytepath_lab::experiments::copy::{self, Asked, Place};
use bytepath_lab::lab::Blocks;
use clap::{Arg, Args};

use super::choosing::{Listing, listed, once_each, those_matching};
use super::measuring::{Measuring, Sampling, adding, directory};
use super::results::{Outputs, show};
use crate::hidden::this_program;
use crate::measured::{against_first, well_named};
use crate::usage::wrong_usage;
use crate::values::{self, unknown};

/// How fast are files and trees copied? Every route between files, cp, and their like
#[derive(Args)]
#[command(mut_args(telling_blocks))]
pub(crate) struct Copy {
    /// File systems: dir (that of --dir), tmpfs, and as root ext4, xfs, btrfs, on images made for
    /// the run
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = ground_kind, default_value = "dir,tmpfs")]
    on: Vec<ground::Kind>,
    /// What is copied: one, sparse, tree
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = material_kind, default_value = "one,sparse,tree")]
    work: Vec<material::Kind>,
    /// What the page cache holds of it: hot, cold
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = cache, default_value = "hot")]
    cache: Vec<Cache>,
    /// Measure once more with the clock running until the copy is on the device
    #[arg(long)]
    fsync: bool,
    /// Measure copies that leave the page cache as it was beside those that do not: cp --uncached, and
    /// the routes it goes by; and tell of every arm what of source and copy is in the page cache
    /// afterwards
    #[arg(long)]
    uncached: bool,
    /// Programs to run beside; the first is the reference: cp, dd, cat, rsync, xcp, fcp, cpz
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = copier, default_value = "cp")]
    peer: Vec<&'static Copier>,
    /// Any other program to run beside, by its words, split at spaces, before source and copy, or
    /// with them where {source} and {sink} stand: 'rsync -a {source}/ {sink}'; may be given more than
    /// once. With {source} alone, the copy is its standard output
    #[arg(long, value_name = "WORDS")]
    with: Vec<String>,
    /// Bytes of a file; 1.4G unless given, 128M with --quick
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    size: Option<u64>,
    /// Files of the tree; 20000 unless given, 2000 with --quick
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    files: Option<u32>,
    /// Only arms whose name, or a part of it between /, matches: 'ext4', 'bytepath-cp', 'uring*'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// Begin no further block after this time, once there are 3
    #[arg(long, value_name = "TIME", value_parser = values::some_time, conflicts_with_all = ["blocks", "until_ci", "quick"])]
    within: Option<Duration>,
    /// Make files, and images, in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    pub(super) measuring: Measuring,
}

/// The default run begins no block after this time, and has 3 at least: with what is made before and a
/// block that is under way, some minutes.
const WITHIN: Duration = Duration::from_secs(150);

const USUAL: Amount = Amount { file_bytes: 7 * (1 << 30) / 5, files: 20_000 };
const QUICK: Amount = Amount { file_bytes: 128 << 20, files: 2000 };

/// What an image has besides room for what is copied, and for the copy.
const IMAGE_BYTES_MORE: u64 = 1 << 30;
/// What a small file takes at most.
const TREE_FILE_BYTES: u64 = 64 << 10;

/// Has the help tell how many blocks there are unless that is said.
fn telling_blocks(option: Arg) -> Arg {
    match option.get_id().as_str() {
        "within" => {
            adding(option, &format!("{WITHIN:?} unless that, or how many blocks, is given"))
        }
        "blocks" => {
            let quick = Sampling::QUICK.blocks;
            adding(option, &format!("as --within says unless given, {quick} with --quick"))
        }
        _ => option,
    }
}

fn ground_kind(name: &str) -> Result<ground::Kind, String> {
    let names = ground::KINDS.iter().map(|kind| kind.name());
    ground::Kind::named(name).ok_or_else(|| unknown("file system to make", name, names))
}

fn material_kind(name: &str) -> Result<material::Kind, String> {
    let names = material::KINDS.iter().map(|kind| kind.name());
    material::Kind::named(name).ok_or_else(|| unknown("work", name, names))
}

fn copier(name: &str) -> Result<&'static Copier, String> {
    by_name(name).ok_or_else(|| unknown("peer", name, COPIERS.iter().map(|copier| copier.name)))
}

fn cache(name: &str) -> Result<Cache, String> {
    let all = [Cache::Hot, Cache::Cold];
    let found = all.into_iter().find(|cache| cache.name() == name);
    found.ok_or_else(|| unknown("state of the page cache", name, ["hot", "cold"]))
}

pub(super) fn run(options: &Copy) -> anyhow::Result<()> {
    options.check()?;
    let program = this_program()?;
    let until = [Until::Ended, Until::Durable];
    let others = options.others();
    let asked = Asked {
        program: &program,
        works: &options.work,
        caches: &options.cache,
        until: if options.fsync { &until } else { &until[..1] },
        peers: &options.peer,
        others: &others,
        uncached: options.uncached,
    };
    // Before anything is made, also where all of it is to be.
    let named = |kind: &ground::Kind| Place::named(*kind, &options.work);
    let places: Vec<_> = options.on.iter().map(named).collect();
    let arms = well_named(those_matching(copy::arms(&places, &asked), &options.arms)?)?;
    if options.listing.list {
        return listed(&arms);
    }
    measure(options, &asked, options.measuring.outputs(&arms)?)
}

fn measure(options: &Copy, asked: &Asked<'_>, outputs: Outputs) -> anyhow::Result<()> {
    let directory = directory(&options.dir)?;
    let amount = options.amount();
    let places = options.places(&directory, amount);
    if bytepath_lab::interrupt::wished() {
        bail!("interrupted before anything was measured");
    }
    let arms = those_matching(copy::arms(&places, asked), &options.arms)?;
    let mut settings = options.measuring.settings(Some(amount.file_bytes));
    let within = options.measuring.leaves_blocks_open().then_some(WITHIN);
    if let Some(within) = options.within.or(within) {
        settings.blocks = Blocks::Within(within);
    }
    settings.others.insert("files".into(), amount.files.into());
    settings.others.insert("directory".into(), directory.display().to_string().into());
    let record = against_first(copy::DESCRIPTION.recorded(), arms, &settings)?;
    show(&record, None, outputs)
}

impl Copy {
    /// Refuses what would have no effect, or an effect that nobody means.
    fn check(&self) -> anyhow::Result<()> {
        if self.with.iter().any(|line| line.trim().is_empty()) {
            return Err(wrong_usage("--with needs the words of a program"));
        }
        let has_sink_alone = |line: &&String| line.contains("{sink}") && !line.contains("{source}");
        if let Some(line) = self.with.iter().find(has_sink_alone) {
            return Err(wrong_usage(format!(
                "--with {line:?} has {{sink}} without {{source}}; write both, or neither"
            )));
        }
        let peers: Vec<_> = self.peer.iter().map(|peer| peer.name).collect();
        once_each(&self.on, "--on")?;
        once_each(&self.work, "--work")?;
        once_each(&self.cache, "--cache")?;
        once_each(&peers, "--peer")?;
        once_each(&self.with, "--with")
    }

    fn others(&self) -> Vec<Vec<String>> {
        let words = |line: &String| line.split_whitespace().map(str::to_owned).collect();
        self.with.iter().map(words).collect()
    }

    fn amount(&self) -> Amount {
        let usual = if self.measuring.quick { QUICK } else { USUAL };
        Amount {
            file_bytes: self.size.unwrap_or(usual.file_bytes),
            files: self.files.unwrap_or(usual.files),
        }
    }

    /// The grounds, with what is copied on them.
    fn places(&self, directory: &Path, amount: Amount) -> Vec<Place> {
        let trees = 2 * u64::from(amount.files) * TREE_FILE_BYTES;
        let image_bytes =
            amount.file_bytes.saturating_mul(4).saturating_add(trees + IMAGE_BYTES_MORE);
        let place = |kind: &ground::Kind| {
            let ground = Ground::make(*kind, directory, image_bytes);
            Place::supplied(*kind, ground, &self.work, amount)
        };
        self.on.iter().map(place).collect()
    }
}
