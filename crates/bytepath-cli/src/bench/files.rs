//! `bytepath bench files`: which engine does most requests on files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Error, bail};
use bytepath::engines::Cache;
use bytepath::machine::Machine;
use bytepath_lab::devices::{Kind, Made, Wanted};
use bytepath_lab::experiments::files::{self, Shape, Site, fio};
use bytepath_lab::file_set::{FileSet, State};
use bytepath_lab::left::Folder;
use bytepath_report::Record;
use clap::Args;
use clap::builder::{PathBufValueParser, TypedValueParser};
use rustix::fs::FileType;
use serde_json::Value;

use super::choosing::Listing;
use super::measuring::{ALL, Measuring, Sampling, Times, directory, telling};
use super::results::show;
use crate::drive::{Rw, access, count};
use crate::hidden::this_program;
use crate::measured::against_first;
use crate::patterns::matching;
use crate::said::say;
use crate::usage::wrong_usage;
use crate::values;

/// Which engine does most requests on files? The comparison of ScyllaDB (2020), and fio beside it
///
/// As many requests are in flight with every engine: JOBS x DEPTH. Engines that queue (posix-aio,
/// linux-aio, uring and its kin) have one thread a job with DEPTH requests in flight; those that do
/// one request at a time (pread, mmap, preadv2-nowait) have DEPTH threads a job, or one with
/// --one-per-job, as fio runs them by default.
#[derive(Args)]
#[command(mut_args(telling(ALL, [Sampling::USUAL, Sampling::QUICK])))]
pub(crate) struct Files {
    /// Only arms whose name (or part before the @) matches: 'uring*', '*@direct'
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// Past the page cache (O_DIRECT); this and --buffered unless one is given
    #[arg(long)]
    direct: bool,
    /// Through the page cache, which has every page of the files
    #[arg(long)]
    buffered: bool,
    /// Drop the files from the page cache before each buffered sample
    #[arg(long)]
    cold: bool,
    /// Bytes of a request: 1K, or with --device the device's own block where that is larger
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size)]
    bs: Option<usize>,
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
    /// --file and --device PATH, the first 1G at most; all of a device that is made
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
    /// Make the files, or the file of --device loop:SIZE, in this directory; here unless given
    #[arg(long, value_name = "DIR", conflicts_with = "file")]
    dir: Option<PathBuf>,
    /// Use these files, which every job then has; they are only read
    #[arg(long, value_name = "PATH")]
    file: Vec<PathBuf>,
    /// Use this block device, which every job then has; it is only read, and refused where it is in
    /// use. zram:SIZE (memory) and loop:SIZE (a file) make one for the run, as root: full of bytes
    /// that do not compress, and gone afterwards
    #[arg(long, value_name = "PATH|zram:SIZE|loop:SIZE", value_parser = device(), conflicts_with = "file")]
    device: Option<Device>,
    /// Overwrite what --file and --device PATH hold
    #[arg(long)]
    destroy: bool,
    /// Also do the same work by this program: fio, which does not tell the CPU time and switches of
    /// what helps it, so that fio-posix-aio, fio-uring-sqpoll and, buffered, fio-uring and
    /// fio-uring-registered have none
    #[arg(long, value_name = "PROGRAM", value_parser = ["fio"])]
    peer: Option<String>,
    /// Keep the peer's job files in this directory; beside the --json file unless given
    #[arg(long, value_name = "DIR", requires = "peer")]
    save_jobs: Option<PathBuf>,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    pub(super) measuring: Measuring,
}

/// O_DIRECT takes no requests of smaller blocks.
const SECTOR_BYTES: usize = 512;

/// Bytes of a file that is made, unless told otherwise; and of all of one site.
const FILE_BYTES: u64 = 64 << 20;
const SITE_BYTES: u64 = 512 << 20;

/// Of files and devices that are given, so much is asked for unless told otherwise.
const GIVEN_BYTES: u64 = 1 << 30;

/// Bytes of a request, unless told otherwise or a device takes no such requests.
const IO_BYTES: usize = 1 << 10;

/// What `--device` names.
#[derive(Debug, Clone)]
enum Device {
    /// One that is to be made.
    Wanted(Wanted),
    /// One that there is.
    Path(PathBuf),
}

impl std::fmt::Display for Device {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Device::Wanted(wanted) => write!(out, "{wanted}"),
            Device::Path(path) => write!(out, "{}", path.display()),
        }
    }
}

fn device() -> impl TypedValueParser<Value = Device> {
    PathBufValueParser::new().try_map(|path| -> Result<Device, String> {
        let made = path.to_str().and_then(|text| text.split_once(':'));
        match made.and_then(|(name, size)| Some((Kind::named(name)?, size))) {
            Some((kind, size)) => Ok(Device::Wanted(Wanted { kind, bytes: values::size(size)? })),
            None => Ok(Device::Path(path)),
        }
    })
}

pub(super) fn run(options: &Files) -> anyhow::Result<()> {
    options.check()?;
    let names = options.names()?;
    if options.listing.list {
        return super::choosing::list(&names);
    }
    let outputs =
        options.measuring.outputs_of(&names.iter().map(String::as_str).collect::<Vec<_>>())?;
    let device = options.made_device()?;
    let record = options.record(&names, device.as_ref(), outputs.json_file());
    // Nobody has it open any more.
    if let Some(Err(why)) = device.map(Made::remove) {
        say(format_args!("bytepath: the device that was made cannot be removed: {why}"));
    }
    show(&record?, None, outputs)
}

impl Files {
    /// What cannot be, or would have no effect.
    fn check(&self) -> anyhow::Result<()> {
        let theirs = !self.file.is_empty() || matches!(self.device, Some(Device::Path(_)));
        let writes = self.rw.access(50).writes();
        let loops = |wanted: &Wanted| wanted.kind == Kind::Loop;
        let misfit = self.bs.and_then(|bytes| self.misfit(bytes, SECTOR_BYTES));
        let wrong = [
            (misfit.is_some(), misfit.unwrap_or_default()),
            (
                self.read_percent.is_some() && !self.rw.is_mixed(),
                "--read-percent has no effect without --rw randrw or rw".to_owned(),
            ),
            (
                self.cold && !self.caches().contains(&Cache::Buffered),
                "--cold has no effect on --direct, which is always cold".to_owned(),
            ),
            (
                theirs && writes && !self.destroy,
                "writing would overwrite what --file or --device holds: add --destroy if it may"
                    .to_owned(),
            ),
            (
                theirs && self.verify && !self.destroy,
                "--verify knows only bytes that it wrote: add --destroy if what --file or --device \
                 holds may be overwritten"
                    .to_owned(),
            ),
            (
                self.batch > self.depth,
                format!(
                    "--batch {} is more than a job has in flight: raise --depth {} to it, or lower it",
                    self.batch, self.depth
                ),
            ),
            (
                self.destroy && !theirs,
                "--destroy has no effect without --file or --device PATH".to_owned(),
            ),
            (
                self.dir.is_some() && self.device.is_some() && !self.wanted().is_some_and(loops),
                "--dir has no effect on --device, unless that is loop:SIZE".to_owned(),
            ),
        ];
        match wrong.into_iter().find(|(is_wrong, _)| *is_wrong) {
            Some((_, why)) => Err(wrong_usage(why)),
            None => Ok(()),
        }
    }

    /// The device that is to be made.
    fn wanted(&self) -> Option<&Wanted> {
        match &self.device {
            Some(Device::Wanted(wanted)) => Some(wanted),
            _ => None,
        }
    }

    /// Whether files are made, be it for a loop device.
    fn makes_files(&self) -> bool {
        match &self.device {
            Some(Device::Wanted(wanted)) => wanted.kind == Kind::Loop,
            Some(Device::Path(_)) => false,
            None => self.file.is_empty(),
        }
    }

    fn made_device(&self) -> anyhow::Result<Option<Made>> {
        let make = |wanted: &Wanted| wanted.make(&self.directory()?).map_err(Error::msg);
        self.wanted().map(make).transpose()
    }

    /// Measures, and leaves no file open.
    fn record(
        &self,
        names: &[String],
        device: Option<&Made>,
        json: Option<&Path>,
    ) -> anyhow::Result<Record> {
        let program = this_program()?;
        let given = self.given(device)?;
        let io_bytes = self.io_bytes(given.as_ref())?;
        let mut settings = self.times.in_place_of(self.measuring.settings(None));
        let shape = self.shape(io_bytes, settings.seed);
        let directory = self.makes_files().then(|| self.directory()).transpose()?;
        self.describe(&shape, directory.as_deref(), &mut settings.others);
        let sites = match self.sites(names, given, io_bytes) {
            Err(_) if bytepath_lab::interrupt::wished() => {
                bail!("interrupted before anything was measured")
            }
            sites => sites?,
        };
        // Where no files can be had, nothing is left that was for its own.
        let peer = self.peer.as_ref().map(|_| self.peer(json)).transpose()?;
        let fio = peer.as_ref().map(|(fio, _)| fio);
        let arms = files::arms(names, &sites, &shape, &program, fio);
        against_first(files::DESCRIPTION.recorded(), arms, &settings)
    }

    fn caches(&self) -> Vec<Cache> {
        match (self.buffered, self.direct) {
            (true, false) => vec![Cache::Buffered],
            (false, true) => vec![Cache::Direct],
            _ => vec![Cache::Buffered, Cache::Direct],
        }
    }

    /// The names of the arms that are asked for. A peer runs beside whatever is chosen.
    fn names(&self) -> anyhow::Result<Vec<String>> {
        if self.peer.is_none() {
            return matching(files::names(&self.caches()), &self.arms);
        }
        let mut all = files::names_with_fio(&self.caches());
        let chosen = matching(all.clone(), &self.arms)?;
        let is_chosen = |name: &str| chosen.iter().any(|chosen| chosen == name);
        all.retain(|name| is_chosen(name) || name.strip_prefix("fio-").is_some_and(is_chosen));
        Ok(all)
    }

    /// Bytes of a request: as many as are asked for, where that can be.
    fn io_bytes(&self, given: Option<&FileSet>) -> anyhow::Result<usize> {
        let blocks = given.map(FileSet::block_bytes).transpose()?.unwrap_or(1) as usize;
        let usual = match self.caches().contains(&Cache::Direct) {
            true => IO_BYTES.max(blocks),
            false => IO_BYTES,
        };
        match self.bs.and_then(|bytes| self.misfit(bytes, blocks)) {
            Some(why) => Err(wrong_usage(why)),
            None => Ok(self.bs.unwrap_or(usual)),
        }
    }

    /// What is wrong with requests of so many bytes, where O_DIRECT takes only whole blocks.
    fn misfit(&self, bytes: usize, block_bytes: usize) -> Option<String> {
        let direct = self.caches().contains(&Cache::Direct);
        (direct && !bytes.is_multiple_of(block_bytes)).then(|| {
            format!(
                "--bs {bytes} is no multiple of {block_bytes}, which O_DIRECT demands; take one, or \
                 measure --buffered alone"
            )
        })
    }

    /// What the work is, for the record.
    fn describe(
        &self,
        shape: &Shape,
        directory: Option<&Path>,
        settings: &mut BTreeMap<String, Value>,
    ) {
        let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
        set("rw", shape.access_word().into());
        set("read_percent", shape.access.read_percent.into());
        set("bs", shape.io_bytes.into());
        set("depth", self.depth.into());
        set("batch", self.batch.into());
        set("jobs", self.jobs().into());
        set("one_per_job", self.one_per_job.into());
        set("verify", self.verify.into());
        set("sqpoll_idle_s", shape.idle.as_secs_f64().into());
        if self.cold {
            set("cold", true.into());
        }
        if !self.file.is_empty() {
            let paths = self.file.iter().map(|path| path.display().to_string());
            set("file", paths.collect::<Vec<_>>().into());
        }
        if shape.files_each > 0 {
            set("files", self.files.into());
        }
        if let Some(bytes) = self.size {
            set("size", bytes.into());
        }
        if let Some(device) = &self.device {
            set("device", device.to_string().into());
        }
        if let Some(directory) = directory {
            set("directory", directory.display().to_string().into());
        }
    }

    fn jobs(&self) -> u64 {
        self.jobs.unwrap_or_else(|| Machine::this().allowed_cpus().iter().count().max(1) as u64)
    }

    /// How much of each file is asked for at most, where it is not made to measure.
    fn span_bytes(&self) -> Option<u64> {
        let theirs = !self.file.is_empty() || matches!(self.device, Some(Device::Path(_)));
        match theirs {
            true => Some(self.size.unwrap_or(GIVEN_BYTES)),
            false => self.size.filter(|_| self.device.is_some()),
        }
    }

    fn shape(&self, io_bytes: usize, seed: u64) -> Shape {
        let shared = !self.file.is_empty() || self.device.is_some();
        Shape {
            access: self.rw.access(self.read_percent.unwrap_or(50)),
            io_bytes,
            depth: self.depth as usize,
            batch: self.batch as usize,
            jobs: self.jobs() as usize,
            files_each: if shared { 0 } else { self.files as usize },
            span_bytes: self.span_bytes(),
            one_per_job: self.one_per_job,
            verify: self.verify,
            idle: self.sqpoll_idle,
            seed,
        }
    }

    /// The files of each way to open them, full of bytes that do not compress: of their own where they are made, so that the cache keeps
    /// what it has of them.
    fn sites(
        &self,
        names: &[String],
        given: Option<FileSet>,
        io_bytes: usize,
    ) -> anyhow::Result<Vec<Site>> {
        if let Some(given) = given.as_ref().filter(|_| self.destroy || self.wanted().is_some()) {
            given.fill().context("cannot fill what is measured with bytes that do not compress")?;
        }
        let given = given.map(Rc::new);
        let mut sites = Vec::new();
        for cache in self.caches() {
            if files::engines(names, cache).is_empty() {
                continue;
            }
            let hot = cache == Cache::Buffered && !self.cold;
            let state = if hot { State::Hot } else { State::Cold };
            let files = match &given {
                Some(files) => files.clone(),
                None => Rc::new(self.made(io_bytes)?),
            };
            sites.push(Site { cache, state, files });
        }
        Ok(sites)
    }

    /// What the user names, or the device that was made.
    fn given(&self, made: Option<&Made>) -> anyhow::Result<Option<FileSet>> {
        // The file below a loop device stands for a disk: a fast one, unless it is to be cold.
        let image = if self.cold { State::Cold } else { State::Hot };
        let paths = match (&self.device, made) {
            (_, Some(made)) => {
                return Ok(Some(FileSet::of_device(made, self.span_bytes(), image)?));
            }
            (Some(Device::Path(device)), _) => vec![block_device(device)?.to_owned()],
            _ if self.file.is_empty() => return Ok(None),
            _ => self.file.clone(),
        };
        Ok(Some(FileSet::given(&paths, self.span_bytes(), self.destroy)?))
    }

    fn made(&self, io_bytes: usize) -> anyhow::Result<FileSet> {
        let count = self.jobs() * self.files;
        let usual = (SITE_BYTES / count).min(FILE_BYTES).next_multiple_of(io_bytes as u64);
        let bytes = self.size.unwrap_or(usual);
        Ok(FileSet::make(&self.directory()?, count as usize, bytes)?)
    }

    fn directory(&self) -> anyhow::Result<PathBuf> {
        directory(self.dir.as_deref().unwrap_or(Path::new(".")))
    }

    /// The peer, and what removes its job files where nobody wants them, as where the record is no file.
    fn peer(&self, json: Option<&Path>) -> anyhow::Result<(fio::Fio, Option<Folder>)> {
        let beside = json.map(|path| {
            let mut name = path.to_owned().into_os_string();
            name.push(".jobs");
            PathBuf::from(name)
        });
        let (jobs, temporary) = match self.save_jobs.clone().or(beside) {
            Some(jobs) => (jobs, None),
            None => {
                let made = Folder::make(&std::env::temp_dir())
                    .context("cannot make a directory for job files")?;
                (made.path().to_owned(), Some(made))
            }
        };
        std::fs::create_dir_all(&jobs)
            .with_context(|| format!("cannot keep job files in {}", jobs.display()))?;
        Ok((fio::Fio::keeping(jobs), temporary))
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
