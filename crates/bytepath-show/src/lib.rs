//! Bytes shown otherwise than they are: numbered, squeezed, made visible. A crate of its own because every
//! byte is looked at: it is optimised for speed, where the commands are for size.
//!
//! Costs per chunk: a system call, a copy, one search for line ends; with -v or -T a look at every byte. What is known of the line goes on from buffer to buffer and from file to file.

mod number;
mod output;
mod shown;

use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use number::LineNumber;
use output::Output;
use shown::Shown;

/// What is to be shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Style {
    /// Which lines are numbered.
    pub numbers: Numbers,
    /// One empty line of several.
    pub squeeze: bool,
    /// `$` at line ends.
    pub ends: bool,
    /// Tabs as `^I`.
    pub tabs: bool,
    /// `^X` and `M-X`.
    pub nonprinting: bool,
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
pub enum Numbers {
    /// None.
    #[default]
    None,
    /// Every one.
    All,
    /// Those that are not empty.
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
pub struct Formatter {
    style: Style,
    shown: Option<Shown>,
    number: LineNumber,
    line: Line,
    output: Output,
}

impl Formatter {
    /// At the beginning of the first line.
    pub fn new(style: Style) -> Formatter {
        let changes = style.tabs || style.nonprinting;
        Formatter {
            style,
            shown: changes.then(|| Shown::new(style)),
            number: LineNumber::new(),
            line: Line::Start(0),
            output: Output::new(),
        }
    }

    /// Writes a carriage return that was the last byte of all.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn finish(&mut self, stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        self.return_alone(stdout)?;
        self.output.flush(stdout)
    }

    /// Takes bytes that come next, and writes once much has gathered.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn chunk(&mut self, mut bytes: &[u8], stdout: BorrowedFd<'_>) -> Result<(), Errno> {
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

    /// Writes what has gathered.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn flush(&mut self, stdout: BorrowedFd<'_>) -> Result<(), Errno> {
        self.output.flush(stdout)
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

/// Whether a block has nothing but zeros. Of most that have other bytes, no more than one cache line is
/// looked at; the rest is looked at piece by piece, each to its end and by words: a search that ends early
/// is slower, and so is one by bytes where the whole program is linked for size, as nothing makes vectors
/// of it then.
pub fn is_zeros(block: &[u8]) -> bool {
    let is_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let has_none =
        |piece: &[[u8; 8]]| piece.iter().fold(0, |all, word| all | u64::from_ne_bytes(*word)) == 0;
    let (first, rest) = block.split_at(block.len().min(16));
    let (words, last) = rest.as_chunks::<8>();
    is_zero(first) && words.chunks(32).all(has_none) && is_zero(last)
}

#[cfg(test)]
mod tests {
    use super::is_zeros;

    #[test]
    fn a_block_of_zeros_has_no_other_byte_anywhere() {
        let mut block = [0; 1000];
        assert!(is_zeros(&block) && is_zeros(&[]));
        for at in [0, 15, 16, 255, 271, 272, 992, 999] {
            block[at] = 128;
            assert!(!is_zeros(&block), "{at}");
            block[at] = 0;
        }
    }
}
