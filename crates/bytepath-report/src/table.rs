//! A record as a table for the terminal: what was measured, what it means, and what to doubt.
//!
//! The table keeps the record's order and every arm. Where the terminal is narrow, the least
//! important columns go and a line below names them; whatever a missing column would hide and a
//! reader must not miss (the verdicts) moves below the table.

pub(crate) mod columns;
pub(crate) mod figures;
mod fitted;
pub(crate) mod footnotes;
pub(crate) mod latencies;

use anstyle::AnsiColor;
use comfy_table::{ColumnConstraint, ContentArrangement, Row, Table, TableComponent, presets};

use crate::numbers;
use crate::record::{Experiment, Record};
use columns::Column;
pub use fitted::{Fitted, listing};

/// How a table is drawn. The caller knows the terminal; this crate never asks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to use ANSI colours.
    pub colour: bool,
    /// How many columns the terminal has; none draws everything at its natural width.
    pub width: Option<u16>,
}

/// Spaces between two columns.
const GAP: u16 = 2;

/// The record as a table, ending in a newline.
///
/// Arms are never left out: one that could not run is `n/a` in its row, with the reason below. A
/// record that is not trusted says so first, in red where colour is asked for.
pub fn render(record: &Record, style: Style) -> String {
    let shown = Shown::choose(record, style.width);
    let mut text = alarm(record, style);
    for line in heading(record) {
        text.push_str(&paragraph(&line, style));
    }
    text.push('\n');
    text.push_str(&printable(&draw(record, &shown, style)));
    text.push_str("\n\n");
    if let Some(latencies) = latencies::draw(record, style) {
        text.push_str(&latencies);
        text.push('\n');
    }
    if let Some(figures) = figures::draw(record, style) {
        text.push_str(&figures);
        text.push('\n');
    }
    for line in footnotes::all(record, &shown) {
        text.push_str(&paragraph(&line, style));
    }
    text
}

/// What some arms tell in a table of its own.
pub(crate) struct Further {
    /// The words over each column, on one line or more. The first column has the names.
    pub(crate) headings: Vec<String>,
    /// The place of an arm among all, and its cells.
    pub(crate) rows: Vec<(usize, Vec<String>)>,
}

impl Further {
    /// How much a column is worth depends on its place and its heading.
    fn draw(self, importance: &dyn Fn(usize, &str) -> u8, style: Style) -> String {
        let fitted = |(place, heading): (usize, String)| match place {
            0 => Fitted::new(heading).wraps_from(NAME_MIN),
            _ => {
                let importance = importance(place, &heading);
                Fitted::new(heading).of_figures().importance(importance)
            }
        };
        let columns: Vec<_> = self.headings.into_iter().enumerate().map(fitted).collect();
        let rows: Vec<_> = self.rows.into_iter().map(|(_, cells)| cells).collect();
        listing(&columns, &rows, style)
    }
}

/// Which columns a table has, and which it lacks for want of width.
struct Shown {
    columns: Vec<&'static Column>,
    dropped: Vec<&'static Column>,
}

impl Shown {
    /// All columns that hold anything, less those for which the width does not suffice.
    fn choose(record: &Record, width: Option<u16>) -> Shown {
        let filled = columns::ALL.iter().filter(|column| column.holds_anything(record));
        let mut shown = Shown { columns: filled.collect(), dropped: Vec::new() };
        let Some(width) = width else { return shown };
        while natural_width(record, &shown.columns) > width {
            let Some(index) = least_important(&shown.columns) else { break };
            shown.dropped.push(shown.columns.remove(index));
        }
        shown
    }

    fn has(&self, name: &str) -> bool {
        self.columns.iter().any(|column| column.name == name)
    }
}

/// The column to give up next; none when only those remain without which a row says nothing.
fn least_important(columns: &[&Column]) -> Option<usize> {
    let candidates = columns.iter().enumerate().filter(|(_, column)| column.importance.is_some());
    candidates.min_by_key(|(_, column)| column.importance).map(|(index, _)| index)
}

fn natural_width(record: &Record, columns: &[&Column]) -> u16 {
    let widths = table(record, columns).column_max_content_widths();
    let gaps = GAP.saturating_mul(columns.len().saturating_sub(1) as u16);
    widths.iter().fold(gaps, |total, width| total.saturating_add(*width))
}

fn draw(record: &Record, shown: &Shown, style: Style) -> String {
    let mut table = table(record, &shown.columns);
    let natural = natural_width(record, &shown.columns);
    if let Some(width) = style.width.filter(|width| natural > *width) {
        // Nothing is left to drop: the names of the arms wrap, but not letter by letter, and the
        // figures stay whole.
        let name = table.column_max_content_widths()[0];
        let least = natural - name.saturating_sub(NAME_MIN);
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width.max(least));
        for column in table.column_iter_mut().skip(1) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

fn table(record: &Record, columns: &[&Column]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─');
    table.set_header(Row::from(columns.iter().map(|column| (column.heading)(record))));
    let unit = columns::common_unit(record);
    for (index, arm) in record.arms.iter().enumerate() {
        if index > 0 && arm.section != record.arms[index - 1].section {
            table.add_row(Row::from(columns.iter().map(|_| "")));
        }
        table.add_row(Row::from(columns.iter().map(|column| (column.cell)(unit, arm))));
    }
    for (index, drawn) in table.column_iter_mut().enumerate() {
        let last = index + 1 == columns.len();
        drawn.set_padding((0, if last { 0 } else { GAP }));
        drawn.set_cell_alignment(columns[index].alignment);
    }
    table
}

/// So many columns of a name stay beside figures.
pub(crate) const NAME_MIN: u16 = 16;

/// The line that must not be missed: these figures may be wrong.
fn alarm(record: &Record, style: Style) -> String {
    if record.trusted {
        return String::new();
    }
    let why = record.untrusted_why.as_deref().unwrap_or("the record does not say why");
    let text = paragraph(&format!("UNTRUSTED: {why}"), style);
    if !style.colour {
        return text;
    }
    let red = anstyle::Style::new().bold().fg_color(Some(AnsiColor::Red.into()));
    // Line by line: a pager shows colour only up to the end of a line.
    text.lines().map(|line| format!("{red}{line}{red:#}\n")).collect()
}

/// What was asked, how it was answered, and by which machine.
fn heading(record: &Record) -> Vec<String> {
    let Experiment { name, question, definition } = &record.experiment;
    let machine = &record.machine;
    let facts = [
        (!machine.kernel.is_empty()).then(|| format!("Linux {}", machine.kernel)),
        machine.cpu_model.clone(),
        machine.cpus_allowed.as_ref().map(|cpus| format!("CPUs {cpus}")),
        machine.virtualisation.clone(),
    ];
    let mut lines = vec![format!("{name}: {question}"), definition.clone()];
    lines.push(facts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    let blocks = numbers::counted(u64::from(record.blocks), "block");
    lines.push(format!("{blocks}, {}", record.started));
    lines.retain(|line| !line.is_empty());
    lines
}

/// One line of text, wrapped to the width with its continuation indented, and its newline.
pub fn paragraph(text: &str, style: Style) -> String {
    let width = style.width.unwrap_or(PROSE_COLUMNS);
    let options = textwrap::Options::new(usize::from(width)).subsequent_indent("  ");
    format!("{}\n", textwrap::fill(&printable(text), options))
}

/// Where text is wrapped when no width is known.
const PROSE_COLUMNS: u16 = 100;

/// Text from a record without control characters: a file from somewhere else must not be able to
/// command the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() && c != '\n' { char::REPLACEMENT_CHARACTER } else { c })
        .collect()
}
