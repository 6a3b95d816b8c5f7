//! `bytepath bench files`: which engine does most requests on files.

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, bail};
use bytepath::engines::Cache;
use bytepath::machine::Machine;
use bytepath_lab::experiments::files::{self, Shape, Site, fio};
use bytepath_lab::file_set::{FileSet, State};
use bytepath_lab::lab::Settings;
use clap::Args;
use rustix::fs::FileType;
use tempfile::TempDir;

use super::{Measuring, measured, show};
use crate::drive::{Rw, access, count};
use crate::output::is_stdout;
use crate::{values, wrong_usage};

/// Which engine does most requests on files? The comparison of ScyllaDB (2020), and fio beside it
///
/// As many requests are in flight with every engine: JOBS x DEPTH. Engines that queue (posix-aio,
/// linux-aio, uring and its kin) have one thread a job with DEPTH requests in flight; those that do
/// one request at a time (pread, mmap, preadv2-nowait) have DEPTH threads a job, or one with
/// --one-per-job, as fio runs them by default.
#[derive(Args)]
pub(super) struct Files {
    /// Only arms whose name (or part before the @) matches: 'uring*', '*@direct'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    /// Name the arms and stop
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    list: bool,
    /// Past the page cache (O_DIRECT); this and --buffered unless one is given
    #[arg(long)]
    direct: bool,
    /// Through the page cache, which has every page of the files
    #[arg(long)]
    buffered: bool,
    /// Drop the files from the page cache before each buffered sample
    #[arg(long)]
    cold: bool,
    /// Bytes of a request
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size, default_value = "1K")]
    bs: usize,
    /// Requests in flight for each job
    #[arg(long, value_name = "N", value_parser = count(), default_value = "8")]
    depth: u64,
    /// Requests handed over together; more save system calls, and wait for each other
    #[arg(long, value_name = "N", value_parser = count(), default_value = "1")]
    batch: u64,
    /// Jobs, each with files of its own; one for each CPU unless given
    #[arg(long, value_name = "N", value_parser = count())]
    jobs: Option<u64>,
    /// Files of each job
    #[arg(long, value_name = "N", value_parser = count(), default_value = "4")]
    files: u64,
    /// Bytes of each file: 64M, or less where all would be more than 512M; of what is given by
    /// --file and --device, the first 1G at most
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    size: Option<u64>,
    /// randread, randwrite, randrw, read, write or rw, as fio calls them
    #[arg(long, value_name = "ACCESS", value_parser = access, default_value = "randread")]
    rw: Rw,
    /// Of 100 requests of randrw or rw, so many read: 50 unless given
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=99))]
    read_percent: Option<u8>,
    /// Let engines without a queue have one request in flight for a job
    #[arg(long)]
    one_per_job: bool,
    /// Look at every byte
    #[arg(long)]
    verify: bool,
    /// How long the kernel's submitting thread watches an empty queue before it sleeps
    #[arg(long, value_name = "TIME", value_parser = values::duration, default_value = "1s")]
    sqpoll_idle: Duration,
    /// Make the files in this directory
    #[arg(long, value_name = "DIR", default_value = ".", conflicts_with_all = ["file", "device"])]
    dir: PathBuf,
    /// Use these files, which every job then has; they are only read
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Use this block device, which every job then has; it is only read
    #[arg(long, value_name = "PATH", conflicts_with = "file")]
    device: Option<PathBuf>,
    /// Overwrite what --file and --device hold
    #[arg(long)]
    destroy: bool,
    /// Also do the same work by this program: fio
    #[arg(long, value_name = "PROGRAM", value_parser = ["fio"])]
    peer: Option<String>,
    /// Keep the peer's job files in this directory; beside the --json file unless given
    #[arg(long, value_name = "DIR", requires = "peer")]
    save_jobs: Option<PathBuf>,
    #[command(flatten)]
    measuring: Measuring,
}

/// O_DIRECT takes no requests of smaller blocks.
const SECTOR_BYTES: usize = 512;

/// Bytes of a file that is made, unless told otherwise; and of all of one site.
const FILE_BYTES: u64 = 64 << 20;
const SITE_BYTES: u64 = 512 << 20;

/// Of files and devices that are given, so much is asked for unless told otherwise.
const GIVEN_BYTES: u64 = 1 << 30;

pub(super) fn run(options: &Files) -> anyhow::Result<()> {
    options.check()?;
    let names = options.names()?;
    if options.list {
        return super::list(&names);
    }
    let outputs = options.measuring.outputs()?;
    let program = std::env::current_exe().context("cannot find this program's own file")?;
    let settings = options.settings();
    let shape = options.shape(settings.seed);
    let sites = options.sites(&names, &shape)?;
    let peer = options.peer.as_ref().map(|_| options.peer()).transpose()?;
    let fio = peer.as_ref().map(|(fio, _)| fio);
    let arms = files::arms(&names, &sites, &shape, &program, fio);
    let reference = arms[0].name.clone();
    let record = measured(files::DESCRIPTION.recorded(), arms, &reference, &settings)?;
    show(&record, None, outputs)
}

impl Files {
    /// What cannot be, or would have no effect.
    fn check(&self) -> anyhow::Result<()> {
        let given = !self.file.is_empty() || self.device.is_some();
        let writes = self.rw.access(50).writes();
        let wrong = [
            (
                self.read_percent.is_some() && !self.rw.is_mixed(),
                "--read-percent has no effect without --rw randrw or rw".to_owned(),
            ),
            (
                self.caches().contains(&Cache::Direct) && self.bs % SECTOR_BYTES != 0,
                format!(
                    "--bs {} is no multiple of {SECTOR_BYTES}, which O_DIRECT demands; take one, or \
                     measure --buffered alone",
                    self.bs
                ),
            ),
            (
                self.cold && !self.caches().contains(&Cache::Buffered),
                "--cold has no effect on --direct, which is always cold".to_owned(),
            ),
            (
                given && writes && !self.destroy,
                "writing would overwrite what --file or --device holds: add --destroy if it may"
                    .to_owned(),
            ),
            (
                given && self.verify && !self.destroy,
                "--verify knows only bytes that it wrote: add --destroy if what --file or --device \
                 holds may be overwritten"
                    .to_owned(),
            ),
            (self.destroy && !given, "--destroy has no effect without --file or --device".to_owned()),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => Err(wrong_usage(why)),
            None => Ok(()),
        }
    }

    fn caches(&self) -> Vec<Cache> {
        match (self.buffered, self.direct) {
            (true, false) => vec![Cache::Buffered],
            (false, true) => vec![Cache::Direct],
            _ => vec![Cache::Buffered, Cache::Direct],
        }
    }

    /// The names of the arms that are asked for.
    fn names(&self) -> anyhow::Result<Vec<String>> {
        super::matching(files::names(&self.caches()), &self.arms)
    }

    fn settings(&self) -> Settings {
        let mut settings = self.measuring.settings(None);
        let others = &mut settings.others;
        others.insert("bs".to_owned(), self.bs.into());
        others.insert("depth".to_owned(), self.depth.into());
        others.insert("batch".to_owned(), self.batch.into());
        others.insert("jobs".to_owned(), self.jobs().into());
        others.insert("verify".to_owned(), self.verify.into());
        settings
    }

    fn jobs(&self) -> u64 {
        self.jobs.unwrap_or_else(|| Machine::this().allowed_cpus().iter().count().max(1) as u64)
    }

    fn shape(&self, seed: u64) -> Shape {
        let given = !self.file.is_empty() || self.device.is_some();
        Shape {
            access: self.rw.access(self.read_percent.unwrap_or(50)),
            io_bytes: self.bs,
            depth: self.depth as usize,
            batch: self.batch as usize,
            jobs: self.jobs() as usize,
            files_each: if given { 0 } else { self.files as usize },
            span_bytes: given.then(|| self.size.unwrap_or(GIVEN_BYTES)),
            one_per_job: self.one_per_job,
            verify: self.verify,
            idle: self.sqpoll_idle,
            seed,
        }
    }

    /// The files of each way to open them: of their own where they are made, so that the cache keeps
    /// what it has of them.
    fn sites(&self, names: &[String], shape: &Shape) -> anyhow::Result<Vec<Site>> {
        let mut given = self.given(shape)?.map(Rc::new);
        let mut sites = Vec::new();
        for cache in self.caches() {
            if files::engines(names, cache).is_empty() {
                continue;
            }
            let hot = cache == Cache::Buffered && !self.cold;
            let state = if hot { State::Hot } else { State::Cold };
            let files = match &mut given {
                Some(files) => files.clone(),
                None => Rc::new(self.made()?),
            };
            sites.push(Site { cache, state, files });
        }
        Ok(sites)
    }

    /// What the user names.
    fn given(&self, shape: &Shape) -> anyhow::Result<Option<FileSet>> {
        let paths = match &self.device {
            Some(device) => vec![block_device(device)?.to_owned()],
            None if self.file.is_empty() => return Ok(None),
            None => self.file.clone(),
        };
        let set = FileSet::given(&paths, shape.span_bytes, self.destroy)?;
        if self.destroy {
            set.fill().context("cannot fill what was given with bytes that do not compress")?;
        }
        Ok(Some(set))
    }

    fn made(&self) -> anyhow::Result<FileSet> {
        let count = self.jobs() * self.files;
        let usual = (SITE_BYTES / count).min(FILE_BYTES).next_multiple_of(self.bs as u64);
        let bytes = self.size.unwrap_or(usual);
        let directory = std::fs::canonicalize(&self.dir)
            .with_context(|| format!("cannot measure in {}", self.dir.display()))?;
        Ok(FileSet::make(&directory, count as usize, bytes)?)
    }

    /// The peer, and what removes its job files where nobody wants them.
    fn peer(&self) -> anyhow::Result<(fio::Fio, Option<TempDir>)> {
        let beside = self.measuring.json.as_ref().filter(|path| !is_stdout(path)).map(|path| {
            let mut name = path.clone().into_os_string();
            name.push(".jobs");
            PathBuf::from(name)
        });
        let (jobs, temporary) = match self.save_jobs.clone().or(beside) {
            Some(jobs) => (jobs, None),
            None => {
                let made = TempDir::new().context("cannot make a directory for job files")?;
                (made.path().to_owned(), Some(made))
            }
        };
        std::fs::create_dir_all(&jobs)
            .with_context(|| format!("cannot keep job files in {}", jobs.display()))?;
        Ok((fio::Fio { found: fio::PEER.found(), jobs }, temporary))
    }
}

fn block_device(path: &Path) -> anyhow::Result<&Path> {
    let stat = rustix::fs::stat(path)
        .map_err(std::io::Error::from)
        .with_context(|| format!("cannot use {}", path.display()))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Ok(path),
        FileType::RegularFile => bail!("{} is a file: name it with --file", path.display()),
        _ => bail!("{} is no block device", path.display()),
    }
}
