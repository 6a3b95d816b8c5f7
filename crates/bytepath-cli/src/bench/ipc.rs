//! `bytepath bench ipc`: a big file from one process to another, by every way there is.

use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bytepath::placement::Placement;
use bytepath_lab::arm::Arm;
use bytepath_lab::experiments::{Description, ipc, ipc_bandwidth, ipc_latency};
use bytepath_lab::passing::{Keeps, checksum};
use bytepath_lab::tune::Site;
use clap::{Arg, Args};

use super::choosing::{Listing, listed, placements, those_matching, those_matching_as};
use super::measuring::{
    BLOCKS, Measuring, Sampling, TIMES, Times, directory, telling, telling_with,
};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::{against_first, well_named};
use crate::usage::wrong_usage;
use crate::{pass, trip, values};

/// How fast does a big file go from one process to another? Pipes, sockets, shared memory, channels
#[derive(Args)]
#[command(mut_args(telling(BLOCKS, TRIPS)), mut_args(telling_times))]
pub(crate) struct Ipc {
    /// Only arms whose name (or part before the @) matches: 'channel*', '*@same-cpu'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// How long do some bytes take there and back, instead: pipe, socket, eventfd, futex, channel
    #[arg(long, conflicts_with_all = ["sink", "file", "bytes", "dir"])]
    latency: bool,
    /// How near to the speed of shared memory do bytes go that are made by one process and looked at
    /// by another, instead: channels, beside bare memory and a pipe
    #[arg(long, conflicts_with_all = ["sink", "file", "bytes", "dir", "latency", "size"])]
    bandwidth: bool,
    /// Bytes of a trip there and back; 8, 512, 4K, 64K and 1M unless given
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = trip::size)]
    size: Vec<usize>,
    /// What the receiver does with the bytes: file, hash, drop
    #[arg(long, value_name = "SINK", value_parser = pass::keeps, default_value = "hash")]
    sink: Keeps,
    /// The file to pass; one is made for the run unless given
    #[arg(long, value_name = "FILE", conflicts_with = "bytes")]
    file: Option<PathBuf>,
    /// Bytes of the file that is made; 1434M unless given, 256M with --quick
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    bytes: Option<u64>,
    /// Where the ends run: same-cpu, cross-cpu, …; all that this machine has unless given
    #[arg(long, value_name = "PLACEMENT", value_parser = values::placements)]
    placement: Vec<Vec<Placement>>,
    /// Make files in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    pub(super) measuring: Measuring,
}

/// Bytes of the file that is made unless told otherwise, and quickly.
const FILE_BYTES: [u64; 2] = [1434 << 20, 256 << 20];

impl Ipc {
    fn file_bytes(&self) -> u64 {
        self.bytes.unwrap_or(FILE_BYTES[usize::from(self.measuring.quick)])
    }
}

/// 66 arms in under two minutes.
const TRIPS: [Sampling; 2] = [
    Sampling { blocks: 10, time: Duration::from_millis(100), warm_up: Duration::from_millis(20) },
    Sampling { blocks: 3, time: Duration::from_millis(50), warm_up: Duration::from_millis(10) },
];

/// 14 arms in under a minute and a half.
const STREAMS: [Sampling; 2] = [
    Sampling { blocks: 10, time: Duration::from_millis(300), warm_up: Duration::from_millis(50) },
    Sampling { blocks: 3, time: Duration::from_millis(100), warm_up: Duration::from_millis(20) },
];

/// Has the help tell how long a sample takes, which depends on what is asked.
fn telling_times(option: Arg) -> Arg {
    let option = telling_with("with --latency ", TIMES, TRIPS)(option);
    telling_with("with --bandwidth ", TIMES, STREAMS)(option)
}

pub(super) fn run(options: &Ipc) -> anyhow::Result<()> {
    match (options.latency, options.bandwidth) {
        (true, _) => trips(options),
        (_, true) => streams(options),
        _ => passes(options),
    }
}

/// There and back.
fn trips(options: &Ipc) -> anyhow::Result<()> {
    let program = this_program()?;
    let placements = placements(&options.placement.concat())?;
    let sizes = if options.size.is_empty() { ipc_latency::SIZES } else { &*options.size };
    let arms = those_matching(ipc_latency::arms(&placements, sizes, &program), &options.arms)?;
    timed(options, &ipc_latency::DESCRIPTION, arms, TRIPS)
}

/// Made by one, looked at by the other.
fn streams(options: &Ipc) -> anyhow::Result<()> {
    let program = this_program()?;
    let placements = placements(&options.placement.concat())?;
    let (arms, given) = (ipc_bandwidth::arms(&placements, &program), &options.arms);
    let arms = those_matching_as(arms, given, &globs(given))?;
    timed(options, &ipc_bandwidth::DESCRIPTION, arms, STREAMS)
}

/// Arms that run for a time, usually or quickly.
fn timed(
    options: &Ipc,
    asked: &Description,
    arms: Vec<Arm>,
    [usual, quick]: [Sampling; 2],
) -> anyhow::Result<()> {
    let arms = well_named(arms)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let settings = options.measuring.settings_between(usual, quick, None);
    let settings = options.times.in_place_of(settings);
    let record = against_first(asked.recorded(), arms, &settings)?;
    show(&record, None, outputs)
}

/// A file from one to the other.
fn passes(options: &Ipc) -> anyhow::Result<()> {
    if options.times.are_given() {
        return Err(wrong_usage(
            "a file is passed as a whole, so --time and --warm-up have an effect with --latency and \
             --bandwidth alone; see --bytes",
        ));
    }
    if !options.size.is_empty() {
        return Err(wrong_usage(
            "--size is that of trips there and back, and has an effect with --latency alone; that of \
             the file that is made is --bytes",
        ));
    }
    let program = this_program()?;
    let directory = directory(&options.dir)?;
    let placements = placements(&options.placement.concat())?;
    let arms = |file: PathBuf, bytes, checksum| {
        let (keeps, directory, program) = (options.sink, &*directory, &*program);
        let setup = ipc::Setup { program, file: &file, bytes, checksum, keeps, directory };
        let arms = ipc::arms(&placements, &setup);
        well_named(those_matching_as(arms, &options.arms, &globs(&options.arms))?)
    };
    if options.listing.list {
        return listed(&arms(PathBuf::new(), 0, 0)?);
    }
    let outputs = options.measuring.outputs(&arms(PathBuf::new(), 0, 0)?)?;
    let site = match options.file {
        Some(_) => None,
        None => Some(Site::prepare(&directory, options.file_bytes())?),
    };
    let path = match (&options.file, &site) {
        (Some(path), _) => path.clone(),
        (None, Some(site)) => site.file(),
        (None, None) => unreachable!("one is made where none is given"),
    };
    let (bytes, checksum) = told(&path).with_context(|| format!("{}", path.display()))?;
    let arms = arms(path, bytes, checksum)?;
    let mut settings = options.measuring.settings(Some(bytes));
    settings.others.insert("sink".into(), options.sink.name().into());
    settings.others.insert("directory".into(), directory.display().to_string().into());
    if let Some(file) = &options.file {
        settings.others.insert("file".into(), file.display().to_string().into());
    }
    let record = against_first(ipc::DESCRIPTION.recorded(), arms, &settings)?;
    show(&record, ipc::published(&record, options.sink).as_deref(), outputs)
}

/// A pattern without an @ is about the way, in every placement.
fn globs(given: &[String]) -> Vec<String> {
    let placed =
        |glob: &String| if glob.contains('@') { glob.clone() } else { format!("{glob}@*") };
    given.iter().map(placed).collect()
}

/// The size and the checksum of a regular file, which is in the page cache afterwards.
fn told(path: &std::path::Path) -> anyhow::Result<(u64, u64)> {
    // Before it is opened, for which a FIFO would wait.
    let found = std::fs::metadata(path)?;
    if !found.is_file() {
        return Err(wrong_usage("it is no regular file; only those can be passed again and again"));
    }
    if found.len() == 0 {
        return Err(wrong_usage("it is empty: there is nothing to measure"));
    }
    Ok((found.len(), checksum(File::open(path)?)?))
}
