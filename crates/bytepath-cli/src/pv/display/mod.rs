//! What people see of a transfer: moments in, one line of text out. Nothing here waits, reads a
//! clock or prints, so that every line can be had again from the same moments.
//!
//! Behaves as the current Pipe Viewer does, but for these:
//! - the summary of -v counts what its unit says: bits as bits, lines not as bytes;
//! - with a gauge, the terminal's tab is told the gauge's percentage, not the marker's place;
//! - a name is brought to its columns by its columns, not by its bytes, and %L shows letters beyond
//!   ASCII;
//! - control characters in names and lines do not reach the terminal;
//! - lines of numbers have no spaces at their ends;
//! - NO_COLOR and a dumb terminal leave colours out, and an empty word in %{sgr} ends nothing;
//! - a bar without sides has its marker as soon as that has room to move;
//! - a width that no terminal has is refused in a format, and cut elsewhere;
//! - on a terminal that is too narrow a line is cut, where the original's wraps and scrolls;
//! - where nothing had moved, the average rate is told as soon as something does, not at its next step;
//! - the rate of a descriptor that is watched begins where it stood, not at its file's beginning.

mod bar;
mod escapes;
mod extra;
mod finish;
mod format;
mod line;
mod numbers;
mod options;
mod rate;
mod sgr;
mod stats;
mod terminal;
mod usual;
mod values;

#[cfg(test)]
mod against_the_original;
#[cfg(test)]
mod as_seen;
#[cfg(test)]
mod tests;

use std::time::{Duration, SystemTime};

use bar::BarStyle;
use escapes::columns;
pub(crate) use escapes::cut;
use extra::ExtraSpec;
use finish::Zone;
use format::{Field, Format, Piece};
use line::Line;
use numbers::Units;
pub(crate) use options::DisplayOptions;
use rate::Rates;
use terminal::Terminal;
use usual::Usual;
pub(crate) use usual::says_what;

use crate::sys::local_time;

/// What the drawer tells at one tick. Only `elapsed` and `amount` must be known.
#[derive(Clone, Debug)]
pub(crate) struct Moment<'a> {
    /// Time the transfer has been going on, without the time it was stopped.
    pub(crate) elapsed: Duration,
    /// Bytes moved so far; with --line-mode, lines.
    pub(crate) amount: u64,
    /// How many there will be, in the same unit, if that is known; 0 is not known.
    pub(crate) size: Option<u64>,
    /// What lies between the reading and the writing.
    pub(crate) buffer: Buffer,
    /// The last bytes written, for -A; as many as are at hand.
    pub(crate) last_written: &'a [u8],
    /// The last whole line written, without its end, for %L.
    pub(crate) previous_line: &'a [u8],
    /// Bytes known to be on the disk, where that is asked.
    pub(crate) durable: Option<u64>,
    /// What was moved on the other side, in the same unit, in --monitor both.
    pub(crate) other_side: Option<u64>,
    /// The time on the wall, from which the finishing time follows.
    pub(crate) now: SystemTime,
    /// Whether the transfer is over and this is the last drawing.
    pub(crate) last: bool,
    /// The name to begin the line with.
    pub(crate) name: Option<&'a str>,
}

impl Default for Moment<'_> {
    fn default() -> Self {
        Self {
            elapsed: Duration::ZERO,
            amount: 0,
            size: None,
            buffer: Buffer::Unused(Way::Splice),
            last_written: &[],
            previous_line: &[],
            durable: None,
            other_side: None,
            now: SystemTime::UNIX_EPOCH,
            last: false,
            name: None,
        }
    }
}

/// What lies between the reading and the writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Buffer {
    /// A buffer of this process, so full.
    Filled { used_bytes: u64, capacity_bytes: u64 },
    /// Nothing of this process: the kernel moves the bytes.
    Unused(Way),
}

/// How the kernel moves bytes that this process never sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// splice between the ends.
    Splice,
    /// splice through a pipe of our own.
    SplicePipe,
    /// copy_file_range between two files.
    CopyFileRange,
}

/// What goes elsewhere than to the terminal's line, with -x.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extra {
    /// For the title of the terminal's window: the text alone, without escape sequences.
    pub(crate) window_title: Option<String>,
    /// For the title of the process, as ps shows it; pv writes `pv -- ` before it.
    pub(crate) process_title: Option<String>,
}

/// A wish that cannot be met: pv's words, without the program's name before them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WrongDisplay(pub(crate) String);

impl std::fmt::Display for WrongDisplay {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for WrongDisplay {}

/// How lines look, whatever they tell.
#[derive(Clone, Debug)]
struct Look {
    units: Units,
    style: BarStyle,
    gauge: bool,
    numeric: bool,
    terminal: Terminal,
}

/// Draws moments, one after the other, and remembers what rates and markers need.
#[derive(Clone, Debug)]
pub(crate) struct Display {
    look: Look,
    /// A format of the person's own, in the place of the usual.
    own: Option<Format>,
    usual: Usual,
    conemu: bool,
    extra: ExtraSpec,
    summary: bool,
    rates: Rates,
    zone: Zone,
    /// Columns for a bar among numbers.
    numeric_width: usize,
    /// Columns of the line before, which the next has to cover.
    drawn: usize,
}

/// Columns where no terminal says how many there are.
const WIDTH: usize = 80;

/// Wider than any terminal; more would only take memory.
const COLUMNS_MAX: usize = 1 << 16;

/// Seconds that rates are averaged over.
fn window_s(options: &DisplayOptions) -> u64 {
    options.average_rate_window.unwrap_or(30)
}

/// No progress any more.
const FAREWELL: &str = "\x1b]9;4;0;0\x1b\\";

impl Display {
    /// Sees that all that is to be drawn can be, for either side of --monitor.
    ///
    /// # Errors
    /// As with [`Display::new`].
    pub(crate) fn check(options: &DisplayOptions) -> Result<(), WrongDisplay> {
        options.extra_display.as_deref().map_or(Ok(()), |spec| ExtraSpec::read(spec).map(drop))?;
        options.format.iter().try_for_each(|format| Format::read(format).map(drop))
    }

    /// Prepares to draw what the options ask for, in the local time zone and with what the
    /// environment says the terminal can show.
    ///
    /// # Errors
    /// A format that asks for more columns than any terminal has.
    pub(crate) fn new(options: &DisplayOptions) -> Result<Self, WrongDisplay> {
        let look = Look {
            units: Units::of(options),
            style: options.bar_style.unwrap_or_default(),
            gauge: options.gauge,
            numeric: options.numeric,
            terminal: Terminal::told_by(|name| std::env::var(name).ok()),
        };
        let width = options.width.filter(|width| *width > 0);
        let extra = options.extra_display.as_deref().map(ExtraSpec::read).transpose()?;
        let own = options.format.last().map(|format| Format::read(format)).transpose()?;
        Ok(Self {
            look,
            own: own.map(|own| if options.named { own.named() } else { own }),
            usual: Usual::of(options),
            conemu: options.conemu,
            extra: extra.unwrap_or_default(),
            summary: options.stats,
            rates: Rates::over(window_s(options)),
            zone: local_time::local,
            numeric_width: width.unwrap_or(WIDTH).min(COLUMNS_MAX),
            drawn: 0,
        })
    }

    /// Shows the ratio of both sides where no format says what to show: the output of --monitor.
    pub(crate) fn with_ratio(mut self) -> Self {
        self.usual.add_ratio();
        self
    }

    /// Takes other options over in the middle of a transfer; what was learnt about its rate stays.
    ///
    /// # Errors
    /// As with [`Display::new`]; everything stays as it was then.
    pub(crate) fn change(&mut self, options: &DisplayOptions) -> Result<(), WrongDisplay> {
        let mut new = Self::new(options)?;
        new.rates = self.rates.clone();
        new.rates.average_over(window_s(options));
        new.drawn = self.drawn;
        *self = new;
        Ok(())
    }

    /// Takes what was there before the first moment for no part of the transfer.
    pub(crate) fn starting_at(mut self, amount: u64) -> Self {
        self.rates.start_at(amount);
        self
    }

    /// The line for a terminal this wide: without line end or carriage return, and with spaces at
    /// its end where the line before was longer. It is wider than the terminal only where what it
    /// tells does not fit.
    pub(crate) fn draw(&mut self, moment: &Moment<'_>, width: usize) -> String {
        self.rates.take(moment);
        let format = self.format(moment);
        let width = width.min(COLUMNS_MAX);
        let mut line = self.line(moment, true).text(&format, width);
        let wide = columns(&line);
        // A terminal that has become narrower must not be made to wrap by spaces.
        let before = self.drawn.min(width);
        line.extend(std::iter::repeat_n(' ', before.saturating_sub(wide)));
        self.drawn = wide.max(before);
        line + self.farewell(moment)
    }

    /// The line of numbers for -n, without its line end.
    pub(crate) fn numeric_line(&mut self, moment: &Moment<'_>) -> String {
        self.rates.take(moment);
        let format = self.format(moment);
        self.line(moment, true).text(&format, self.numeric_width) + self.farewell(moment)
    }

    /// Ends the last line where the terminal's tab showed the progress, so that it does no more.
    fn farewell(&self, moment: &Moment<'_>) -> &'static str {
        let own = self.own.as_ref().is_some_and(|format| format.has(Field::ConEmu));
        if moment.last && (own || self.conemu) { FAREWELL } else { "" }
    }

    /// What goes to titles with -x; nothing without it.
    pub(crate) fn extra(&mut self, moment: &Moment<'_>, width: usize) -> Extra {
        if !self.extra.window && !self.extra.process {
            return Extra::default();
        }
        self.rates.take(moment);
        let format = self.extra.format.clone().unwrap_or_else(|| self.format(moment));
        let title = self.line(moment, false).text(&format, width.min(COLUMNS_MAX));
        Extra {
            window_title: self.extra.window.then(|| title.clone()),
            process_title: self.extra.process.then_some(title),
        }
    }

    /// The line for -v at the end, without its line end; nothing without -v. Here bits are bits:
    /// the original has their name, but counts bytes.
    pub(crate) fn summary(&self) -> Option<String> {
        let units = self.look.units;
        self.summary.then(|| self.rates.stats().line(units.count(1.0), units.suffix()))
    }

    fn format(&self, moment: &Moment<'_>) -> Format {
        let mut format = self.own.clone().unwrap_or_else(|| self.usual.format(moment));
        format.0.extend(self.conemu.then_some(Piece::Field(Field::ConEmu, None)));
        format
    }

    fn line<'a>(&'a self, moment: &'a Moment<'a>, escapes: bool) -> Line<'a> {
        Line { look: &self.look, zone: self.zone, moment, rates: &self.rates, escapes }
    }
}
