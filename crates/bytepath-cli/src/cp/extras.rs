//! Options that the classic does not have: what a copy is worth once it is made, and how far it is.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rustix::fs::Stat;

use crate::metrics::MetricsOptions;
use crate::output;
use crate::quote::always_quoted;

/// Threads at most: more gain nothing anywhere, and each has its files open.
const JOBS_MAX: i64 = 64;

/// Options of ours.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Safety and progress")]
pub(crate) struct Extras {
    /// Let each file appear whole or not at all: it is made without a name, brought to the device,
    /// and takes the place of what is there at once. Costs an fsync per file; other names of a
    /// replaced file keep the old bytes. What is no file cannot be replaced, and is left as it is
    #[arg(long)]
    pub(super) atomic: bool,
    /// Go on with a copying that was interrupted, by the same words: a destination that holds what
    /// SOURCE begins with is read, compared byte by byte, and continued; one that holds all of it is
    /// left as it is, but for its attributes; where they differ, the rest is copied anew. Block
    /// devices are read and continued likewise; what comes from or goes to any other (a FIFO, a terminal)
    /// is copied anew. With --atomic, what is not whole yet is kept as .NAME.bytepath-part. Where the first
    /// run made DEST from a directory, name it with -T
    #[arg(long)]
    pub(super) resume: bool,
    /// Read source and copy again, the copy from the device where it can be, and compare them; either is
    /// a file or a block device
    #[arg(long)]
    pub(super) verify: bool,
    /// Bring files, and the directories that name them, to the device before going on
    #[arg(long)]
    pub(super) fsync: bool,
    /// Copy past the page cache (O_DIRECT on both ends), which then holds what it held before; what
    /// is no whole block goes through it all the same, and so does all, with a note, where a file
    /// system refuses. Blocks that can be shared are shared
    #[arg(long, conflicts_with = "route")]
    pub(super) direct: bool,
    /// Leave the page cache as it was: what of SOURCE was there before stays, and nothing else, nothing
    /// of the copy either. By calls that drop what they brought in (RWF_DONTCACHE) where the kernel and
    /// the file systems have them, else by advice once the bytes are on the device, 8 MiB at a time;
    /// what neither can is copied through the page cache, with a note. Waits for the device at the end
    /// of each file; a file system in memory keeps its files there. Blocks that can be shared are shared
    #[arg(long)]
    pub(super) uncached: bool,
    /// Show files, bytes, rate and time left on standard error. SIGUSR1 shows a line at any time.
    /// With durable, bring the bytes to the device as they are copied, 32 MiB at a time, and count
    /// what is there: no more than that is ever waiting in memory
    #[arg(long, value_name = "WHAT", num_args = 0..=1, require_equals = true, default_missing_value = "copied")]
    pub(super) progress: Option<Progress>,
    /// Copy with so many threads at most: several files at once, of less than 96 MiB each (32 in memory),
    /// and several parts of a larger one that is in the page cache (route parallel). As many as there are CPUs
    /// for this process, and 4 at most for the parts of one file, unless given. File after file is copied with
    /// -v, --debug, --explain-plan, -x, or -L that preserves links (-aL), and where it is resumed, direct,
    /// uncached, durable or told of file by file (--json-files)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=JOBS_MAX))]
    pub(super) jobs: Option<u16>,
    /// Write what was done as one JSON document to FILE, or to standard output (-): counts, bytes by
    /// route, seconds, errors, exit code (schema: bytepath.cp/1)
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Tell so many errors at most in the document of --json, and how many there are beyond; 1000 unless
    /// given
    #[arg(long, value_name = "N", requires = "json")]
    pub(super) json_errors: Option<u64>,
    /// Write a line of JSON for each entry as it is done to FILE, or to standard output (-)
    #[arg(long, value_name = "FILE")]
    pub(super) json_files: Option<PathBuf>,
    #[command(flatten)]
    pub(super) metrics: MetricsOptions,
}

/// What progress counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Progress {
    /// Bytes that were copied
    Copied,
    /// Bytes that are on the device
    Durable,
}

impl Extras {
    /// Sees that nobody writes to standard output beside JSON that is to be there alone, and that no
    /// file is written for two purposes.
    ///
    /// # Errors
    /// Who does, and which is.
    pub(super) fn check(&self, verbose: bool, files: &[&OsStr]) -> Result<(), String> {
        self.check_stdout(verbose)?;
        for (option, path) in self.written() {
            if let Some(met) = output::met(path, files.iter().copied()) {
                return Err(format!("{option} would be written over {}", always_quoted(met)));
            }
        }
        let written: Vec<_> = self.written().map(|(option, path)| (option, Some(path))).collect();
        output::each_its_own(&written)
    }

    /// The files that are written beside the copies, each with its option.
    fn written(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let files = [
            ("--json", self.json.as_deref()),
            ("--json-files", self.json_files.as_deref()),
            ("--metrics", self.metrics.file()),
        ];
        files.into_iter().filter_map(|(option, path)| Some((option, path?)))
    }

    /// The option by which a file that is met on the way is written beside the copies.
    pub(super) fn writes(&self, stat: &Stat) -> Option<&'static str> {
        let is_it = |path| output::identity(path) == Some((stat.st_dev, stat.st_ino));
        self.written().find(|(_, path)| is_it(path)).map(|(option, _)| option)
    }

    fn check_stdout(&self, verbose: bool) -> Result<(), String> {
        let stdout = |path: &Option<PathBuf>| path.as_deref().is_some_and(output::is_stdout);
        let other = match (stdout(&self.json), stdout(&self.json_files)) {
            (true, true) => "--json-files",
            (true, false) | (false, true) if verbose => "--verbose",
            _ => return Ok(()),
        };
        Err(format!("standard output takes one of --json and {other}, not both"))
    }

    /// The option by which the page cache is left as it was.
    pub(super) fn leaves_cache(&self) -> Option<&'static str> {
        match (self.direct, self.uncached) {
            (true, _) => Some("--direct"),
            (_, true) => Some("--uncached"),
            _ => None,
        }
    }

    /// Whether bytes count once they are on the device.
    pub(super) fn is_durable(&self) -> bool {
        self.progress == Some(Progress::Durable)
    }

    /// Whether even little that is copied may take long, because of what is asked for, or somebody
    /// looks on from the beginning.
    pub(super) fn takes_long(&self) -> bool {
        let looks = self.progress.is_some() || self.metrics.metrics.is_some();
        looks || self.atomic || self.resume || self.verify || self.fsync
    }

    /// Whether the files are copied one after the other by one thread, whole plans and all, because
    /// of what is asked for: to read what is there first, to have each window on the device, to keep
    /// bytes out of the page cache, or to tell of every entry where its bytes went.
    pub(super) fn one_by_one(&self) -> bool {
        let told = self.json_files.is_some();
        self.resume || self.direct || self.uncached || self.is_durable() || told
    }
}
