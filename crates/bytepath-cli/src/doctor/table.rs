//! Findings as a table: what is poor first, with what to do about it.

use std::io::{self, Write as _};

use bytepath_report::{Diagnosis, Finding, Health};

use crate::streams::stdout;
use crate::style::style;

/// Columns, where nobody tells how many there are.
const WIDTH: usize = 100;
/// Less than this is no table.
const WIDTH_MIN: usize = 50;
/// Where what is said of a finding begins.
const INDENT: &str = "         ";

pub(super) fn print(diagnosis: &Diagnosis) -> io::Result<()> {
    let style = style();
    let width = style.width.map_or(WIDTH, |width| usize::from(width).max(WIDTH_MIN));
    stdout().write_all(text(diagnosis, width, style.colour).as_bytes())
}

fn text(diagnosis: &Diagnosis, width: usize, colour: bool) -> String {
    let mut text = String::new();
    for verdict in [Health::Poor, Health::Unknown, Health::Good] {
        let findings = diagnosis.findings.iter().filter(|finding| finding.verdict == verdict);
        for finding in findings {
            text += &row(finding, width, colour);
        }
    }
    for applied in &diagnosis.applied {
        text += &format!(
            "\nchanged {}: {} was {} and is {}\n  undo: {}\n",
            applied.name, applied.file, applied.from, applied.to, applied.undo
        );
    }
    text + &format!("\n{}\n", summary(diagnosis))
}

fn row(finding: &Finding, width: usize, colour: bool) -> String {
    let Finding { name, verdict, found, why, cost, setting, .. } = finding;
    let word = format!("{:<8}", verdict.name());
    let word = match (colour, verdict) {
        (true, Health::Poor) => format!("\x1b[31m{word}\x1b[0m"),
        (true, Health::Good) => format!("\x1b[32m{word}\x1b[0m"),
        (true, Health::Unknown) => format!("\x1b[33m{word}\x1b[0m"),
        (false, _) => word,
    };
    let head = wrapped(&format!("{name:<20} {found}"), width, &format!("{INDENT}{:21}", ""));
    let mut text = format!("{word} {}\n", head.trim_start());
    if *verdict == Health::Good {
        return text;
    }
    text += &(wrapped(why, width, INDENT) + "\n");
    if let Some(cost) = cost {
        text += &(wrapped(&format!("costs: {cost}"), width, INDENT) + "\n");
    }
    if let Some(setting) = setting {
        // In one line: a command that is cut is not the same when it is pasted.
        text += &format!("{INDENT}set: {setting}\n");
    }
    text
}

/// Lines of no more than the width, all but words that are longer; options are not cut at hyphens.
fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let options = textwrap::Options::new(width)
        .initial_indent(INDENT)
        .subsequent_indent(indent)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .word_separator(textwrap::WordSeparator::AsciiSpace);
    textwrap::fill(text, options)
}

fn summary(diagnosis: &Diagnosis) -> String {
    let count =
        |verdict| diagnosis.findings.iter().filter(|finding| finding.verdict == verdict).count();
    let changeable = diagnosis
        .findings
        .iter()
        .filter(|finding| finding.verdict == Health::Poor && finding.changeable)
        .map(|finding| finding.name.as_str())
        .collect::<Vec<_>>();
    let mut text = format!(
        "{} poor, {} good, {} unknown",
        count(Health::Poor),
        count(Health::Good),
        count(Health::Unknown)
    );
    if !changeable.is_empty() {
        text += &format!("; as root, bytepath doctor --apply {}", changeable.join(" "));
    }
    match &diagnosis.measured {
        Some(when) => text + &format!("; costs as tune measured them {when}"),
        None => {
            text + "; what poor settings cost is not measured, or not as this machine is now: run bytepath tune"
        }
    }
}
