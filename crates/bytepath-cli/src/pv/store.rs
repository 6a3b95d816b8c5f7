//! `--store-and-forward`: first everything into a file, then from there to the output.

use std::ffi::OsString;
use std::fs::File;
use std::io::Seek;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use bytepath::Endpoint;

use super::ends::{Sink, Source};
use super::live::Live;
use super::mover::{Left, Work};
use super::screen::Screen;
use super::status::Status;
use super::tally::Tally;
use super::usage::Wrong;
use super::watch::{Bar, LAST};
use super::{Settings, say, signals, watched};
use crate::errno::word_of;
use crate::quote::printable;

/// Does both stages; each has a bar of its own, the second with a size.
pub(crate) fn run(
    path: &Path,
    inputs: &[OsString],
    sink: &Sink<'_>,
    settings: &Settings,
    live: &Live,
) -> Result<Status, Wrong> {
    let name = || printable(path);
    let failed = |error: std::io::Error| {
        say(format_args!("{}: {}", name(), word_of(&error)));
        Ok(Status::OPEN)
    };
    if let Some(input) = super::ends::input_that_is(path, inputs) {
        let (input, path) = (printable(input), name());
        say(format_args!("{input}: input is {path}, to be stored in; it is left as it was"));
        return Ok(Status::SAME_FILE);
    }
    let mut file = match opened(path) {
        Ok(file) => file,
        Err(error) => return failed(error),
    };
    let (stored, forwarded) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    super::measured(settings, vec![stored.clone(), forwarded.clone()]);
    super::ends::expect(settings, inputs, &stored);
    let left = Left::asked(settings);
    let mut status = {
        let endpoint = match Endpoint::sink(file.as_fd()) {
            Ok(endpoint) => endpoint,
            Err(error) => return failed(std::io::Error::other(error)),
        };
        if super::ends::are_one(&endpoint, &sink.endpoint) {
            // What is forwarded would be stored again, without end.
            say(format_args!("{}: it is the output; store in another file", name()));
            return Ok(Status::SAME_FILE);
        }
        if let Err(error) = emptied(&file) {
            return failed(error);
        }
        let store = Sink { name: name(), endpoint };
        let work = Work { settings, live, tally: &stored, alone: None };
        let mut bar = Bar::new(&settings.options.display, LAST, &stored)?;
        bar.side.goes_to(&store.endpoint, settings);
        let screen = Screen::wanted(settings);
        watched(settings, live, screen, vec![bar], || work.run(inputs, &store, left))
    };
    if let Err(error) = file.rewind() {
        return failed(error);
    }
    // One that came when all was stored had nothing left to end there.
    if signals::ends() {
        return Ok(status | Status::SIGNAL);
    }
    let endpoint = match Endpoint::source(file.as_fd()) {
        Ok(endpoint) => endpoint,
        Err(error) => return failed(std::io::Error::other(error)),
    };
    let source = Source { name: name(), endpoint };
    forwarded.set_size(match settings.options.display.counts_lines() {
        true => Some(stored.lines()),
        false => source.bytes(),
    });
    let work = Work { settings, live, tally: &forwarded, alone: None };
    let mut bar = Bar::new(&settings.options.display, LAST, &forwarded)?;
    bar.side.goes_to(&sink.endpoint, settings);
    let screen = Screen::wanted(settings);
    status |= watched(settings, live, screen, vec![bar], || {
        work.run_one(&source, sink, &mut Left::Everything) | sink.closed(live)
    });
    Ok(status)
}

/// The file named; for - one without a name, which is gone however this ends.
fn opened(path: &Path) -> std::io::Result<File> {
    if path.as_os_str() == "-" {
        return tempfile::tempfile();
    }
    File::options().read(true).write(true).create(true).truncate(false).open(path)
}

/// Takes out what a file held before.
fn emptied(file: &File) -> std::io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}
