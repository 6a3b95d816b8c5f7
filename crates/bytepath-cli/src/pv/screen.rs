//! Where lines are drawn: standard error, as a line that is drawn over, or as lines of numbers.

use bytepath::Endpoint;
use bytepath::endpoint::Kind;
use bytepath_report::table::printable;
use rustix::io::Errno;
use rustix::stdio::stderr;
use rustix::termios::LocalModes;

use super::Settings;
use super::display::{Extra, WrongDisplay, cut};
use super::signals::ends_before_room;
use crate::live::{before_message, is_in_front, note, stands};

/// Assumed where it cannot be asked for.
const WIDTH: usize = 80;
const HEIGHT: usize = 25;

/// Standard error, and how wide it is.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: bool,
    numeric: bool,
    quiet: bool,
    forced: bool,
    width_given: Option<usize>,
    height_given: Option<usize>,
    width: usize,
    height: usize,
}

impl Screen {
    /// Standard error, if anything is to be drawn there.
    pub(crate) fn wanted(settings: &Settings) -> Option<Screen> {
        let display = &settings.options.display;
        // The summary is no display: -q leaves it.
        if display.quiet && !display.stats {
            return None;
        }
        let terminal = rustix::termios::isatty(stderr());
        if !terminal && !display.force && !display.numeric && !display.stats {
            return None;
        }
        let mut screen = Screen {
            terminal,
            numeric: display.numeric,
            quiet: display.quiet,
            forced: display.force,
            width_given: display.width.filter(|width| *width > 0),
            height_given: display.height.filter(|height| *height > 0),
            width: WIDTH,
            height: HEIGHT,
        };
        screen.resize();
        Some(screen)
    }

    /// Asks the terminal for its size, where the size was not given.
    pub(crate) fn resize(&mut self) {
        let found = rustix::termios::tcgetwinsize(stderr()).ok();
        let or = |found: Option<u16>, assumed| {
            found.map(usize::from).filter(|count| *count > 0).unwrap_or(assumed)
        };
        self.width = self.width_given.unwrap_or_else(|| or(found.map(|size| size.ws_col), WIDTH));
        self.height =
            self.height_given.unwrap_or_else(|| or(found.map(|size| size.ws_row), HEIGHT));
    }

    /// Takes over sizes that were given anew.
    pub(crate) fn give_size(&mut self, width: Option<usize>, height: Option<usize>) {
        self.width_given = width.filter(|width| *width > 0).or(self.width_given);
        self.height_given = height.filter(|height| *height > 0).or(self.height_given);
        self.resize();
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn height(&self) -> usize {
        self.height
    }

    pub(crate) fn numeric(&self) -> bool {
        self.numeric
    }

    /// Whether lines may be drawn now: not by a job in the background, unless that is forced, and
    /// not where only the summary was asked for.
    pub(crate) fn shows_lines(&self) -> bool {
        if self.quiet {
            return false;
        }
        if self.forced || self.numeric {
            return true;
        }
        self.terminal && self.in_foreground()
    }

    pub(crate) fn is_terminal(&self) -> bool {
        self.terminal
    }

    /// Whether the terminal is ours to use now.
    pub(crate) fn in_foreground(&self) -> bool {
        // If it is not our controlling terminal, nobody can put us in its background.
        self.terminal && is_in_front(stderr()).unwrap_or(true)
    }

    /// A line as the terminal has room for it: what wrapped would scroll with each drawing. Where
    /// no terminal is, nobody wraps.
    pub(crate) fn fitted(&self, line: &str) -> String {
        if self.terminal { cut(line, self.width) } else { line.to_owned() }
    }

    /// Draws a line over the one before.
    pub(crate) fn draw(&self, line: &str) {
        drawn(format_args!("{line}\r"));
    }

    /// Writes a line that stays.
    pub(crate) fn line(&self, line: &str) {
        write(format_args!("{line}\n"));
    }

    /// Ends the line that was drawn over, if there is one.
    pub(crate) fn end_line(&self) {
        if stands() {
            write(format_args!("{}", before_message()));
        }
    }

    /// Tells the titles.
    pub(crate) fn titles(&self, extra: &Extra) {
        if let (true, Some(title)) = (self.terminal, &extra.window_title) {
            write(format_args!("\x1b]2;{title}\x1b\\"));
        }
        if let Some(title) = &extra.process_title {
            super::title::set(title);
        }
    }
}

/// Writes a message on a line of its own, which may have names in it that others gave.
pub(crate) fn say(text: std::fmt::Arguments<'_>) {
    write(format_args!("{}{}\n", before_message(), printable(&text.to_string())));
}

/// Writes what leaves the cursor in a line that is drawn again and again: a message begins below it, also one
/// that another thread says between this and the noting of it.
pub(crate) fn drawn(text: std::fmt::Arguments<'_>) {
    note(true);
    write(text);
    // A message that came before the line has taken the first note.
    note(true);
}

/// One write where there is room for it, so that several pv's do not mix their lines. Where there is none it
/// is waited for, but not by who was asked to end. A terminal that is gone is no reason to stop moving bytes.
pub(crate) fn write(text: std::fmt::Arguments<'_>) {
    let text = text.to_string();
    let Ok(end) = Endpoint::sink(stderr()) else { return };
    // One with any room has it for all that is drawn at once.
    let is_terminal = end.kind() == Kind::Terminal;
    if is_terminal && is_kept_back() {
        return;
    }
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        if is_terminal && ends_before_room(stderr()) {
            return;
        }
        let written = match is_terminal {
            true => rustix::io::write(stderr(), rest),
            false => end.write_now(rest),
        };
        match written {
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) if !ends_before_room(stderr()) => {}
            Ok(0) | Err(_) => return,
            Ok(count) => rest = &rest[count..],
        }
    }
}

/// Whether this is in the background of a terminal that wants nothing from there (`stty tostop`). To try would
/// stop all of a pipeline that heeds SIGTTOU.
fn is_kept_back() -> bool {
    let stops =
        || rustix::termios::tcgetattr(stderr()).map(|it| it.local_modes & LocalModes::TOSTOP);
    is_in_front(stderr()) == Some(false) && stops().is_ok_and(|stops| !stops.is_empty())
}

impl From<WrongDisplay> for super::usage::Wrong {
    fn from(wrong: WrongDisplay) -> Self {
        super::usage::Wrong::plain(wrong.0)
    }
}
