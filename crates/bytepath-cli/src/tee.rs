//! `bytepath tee`: standard input to standard output and to files, without copying what need not be.

mod explained;
mod extras;
mod hash;
mod mode;
mod outputs;
mod planned;
mod progress;
mod told;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};

use std::time::Instant;

use bytepath::fan_out::{About, AfterLoss, Ending, FannedOut, Full, Lost, Queue, Waits};
use bytepath::machine::memory_room;
use bytepath::{Endpoint, FanOut, Pipes};
use bytepath_report::numbers;
use clap::{ArgAction, Args};
use rustix::io::Errno;

use crate::classic::{
    Called, Classic, TakesFiles, Written, end_by_broken_pipe, ends_by_broken_pipe,
};
use crate::close::closed_well;
use crate::errno::word;
use crate::metrics;
use crate::quote::{always_quoted, shown};
use crate::sys::{interrupts, start};
use extras::Extras;
use hash::Hashing;
use mode::Mode;
use outputs::{Opening, Outputs};
use planned::Planned;
use told::Told;

/// For the table of commands that have a classic.
pub(crate) const CLASSIC: Classic = Classic { name: "tee", run: called };

/// What the classic ends with for anything that is wrong, its use included.
const WRONG_USAGE: u8 = 1;

/// Copy standard input to each FILE, and to standard output
///
/// Takes every option of GNU tee; called as tee through a link, it is tee. Pipes get references to
/// the pages of what comes out of a pipe, and files one copy of them. Of a file that is read, pipes
/// get the pages too, as splice(2) hands them on: what is written to it before their readers have
/// taken them shows. What came as packets, by a pipe with O_DIRECT, stays packets: a reader loses what
/// it does not take of one at once. With --queue pipes get copies, and with --hash those of a file.
// In the order of the classic's long options, which its messages name them in.
#[derive(Args, Debug, Default)]
#[command(version, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Options {
    /// Append to the FILEs instead of overwriting them
    #[arg(short, long)]
    append: bool,
    /// Ignore interrupts
    #[arg(short, long)]
    ignore_interrupts: bool,
    /// As --output-error=warn-nopipe
    #[arg(short = 'p')]
    pipes: bool,
    /// What to do when an output cannot be written: warn, warn-nopipe, exit or exit-nopipe
    ///
    /// warn tells of it and goes on with the others, exit ends there; with -nopipe, a reader that
    /// has left is no matter. Without a MODE it is warn-nopipe, with which tee also ends as soon as
    /// the readers of all outputs have left, if these are pipes. Without the option, a reader that has
    /// left ends tee by its signal, and the rest is told of.
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true)]
    output_error: Option<Option<OsString>>,
    /// Print this help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(flatten)]
    extras: Extras,
    /// The files; - is one of that name
    #[arg(value_name = "FILE", help_heading = None::<&str>)]
    files: Vec<OsString>,
}

impl TakesFiles for Options {
    fn files(&mut self) -> &mut Vec<OsString> {
        &mut self.files
    }
}

fn called(called: &Called, words: Vec<OsString>) -> ExitCode {
    let checked = |option: &Written| Mode::of(std::slice::from_ref(option)).map(drop);
    let read = called.checked_options::<Options>(words, WRONG_USAGE, &checked);
    let (options, written) = match read {
        Ok(read) => read,
        Err(ended) => return ended,
    };
    match Mode::of(&written) {
        Ok(mode) => {
            let (well, broken) = (AtomicBool::new(true), AtomicBool::new(false));
            Tee { called, mode, well, broken }.run(&options)
        }
        Err(what) => called.misused(what.as_bytes(), WRONG_USAGE),
    }
}

/// The copying.
struct Tee<'a> {
    called: &'a Called,
    mode: Mode,
    well: AtomicBool,
    /// A reader has left, whose signal ends it once the others have what is queued for them.
    broken: AtomicBool,
}

impl Tee<'_> {
    fn run(&self, options: &Options) -> ExitCode {
        if options.ignore_interrupts {
            interrupts::ignore();
        }
        let Prepared { hashing, unhashed, spill, planned } = match prepared(options) {
            Ok(prepared) => prepared,
            Err(what) => {
                self.called.say(what);
                return ExitCode::FAILURE;
            }
        };
        if let Some(error) = unhashed {
            let word = crate::errno::word_of(&error);
            self.called.say(format_args!(
                "no thread for --hash: {word}; the job goes on without a checksum, which a higher \
                 limit of processes (ulimit -u) allows"
            ));
            self.well.store(false, Relaxed);
        }
        let stdout = std::io::stdout();
        let mut outputs = Outputs::begin(stdout.as_fd());
        let opening = if options.append { Opening::Append } else { Opening::Overwrite };
        for name in &options.files {
            if let Err(errno) = outputs.open(name, opening) {
                self.fail(name, errno);
                if self.mode.exits() {
                    return ExitCode::FAILURE;
                }
            }
        }
        if let Some(hashing) = &hashing {
            outputs.listen("the checksum", hashing.sink());
        }
        let copied = self.copy(&options.extras, &outputs, spill.as_ref(), &planned);
        let lost = |place: usize| copied.as_ref().ok().and_then(|done| done.sinks[place].lost);
        let end = match &copied {
            Ok(done) if done.ending == Ending::Stopped => {
                if self.broken.load(Relaxed) {
                    end_by_broken_pipe();
                }
                ExitCode::FAILURE
            }
            copied => {
                self.say_of_reading(copied);
                self.end(&outputs, |place| lost(place).is_some())
            }
        };
        let not_heard =
            (0..outputs.ends().len()).filter(|place| !outputs.is_output(*place)).find_map(lost);
        drop(outputs);
        let is_whole = copied.is_ok_and(|done| {
            let mut heard = done.sinks.iter().rev().take(usize::from(hashing.is_some()));
            done.ending == Ending::SourceEnded && heard.all(|sink| sink.bytes == done.bytes)
        });
        match hashing.is_none_or(|hashing| self.tell(hashing, is_whole, not_heard)) {
            true => end,
            false => ExitCode::FAILURE,
        }
    }

    /// Says why the input was not read to its end, where it could not be.
    fn say_of_reading(&self, copied: &Result<FannedOut, Errno>) {
        match copied {
            Err(errno @ (Errno::MFILE | Errno::NFILE)) => {
                let word = word(*errno);
                self.called.say(format_args!("cannot begin: {word}; nothing was read"));
            }
            Ok(FannedOut { ending: Ending::ReadFailed(errno), .. }) | Err(errno) => {
                self.called.say(format_args!("read error: {}", word(*errno)));
            }
            Ok(_) => return,
        }
        self.well.store(false, Relaxed);
    }

    /// # Errors
    /// There is nothing to read.
    fn copy(
        &self,
        extras: &Extras,
        outputs: &Outputs<'_>,
        spill: Option<&File>,
        planned: &Planned,
    ) -> Result<FannedOut, Errno> {
        if start::was_closed(0) {
            return Err(Errno::BADF);
        }
        let stdin = std::io::stdin();
        let source = Endpoint::source(stdin.as_fd()).map_err(|error| error.errno())?;
        let told = Arc::new(Told::new(outputs, extras.queue.is_some()));
        let (meter, lags, began) = (&told.meter, &told.lags, Instant::now());
        metrics::measured_by({
            let told = told.clone();
            move || told.figures()
        });
        let planner = || planned.plan(&source, outputs.ends());
        let mut fan_out = FanOut::new(&source, outputs.ends())
            .meter(meter)
            .listeners(outputs.listeners())
            .planned_by(&planner);
        if self.mode.lets_readers_go() {
            fan_out = fan_out.watch_readers();
        }
        if extras.no_enlarge {
            fan_out = fan_out.leave_pipes();
        }
        if extras.hash.is_some() {
            fan_out = fan_out.read_files();
        }
        let on_loss = |lost: Lost| self.lost(outputs, lost, extras.spill.as_deref());
        let without_queue = fan_out.clone();
        let work = || match extras.queue {
            None => Ok(fan_out.run(&on_loss)),
            Some(bytes) => {
                let memory_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
                let queue = Queue { memory_bytes, spill: spill.map(AsFd::as_fd) };
                let said: Vec<_> = outputs.ends().iter().map(|_| AtomicU8::new(0)).collect();
                let on_full = |full: Full| {
                    // Each once, and not that the input waits where others do.
                    let (waits, rank) = match full.waits {
                        Waits::Others => ("the others wait", 2),
                        Waits::Input => ("the input waits", 1),
                    };
                    if said[full.sink].fetch_max(rank, Relaxed) < rank {
                        let behind_bytes = lags.bytes(full.sink);
                        self.full(outputs.name(full.sink), (behind_bytes, bytes), waits);
                    }
                };
                match fan_out.run_queued(queue, lags, &on_loss, &on_full) {
                    Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => {
                        let word = crate::errno::word_of(&error);
                        self.called.say(format_args!(
                            "no thread for each output, as --queue needs: {word}; the job goes on \
                             without a queue"
                        ));
                        told.go_on_without_queue();
                        Ok(without_queue.run(&on_loss))
                    }
                    done => done,
                }
            }
        };
        let done = match extras.progress {
            true => progress::watched(self.called, outputs, (meter, lags), work),
            false => work(),
        };
        let done = done.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        if extras.explain_plan {
            let queue = extras.queue.filter(|_| told.is_queued());
            explained::explain(queue, planned, (&source, outputs), &done, began);
        }
        Ok(done)
    }

    /// The queue is full because of this output.
    fn full(&self, name: &OsStr, (behind_bytes, queue_bytes): (u64, u64), waits: &str) {
        let behind = numbers::bytes(behind_bytes);
        let room = memory_room();
        // A quarter is left to others.
        let why = match room.bytes.saturating_add(behind_bytes) / 4 * 3 < queue_bytes {
            true => format!(" ({room})"),
            false => String::new(),
        };
        let text = format_args!("{behind} behind, and the queue is full{why}: {waits} for it");
        self.called.say_of(name, text);
    }

    /// Says the checksum, unless it would be that of a part only, which is no failure where the readers
    /// have left. Whether it could be had, and said; not where its thread has not got all bytes.
    fn tell(&self, hashing: Hashing, is_whole: bool, not_heard: Option<Errno>) -> bool {
        let name = hashing.algorithm.name();
        let digest = hashing.finish().and_then(|digest| not_heard.map_or(Ok(digest), Err));
        match digest {
            Ok(digest) if is_whole => {
                return self.called.said(format_args!("{name} {digest}")).is_ok();
            }
            Ok(_) => self.called.say(format_args!("no {name}: the input was not read to its end")),
            Err(errno) => {
                self.called.say(format_args!("no {name}: {}", word(errno)));
                return false;
            }
        }
        true
    }

    /// An output cannot be written any more.
    fn lost(&self, outputs: &Outputs<'_>, lost: Lost, spill: Option<&Path>) -> AfterLoss {
        if !outputs.is_output(lost.sink) {
            return AfterLoss::GoOn;
        }
        if self.mode == Mode::Signal && lost.errno == Errno::PIPE && ends_by_broken_pipe() {
            self.broken.store(true, Relaxed);
            return AfterLoss::Stop;
        }
        let name = outputs.name(lost.sink);
        match spill.filter(|_| lost.about == About::Spill) {
            Some(folder) => {
                self.called.say(format_args!(
                    "reading back what was spilled to {}, for {}: {}",
                    shown(folder),
                    always_quoted(name),
                    word(lost.errno)
                ));
                self.well.store(false, Relaxed);
            }
            None if !self.mode.tells(lost.errno) => return AfterLoss::GoOn,
            None => self.fail(name, lost.errno),
        }
        if self.mode.exits() { AfterLoss::Stop } else { AfterLoss::GoOn }
    }

    fn fail(&self, name: &OsStr, errno: Errno) {
        self.called.say_of(name, word(errno));
        self.well.store(false, Relaxed);
    }

    /// Closes what is open, which is when some file systems tell that bytes are lost.
    fn end(&self, outputs: &Outputs<'_>, lost: impl Fn(usize) -> bool) -> ExitCode {
        for (place, errno) in outputs.close(lost) {
            self.fail(outputs.name(place), errno);
        }
        if start::was_closed(0) {
            self.called.say(format_args!("standard input: {}", word(Errno::BADF)));
            return ExitCode::FAILURE;
        }
        let stdout = std::io::stdout();
        if let Err(errno) = closed_well(stdout.as_fd()) {
            return self.called.write_failed(errno);
        }
        if self.well.load(Relaxed) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// What has to be had before any output is touched.
struct Prepared {
    /// The checksum's thread.
    hashing: Option<Hashing>,
    /// Why there is none, which the bytes need not wait for.
    unhashed: Option<std::io::Error>,
    /// The file to spill to.
    spill: Option<File>,
    /// How it comes to its plan.
    planned: Planned,
}

/// # Errors
/// What is wrong, in words.
fn prepared(options: &Options) -> Result<Prepared, String> {
    let extras = &options.extras;
    let profile = extras.profile.as_deref().map(Path::as_os_str);
    extras.metrics.check(options.files.iter().map(OsString::as_os_str).chain(profile))?;
    extras.metrics.begin_and_heed_signals("tee");
    let pipes = if extras.no_enlarge { Pipes::Leave } else { Pipes::Grow };
    let planned = Planned::by(extras.profile.as_deref(), pipes)?;
    let (hashing, unhashed) = match extras.hash.map(Hashing::start).transpose() {
        Ok(hashing) => (hashing, None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::AGAIN) => (None, Some(error)),
        Err(error) => {
            return Err(format!("cannot compute the checksum: {}", crate::errno::word_of(&error)));
        }
    };
    let spill = extras.spill.as_deref().map(|folder| {
        let file = tempfile::tempfile_in(folder);
        file.map_err(|error| {
            format!("cannot spill to {}: {}", shown(folder), crate::errno::word_of(&error))
        })
    });
    Ok(Prepared { hashing, unhashed, spill: spill.transpose()?, planned })
}
