//! Format strings: pv's sequences, each with a letter, a name, or both.

use super::bar::BarStyle;
use super::sgr;
use super::{COLUMNS_MAX, WrongDisplay};

/// A format string, taken apart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Format(pub(crate) Vec<Piece>);

/// A part of a line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Piece {
    /// As it is written.
    Text(String),
    /// Codes for colours and the like.
    Sgr(Vec<u8>),
    /// What is told about the transfer.
    Field(Field, Option<usize>),
}

/// What can be told about a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Field {
    /// The bar in brackets, and the percentage behind it.
    Progress,
    /// The bar alone, in the style that was asked for.
    Bar,
    /// The bar alone, in this style.
    Styled(BarStyle),
    /// The percentage alone.
    Amount,
    /// The percentage as an escape sequence, for the terminal's tab.
    ConEmu,
    Timer,
    Eta,
    Fineta,
    Rate,
    AverageRate,
    Bytes,
    /// Bytes that are known to be on the disk.
    Durable,
    Ratio,
    BufferPercent,
    LastWritten,
    PreviousLine,
    Name,
}

/// Every sequence, as it is written behind the percent sign.
pub(crate) const SEQUENCES: &[(&str, Field)] = &[
    ("p", Field::Progress),
    ("{progress}", Field::Progress),
    ("{progress-bar-only}", Field::Bar),
    ("{progress-amount-only}", Field::Amount),
    ("{progress-conemu}", Field::ConEmu),
    ("{bar-plain}", Field::Styled(BarStyle::Plain)),
    ("{bar-block}", Field::Styled(BarStyle::Block)),
    ("{bar-granular}", Field::Styled(BarStyle::Granular)),
    ("{bar-shaded}", Field::Styled(BarStyle::Shaded)),
    ("t", Field::Timer),
    ("{timer}", Field::Timer),
    ("e", Field::Eta),
    ("{eta}", Field::Eta),
    ("I", Field::Fineta),
    ("{fineta}", Field::Fineta),
    ("r", Field::Rate),
    ("{rate}", Field::Rate),
    ("a", Field::AverageRate),
    ("{average-rate}", Field::AverageRate),
    ("b", Field::Bytes),
    ("{bytes}", Field::Bytes),
    ("{transferred}", Field::Bytes),
    ("{durable}", Field::Durable),
    ("{ratio}", Field::Ratio),
    ("T", Field::BufferPercent),
    ("{buffer-percent}", Field::BufferPercent),
    ("A", Field::LastWritten),
    ("{last-written}", Field::LastWritten),
    ("L", Field::PreviousLine),
    ("{previous-line}", Field::PreviousLine),
    ("N", Field::Name),
    ("{name}", Field::Name),
];

impl Format {
    /// Takes a format string apart. What is no sequence stays as it is written.
    ///
    /// # Errors
    /// A width that no terminal has.
    pub(crate) fn read(text: &str) -> Result<Self, WrongDisplay> {
        let mut format = Self::default();
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            format.text(&rest[..at]);
            let sequence = &rest[at + 1..];
            let taken = format.sequence(sequence)?;
            if taken == 0 {
                format.text("%");
            }
            rest = &sequence[taken..];
        }
        format.text(rest);
        Ok(format)
    }

    /// Takes one sequence from the beginning; 0 where there is none.
    fn sequence(&mut self, text: &str) -> Result<usize, WrongDisplay> {
        if text.starts_with('%') {
            self.text("%");
            return Ok(1);
        }
        if let Some(codes) = text.strip_prefix("{sgr:") {
            let Some(end) = codes.find('}') else { return Ok(0) };
            self.sgr(&codes[..end]);
            return Ok("{sgr:".len() + end + 1);
        }
        let name = text.trim_start_matches(|letter: char| letter.is_ascii_digit());
        let digits = &text[..text.len() - name.len()];
        let found = SEQUENCES.iter().find(|(sequence, _)| name.starts_with(sequence));
        let Some((sequence, field)) = found else { return Ok(0) };
        self.0.push(Piece::Field(*field, number(digits)?));
        Ok(digits.len() + sequence.len())
    }

    fn text(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        match self.0.last_mut() {
            Some(Piece::Text(before)) => before.push_str(text),
            _ => self.0.push(Piece::Text(text.into())),
        }
    }

    fn sgr(&mut self, names: &str) {
        let codes: Vec<u8> = names.split(',').filter_map(sgr::code).collect();
        if !codes.is_empty() {
            self.0.push(Piece::Sgr(codes));
        }
    }

    /// Fields with a space between two of them.
    pub(crate) fn spaced(fields: impl Iterator<Item = (Field, Option<usize>)>) -> Self {
        let mut format = Self::default();
        for (field, number) in fields {
            if !format.0.is_empty() {
                format.text(" ");
            }
            format.0.push(Piece::Field(field, number));
        }
        format
    }

    /// With the name before it, unless it tells that.
    pub(crate) fn named(mut self) -> Self {
        if !self.has(Field::Name) {
            let before = [Piece::Field(Field::Name, None), Piece::Text(" ".into())];
            self.0.splice(..0, before);
        }
        self
    }

    /// Whether it tells this.
    pub(crate) fn has(&self, wanted: Field) -> bool {
        self.0.iter().any(|piece| matches!(piece, Piece::Field(field, _) if *field == wanted))
    }
}

/// The number before a sequence; 0 is none.
fn number(digits: &str) -> Result<Option<usize>, WrongDisplay> {
    if digits.is_empty() {
        return Ok(None);
    }
    match digits.parse() {
        Ok(0) => Ok(None),
        Ok(number) if number <= COLUMNS_MAX => Ok(Some(number)),
        _ => Err(WrongDisplay(format!("-F: %{digits}: more than {COLUMNS_MAX} columns"))),
    }
}

#[cfg(test)]
mod tests {
    use clap::Args;

    use super::*;

    fn pieces(text: &str) -> Vec<Piece> {
        Format::read(text).expect("a format").0
    }

    fn text(text: &str) -> Piece {
        Piece::Text(text.into())
    }

    #[test]
    fn sequences_have_letters_names_and_numbers() {
        let expected = vec![
            Piece::Field(Field::Bytes, None),
            text(" "),
            Piece::Field(Field::Progress, Some(20)),
            Piece::Field(Field::Styled(BarStyle::Shaded), Some(7)),
            text("|"),
            Piece::Field(Field::LastWritten, Some(3)),
            text("%"),
            Piece::Field(Field::Name, None),
        ];
        assert_eq!(pieces("%b %20{progress}%7{bar-shaded}|%3A%%%0N"), expected);
    }

    #[test]
    fn what_is_no_sequence_stays_as_it_is_written() {
        for other in ["%", "x %5", "%3%|", "%z", "%{nope}", "%{bytes", "%-5p", "%{sgr:red", "100"] {
            assert_eq!(pieces(other), [text(other)], "{other}");
        }
    }

    #[test]
    fn colours_that_nobody_knows_are_left_out() {
        assert_eq!(pieces("%{sgr:red,foo,,bold}"), [Piece::Sgr(vec![31, 1])]);
        assert_eq!(pieces("%{sgr:foo}%{sgr:}"), []);
    }

    #[test]
    fn every_sequence_is_read_as_itself() {
        for (sequence, field) in SEQUENCES {
            assert_eq!(pieces(&format!("%{sequence}")), [Piece::Field(*field, None)]);
        }
    }

    #[test]
    fn every_sequence_is_in_the_help() {
        let command = super::super::DisplayOptions::augment_args(clap::Command::new("pv"));
        let format = command.get_arguments().find(|arg| arg.get_id() == "format");
        let help = format.and_then(clap::Arg::get_long_help).expect("a help").to_string();
        for (sequence, _) in SEQUENCES {
            assert!(help.contains(&format!("%{sequence}")), "%{sequence} is not in: {help}");
        }
    }

    #[test]
    fn a_width_that_no_terminal_has_is_refused() {
        assert!(Format::read("%65536p").is_ok());
        for text in ["%65537p", "%99999999999999999999A"] {
            assert!(Format::read(text).is_err(), "{text}");
        }
    }
}
