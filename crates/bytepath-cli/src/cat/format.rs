//! Bytes shown otherwise than they are: numbered, squeezed, made visible.
//!
//! Costs per chunk: two system calls, two copies, one search for line ends; with -v or -T a look
//! at every byte. What is known of the line goes on from buffer to buffer and from file to file.

mod number;
mod output;
mod shown;

use std::os::fd::BorrowedFd;

use bytepath::inlets::Setup;
use bytepath::{Endpoint, Stop, inlets};
use rustix::io::Errno;

use super::Trouble;
use crate::metrics::Metered;
use number::LineNumber;
use output::Output;
use shown::Shown;

/// Bytes read at a time: enough to forget the call, and the output still fits into an L2 cache.
const CHUNK_BYTES: usize = 128 << 10;

/// What is to be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Style {
    pub(super) numbers: Numbers,
    /// One empty line of several.
    pub(super) squeeze: bool,
    /// `$` at line ends.
    pub(super) ends: bool,
    /// Tabs as `^I`.
    pub(super) tabs: bool,
    /// `^X` and `M-X`.
    pub(super) nonprinting: bool,
}

impl Style {
    /// Whether each byte is shown in one way wherever it stands, so that lines need not be told
    /// apart.
    fn is_bytewise(self) -> bool {
        let by_line = self.numbers != Numbers::None || self.squeeze;
        !by_line && (self.nonprinting || !self.ends)
    }
}

/// Which lines get a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Numbers {
    #[default]
    None,
    All,
    NonBlank,
}

/// Where the output stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// Before a line, after so many empty ones (2 stands for more).
    Start(u8),
    /// Inside a line.
    Inside,
    /// Inside a line, after a carriage return that is not yet written: it depends on the next byte
    /// how it is shown.
    AfterReturn,
}

/// See the module.
pub(super) struct Formatter {
    style: Style,
    shown: Option<Shown>,
    number: LineNumber,
    line: Line,
    output: Output,
}

impl Formatter {
    pub(super) fn new(style: Style) -> Formatter {
        let changes = style.tabs || style.nonprinting;
        Formatter {
            style,
            shown: changes.then(|| Shown::new(style)),
            number: LineNumber::new(),
            line: Line::Start(0),
            output: Output::new(),
        }
    }

    /// Copies `source` to its end. What came is written before more is waited for.
    pub(super) fn copy(
        &mut self,
        source: &Endpoint<'_>,
        stdout: BorrowedFd<'_>,
        metered: &Metered,
    ) -> Result<(), Trouble> {
        metered.goes("read-write");
        let read = inlets::by_name("read").expect("the library lists it");
        let setup = Setup { buf_bytes: CHUNK_BYTES, untouched: true, ..Setup::new(&metered.meter) };
        let mut consumer = read.open(source, &setup).map_err(reading)?;
        while consumer.take(CHUNK_BYTES as u64).map_err(reading)? > 0 {
            self.chunk(consumer.bytes(), stdout).map_err(Trouble::Writing)?;
            self.output.flush(stdout).map_err(Trouble::Writing)?;
        }
        Ok(())
    }

    /// Writes a carriage return that was the last byte of all.
    pub(super) fn finish(&mut self, stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        self.return_alone(stdout)?;
        self.output.flush(stdout)
    }

    fn chunk(&mut self, mut bytes: &[u8], stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.style.is_bytewise() {
            return self.shown(bytes, stdout);
        }
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            self.text(&bytes[..end], stdout)?;
            self.line_end(stdout)?;
            bytes = &bytes[end + 1..];
        }
        self.text(bytes, stdout)
    }

    /// Bytes of one line.
    fn text(&mut self, text: &[u8], stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        if text.is_empty() {
            return Ok(());
        }
        self.return_alone(stdout)?;
        if matches!(self.line, Line::Start(_)) && self.style.numbers != Numbers::None {
            self.output.put(self.number.next(), stdout)?;
        }
        self.line = Line::Inside;
        match text {
            // It may belong to a line end that is to be seen; with -v each is seen anyway.
            [rest @ .., b'\r'] if self.style.ends && !self.style.nonprinting => {
                self.shown(rest, stdout)?;
                self.line = Line::AfterReturn;
                Ok(())
            }
            text => self.shown(text, stdout),
        }
    }

    fn shown(&mut self, text: &[u8], stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        match &self.shown {
            Some(shown) => shown.put(text, &mut self.output, stdout),
            None => self.output.put(text, stdout),
        }
    }

    /// A carriage return that no line end followed is written as it is.
    fn return_alone(&mut self, stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        if self.line == Line::AfterReturn {
            self.line = Line::Inside;
            self.output.put(b"\r", stdout)?;
        }
        Ok(())
    }

    fn line_end(&mut self, stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        let was = self.line;
        self.line = match was {
            Line::Start(blank) => Line::Start(2.min(blank + 1)),
            Line::Inside | Line::AfterReturn => Line::Start(0),
        };
        if self.style.squeeze && matches!(was, Line::Start(1..)) {
            return Ok(());
        }
        if matches!(was, Line::Start(_)) && self.style.numbers == Numbers::All {
            self.output.put(self.number.next(), stdout)?;
        }
        let end: &[u8] = match (self.style.ends, was) {
            (true, Line::AfterReturn) => b"^M$\n",
            (true, _) => b"$\n",
            (false, _) => b"\n",
        };
        self.output.put(end, stdout)
    }
}

/// The inlet `read` fails only by what the source says.
fn reading(stop: Stop) -> Trouble {
    match stop {
        Stop::Failed(failed) => Trouble::Reading(failed.errno),
        stop => Trouble::Other(stop.to_string()),
    }
}
