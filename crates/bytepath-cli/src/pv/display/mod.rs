//! What people see of a transfer: values in, one line of text out. Nothing here opens, waits, reads
//! a clock or prints, so that every line can be had again from the same moments.

mod bar;
mod options;
mod values;

use std::time::{Duration, SystemTime};

pub(crate) use options::DisplayOptions;

/// What the drawer tells at one tick. Only `elapsed` and `amount` must be known.
#[derive(Clone, Debug)]
pub(crate) struct Moment<'a> {
    /// Time the transfer has been going on, without the time it was stopped.
    pub(crate) elapsed: Duration,
    /// Bytes moved so far; with --line-mode, lines.
    pub(crate) amount: u64,
    /// How many there will be, in the same unit, if that is known.
    pub(crate) size: Option<u64>,
    /// What lies between the reading and the writing.
    pub(crate) buffer: Buffer,
    /// The last bytes written, for -A; as many as are at hand.
    pub(crate) last_written: &'a [u8],
    /// The last whole line written, without its end, for %L.
    pub(crate) previous_line: &'a [u8],
    /// Bytes known to be on the disk, where that is asked.
    pub(crate) durable: Option<u64>,
    /// Bytes moved on the other side, in --monitor both.
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
    /// For the title of the process, as ps shows it.
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

/// Draws moments, one after the other, and remembers what rates and markers need.
#[derive(Debug)]
pub(crate) struct Display {}

impl Display {
    /// Prepares to draw what the options ask for.
    pub(crate) fn new(_options: &DisplayOptions) -> Result<Self, WrongDisplay> {
        Ok(Self {})
    }

    /// The line for a terminal this wide: no line end, no carriage return, padded to cover the last.
    pub(crate) fn draw(&mut self, moment: &Moment<'_>, width: usize) -> String {
        let seconds = moment.elapsed.as_secs();
        let line = format!(
            "{}B {}:{:02}:{:02}",
            moment.amount,
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60
        );
        line.chars().take(width).collect()
    }

    /// The line of numbers for -n, without its line end.
    pub(crate) fn numeric_line(&mut self, moment: &Moment<'_>) -> String {
        moment.amount.to_string()
    }

    /// What goes to titles with -x; nothing without it.
    pub(crate) fn extra(&mut self, _moment: &Moment<'_>, _width: usize) -> Extra {
        Extra::default()
    }

    /// The lines for -v at the end, without the last line end; nothing without -v.
    pub(crate) fn summary(&self) -> Option<String> {
        None
    }
}
