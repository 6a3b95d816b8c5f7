//! A record as Markdown, for issues, mails and wikis: the same words and figures as the page's.

use crate::arm::{Arm, Status};
use crate::doubt::{self, Here};
use crate::record::Record;
use crate::table::{Further, columns, figures, footnotes, latencies, printable};
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
    text.push_str(&further(record));
    text.push_str(&below(record));
    text
}

fn table(record: &Record) -> String {
    let columns: Vec<_> =
        columns::ALL.iter().filter(|column| column.holds_anything(record)).collect();
    let headings: Vec<_> = columns.iter().map(|column| (column.heading)(record)).collect();
    let unit = columns::common_unit(record);
    let row = |arm: &Arm| columns.iter().map(|of| (of.cell)(unit, arm)).collect();
    let rows = record.arms.iter().map(row).collect();
    drawn(&headings, &|place| columns[place].is_of_figures(), rows)
}

/// Latencies and other figures that some arms have, each in a table of their own.
fn further(record: &Record) -> String {
    let arms: Vec<&Arm> = record.arms.iter().collect();
    let tables = [latencies::further(&arms), figures::further(&arms)];
    let draw = |table: Further| {
        let rows = table.rows.into_iter().map(|(_, cells)| cells).collect();
        drawn(&table.headings, &|place| place > 0, rows)
    };
    tables.into_iter().flatten().map(draw).collect()
}

fn drawn(
    headings: &[String],
    is_of_figures: &dyn Fn(usize) -> bool,
    rows: Vec<Vec<String>>,
) -> String {
    let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let row = |cells: &[String]| line(cells.iter().map(|cell| escaped(cell)).collect());
    let rule = |place| if is_of_figures(place) { "---:" } else { "---" };
    let rules = (0..headings.len()).map(|place| rule(place).to_owned()).collect();
    let rows: String = rows.iter().map(|cells| row(cells)).collect();
    row(headings) + &line(rules) + &rows + "\n"
}

fn below(record: &Record) -> String {
    let mut lines = Vec::new();
    let mut again = String::new();
    for arm in record.arms.iter().filter(|arm| arm.status == Status::Unavailable) {
        let why = arm.why.as_deref().unwrap_or("the record does not say why");
        lines.push(format!("n/a {}: {why}", arm.name));
    }
    if let Some(control) = &record.control {
        lines.push(format!(
            "A/A control “{}”: {} {}",
            control.arm,
            numbers::ratio_within(control.ratio, Some(control.ratio_ci95)),
            numbers::ratio_interval(control.ratio_ci95)
        ));
    }
    let moved = |arm: &Arm| arm.median.is_some() && !arm.touched && arm.unit.is_of_bytes();
    if record.arms.iter().any(moved) {
        lines.push("touched no: bytes were moved, but the reader never looked at them".to_owned());
    }
    lines.extend(footnotes::flagged(record));
    lines.extend(footnotes::published(record.arms.iter()));
    for arm in &record.arms {
        if let Some(explained) = &arm.explained {
            lines.push(format!("{}: {}", arm.name, explained.sentence));
        }
    }
    if let Some(command) = record.settings.get(crate::page::COMMAND).and_then(|of| of.as_str()) {
        again = format!("- again:\n{}", block(command, "  "));
    }
    let machine = &record.machine;
    let facts = [
        Some(numbers::counted(record.blocks.into(), "block")),
        Some(record.started.clone()),
        (!machine.kernel.is_empty()).then(|| format!("Linux {}", machine.kernel)),
        machine.cpu_model.clone(),
    ];
    lines.push(facts.into_iter().flatten().collect::<Vec<_>>().join(", "));
    lines.extend(record.notes.iter().cloned());
    let line = |line: String| format!("- {}\n", escaped(&line));
    lines.into_iter().map(line).collect::<String>() + &again + "\n"
}

/// Text to be copied as it is, in a block of code: there spaces stay, and nothing means anything.
fn block(text: &str, indent: &str) -> String {
    let text = printable(text);
    let marks = text.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(3.max(marks + 1));
    let lines = std::iter::once(fence.as_str()).chain(text.lines()).chain([fence.as_str()]);
    lines.map(|line| format!("{indent}{line}\n")).collect()
}

/// What some renderers make something of in the text that they have made, where a backslash is gone:
/// names of people, and numbers of issues. It is a space without width.
const APART: &str = "&#8203;";

/// Text in which no character means anything to Markdown or HTML, wherever it stands in a line.
pub(crate) fn escaped(text: &str) -> String {
    let text = printable(text).replace('\n', " ");
    let text = text.trim_start();
    let mut safe = String::with_capacity(text.len());
    let list_mark = list_mark(text);
    for (at, c) in text.char_indices() {
        let (before, behind) = (&text[..at], &text[at + c.len_utf8()..]);
        match c {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' | '@' | '$' => {
                safe.push('\\');
                safe.push(c);
                if is_reference(before, c, behind) {
                    safe.push_str(APART);
                }
            }
            // Addresses become links by themselves.
            ':' if behind.starts_with("//") => safe.push_str("\\:"),
            '.' if ends_in_www(before) => safe.push_str("\\."),
            c if list_mark == Some(at) => safe.extend(['\\', c]),
            c => safe.push(c),
        }
    }
    safe
}

/// Where the mark is by which the text would be an entry of a list, or a line across.
fn list_mark(text: &str) -> Option<usize> {
    let behind = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let digits = text.len() - behind.len();
    let marks: &[char] = if digits == 0 { &['-', '+', '='] } else { &['.', ')'] };
    let behind = behind.strip_prefix(marks)?;
    // One that belongs to a figure or a word is none.
    (!behind.starts_with(char::is_alphanumeric)).then_some(digits)
}

/// What is longer is no name of a host.
const HOST_CHARS_MAX: usize = 253;

/// Whether it is `@somebody`, `a@mail.address`, or the number of an issue or of a request.
fn is_reference(before: &str, mark: char, behind: &str) -> bool {
    match mark {
        '@' if before.ends_with(char::is_alphanumeric) => {
            let word = || behind.chars().take(HOST_CHARS_MAX).take_while(|c| !c.is_whitespace());
            word().zip(word().skip(1)).any(|(dot, c)| dot == '.' && c.is_alphanumeric())
        }
        '@' => behind.starts_with(char::is_alphanumeric),
        '#' | '!' => behind.starts_with(|c: char| c.is_ascii_digit()),
        _ => false,
    }
}

fn ends_in_www(before: &str) -> bool {
    let from = before.len().checked_sub(3);
    from.and_then(|from| before.get(from..)).is_some_and(|www| www.eq_ignore_ascii_case("www"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_means_anything() {
        for (text, expected) in [
            ("see https://x.org/a and www.x.org", "see https\\://x.org/a and www\\.x.org"),
            ("WWW.x.org ftp://x", "WWW\\.x.org ftp\\://x"),
            ("@user, thanks", "\\@&#8203;user, thanks"),
            ("a@mail.org (#12, !3)", "a\\@&#8203;mail.org (\\#&#8203;12, \\!&#8203;3)"),
            (
                "read@same-cpu is twice read@free. #1",
                "read\\@same-cpu is twice read\\@free. \\#&#8203;1",
            ),
            ("–", "–"),
            ("- a - b", "\\- a - b"),
            ("--- ", "\\--- "),
            ("    + code", "\\+ code"),
            ("12. of May", "12\\. of May"),
            ("1) one", "1\\) one"),
            ("-0.5 to 1.05 (-3)", "-0.5 to 1.05 (-3)"),
            ("a\n# b\u{1b}[31m", "a \\# b\u{fffd}\\[31m"),
            ("<b>$x$ ~~|`*_\\", "&lt;b&gt;\\$x\\$ \\~\\~\\|\\`\\*\\_\\\\"),
            ("", ""),
        ] {
            assert_eq!(escaped(text), expected, "{text:?}");
        }
    }

    #[test]
    fn of_a_machine_that_is_not_known_nothing_is_told() {
        let mut record = Record { blocks: 3, started: "then".to_owned(), ..Record::default() };
        assert!(render(&record, &Here::default()).contains("- 3 blocks, then\n"));
        record.machine.kernel = "6.18".to_owned();
        record.machine.cpu_model = Some("CPU".to_owned());
        let text = render(&record, &Here::default());
        assert!(text.contains("- 3 blocks, then, Linux 6.18, CPU\n"), "{text}");
    }

    #[test]
    fn a_command_can_be_copied_as_it_is() {
        let mut record = Record::default();
        let command =
            "bytepath bench cmd --arms '*@same-cpu' 'a  b' 'echo ```` #1 <b>'\n'two \\' $'a\\tb'";
        record.settings.insert(crate::page::COMMAND.to_owned(), command.into());
        let text = render(&record, &Here::default());
        let fence = "`````";
        let wanted = command.replace('\n', "\n  ");
        let wanted = format!("- again:\n  {fence}\n  {wanted}\n  {fence}\n\n");
        assert!(text.ends_with(&wanted), "{text}");
    }
}
