//! `bytepath pv`: moves bytes and shows how far they are, as Pipe Viewer does.

mod byhand;
pub(crate) mod display;
mod ends;
mod live;
mod mover;
mod options;
mod pace;
mod pidfile;
mod quantity;
mod screen;
mod signals;
mod status;
mod tally;
mod title;
mod usage;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use rustix::io::Errno;

pub(crate) use options::{Options, Settings};

use bytepath::Kind;
use ends::Sink;
use live::Live;
use mover::{Left, Work};
use screen::Screen;
use status::Status;
use tally::Tally;
use usage::Wrong;
use watch::{Bar, Done, Over, Watch};

/// The program, given the words after its name.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    match Options::read(words).and_then(run) {
        Ok(status) => status.into(),
        Err(wrong) => wrong.exit(),
    }
}

fn run(settings: Settings) -> Result<Status, Wrong> {
    let live = Live::new(&settings);
    let pidfile = match &settings.options.modes.pidfile {
        None => None,
        Some(path) => match pidfile::Pidfile::write(path) {
            Ok(pidfile) => Some(pidfile),
            Err(error) => {
                say(format_args!("{}: {}", path.display(), word(&error)));
                return Ok(Status::REMOTE);
            }
        },
    };
    let status = copy(&settings, &live, pidfile.is_some())?;
    drop(pidfile);
    Ok(status)
}

/// Copies the inputs to the output.
fn copy(settings: &Settings, live: &Live, cleanup: bool) -> Result<Status, Wrong> {
    let inputs = match settings.options.files.as_slice() {
        [] => vec![OsString::from("-")],
        files => files.to_vec(),
    };
    let transfer = &settings.options.transfer;
    let sink = match &transfer.output {
        _ if transfer.discard => Sink::nowhere(live),
        Some(path) => Sink::file(path, &inputs, live),
        None => Sink::stdout(live),
    };
    let sink = match sink {
        Ok(sink) => sink,
        Err(status) => return Ok(status),
    };
    let tally = Tally::default();
    let screen = Screen::wanted(settings);
    let (size, left) = whole(settings, &inputs, &sink, screen.is_some());
    tally.set_size(size);
    let work = Work { settings, live, tally: &tally, notice: None };
    let mut status = if screen.is_none() && !cleanup {
        signals::end_at_once();
        work.run(&inputs, &sink, left)
    } else {
        let bars = vec![Bar::new(&settings.options.display, 0, &tally)?];
        watched(settings, live, screen, bars, || work.run(&inputs, &sink, left))?
    };
    status |= sink.closed(live);
    Ok(status)
}

/// The size of the whole, and what is to be moved of it.
fn whole(
    settings: &Settings,
    inputs: &[OsString],
    sink: &Sink,
    shown: bool,
) -> (Option<u64>, Left) {
    let display = &settings.options.display;
    let mut stop = settings.options.transfer.stop_at_size;
    let mut size = settings.size;
    let lines = display.counts_lines();
    // What nobody sees, and nothing ends by, need not be found out.
    if size.is_none() && (shown || sink.endpoint.kind() == Kind::BlockDevice) {
        size = match lines {
            true => ends::total_lines(inputs, if display.null { 0 } else { b'\n' }),
            false => ends::total_bytes(inputs),
        };
        stop = false;
        if size.is_none() && !lines && sink.endpoint.kind() == Kind::BlockDevice {
            size = ends::device_bytes(&sink.endpoint);
            stop = size.is_some();
        }
    }
    let left = match size {
        Some(size) if stop && lines => Left::Lines(size),
        Some(size) if stop => Left::Bytes(size),
        _ => Left::Everything,
    };
    (size, left)
}

/// Moves on a thread of its own while this one draws and answers signals.
fn watched(
    settings: &Settings,
    live: &Live,
    screen: Option<Screen>,
    bars: Vec<Bar<'_>>,
    work: impl FnOnce() -> Status + Send,
) -> Result<Status, Wrong> {
    let failed = |error: std::io::Error| Wrong::plain(word(&error));
    let signals = signals::Signals::caught().map_err(failed)?;
    let done = Done::new().map_err(failed)?;
    let mut watch = Watch { settings: settings.clone(), live, screen, signals, bars };
    std::thread::scope(|scope| {
        let mover = scope.spawn(|| {
            let status = work();
            done.tell();
            status
        });
        match watch.run(&done) {
            Over::Done => {}
            Over::Signal => end(Status::SIGNAL),
        }
        Ok(mover.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// Ends the process while the mover may sleep in a call that nothing wakes. What the kernel moves
/// is in one end or the other; what a buffer of ours holds could not be written, and is lost with
/// any program that a signal ends.
fn end(status: Status) -> ! {
    pidfile::remove_all();
    std::process::exit(i32::from(status.code()));
}

/// Says a line of pv's.
fn say(text: std::fmt::Arguments<'_>) {
    crate::say(format_args!("pv: {text}"));
}

/// The kernel's word alone, without its number.
fn word(error: &std::io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error ") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

fn errno_word(errno: Errno) -> String {
    word(&std::io::Error::from(errno))
}
