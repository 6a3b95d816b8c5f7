//! A plain list of things in columns.

use comfy_table::{ContentArrangement, Table, TableComponent, presets};

use super::{GAP, Style, printable};

/// Rows under headings, ending in a newline.
pub fn listing<const COLUMNS: usize>(
    headings: &[&str; COLUMNS],
    rows: &[[String; COLUMNS]],
    style: Style,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─');
    table.set_header(headings).add_rows(rows);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, if index + 1 == COLUMNS { 0 } else { GAP }));
    }
    let gaps = GAP.saturating_mul(u16::try_from(COLUMNS.saturating_sub(1)).unwrap_or(0));
    let widths = table.column_max_content_widths();
    let natural = widths.iter().fold(gaps, |total, width| total.saturating_add(*width));
    if let Some(width) = style.width.filter(|width| natural > *width) {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    printable(&table.trim_fmt()) + "\n"
}
