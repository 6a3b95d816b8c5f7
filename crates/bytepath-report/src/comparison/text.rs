//! A comparison as tables for the terminal, one for each run that is held against the base.

use anstyle::AnsiColor;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent, presets,
};

use super::{
    ArmInRun, ComparedArm, Comparison, absence, difference, line_of, ratio_cells, remarks, words,
};
use crate::arm::Verdict;
use crate::numbers;
use crate::table::{Style, paragraph, printable};

/// Spaces between two columns.
const GAP: u16 = 2;

impl Comparison {
    /// The comparison as tables, ending in a newline.
    pub fn render(&self, style: Style) -> String {
        let mut text =
            paragraph(&format!("{}: {}", self.experiment.name, self.experiment.question), style);
        for (index, run) in self.runs.iter().enumerate() {
            text += &paragraph(&format!("{}  {}", Comparison::letter(index), line_of(run)), style);
        }
        for run in 1..self.runs.len() {
            text.push('\n');
            text += &coloured(&printable(&self.table(run, style)), style);
        }
        text.push('\n');
        text += &match self.differences.is_empty() {
            true => paragraph("The runs tell of the same machine, program and settings.", style),
            false => "These differ:\n".to_owned(),
        };
        for what in &self.differences {
            text += &paragraph(&format!("  {}", difference(what)), style);
        }
        for remark in remarks(self) {
            text += &paragraph(&remark, style);
        }
        text
    }

    fn table(&self, run: usize, style: Style) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING).set_style(TableComponent::HeaderLines, '─');
        let (base, other) = (Comparison::letter(0), Comparison::letter(run));
        let ratio = format!("{other}/{base}");
        let median = |letter: &str| format!("{letter}\nmedian");
        table.set_header([
            "arm",
            "unit",
            &median(&base),
            &median(&other),
            &ratio,
            "interval",
            "verdict",
        ]);
        for arm in &self.arms {
            table.add_row(row(arm, run));
        }
        for (index, column) in table.column_iter_mut().enumerate() {
            column.set_padding((0, if index == 6 { 0 } else { GAP }));
            let figures = (2..=5).contains(&index);
            column.set_cell_alignment(if figures {
                CellAlignment::Right
            } else {
                CellAlignment::Left
            });
        }
        let widths = table.column_max_content_widths();
        let natural = widths.iter().fold(6 * GAP, |total, width| total.saturating_add(*width));
        if let Some(width) = style.width.filter(|width| natural > *width) {
            table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
            for column in table.column_iter_mut().skip(1).take(5) {
                column.set_constraint(ColumnConstraint::ContentWidth);
            }
        }
        table.trim_fmt()
    }
}

fn row(arm: &ComparedArm, run: usize) -> [String; 7] {
    let (base, other) = (arm.runs[0].as_ref(), arm.runs[run].as_ref());
    let median = |of: Option<&ArmInRun>| match of.and_then(|arm| arm.median) {
        Some(median) => numbers::figure(median),
        None => absence(of).to_owned(),
    };
    let [ratio, interval] = ratio_cells(other);
    [
        arm.name.clone(),
        arm.unit.as_str().to_owned(),
        median(base),
        median(other),
        ratio,
        interval,
        other.map_or_else(|| numbers::UNKNOWN.to_owned(), words),
    ]
}

/// Lines that end in a verdict, in its colour.
fn coloured(text: &str, style: Style) -> String {
    let colour = |line: &str| {
        let ends = |verdict: Verdict| line.trim_end().ends_with(verdict.as_str());
        match () {
            () if ends(Verdict::Faster) => Some(AnsiColor::Green),
            () if ends(Verdict::Slower) => Some(AnsiColor::Red),
            () => None,
        }
    };
    let line = |line: &str| match colour(line).filter(|_| style.colour) {
        Some(colour) => {
            let style = anstyle::Style::new().fg_color(Some(colour.into()));
            format!("{style}{line}{style:#}\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}
