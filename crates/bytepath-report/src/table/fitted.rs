//! A table that gives up columns where the terminal is narrow, and says which.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent, Width, presets,
};

use super::{GAP, Style, paragraph, printable};

/// A column of such a table.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The words over it, on one line or more.
    heading: String,
    /// Whether its cells are figures: these stand at the right.
    is_of_figures: bool,
    /// Where the width does not suffice, the column with the lowest figure goes first. Columns
    /// without one always stay.
    importance: Option<u8>,
    /// Before any column goes, cells wrap that are wider than this; without it none does.
    wraps_from: Option<u16>,
}

impl Fitted {
    /// A column of words that always stays, whole.
    pub fn new(heading: impl Into<String>) -> Fitted {
        let heading = heading.into();
        Fitted { heading, is_of_figures: false, importance: None, wraps_from: None }
    }

    /// The column with the lowest importance is the first to go.
    pub fn importance(self, importance: u8) -> Fitted {
        Fitted { importance: Some(importance), ..self }
    }

    /// Its words may wrap, to no fewer columns than this.
    pub fn wraps_from(self, columns: u16) -> Fitted {
        Fitted { wraps_from: Some(columns), ..self }
    }

    /// Its cells are figures.
    pub fn of_figures(self) -> Fitted {
        Fitted { is_of_figures: true, ..self }
    }
}

/// The rows under their headings, ending in a newline; then a line that names what is missing.
pub fn listing(columns: &[Fitted], rows: &[Vec<String>], style: Style) -> String {
    let full = table(columns, &(0..columns.len()).collect::<Vec<_>>(), rows);
    let widths = full.column_max_content_widths();
    let whole = |index: usize| widths[index];
    let least = |index: usize| columns[index].wraps_from.unwrap_or(u16::MAX).min(widths[index]);
    let needed = |shown: &[usize], width: &dyn Fn(usize) -> u16| {
        let gaps = GAP.saturating_mul(shown.len().saturating_sub(1) as u16);
        shown.iter().fold(gaps, |sum, index| sum.saturating_add(width(*index)))
    };
    let width = style.width.unwrap_or(u16::MAX);
    let mut shown: Vec<usize> = (0..columns.len()).collect();
    let mut dropped = Vec::new();
    while needed(&shown, &least) > width {
        let may_go = shown.iter().enumerate().filter(|(_, of)| columns[**of].importance.is_some());
        let Some((place, _)) = may_go.min_by_key(|(_, of)| columns[**of].importance) else { break };
        dropped.push(shown.remove(place));
    }
    // What went before a wide one may have room again without it.
    for at in (0..dropped.len()).rev() {
        let place = shown.partition_point(|index| *index < dropped[at]);
        shown.insert(place, dropped[at]);
        if needed(&shown, &least) <= width {
            dropped.remove(at);
        } else {
            shown.remove(place);
        }
    }
    let mut table = table(columns, &shown, rows);
    if needed(&shown, &whole) > width {
        let narrowest = needed(&shown, &least);
        let of = |width: &dyn Fn(usize) -> u16| shown.iter().map(|index| width(*index)).collect();
        let given = shared(of(&least), &of(&whole), width.saturating_sub(narrowest));
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(narrowest));
        for (column, width) in table.column_iter_mut().zip(given) {
            let width = Width::Fixed(width.saturating_add(column.padding_width()));
            column.set_constraint(ColumnConstraint::Absolute(width));
        }
    }
    let mut text = printable(&table.trim_fmt()) + "\n";
    if !dropped.is_empty() {
        let words = |index: &usize| columns[*index].heading.split_whitespace().collect::<Vec<_>>();
        let names: Vec<_> = dropped.iter().map(|index| words(index).join(" ")).collect();
        text += &paragraph(&format!("too narrow to show: {}", names.join(", ")), style);
    }
    text
}

/// The widths of columns that share this room: the narrowest of those that lack some has it first.
fn shared(mut widths: Vec<u16>, natural: &[u16], room: u16) -> Vec<u16> {
    for _ in 0..room {
        let lacking = widths.iter_mut().zip(natural).filter(|(width, all)| **width < **all);
        let Some((width, _)) = lacking.min_by_key(|(width, _)| **width) else { break };
        *width += 1;
    }
    widths
}

fn table(columns: &[Fitted], shown: &[usize], rows: &[Vec<String>]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─');
    table.set_header(shown.iter().map(|index| &columns[*index].heading));
    table.add_rows(rows.iter().map(|row| shown.iter().map(|index| &row[*index])));
    for (place, (column, index)) in table.column_iter_mut().zip(shown).enumerate() {
        column.set_padding((0, if place + 1 == shown.len() { 0 } else { GAP }));
        column.set_cell_alignment(match columns[*index].is_of_figures {
            true => CellAlignment::Right,
            false => CellAlignment::Left,
        });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_width(width: u16) -> String {
        let columns = [
            Fitted::new("run"),
            Fitted::new("work").importance(2).wraps_from(9),
            Fitted::new("of\nall").importance(1).of_figures(),
        ];
        let row = ["pipes-2026-11-29T23:57:49Z", "one word after another", "12.5"];
        let style = Style { width: Some(width), ..Style::default() };
        listing(&columns, &[row.map(str::to_owned).to_vec()], style)
    }

    #[test]
    fn first_words_wrap_and_then_columns_go_by_importance_and_what_lacks_is_named() {
        for width in 20..80 {
            let text = at_width(width);
            assert!(text.contains("pipes-2026-11-29T23:57:49Z"), "{width}:\n{text}");
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width.max(26)), "{width}:\n{text}");
            let (has_work, has_all) = (text.contains("word"), text.contains("12.5"));
            // The narrow one comes back where the wide one has gone.
            let fit = (width >= 37, (32..37).contains(&width) || width >= 43);
            assert_eq!((has_work, has_all), fit, "{width}:\n{text}");
            let missing = match (has_work, has_all) {
                (true, true) => None,
                (true, false) => Some("too narrow to show: of all"),
                (false, true) => Some("too narrow to show: work"),
                (false, false) => Some("too narrow to show: of all, work"),
            };
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(missing.is_none_or(|missing| text.ends_with(missing)), "{width}:\n{text}");
            assert_eq!(text.contains("too narrow"), missing.is_some(), "{width}:\n{text}");
        }
    }

    #[test]
    fn what_wraps_shares_the_room_and_is_never_narrower_than_it_says() {
        let columns = [
            Fitted::new("addresses"),
            Fitted::new("pages of").importance(1).wraps_from(16),
            Fitted::new("what").wraps_from(12),
        ];
        let rows = [
            ["7f0000000000", "20 KiB in 4 KiB", "x".repeat(40).as_str()].map(str::to_owned),
            ["7f0000000001", "20 MiB in 2 MiB, 4 KiB in 4 KiB", "a heap"].map(str::to_owned),
        ]
        .map(|row| row.to_vec());
        for width in 1..100_u16 {
            let style = Style { width: Some(width), ..Style::default() };
            let text = listing(&columns, &rows, style);
            let of_table = text.lines().take_while(|line| !line.starts_with("too narrow"));
            let widest = of_table.map(|line| line.chars().count()).max().unwrap_or(0);
            // All of a column of 12 and the least of the last one, or of both.
            let (least, has_pages) = if width < 12 + 2 + 16 + 2 + 12 {
                (12 + 2 + 12, false)
            } else {
                (12 + 2 + 16 + 2 + 12, true)
            };
            assert!(widest <= usize::from(width.max(least)), "{width}:\n{text}");
            assert_eq!(text.contains("20 KiB in 4 KiB"), has_pages, "{width}:\n{text}");
            assert!(text.contains(&"x".repeat(12)), "{width}:\n{text}");
            let is_full = width >= 12 + 2 + 31 + 2 + 40 || (!has_pages && width >= 12 + 2 + 40);
            assert!(is_full || widest >= usize::from(width), "room is left at {width}:\n{text}");
        }
    }
}
