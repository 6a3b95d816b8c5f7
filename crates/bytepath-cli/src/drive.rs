//! `bytepath drive`: requests on files by one named engine, for a time. The process that works in
//! the arms of `bytepath bench files`; not shown in the help.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use bytepath::engines::{Cache, ENGINES, Kind};
use bytepath_lab::drive::{Access, Drive, Order};
use bytepath_lab::ends::Starter;
use clap::Args;
use clap::builder::TypedValueParser;

use crate::usage::wrong_usage;
use crate::{ends, output, values};

/// Make requests on files by one engine, and say what came of it
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// The engine
    #[arg(long, value_name = "ENGINE", value_parser = engines(), default_value = "uring")]
    engine: &'static dyn Kind,
    /// Open the files with O_DIRECT
    #[arg(long)]
    direct: bool,
    /// Where requests go and what they do
    #[arg(long, value_name = "ACCESS", value_parser = access, default_value = "randread")]
    rw: Rw,
    /// Of 100 requests of randrw or rw, so many read
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(0..=100), default_value = "50")]
    read_percent: u8,
    /// Bytes of a request
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size, default_value = "1K")]
    bs: usize,
    /// Requests in flight on each thread
    #[arg(long, value_name = "N", value_parser = count(), default_value = "8")]
    depth: u64,
    /// Requests handed over together
    #[arg(long, value_name = "N", value_parser = count(), default_value = "1")]
    batch: u64,
    /// Jobs
    #[arg(long, value_name = "N", value_parser = count(), default_value = "1")]
    jobs: u64,
    /// Threads of each job
    #[arg(long, value_name = "N", value_parser = count(), default_value = "1")]
    threads: u64,
    /// Files of each job, in the order in which they are named; 0: each job has all
    #[arg(long, value_name = "N", default_value = "0")]
    files: usize,
    /// Bytes of each file at most
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    size: Option<u64>,
    /// Where the offsets come from
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
    /// Look at every byte: the files are those that `bytepath bench files` makes
    #[arg(long)]
    verify: bool,
    /// How long the kernel's submitting thread watches an empty queue
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "1s")]
    sqpoll_idle: Duration,
    /// How long
    #[arg(long, value_name = "TIME", value_parser = values::some_time, default_value = "1s")]
    time: Duration,
    /// Work this long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
    /// Write what was done to a file, as JSON
    #[arg(long, value_name = "FILE", default_value = "-")]
    json: PathBuf,
    /// The files
    #[arg(value_name = "FILE", required = true)]
    paths: Vec<PathBuf>,
}

/// What `--rw` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rw {
    order: Order,
    /// The share of reads, where the word says it.
    read_percent: Option<u8>,
}

impl Rw {
    /// Whether reads and writes are mixed.
    pub(crate) fn is_mixed(self) -> bool {
        self.read_percent.is_none()
    }

    /// With the share of reads for those that are mixed.
    pub(crate) fn access(self, read_percent: u8) -> Access {
        let read_percent = self.read_percent.unwrap_or(read_percent);
        Access { order: self.order, read_percent }
    }
}

/// The words of `--rw`, which are fio's.
const ACCESSES: &[(&str, Rw)] = &[
    ("randread", Rw { order: Order::Random, read_percent: Some(100) }),
    ("randwrite", Rw { order: Order::Random, read_percent: Some(0) }),
    ("randrw", Rw { order: Order::Random, read_percent: None }),
    ("read", Rw { order: Order::Sequential, read_percent: Some(100) }),
    ("write", Rw { order: Order::Sequential, read_percent: Some(0) }),
    ("rw", Rw { order: Order::Sequential, read_percent: None }),
];

pub(crate) fn access(word: &str) -> Result<Rw, String> {
    let found = ACCESSES.iter().find(|(name, _)| *name == word);
    found
        .map(|(_, rw)| *rw)
        .ok_or_else(|| values::unknown("access", word, ACCESSES.iter().map(|(name, _)| *name)))
}

fn engines() -> impl TypedValueParser<Value = &'static dyn Kind> {
    let all = ENGINES.iter().map(|engine| (engine.name(), engine.summary()));
    values::one_of(all).try_map(|name| bytepath::engines::by_name(&name).ok_or("no such engine"))
}

/// A count of things that take memory.
pub(crate) fn count() -> clap::builder::RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=32_768)
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    ends::end_with(options.starter)?;
    let (jobs, files) = (options.jobs as usize, options.files);
    if files > 0 && files * jobs != options.paths.len() {
        return Err(wrong_usage(format!(
            "{jobs} jobs of {files} files each take {} files; {} are named",
            files * jobs,
            options.paths.len()
        )));
    }
    let drive = Drive {
        engine: options.engine,
        cache: if options.direct { Cache::Direct } else { Cache::Buffered },
        access: options.rw.access(options.read_percent),
        io_bytes: options.bs,
        depth: options.depth as usize,
        batch: options.batch as usize,
        jobs,
        threads: options.threads as usize,
        files: options.paths.clone(),
        files_each: files,
        span_bytes: options.size,
        seed: options.seed,
        verify: options.verify,
        idle: options.sqpoll_idle,
        warm_up: options.warm_up,
        time: options.time,
    };
    let report = drive.run()?;
    let text = serde_json::to_string(&report)?;
    output::Output::open(&options.json)?.write(text.as_bytes()).context("cannot report")
}
