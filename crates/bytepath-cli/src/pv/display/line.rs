//! One line: each piece of a format as text, and bars that take what is left of the width.

use super::bar::BarStyle;
use super::finish;
use super::format::{Field, Format, Piece};
use super::numbers::{self, Units};
use super::rate::Rates;
use super::{Buffer, Look, Moment, Way, columns, escapes, sgr};

/// Everything that a line is drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line<'a> {
    pub(crate) look: &'a Look,
    pub(crate) zone: finish::Zone,
    pub(crate) moment: &'a Moment<'a>,
    pub(crate) rates: &'a Rates,
    /// Whether escape sequences may be in it.
    pub(crate) escapes: bool,
}

impl Line<'_> {
    /// The line for so many columns; longer where what it tells needs more.
    pub(crate) fn text(&self, format: &Format, width: usize) -> String {
        let parts: Vec<Option<String>> = format.0.iter().map(|piece| self.fixed(piece)).collect();
        let taken: usize = parts.iter().flatten().map(|part| columns(part)).sum();
        let stretching = parts.iter().filter(|part| part.is_none()).count();
        let each = width.saturating_sub(taken) / stretching.max(1);
        let mut line = String::new();
        for (piece, part) in format.0.iter().zip(parts) {
            line.push_str(&part.unwrap_or_else(|| self.stretched(piece, each)));
        }
        line + self.reset(format)
    }

    /// Back to plain text where the format forgot it, or the next program's words were coloured.
    fn reset(&self, format: &Format) -> &'static str {
        let codes = format.0.iter().rev().find_map(|piece| match piece {
            Piece::Sgr(codes) => codes.last(),
            _ => None,
        });
        let plain = codes.is_none_or(|code| *code == sgr::RESET);
        if plain || !self.colours() { "" } else { "\x1b[m" }
    }

    fn colours(&self) -> bool {
        self.escapes && self.look.terminal.colours
    }

    /// The text of a piece that has a width of its own; `None` for what takes what is left.
    fn fixed(&self, piece: &Piece) -> Option<String> {
        match piece {
            Piece::Text(text) => Some(escapes::one_line(text)),
            Piece::Sgr(codes) if self.colours() => Some(sgr::sequence(codes)),
            Piece::Sgr(_) => Some(String::new()),
            Piece::Field(field, number) => self.field(*field, *number),
        }
    }

    fn stretched(&self, piece: &Piece, width: usize) -> String {
        match piece {
            Piece::Field(field, _) => self.field(*field, Some(width)).unwrap_or_default(),
            _ => String::new(),
        }
    }

    fn field(&self, field: Field, number: Option<usize>) -> Option<String> {
        let moment = self.moment;
        Some(match field {
            Field::Progress => self.progress(number?),
            Field::Bar => self.bar(self.look.style, number?),
            Field::Styled(style) => self.bar(style, number?),
            Field::PreviousLine => self.previous_line(number?),
            Field::Amount => self.amount(),
            Field::ConEmu if self.escapes => self.conemu(),
            Field::ConEmu => String::new(),
            Field::Timer => self.timer(),
            Field::Eta => self.eta(),
            Field::Fineta => self.fineta(),
            Field::Rate => self.rate(self.rates.current(), '[', ']'),
            Field::AverageRate => self.rate(self.rates.average(), '(', ')'),
            Field::Bytes => self.bytes(moment.amount),
            Field::Durable => moment.durable.map_or("-".into(), |bytes| self.bytes(bytes)),
            Field::Ratio => self.ratio(),
            Field::BufferPercent => buffer(moment.buffer),
            Field::LastWritten => self.last_written(number.unwrap_or(0)),
            Field::Name => self.name(number.unwrap_or(NAME_COLUMNS)),
        })
    }

    fn units(&self) -> Units {
        self.look.units
    }

    /// The size, where there is one to compare with.
    fn size(&self) -> Option<u64> {
        self.moment.size.filter(|size| *size > 0)
    }

    /// How far it is, where that is known: 1 is all of it.
    fn part(&self) -> Option<f64> {
        self.size().map(|size| self.moment.amount as f64 / size as f64)
    }

    /// Whole percent, cut, as 99.9 is not all of it.
    fn percent(&self) -> Option<u128> {
        let percent = |size| u128::from(self.moment.amount) * 100 / u128::from(size);
        self.size().map(|size| percent(size).min(PERCENT_MAX.into()))
    }

    /// The nearest whole percent, which is what programs are told.
    fn nearest_percent(&self) -> Option<String> {
        self.part().map(|part| format!("{:.0}", (part * 100.0).min(PERCENT_MAX.into())))
    }

    /// The bar in brackets and what stands behind it; nothing where that does not fit.
    fn progress(&self, width: usize) -> String {
        let behind = match self.percent() {
            Some(percent) => format!(" {percent:3}%"),
            None if self.look.gauge => format!("/{}", self.highest_rate()),
            None => String::new(),
        };
        let inside = width.checked_sub(columns(&behind) + "[]".len());
        let bar = inside.and_then(|inside| self.inside(self.look.style, inside));
        bar.map(|bar| format!("[{bar}]{behind}")).unwrap_or_default()
    }

    fn bar(&self, style: BarStyle, width: usize) -> String {
        self.inside(style, width).unwrap_or_default()
    }

    fn inside(&self, style: BarStyle, width: usize) -> Option<String> {
        let style = if self.look.terminal.utf8 { style } else { BarStyle::Plain };
        match self.part() {
            Some(part) => Some(style.filled(width, part)),
            None if self.look.gauge => Some(style.filled(width, self.rates.part_of_highest())),
            None => style.marked(width, f64::from(self.rates.marker_place()) / 100.0),
        }
    }

    /// The percentage; without one, the highest rate of a gauge. Numbers always have a number.
    fn amount(&self) -> String {
        if self.look.numeric {
            return self.nearest_percent().unwrap_or_else(|| self.rates.marker().to_string());
        }
        match self.percent() {
            Some(percent) => format!("{percent:3}%"),
            None if self.look.gauge => self.highest_rate(),
            None => String::new(),
        }
    }

    fn highest_rate(&self) -> String {
        self.units().text(self.rates.highest()) + "/s"
    }

    /// State 1 is a percentage, state 3 a marker. With a gauge the original has the marker's place
    /// for the percentage; here it is the gauge's.
    fn conemu(&self) -> String {
        let (state, percent) = match self.nearest_percent() {
            Some(percent) => (1, percent),
            None if self.look.gauge => (1, format!("{:.0}", self.rates.part_of_highest() * 100.0)),
            None => (3, self.rates.marker_place().to_string()),
        };
        format!("\x1b]9;4;{state};{percent}\x1b\\")
    }

    fn timer(&self) -> String {
        let elapsed = self.moment.elapsed;
        if self.look.numeric {
            return format!("{:.4}", elapsed.as_secs_f64());
        }
        numbers::clock(elapsed.as_secs())
    }

    fn seconds_left(&self) -> Option<u64> {
        let recent = self.rates.recent();
        self.size().map(|size| finish::seconds_left(self.moment.amount, size, recent))
    }

    /// At the end the place stays empty, so that what stands behind it does not move.
    fn eta(&self) -> String {
        let Some(seconds) = self.seconds_left() else { return String::new() };
        let eta = format!("ETA {}", numbers::clock(seconds));
        if self.moment.last { " ".repeat(eta.len()) } else { eta }
    }

    fn fineta(&self) -> String {
        let Some(seconds) = self.seconds_left() else { return String::new() };
        format!("FIN {}", finish::wall(self.moment.now, seconds, self.zone))
    }

    fn rate(&self, rate: f64, open: char, close: char) -> String {
        if self.look.numeric {
            return format!("{:.4}", self.units().count(rate));
        }
        format!("{open}{}/s{close}", self.units().text(rate))
    }

    fn bytes(&self, bytes: u64) -> String {
        if self.look.numeric {
            return self.units().whole(bytes).to_string();
        }
        self.units().text(bytes as f64)
    }

    /// What the other side has to each of this one, with 1 for the smaller.
    fn ratio(&self) -> String {
        let other = self.moment.other_side.filter(|other| *other > 0);
        match (other, self.moment.amount) {
            (None, _) | (_, 0) => "-:-".into(),
            (Some(other), this) if other < this => {
                format!("1:{}", numbers::four_digits(this as f64 / other as f64))
            }
            (Some(other), this) => {
                format!("{}:1", numbers::four_digits(other as f64 / this as f64))
            }
        }
    }

    /// The last bytes as text, from the right; dots for what is none, and where none are at hand.
    fn last_written(&self, bytes: usize) -> String {
        let written = self.moment.last_written;
        let last = &written[written.len().saturating_sub(bytes)..];
        let dot = |byte: &u8| if (0x20..0x7f).contains(byte) { char::from(*byte) } else { '.' };
        let text: String = last.iter().map(dot).collect();
        ".".repeat(bytes - last.len()) + &text
    }

    /// The beginning of the line, in exactly so many columns.
    fn previous_line(&self, width: usize) -> String {
        let line = String::from_utf8_lossy(self.moment.previous_line);
        let utf8 = self.look.terminal.utf8;
        let shown = |letter: char| match letter {
            _ if letter.is_control() || !(utf8 || letter.is_ascii()) => ' ',
            _ => letter,
        };
        let mut text = String::new();
        let mut taken = 0;
        for letter in line.chars().map(shown) {
            let wide = columns(letter.encode_utf8(&mut [0; 4]));
            if taken + wide > width {
                break;
            }
            taken += wide;
            text.push(letter);
        }
        text + &" ".repeat(width - taken)
    }

    fn name(&self, width: usize) -> String {
        let Some(name) = self.moment.name else { return String::new() };
        let name = escapes::plain(name);
        " ".repeat(width.saturating_sub(columns(&name))) + &name + ":"
    }
}

/// A size so wrong says nothing any more, and its percentage must not push the rest away.
const PERCENT_MAX: u32 = 100_000;

/// Names of a pipeline's parts stand below each other when none is longer.
const NAME_COLUMNS: usize = 9;

fn buffer(buffer: Buffer) -> String {
    match buffer {
        Buffer::Filled { used_bytes, capacity_bytes } => {
            let percent = u128::from(used_bytes) * 100 / u128::from(capacity_bytes.max(1));
            format!("{{{percent:3}%}}")
        }
        Buffer::Unused(Way::Splice) => "{----}".into(),
        Buffer::Unused(Way::SplicePipe) => "{-||-}".into(),
        Buffer::Unused(Way::CopyFileRange) => "{--->}".into(),
    }
}
