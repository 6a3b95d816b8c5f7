//! Text that shares a line with others: how many columns it takes, and nothing in it that would
//! leave the line.

use unicode_width::UnicodeWidthChar;

const ESCAPE: char = '\x1b';

/// Columns of a text; escape sequences take none.
pub(crate) fn columns(text: &str) -> usize {
    let mut letters = text.chars();
    let mut columns = 0;
    while let Some(letter) = letters.next() {
        match letter {
            ESCAPE => pass(&mut letters),
            _ => columns += letter.width().unwrap_or(0),
        }
    }
    columns
}

/// The beginning of a text, at most so many columns of it; its escape sequences are kept, as those
/// behind it may end what those before it began.
pub(crate) fn cut(text: &str, columns_max: usize) -> String {
    let (mut kept, mut taken) = (String::new(), 0);
    let mut letters = text.chars();
    loop {
        let rest = letters.as_str();
        let Some(letter) = letters.next() else { return kept };
        if letter == ESCAPE {
            pass(&mut letters);
            kept.push_str(&rest[..rest.len() - letters.as_str().len()]);
            continue;
        }
        taken += letter.width().unwrap_or(0);
        if taken <= columns_max {
            kept.push(letter);
        }
    }
}

/// Passes over the rest of an escape sequence: up to a letter for one that begins with a bracket,
/// up to its terminator (a bell, or an escape and a backslash) for a string to the terminal, one
/// character for others.
fn pass(letters: &mut std::str::Chars<'_>) {
    let end = match letters.next() {
        Some('[') => letters.find(|letter| ('\x40'..='\x7e').contains(letter)),
        Some(']') => letters.find(|letter| ['\x07', ESCAPE].contains(letter)),
        other => other,
    };
    if end == Some(ESCAPE) {
        letters.next();
    }
}

/// Text of a person's own format: escape sequences are theirs to write, as people did for colours
/// before there was a sequence for them, but it stays one line.
pub(crate) fn one_line(text: &str) -> String {
    let kept = |letter: char| letter == ESCAPE || letter == '\x07' || !letter.is_control();
    text.chars().map(|letter| if kept(letter) { letter } else { ' ' }).collect()
}

/// Text that came from elsewhere, such as the name of a file: nothing in it reaches the terminal
/// as an order.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_letters_take_two_columns_and_escape_sequences_none() {
        let cases = [
            ("", 0),
            ("abc", 3),
            ("éü漢字", 6),
            ("e\u{301}", 1),
            ("\x1b[31;1mred\x1b[m", 3),
            ("\x1b]9;4;1;10\x1b\\|", 1),
            ("\x1b]2;title\x07|", 1),
            ("\x1b", 0),
            ("\x1b[", 0),
        ];
        for (text, expected) in cases {
            assert_eq!(columns(text), expected, "{text:?}");
        }
    }

    #[test]
    fn what_is_cut_keeps_its_escape_sequences() {
        let cases = [
            ("abc", 3, "abc"),
            ("abc", 2, "ab"),
            ("abc", 0, ""),
            ("a漢b", 2, "a"),
            ("a漢b", 3, "a漢"),
            ("\x1b[31mred\x1b[m text", 2, "\x1b[31mre\x1b[m"),
            ("abc\x1b]9;4;0;0\x1b\\", 1, "a\x1b]9;4;0;0\x1b\\"),
        ];
        for (text, columns_max, expected) in cases {
            assert_eq!(cut(text, columns_max), expected, "{text:?}");
        }
    }

    #[test]
    fn a_format_stays_one_line_and_keeps_its_colours() {
        assert_eq!(one_line("a\nb\rc\td\x1b[31me"), "a b c d\x1b[31me");
    }

    #[test]
    fn a_name_gives_the_terminal_no_orders() {
        assert_eq!(plain("a\x1b[2Jb\nü"), "a?[2Jb?ü");
    }
}
