//! Lists as they fit the terminal: facts beside their names, and commands that can still be pasted
//! into a shell where a line of the terminal is too short for them.

use bytepath_report::table::Style;
use textwrap::{Options, WordSeparator, WordSplitter};

/// Where text is wrapped when no width is known, as in the tables.
const COLUMNS: usize = 100;

/// Names of facts take so many columns, with the blanks on both sides.
const NAME_COLUMNS: usize = 15;

/// Where what a command shows stands beside it, and where it stands below.
const BESIDE_COLUMN: usize = 49;
const BELOW_COLUMN: usize = 6;

fn columns(style: Style) -> usize {
    style.width.map_or(COLUMNS, usize::from)
}

/// Each fact on a line of its own, continued below its beginning.
pub(super) fn facts(facts: &[(&str, String)], style: Style) -> String {
    let indent = " ".repeat(NAME_COLUMNS);
    let line = |(name, value): &(&str, String)| {
        let name = format!("  {name:<12} ");
        let options = Options::new(columns(style)).initial_indent(&name).subsequent_indent(&indent);
        textwrap::fill(value, options) + "\n"
    };
    facts.iter().map(line).collect()
}

/// Each command with what it shows beside or below it.
pub(super) fn commands(commands: &[(&str, &str)], style: Style) -> String {
    let widest = commands.iter().map(|(_, shows)| shows.len()).max().unwrap_or(0);
    let roomy = columns(style) >= BESIDE_COLUMN + widest;
    let column = if roomy { BESIDE_COLUMN } else { BELOW_COLUMN };
    let lines = |(command, shows): &(&str, &str)| {
        let command = continued(command, columns(style));
        if roomy && command.len() < BESIDE_COLUMN {
            return format!("{command:<BESIDE_COLUMN$}{shows}\n");
        }
        let indent = " ".repeat(column);
        let options =
            Options::new(columns(style)).initial_indent(&indent).subsequent_indent(&indent);
        format!("{command}\n{}\n", textwrap::fill(shows, options))
    };
    commands.iter().map(lines).collect()
}

/// A command broken between its words, as the shell takes it: with a backslash before each break.
fn continued(command: &str, columns: usize) -> String {
    let options = |columns: usize| {
        Options::new(columns)
            .initial_indent("  ")
            .subsequent_indent("      ")
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
    };
    if command.len() + 2 <= columns {
        return format!("  {command}");
    }
    textwrap::wrap(command, options(columns.saturating_sub(2))).join(" \\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tour::NEXT;

    fn narrow(width: u16) -> Style {
        Style { colour: false, width: Some(width) }
    }

    #[test]
    fn no_line_is_longer_than_the_terminal_is_wide() {
        let said = [("kernel", "Linux 6.18.0, kvm, and more words than one line takes".to_owned())];
        for width in [40, 60, 80, 85, 100, 200] {
            let text = facts(&said, narrow(width)) + &commands(&NEXT, narrow(width));
            for line in text.lines() {
                assert!(line.len() <= usize::from(width), "{width}: {line:?}");
            }
        }
    }

    #[test]
    fn a_command_that_is_broken_is_the_same_to_a_shell() {
        let (command, _) = NEXT[2];
        let broken = continued(command, 40);
        assert!(broken.lines().count() > 2, "{broken}");
        let lines = broken.split("\\\n").map(str::trim);
        assert_eq!(lines.collect::<Vec<_>>().join(" "), command);
    }

    #[test]
    fn what_a_command_shows_stands_beside_it_where_there_is_room() {
        let wide = commands(&NEXT, Style::default());
        assert!(wide.contains("bench pipes                           the whole"), "{wide}");
        let narrow = commands(&NEXT, narrow(60));
        assert!(narrow.contains("bench pipes\n      the whole ladder"), "{narrow}");
    }
}
