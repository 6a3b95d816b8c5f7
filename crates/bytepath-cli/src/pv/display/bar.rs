//! What fills a bar: how far it is, or a marker that moves to and fro where that is not known.

use std::convert::Infallible;
use std::str::FromStr;

/// What a bar is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum BarStyle {
    /// Equals signs and an arrow head.
    #[default]
    Plain,
    /// Full blocks.
    Block,
    /// Blocks, the last one in steps of an eighth.
    Granular,
    /// Shades on a grey ground, the last one in steps of a third.
    Shaded,
}

impl FromStr for BarStyle {
    type Err = Infallible;

    /// A style that we do not know is plain, as with pv: how a bar looks is no reason to move no
    /// bytes.
    fn from_str(name: &str) -> Result<Self, Infallible> {
        Ok(match name {
            "block" => Self::Block,
            "granular" => Self::Granular,
            "shaded" => Self::Shaded,
            _ => Self::Plain,
        })
    }
}

impl BarStyle {
    /// The inside of a bar, `columns` wide, filled by `part` of 1. What is clearly more than
    /// 1 is full and has no head, so that it can be told from just full.
    pub(crate) fn filled(self, columns: usize, part: f64) -> String {
        match self {
            Self::Plain => arrow(columns, part),
            Self::Block => blocks(columns, part, &[], ' '),
            Self::Granular => blocks(columns, part, &EIGHTHS, ' '),
            Self::Shaded => blocks(columns, part, &SHADES, '░'),
        }
    }

    /// The inside of a bar with the marker at `place` of its way from 0 to 1; nothing where the bar
    /// leaves the marker no room to move.
    pub(crate) fn marked(self, columns: usize, place: f64) -> Option<String> {
        let marker = self.marker();
        let way = columns.checked_sub(marker.chars().count()).filter(|way| *way > 0)?;
        let before = whole(way as f64 * place).min(way);
        let ground = self.ground().to_string();
        Some(ground.repeat(before) + marker + &ground.repeat(way - before))
    }

    fn marker(self) -> &'static str {
        match self {
            Self::Plain => "<=>",
            Self::Block | Self::Granular => "◀▶",
            Self::Shaded => "▒▓▒",
        }
    }

    fn ground(self) -> char {
        if self == Self::Shaded { '░' } else { ' ' }
    }
}

/// From an eighth to seven eighths of a block.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// From a third to two thirds.
const SHADES: [char; 2] = ['▒', '▓'];

/// The head stands where it has come to, so at least in the first column; past the end it is gone.
fn arrow(columns: usize, part: f64) -> String {
    let filled = whole(columns as f64 * part).max(1);
    let mut bar = "=".repeat((filled - 1).min(columns));
    if filled <= columns {
        bar.push('>');
        bar.extend(std::iter::repeat_n(' ', columns - filled));
    }
    bar
}

/// Full blocks, then one that stands for what is left over, then the ground.
fn blocks(columns: usize, part: f64, steps: &[char], ground: char) -> String {
    let exact = columns as f64 * part.clamp(0.0, 1.0);
    let full = whole(exact).min(columns);
    let mut bar = "█".repeat(full);
    let step = whole((exact - full as f64) * (steps.len() + 1) as f64);
    if full < columns {
        bar.push(step.checked_sub(1).and_then(|step| steps.get(step)).copied().unwrap_or(ground));
    }
    bar.extend(std::iter::repeat_n(ground, columns - (full + 1).min(columns)));
    bar
}

/// Cuts the fraction off, but not what binary fractions lack to a whole: 0.29 of 100 is 29.
fn whole(value: f64) -> usize {
    // A conversion that saturates: below nothing is nothing.
    (value + 1e-9) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arrow_has_its_head_where_it_has_come_to() {
        let cases = [
            (0.0, ">              "),
            (0.1, ">              "),
            (0.19, "=>             "),
            (0.28, "===>           "),
            (0.55, "=======>       "),
            (1.0, "==============>"),
            (1.06, "==============>"),
            (1.09, "==============="),
        ];
        for (part, bar) in cases {
            assert_eq!(BarStyle::Plain.filled(15, part), bar, "{part}");
        }
    }

    #[test]
    fn the_last_block_is_in_eighths() {
        let cases = [
            (0.1, "█▌             "),
            (0.19, "██▊            "),
            (0.28, "████▏          "),
            (0.46, "██████▉        "),
            (0.91, "█████████████▋ "),
            (1.0, "███████████████"),
            (7.0, "███████████████"),
        ];
        for (part, bar) in cases {
            assert_eq!(BarStyle::Granular.filled(15, part), bar, "{part}");
        }
    }

    #[test]
    fn the_last_shade_is_in_thirds() {
        let cases = [
            (0.1, "█▒░░░░░░░░░░░░░"),
            (0.19, "██▓░░░░░░░░░░░░"),
            (0.28, "████░░░░░░░░░░░"),
            (0.91, "█████████████▒░"),
            (1.0, "███████████████"),
        ];
        for (part, bar) in cases {
            assert_eq!(BarStyle::Shaded.filled(15, part), bar, "{part}");
        }
    }

    #[test]
    fn blocks_are_full_or_not_there() {
        assert_eq!(BarStyle::Block.filled(2, 0.46), "  ");
        assert_eq!(BarStyle::Block.filled(2, 0.55), "█ ");
        assert_eq!(BarStyle::Block.filled(23, 0.37), "████████               ");
    }

    #[test]
    fn the_narrowest_bars_hold_what_they_can() {
        for style in [BarStyle::Plain, BarStyle::Block, BarStyle::Granular, BarStyle::Shaded] {
            for part in [0.0, 0.5, 1.0, 2.0] {
                assert_eq!(style.filled(0, part), "");
                assert_eq!(style.filled(1, part).chars().count(), 1);
            }
        }
        assert_eq!(BarStyle::Plain.filled(1, 0.1), ">");
    }

    #[test]
    fn a_marker_goes_from_edge_to_edge_and_needs_room_for_it() {
        assert_eq!(BarStyle::Plain.marked(8, 0.18).as_deref(), Some("<=>     "));
        assert_eq!(BarStyle::Plain.marked(8, 0.2).as_deref(), Some(" <=>    "));
        assert_eq!(BarStyle::Plain.marked(8, 1.0).as_deref(), Some("     <=>"));
        assert_eq!(BarStyle::Granular.marked(3, 0.0).as_deref(), Some("◀▶ "));
        assert_eq!(BarStyle::Shaded.marked(5, 0.5).as_deref(), Some("░▒▓▒░"));
        for columns in 0..=3 {
            assert_eq!(BarStyle::Plain.marked(columns, 0.0), None);
        }
    }

    #[test]
    fn a_style_nobody_knows_is_plain() {
        assert_eq!("granular".parse(), Ok(BarStyle::Granular));
        assert_eq!("fancy".parse(), Ok(BarStyle::Plain));
    }
}
