//! A record as Markdown, for issues, mails and wikis: the same words and figures as the page's.

use crate::arm::{Arm, Status};
use crate::doubt::{self, Here};
use crate::record::Record;
use crate::table::{columns, printable};
use crate::{answer, numbers};

/// The record as Markdown, ending in a newline. Whatever a record says stands there as text: it
/// makes no heading, link or HTML.
pub fn render(record: &Record, here: &Here) -> String {
    let experiment = &record.experiment;
    let mut text = format!("## {}\n\n", escaped(&experiment.name));
    for line in [&experiment.question, &experiment.definition] {
        if !line.is_empty() {
            text.push_str(&format!("{}\n\n", escaped(line)));
        }
    }
    for doubt in doubt::of(record, here) {
        text.push_str(&format!("> **{}**: {}\n\n", doubt.kind.word(), escaped(&doubt.text)));
    }
    let answer = answer::of(record);
    text.push_str(&format!("**{}**\n\n", escaped(&answer[0])));
    for sentence in &answer[1..] {
        text.push_str(&format!("- {}\n", escaped(sentence)));
    }
    if answer.len() > 1 {
        text.push('\n');
    }
    text.push_str(&table(record));
    text.push_str(&below(record));
    text
}

fn table(record: &Record) -> String {
    let columns: Vec<_> =
        columns::ALL.iter().filter(|column| column.holds_anything(record)).collect();
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let headings = columns.iter().map(|column| escaped(&(column.heading)(record))).collect();
    let rules = columns.iter().map(|column| if column.is_of_figures() { "---:" } else { "---" });
    let mut text = row(headings) + &row(rules.map(str::to_owned).collect());
    for arm in &record.arms {
        text.push_str(&row(columns.iter().map(|of| escaped(&(of.cell)(record, arm))).collect()));
    }
    text.push('\n');
    text
}

fn below(record: &Record) -> String {
    let mut lines = Vec::new();
    for arm in record.arms.iter().filter(|arm| arm.status == Status::Unavailable) {
        let why = arm.why.as_deref().unwrap_or("the record does not say why");
        lines.push(format!("n/a {}: {why}", arm.name));
    }
    if let Some(control) = &record.control {
        lines.push(format!(
            "A/A control “{}”: {} {}",
            control.arm,
            numbers::ratio(control.ratio),
            numbers::interval(control.ratio_ci95)
        ));
    }
    let moved = |arm: &Arm| arm.median.is_some() && !arm.touched && arm.unit.is_of_bytes();
    if record.arms.iter().any(moved) {
        lines.push("touched no: bytes were moved, but the reader never looked at them".to_owned());
    }
    for arm in &record.arms {
        if let Some(explained) = &arm.explained {
            lines.push(format!("{}: {}", arm.name, explained.sentence));
        }
    }
    if let Some(command) = record.settings.get(crate::page::COMMAND).and_then(|of| of.as_str()) {
        lines.push(format!("again: {command}"));
    }
    let machine = &record.machine;
    let cpu = machine.cpu_model.as_deref().unwrap_or("an unknown CPU");
    lines.push(format!(
        "{} blocks, {}, Linux {}, {cpu}",
        record.blocks, record.started, machine.kernel
    ));
    lines.extend(record.notes.iter().cloned());
    let line = |line: String| format!("- {}\n", escaped(&line));
    lines.into_iter().map(line).collect::<String>() + "\n"
}

/// Text that Markdown takes as it is.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in printable(text).chars() {
        match c {
            '\n' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => {
                safe.push('\\');
                safe.push(c);
            }
            c => safe.push(c),
        }
    }
    safe
}
