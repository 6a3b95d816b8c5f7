//! `bytepath tee`: standard input to standard output and to files, without copying what need not be.

mod mode;
mod outputs;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytepath::fan_out::{AfterLoss, Ending, FannedOut, Lost};
use bytepath::{Endpoint, FanOut};
use clap::{ArgAction, Args};
use rustix::io::Errno;

use crate::classic::{Called, Classic, closed_well, end_by_broken_pipe, word};
use crate::sys::{interrupts, start};
use mode::Mode;
use outputs::{Opening, Outputs};

/// For the table of commands that have a classic.
pub(crate) const CLASSIC: Classic = Classic { name: "tee", run: called };

/// What the classic ends with for anything that is wrong, its use included.
const WRONG_USAGE: u8 = 1;

/// Copy standard input to each FILE, and to standard output
///
/// Takes every option of GNU tee; called as tee through a link, it is tee. Pipes get references to
/// the pages of what comes out of a pipe, and files one copy of them. Of a file that is read, pipes
/// get the pages too, as splice(2) hands them on: what is written to it before their readers have
/// taken them shows.
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
    /// all readers have left. Without the option, a reader that has left ends tee by its signal,
    /// and the rest is told of.
    #[arg(long, value_name = "MODE", num_args = 0..=1, require_equals = true)]
    output_error: Option<Option<OsString>>,
    /// Print this help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
    /// The files; - is one of that name
    #[arg(value_name = "FILE")]
    files: Vec<OsString>,
}

fn called(called: &Called, words: Vec<OsString>) -> ExitCode {
    let (options, written) = match called.ordered_options::<Options>(words, WRONG_USAGE) {
        Ok(read) => read,
        Err(ended) => return ended,
    };
    match Mode::of(&written) {
        Ok(mode) => Tee { called, mode, well: AtomicBool::new(true) }.run(&options),
        Err(what) => called.misused(what.as_bytes(), WRONG_USAGE),
    }
}

/// The copying.
struct Tee<'a> {
    called: &'a Called,
    mode: Mode,
    well: AtomicBool,
}

impl Tee<'_> {
    fn run(&self, options: &Options) -> ExitCode {
        if options.ignore_interrupts {
            interrupts::ignore();
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
        let copied = self.copy(&outputs);
        match &copied {
            Ok(done) if done.ending == Ending::Stopped => return ExitCode::FAILURE,
            Ok(FannedOut { ending: Ending::ReadFailed(errno), .. }) | Err(errno) => {
                self.called.say(format_args!("read error: {}", word(*errno)));
                self.well.store(false, Relaxed);
            }
            Ok(_) => {}
        }
        let lost =
            |place: usize| copied.as_ref().is_ok_and(|done| done.sinks[place].lost.is_some());
        self.end(&outputs, lost)
    }

    /// # Errors
    /// There is nothing to read.
    fn copy(&self, outputs: &Outputs<'_>) -> Result<FannedOut, Errno> {
        if start::was_closed(0) {
            return Err(Errno::BADF);
        }
        let stdin = std::io::stdin();
        let source = Endpoint::source(stdin.as_fd()).map_err(|error| error.errno())?;
        let fan_out = FanOut::new(&source, outputs.ends());
        let fan_out = match self.mode.lets_readers_go() {
            true => fan_out.watch_readers(),
            false => fan_out,
        };
        Ok(fan_out.run(&|lost| self.lost(outputs, lost)))
    }

    /// An output cannot be written any more.
    fn lost(&self, outputs: &Outputs<'_>, lost: Lost) -> AfterLoss {
        if self.mode == Mode::Signal && lost.errno == Errno::PIPE {
            end_by_broken_pipe();
        }
        if !self.mode.tells(lost.errno) {
            return AfterLoss::GoOn;
        }
        self.fail(outputs.name(lost.sink), lost.errno);
        if self.mode.exits() { AfterLoss::Stop } else { AfterLoss::GoOn }
    }

    fn fail(&self, name: &std::ffi::OsStr, errno: Errno) {
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
