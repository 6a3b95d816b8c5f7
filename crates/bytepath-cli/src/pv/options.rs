//! pv's options: what is said about the display, about the transfer, and which work is meant.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{Args, CommandFactory, FromArgMatches, Parser};
use rustix::process::Pid;

use super::display::{Display, DisplayOptions};
use super::monitor::Watched;
use super::quantity::{self, Units};
use super::usage::{self, Wrong};
use crate::classic::Order;
use crate::errno::word_of;
use crate::metrics::MetricsOptions;
use crate::planning::PlanOptions;
use crate::quote::printable;

/// Copy each FILE, or standard input, to standard output, and show how far it is
///
/// The options, the display and the exit status are those of Pipe Viewer. Bytes move by the fastest
/// route that the machine offers, without passing through this program where neither end needs it.
/// What came as packets, by a pipe with O_DIRECT, stays packets then: a reader loses what it does not
/// take of one at once; -C copies.
/// Left out is --debug, which shows how the original works inside; --explain-plan tells how this does.
#[derive(Parser, Clone, Debug)]
#[command(
    name = "pv",
    version = VERSION,
    max_term_width = 100,
    infer_long_args = true,
    args_override_self = true
)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) display: DisplayOptions,
    #[command(flatten)]
    pub(crate) transfer: TransferOptions,
    #[command(flatten)]
    pub(crate) modes: ModeOptions,
    #[command(flatten)]
    pub(crate) plan: PlanOptions,
    #[command(flatten)]
    pub(crate) metrics: MetricsOptions,
    /// What to copy, in this order; - is standard input
    #[arg(value_name = "FILE", help_heading = None::<&str>)]
    pub(crate) files: Vec<OsString>,
}

/// For people and for scripts that look for what they may use.
const VERSION: &str =
    concat!("(bytepath) ", env!("CARGO_PKG_VERSION"), "; takes the options of Pipe Viewer 1.11");

const MOVED: &str = "How it is moved";
const MODES: &str = "Other work";

/// How bytes are moved.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct TransferOptions {
    /// Take the whole for SIZE bytes (or lines); @PATH is the size of a file, device or folder
    #[arg(short = 's', long, value_name = "SIZE", help_heading = MOVED)]
    pub(crate) size: Option<OsString>,
    /// Write to FILE instead of standard output
    #[arg(short = 'o', long, value_name = "FILE", help_heading = MOVED)]
    pub(crate) output: Option<PathBuf>,
    /// Move at most RATE bytes (or lines) a second; 0 is no limit
    #[arg(short = 'L', long, value_name = "RATE", help_heading = MOVED)]
    pub(crate) rate_limit: Option<String>,
    /// Read and write through a buffer of BYTES
    #[arg(short = 'B', long, value_name = "BYTES", help_heading = MOVED)]
    pub(crate) buffer_size: Option<String>,
    /// Always read and write; never let the kernel move the bytes
    #[arg(short = 'C', long, help_heading = MOVED)]
    pub(crate) no_splice: bool,
    /// Give the pipes at either end BYTES, if they can have that
    #[arg(short = 'J', long, value_name = "BYTES", help_heading = MOVED)]
    pub(crate) pipe_buffer_size: Option<String>,
    /// Write zeros for what cannot be read, and go on; twice: tell of it once a file
    #[arg(short = 'E', long, action = clap::ArgAction::Count, help_heading = MOVED)]
    pub(crate) skip_errors: u8,
    /// Skip errors as with --skip-errors, to the next multiple of BYTES at once
    #[arg(short = 'Z', long, value_name = "BYTES", help_heading = MOVED)]
    pub(crate) error_skip_block: Option<String>,
    /// Stop when the size given with --size has been moved
    #[arg(short = 'S', long, help_heading = MOVED)]
    pub(crate) stop_at_size: bool,
    /// Put every write on the device before the next
    #[arg(short = 'Y', long, help_heading = MOVED)]
    pub(crate) sync: bool,
    /// Show only what is really on the device, without holding up each write for it
    #[arg(long, help_heading = MOVED)]
    pub(crate) durable: bool,
    /// Go past the page cache at both ends (O_DIRECT)
    #[arg(short = 'K', long, help_heading = MOVED)]
    pub(crate) direct_io: bool,
    /// Leave holes in the output for blocks of zeros
    #[arg(short = 'O', long, alias = "sparse-output", help_heading = MOVED)]
    pub(crate) sparse: bool,
    /// Throw the bytes away instead of writing them
    #[arg(short = 'X', long, help_heading = MOVED)]
    pub(crate) discard: bool,
    /// First put everything in FILE, then move it on; - is a file that is gone afterwards
    #[arg(short = 'U', long, value_name = "FILE", help_heading = MOVED)]
    pub(crate) store_and_forward: Option<PathBuf>,
}

/// Work other than copying, and what surrounds it.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct ModeOptions {
    /// Move nothing; show how far processes are in the files they have open. All other words count
    /// as well
    #[arg(short = 'd', long, value_name = "PID[:FD]|=NAME|@LISTFILE", help_heading = MODES, conflicts_with_all = ["remote", "query", "monitor"])]
    pub(crate) watchfd: Vec<OsString>,
    /// Have the pv with this number take over the options given here
    #[arg(short = 'R', long, value_name = "PID", value_parser = pid, help_heading = MODES, conflicts_with_all = ["query", "monitor"])]
    pub(crate) remote: Option<Pid>,
    /// Show how far the pv with this number is
    #[arg(short = 'Q', long, value_name = "PID", value_parser = pid, help_heading = MODES, conflicts_with = "monitor")]
    pub(crate) query: Option<Pid>,
    /// Run the command given behind --, and move what goes in, what comes out, or both
    #[arg(short = 'M', long, value_name = "SIDE", value_enum, help_heading = MODES, conflicts_with = "store_and_forward")]
    pub(crate) monitor: Option<Watched>,
    /// Save the number of this process in FILE, while it runs
    #[arg(short = 'P', long, value_name = "FILE", help_heading = MODES)]
    pub(crate) pidfile: Option<PathBuf>,
}

impl Options {
    /// Reads the words after the program's name.
    ///
    /// # Errors
    /// Wrong usage, in pv's words; or help and version, to be printed.
    pub(crate) fn read(words: impl IntoIterator<Item = OsString>) -> Result<Settings, Wrong> {
        let words = std::iter::once("pv".into()).chain(words).collect::<Vec<OsString>>();
        // A long option may be a part of the name of any.
        if !words.iter().any(|word| word.len() > 2 && word.as_encoded_bytes().starts_with(b"--"))
            && let Ok(settings) = read::<Shown>(&words)
        {
            return settings;
        }
        read::<Options>(&words)?
    }
}

/// What most calls have: something about the display, and files. Making all the other options takes
/// as long as moving 100 KiB.
#[derive(Parser)]
#[command(args_override_self = true)]
struct Shown {
    #[command(flatten)]
    display: DisplayOptions,
    files: Vec<OsString>,
}

impl From<Shown> for Options {
    fn from(shown: Shown) -> Options {
        let Shown { display, files } = shown;
        let (transfer, modes, plan, metrics) = Default::default();
        Options { display, transfer, modes, plan, metrics, files }
    }
}

/// The options by a command that has some of them; an error where that does not take all words.
fn read<O: CommandFactory + FromArgMatches + Into<Options>>(
    words: &[OsString],
) -> Result<Result<Settings, Wrong>, clap::Error> {
    let mut command = O::command().mut_args(|arg| match arg.get_action().takes_values() {
        // As with getopt, the word after an option that needs one is its value, whatever it is.
        true if !arg.is_positional() => arg.allow_hyphen_values(true),
        true => arg.trailing_var_arg(Order::of_environment() == Order::OptionsFirst),
        false => arg,
    });
    let matches = command.try_get_matches_from_mut(words)?;
    // Taking its hundreds of pieces of memory apart takes as long as making them.
    std::mem::forget(command);
    let options = O::from_arg_matches(&matches)?;
    let settings = Settings::from(options.into(), &matches);
    std::mem::forget(matches);
    Ok(settings)
}

/// The options, with their numbers read.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) options: Options,
    /// The whole, in bytes or lines, where it was said.
    pub(crate) size: Option<u64>,
    /// Bytes or lines a second; `None` is no limit.
    pub(crate) rate: Option<u64>,
    pub(crate) buffer_bytes: Option<usize>,
    pub(crate) pipe_bytes: Option<usize>,
    pub(crate) skip_block_bytes: Option<u64>,
    pub(crate) interval: Duration,
}

/// As with pv: more often would be a load, less often looks like a fault.
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.1..=600.0;

/// What memory is asked for at most.
const BUFFER_BYTES_MAX: u64 = 1 << 30;

/// Where nothing is moved, nothing can be said about how.
const NOT_WHILE_WATCHING: [&str; 18] = [
    "output",
    "rate_limit",
    "buffer_size",
    "no_splice",
    "pipe_buffer_size",
    "no_enlarge",
    "skip_errors",
    "error_skip_block",
    "stop_at_size",
    "sync",
    "durable",
    "direct_io",
    "sparse",
    "discard",
    "store_and_forward",
    "line_mode",
    "null",
    "metrics",
];

impl Settings {
    /// The option, if there is one, for which the bytes have to pass through memory of ours.
    pub(crate) fn by_hand(&self) -> Option<&'static str> {
        let (transfer, display) = (&self.options.transfer, &self.options.display);
        let reasons = [
            (display.counts_lines(), "--line-mode"),
            (display.buffer_percent, "--buffer-percent"),
            (display.last_written.is_some(), "--last-written"),
            (transfer.no_splice, "--no-splice"),
            (self.buffer_bytes.is_some(), "--buffer-size"),
            (transfer.skip_errors > 0, "--skip-errors"),
            (transfer.sync, "--sync"),
            (transfer.direct_io, "--direct-io"),
            (transfer.sparse, "--sparse"),
        ];
        reasons.into_iter().find(|(given, _)| *given).map(|(_, option)| option)
    }

    /// Whether the last of what was written may be shown.
    pub(crate) fn shows_tail(&self) -> bool {
        let display = &self.options.display;
        display.last_written.is_some()
            || !display.format.is_empty()
            || display.extra_display.is_some()
    }

    /// Whether bytes have to be seen for their lines alone.
    pub(crate) fn only_counts_lines(&self) -> bool {
        let without = |settings: &Settings| {
            let mut settings = settings.clone();
            (settings.options.display.line_mode, settings.options.display.null) = (false, false);
            settings
        };
        self.options.display.counts_lines()
            && without(self).by_hand().is_none()
            && !self.shows_tail()
            && !self.options.transfer.durable
    }

    /// Options that are each fine and cannot be followed together.
    fn fit(&self, matches: &clap::ArgMatches) -> Result<(), Wrong> {
        let given =
            |id: &&str| matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        let modes = &self.options.modes;
        if !modes.watchfd.is_empty()
            && let Some(id) = NOT_WHILE_WATCHING.iter().find(|id| given(id))
        {
            let option = id.replace('_', "-");
            return Err(Wrong::plain(format!(
                "--{option}: nothing is moved or counted while descriptors are watched (-d)"
            )));
        }
        if !modes.watchfd.is_empty() && self.options.display.cursor {
            return Err(Wrong::plain(
                "--cursor: rows are not shared while descriptors are watched (-d)",
            ));
        }
        // Before any file is emptied for it.
        Display::check(&self.options.display)?;
        if modes.monitor.is_some() && self.options.files.is_empty() {
            return Err(Wrong::plain("-M: no command given; write it behind --"));
        }
        if modes.monitor == Some(Watched::In) && self.options.transfer.output.is_some() {
            return Err(Wrong::plain(
                "-o: what the command writes is not moved with -M in; give -M out or -M both",
            ));
        }
        let other = match (modes.remote, modes.query) {
            (Some(_), _) => Some("-R"),
            (_, Some(_)) => Some("-Q"),
            _ => None,
        };
        if let (Some(option), true) = (other, self.options.metrics.metrics.is_some()) {
            return Err(Wrong::plain(format!(
                "--metrics: nothing is moved here, but by another pv ({option})"
            )));
        }
        if let (Some(option), false) = (other, self.options.files.is_empty()) {
            return Err(Wrong::plain(format!(
                "{option}: another pv moves its own files; name none"
            )));
        }
        if let (Some(route), Some(option)) = (&self.options.plan.route, self.by_hand()) {
            return Err(Wrong::plain(format!(
                "--route {route}: {option} has to see the bytes, which no route shows; give one of \
                 them"
            )));
        }
        Ok(())
    }

    fn from(mut options: Options, matches: &clap::ArgMatches) -> Result<Settings, Wrong> {
        let si = options.display.si.then(|| matches.index_of("si")).flatten();
        let units = |id: &str| match (si, matches.index_of(id)) {
            (Some(si), Some(at)) if si < at => Units::Si,
            _ => Units::Binary,
        };
        let number = |letter: char, id: &str, text: &Option<String>| match text {
            None => Ok(None),
            Some(text) => quantity::parsed(text, units(id))
                .map(Some)
                .ok_or_else(|| usage::expected(letter, text, "number of bytes")),
        };
        let transfer = &options.transfer;
        let memory = |letter, id, text| match number(letter, id, text)? {
            None | Some(0) => Ok(None),
            Some(bytes) if bytes > BUFFER_BYTES_MAX => {
                Err(Wrong::plain(format!("-{letter}: at most 1 GiB of memory can be asked for")))
            }
            Some(bytes) => Ok(usize::try_from(bytes).ok()),
        };
        let size = match &transfer.size {
            None => None,
            Some(text) => Some(size(text, units("size"))?).filter(|size| *size > 0),
        };
        let rate = number('L', "rate_limit", &transfer.rate_limit)?.filter(|rate| *rate > 0);
        let buffer_bytes = memory('B', "buffer_size", &transfer.buffer_size)?;
        let pipe_bytes = memory('J', "pipe_buffer_size", &transfer.pipe_buffer_size)?;
        let skip_block_bytes = number('Z', "error_skip_block", &transfer.error_skip_block)?;
        let skip_block_bytes = skip_block_bytes.filter(|bytes| *bytes > 0);
        // Blocks to skip mean errors to skip.
        options.transfer.skip_errors +=
            u8::from(skip_block_bytes.is_some() && options.transfer.skip_errors == 0);
        let asked = options.display.interval.unwrap_or(1.0);
        let interval = asked.clamp(*INTERVAL_S.start(), *INTERVAL_S.end());
        let settings = Settings {
            size,
            rate,
            buffer_bytes,
            pipe_bytes,
            skip_block_bytes,
            interval: Duration::from_secs_f64(interval),
            options,
        };
        settings.fit(matches)?;
        Ok(settings)
    }
}

/// The number of a process.
fn pid(text: &str) -> Result<Pid, String> {
    let number = text.parse().ok().filter(|number: &i32| *number > 0).and_then(Pid::from_raw);
    number.ok_or_else(|| "the number of a process is expected".to_owned())
}

/// A size, or that of what stands behind the @.
fn size(text: &std::ffi::OsStr, units: Units) -> Result<u64, Wrong> {
    use std::os::unix::ffi::OsStrExt;
    if let Some(path) = text.as_bytes().strip_prefix(b"@") {
        let path = Path::new(std::ffi::OsStr::from_bytes(path));
        return size_of(path).map_err(|error| {
            Wrong::plain(format!("-s: {}: {}", printable(path), word_of(&error)))
        });
    }
    let text = text.to_string_lossy();
    quantity::parsed(&text, units).ok_or_else(|| usage::expected('s', &text, "size"))
}

/// The bytes of a file or device; of a folder, those of all files below it. Links are not followed
/// there, so that it ends.
fn size_of(path: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::FileTypeExt;
    let found = path.metadata()?;
    if found.file_type().is_block_device() {
        return std::io::Seek::seek(&mut std::fs::File::open(path)?, std::io::SeekFrom::End(0));
    }
    if !found.is_dir() {
        return Ok(found.len());
    }
    let mut total = found.len();
    let mut folders = vec![path.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let found = entry.metadata()?;
            total = total.saturating_add(found.len());
            if found.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok(total)
}
