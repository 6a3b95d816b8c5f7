//! `bytepath cat`: files one after the other to standard output, by the fastest route.

mod itself;
mod plain;
mod shown;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ExitCode;
use std::sync::Arc;

use bytepath::{Endpoint, Kind, Meter};
use bytepath_show::{Formatter, Numbers, Style};
use clap::{ArgAction, Args};
use rustix::io::Errno;

use crate::classic::{Called, Classic, TakesFiles};
use crate::close::closed_well;
use crate::closed;
use crate::errno::word;
use crate::metrics::{self, Figures, MetricsOptions};
use crate::planning::PlanOptions;
use crate::sys::start;

/// For the table of commands that have a classic.
pub(crate) const CLASSIC: Classic = Classic { name: "cat", run: called };

/// What the classic ends with for anything that is wrong, its use included.
const WRONG_USAGE: u8 = 1;

/// Copy files to standard output, one after the other, by the fastest route
///
/// With no FILE, or when FILE is -, standard input is read. Takes every option of GNU cat; called
/// as cat through a link, it is cat. Where nothing has to be shown otherwise, a pipe is handed the
/// pages of a file instead of copies, as splice(2) does: what is written to the file before the
/// pipe's reader has taken them shows. What came as packets, by a pipe with O_DIRECT, stays packets:
/// a reader loses what it does not take of one at once. To copy instead, give --route read-write.
// In the order of the classic's long options, which its messages name them in.
#[derive(Args, Debug, Default)]
#[command(version, disable_help_flag = true, disable_version_flag = true)]
pub(crate) struct Options {
    /// Number the lines that are not empty; overrides -n
    #[arg(short = 'b', long)]
    number_nonblank: bool,
    /// Number all lines
    #[arg(short = 'n', long)]
    number: bool,
    /// Make one empty line of several in a row
    #[arg(short = 's', long)]
    squeeze_blank: bool,
    /// Show what cannot be printed as ^X and M-X, but for tabs and line ends
    #[arg(short = 'v', long)]
    show_nonprinting: bool,
    /// Show a $ at the end of each line, and the carriage return of a line end as ^M
    #[arg(short = 'E', long)]
    show_ends: bool,
    /// Show tabs as ^I
    #[arg(short = 'T', long)]
    show_tabs: bool,
    /// As -vET
    #[arg(short = 'A', long)]
    show_all: bool,
    /// As -vE
    #[arg(short = 'e')]
    ends_and_nonprinting: bool,
    /// As -vT
    #[arg(short = 't')]
    tabs_and_nonprinting: bool,
    /// Nothing: output is never held back
    #[arg(short = 'u')]
    unbuffered: bool,
    /// Print this help
    #[arg(long, action = ArgAction::Help)]
    help: Option<bool>,
    /// Print the version
    #[arg(long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(flatten)]
    plan: PlanOptions,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// The files; - is standard input
    #[arg(value_name = "FILE", help_heading = None::<&str>)]
    files: Vec<OsString>,
}

impl Options {
    /// What has to be shown otherwise than it is; `None` where the bytes stay as they are.
    fn formatter(&self) -> Option<Formatter> {
        let all = self.show_all;
        let style = Style {
            numbers: match (self.number_nonblank, self.number) {
                (true, _) => Numbers::NonBlank,
                (false, true) => Numbers::All,
                (false, false) => Numbers::None,
            },
            squeeze: self.squeeze_blank,
            ends: self.show_ends || self.ends_and_nonprinting || all,
            tabs: self.show_tabs || self.tabs_and_nonprinting || all,
            nonprinting: self.show_nonprinting
                || self.ends_and_nonprinting
                || self.tabs_and_nonprinting
                || all,
        };
        (style != Style::default()).then(|| Formatter::new(style))
    }
}

impl TakesFiles for Options {
    fn files(&mut self) -> &mut Vec<OsString> {
        &mut self.files
    }
}

fn called(called: &Called, words: Vec<OsString>) -> ExitCode {
    match called.options(words, WRONG_USAGE) {
        Ok(options) => run(called, &options),
        Err(ended) => ended,
    }
}

/// Copies all files. One that cannot be read is told of, and the next is gone on with; nothing is
/// left to do once the output cannot be written.
pub(crate) fn run(called: &Called, options: &Options) -> ExitCode {
    let files = options.files.iter().map(OsString::as_os_str);
    if let Err(what) = options.metrics.check(files.chain(options.plan.file())) {
        called.say(what);
        return ExitCode::from(WRONG_USAGE);
    }
    options.metrics.begin_and_heed_signals("cat");
    let formatter = options.formatter();
    if formatter.is_some() && options.plan.route.is_some() {
        called.say("options that change the bytes need them in memory: leave out --route");
        return ExitCode::from(WRONG_USAGE);
    }
    if formatter.is_some() && options.plan.explain_plan {
        called.say("read, changed in memory, written: the options leave no other route");
    }
    if start::was_closed(1) {
        called.say(format_args!("standard output: {}", word(Errno::BADF)));
        return ExitCode::FAILURE;
    }
    if let Err(error) = options.plan.check() {
        called.say(error);
        return ExitCode::from(WRONG_USAGE);
    }
    let meter = Arc::new(Meter::default());
    metrics::measured_by({
        let (meter, writes_itself) = (meter.clone(), formatter.is_some());
        move || match (Figures::of(&meter), writes_itself) {
            // The meter counts the reads alone.
            (figures, true) => Figures { calls: None, ..figures },
            (figures, false) => figures,
        }
    });
    let stdout = std::io::stdout();
    let mut copy = Copy {
        called,
        plan: &options.plan,
        meter: &meter,
        stdout: stdout.as_fd(),
        sink: Endpoint::sink(stdout.as_fd()).ok(),
        formatter,
        well: true,
        read_stdin: false,
    };
    match copy.all(&options.files) {
        Ok(()) => copy.end(),
        Err(errno) => called.write_failed(errno),
    }
}

/// Why a file was not copied to its end.
enum Trouble {
    /// It could not be read.
    Reading(Errno),
    /// Standard output could not be written: no file can be copied any more.
    Writing(Errno),
    /// Something else, in words.
    Other(String),
}

/// The copying of all files to one output.
struct Copy<'a> {
    called: &'a Called,
    plan: &'a PlanOptions,
    meter: &'a Meter,
    stdout: BorrowedFd<'a>,
    /// `None` where standard output is not open for writing, which matters once there are bytes.
    sink: Option<Endpoint<'a>>,
    formatter: Option<Formatter>,
    well: bool,
    read_stdin: bool,
}

impl Copy<'_> {
    /// # Errors
    /// Standard output could not be written.
    fn all(&mut self, files: &[OsString]) -> Result<(), Errno> {
        let stdin = [OsString::from("-")];
        for name in if files.is_empty() { &stdin } else { files } {
            match self.one(name) {
                Ok(()) => continue,
                Err(Trouble::Writing(errno)) => return Err(errno),
                Err(Trouble::Reading(errno)) => self.called.say_of(name, word(errno)),
                Err(Trouble::Other(what)) => self.called.say_of(name, what),
            }
            self.well = false;
        }
        self.finish()
    }

    fn one(&mut self, name: &OsStr) -> Result<(), Trouble> {
        if name != "-" {
            closed::check(name).map_err(Trouble::Reading)?;
            let opened = Endpoint::open_source(name);
            return self.source(&opened.map_err(|error| Trouble::Reading(error.errno()))?);
        }
        self.read_stdin = true;
        if start::was_closed(0) {
            return Err(Trouble::Reading(Errno::BADF));
        }
        let stdin = std::io::stdin();
        let opened = Endpoint::source(stdin.as_fd());
        self.source(&opened.map_err(|error| Trouble::Reading(error.errno()))?)
    }

    fn source(&mut self, source: &Endpoint<'_>) -> Result<(), Trouble> {
        let bytes = match self.formatter {
            Some(_) => itself::Bytes::ShownOtherwise,
            None => itself::Bytes::AsTheyAre,
        };
        let itself = match &self.sink {
            Some(sink) => itself::met(source, sink, bytes),
            None => itself::Met::No,
        };
        match itself {
            itself::Met::Endless => {
                return Err(Trouble::Other("input file is output file".into()));
            }
            itself::Met::Over => return Ok(()),
            itself::Met::No | itself::Met::Harmless => {}
        }
        match (&mut self.formatter, &self.sink) {
            (None, Some(sink)) => plain::copy(source, sink, itself, (self.plan, self.meter)),
            (Some(formatter), _) => shown::copy(source, self.stdout, formatter, self.meter),
            // There is nothing to write by but the call that says why not.
            (None, None) => {
                let mut formatter = Formatter::new(Style::default());
                shown::copy(source, self.stdout, &mut formatter, self.meter)
            }
        }
    }

    /// What the last file leaves to be written.
    fn finish(&mut self) -> Result<(), Errno> {
        if let Some(formatter) = &mut self.formatter {
            formatter.finish(self.stdout)?;
        }
        match &self.sink {
            Some(sink) if sink.kind() == Kind::File => closed_well(self.stdout),
            _ => Ok(()),
        }
    }

    fn end(&self) -> ExitCode {
        if self.read_stdin && start::was_closed(0) {
            self.called.say(format_args!("closing standard input: {}", word(Errno::BADF)));
        }
        if self.well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
