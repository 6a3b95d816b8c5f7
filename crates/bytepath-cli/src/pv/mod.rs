//! `bytepath pv`: moves bytes and shows how far they are, as Pipe Viewer does.

mod alone;
mod byhand;
mod cursor;
mod direct;
pub(crate) mod display;
mod ends;
mod lines;
mod live;
mod monitor;
mod mover;
mod options;
mod pace;
mod pidfile;
mod quantity;
mod query;
mod remote;
mod screen;
mod signals;
mod skip;
mod status;
mod store;
mod tally;
mod title;
mod usage;
mod watch;
mod watcher;
mod watchfd;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::Arc;

pub(crate) use options::{Options, Settings};

use alone::Alone;
use bytepath::Kind;
use ends::Sink;
use live::Live;
use monitor::Watched;
use mover::{Left, Work};
use screen::Screen;
use status::Status;
use tally::Tally;
use usage::Wrong;
use watch::{Bar, Watch};
use watcher::Watcher;

use crate::errno::word_of;
use crate::metrics::{self, Figures};
use crate::output;
use crate::quote::printable;
use crate::sys::start;

/// The program, given the words after its name.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    let done = Options::read(words.iter().cloned()).and_then(|settings| run(&settings, &words));
    match done {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(wrong) => wrong.exit(),
    }
}

fn run(settings: &Settings, words: &[OsString]) -> Result<i32, Wrong> {
    signals::go_on_in_the_background();
    let live = Live::new(settings);
    let modes = &settings.options.modes;
    if let Some(pid) = modes.remote {
        return Ok(query::remote(pid, settings, words).into());
    }
    if let Some(pid) = modes.query {
        return query::query(pid, settings, &live).map(i32::from);
    }
    if !modes.watchfd.is_empty() {
        return watch_files(settings, &live).map(i32::from);
    }
    copy(settings, &live)
}

/// Watches what other processes have open: those named with -d, and all words that are left.
fn watch_files(settings: &Settings, live: &Live) -> Result<Status, Wrong> {
    let modes = &settings.options.modes;
    one_file_each(settings)?;
    let write = |path| pidfile::Pidfile::write(path, live);
    let pidfile = modes.pidfile.as_deref().map(write).transpose();
    if let Err(error) = &pidfile {
        say(format_args!("-P: {}", word_of(error)));
        return Ok(Status::REMOTE);
    }
    let words = [modes.watchfd.as_slice(), settings.options.files.as_slice()].concat();
    watchfd::run(settings, live, &words)
}

/// Sees that what is written beside the data goes to files of its own.
fn one_file_each(settings: &Settings) -> Result<(), Wrong> {
    let (modes, metrics) = (&settings.options.modes, settings.options.metrics.file());
    let files = [("--pidfile", modes.pidfile.as_deref()), ("--metrics", metrics)];
    output::each_its_own(&files).map_err(Wrong::plain)
}

/// Copies the inputs to the output.
fn copy(settings: &Settings, live: &Live) -> Result<i32, Wrong> {
    let monitored = settings.options.modes.monitor;
    let inputs = match settings.options.files.as_slice() {
        _ if monitored == Some(Watched::Out) => Vec::new(),
        [] => vec![OsString::from("-")],
        _ if monitored.is_some() => vec![OsString::from("-")],
        files => files.to_vec(),
    };
    let transfer = &settings.options.transfer;
    let plain = |what: String| Wrong::plain(what);
    let files = [&transfer.output, &transfer.store_and_forward].into_iter().flatten();
    let files = files.map(|path| path.as_os_str());
    let named = inputs.iter().map(OsString::as_os_str).chain(files);
    let named = named.chain(settings.options.plan.file());
    settings.options.metrics.check(named.clone()).map_err(plain)?;
    let pidfile = settings.options.modes.pidfile.as_deref();
    output::replaces_none("--pidfile", pidfile, named).map_err(plain)?;
    one_file_each(settings)?;
    settings.options.metrics.begin_and_heed_signals("pv");
    settings.options.plan.check().map_err(|error| plain(error.to_string()))?;
    let sink = match &transfer.output {
        _ if transfer.discard => Sink::nowhere(live),
        Some(path) => Sink::file(path, &inputs, live),
        None => Sink::stdout(&inputs, live),
    };
    let sink = match sink {
        Ok(sink) => sink,
        Err(status) => return Ok(status.into()),
    };
    // Not before: opening a FIFO waits for its reader, while a signal would leave the file.
    let pidfile = match &settings.options.modes.pidfile {
        None => None,
        Some(path) => match pidfile::Pidfile::write(path, live) {
            Ok(pidfile) => Some(pidfile),
            Err(error) => {
                say(format_args!("{}: {}", printable(path), word_of(&error)));
                return Ok(Status::REMOTE.into());
            }
        },
    };
    if let Some(side) = monitored {
        return monitor::run(side, &settings.options.files, &sink, settings, live);
    }
    if let Some(path) = &transfer.store_and_forward {
        return store::run(path, &inputs, &sink, settings, live).map(i32::from);
    }
    let tally = Arc::new(Tally::default());
    measured(settings, vec![tally.clone()]);
    let screen = Screen::wanted(settings);
    let left = whole(settings, &inputs, &sink, &tally);
    let mut bar = Bar::new(&settings.options.display, watch::LAST, &tally)?;
    bar.side.goes_to(&sink.endpoint, settings);
    let watcher = Watcher::new(Watch::new(settings, live, screen, vec![bar]));
    std::thread::scope(|scope| {
        let _over = watcher.over();
        let watch = || watcher.start(scope);
        let alone = Alone::new(&watch);
        if pidfile.is_some() {
            // A file that has to be put away asks for somebody who answers signals.
            alone.end();
        }
        let work = Work { settings, live, tally: &tally, alone: Some(&alone) };
        let status = watcher.moved(work.run(&inputs, &sink, left) | sink.closed(live));
        // Nothing is left to be done, and the other thread need not be woken to end.
        start::let_the_reader_go();
        end(status)
    })
}

/// Tells whoever asked with --metrics how far the movements are together.
fn measured(settings: &Settings, tallies: Vec<Arc<Tally>>) {
    let of = settings.clone();
    metrics::measured_by(move || {
        let each = tallies.iter().map(|tally| tally.figures(&of));
        each.reduce(Figures::with).unwrap_or_default()
    });
}

/// Tells the tally the size of the whole; what is to be moved of it.
fn whole(settings: &Settings, inputs: &[OsString], sink: &Sink<'_>, tally: &Tally) -> Left {
    let device = sink.endpoint.kind() == Kind::BlockDevice;
    // A quiet one as well: another pv may ask how far it is.
    ends::expect(settings, inputs, tally);
    if tally.size().is_some() || !device || settings.options.display.counts_lines() {
        return Left::asked(settings);
    }
    let room = ends::device_bytes(&sink.endpoint);
    tally.set_size(room);
    room.map_or(Left::Everything, Left::Bytes)
}

/// Moves while another thread draws and answers signals.
fn watched(
    settings: &Settings,
    live: &Live,
    screen: Option<Screen>,
    bars: Vec<Bar<'_>>,
    work: impl FnOnce() -> Status,
) -> Status {
    live.begin();
    let watcher = Watcher::new(Watch::new(settings, live, screen, bars));
    std::thread::scope(|scope| {
        let _over = watcher.over();
        watcher.start(scope);
        watcher.moved(work())
    })
}

/// Ends the process while the mover may sleep in a call that nothing wakes: what the kernel moves from end
/// to end is in one or the other. A mover that may hold bytes was woken before, and those that nobody takes
/// were told.
fn end(status: Status) -> ! {
    pidfile::remove_all();
    direct::put_back_all();
    crate::metrics::ended(status.code());
    std::process::exit(i32::from(status.code()));
}

/// Says a line of pv's.
fn say(text: std::fmt::Arguments<'_>) {
    screen::say(format_args!("pv: {text}"));
}
