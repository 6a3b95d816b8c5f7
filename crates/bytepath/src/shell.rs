//! Commands that are told to people, who paste them.

/// A word as a shell takes it. What cannot be seen, or is not copied as it is, is written by
/// escapes (`$'a\tb'`), which bash, zsh and ksh know, and POSIX since 2024.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    if word.chars().any(is_unseen) {
        return format!("$'{}'", word.chars().map(escaped).collect::<String>());
    }
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

/// Whether it is a control character, or turns the direction of what follows. Lines are seen.
fn is_unseen(c: char) -> bool {
    let turns =
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    turns || (c.is_control() && c != '\n')
}

fn escaped(c: char) -> String {
    match c {
        '\'' | '\\' => format!("\\{c}"),
        '\t' => r"\t".to_owned(),
        '\n' => r"\n".to_owned(),
        '\r' => r"\r".to_owned(),
        c if is_unseen(c) => c.to_string().bytes().map(|byte| format!(r"\x{byte:02x}")).collect(),
        c => c.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn words_that_a_shell_would_read_are_quoted() {
        assert_eq!(quoted("/a/b-c.json"), "/a/b-c.json");
        for (word, wanted) in [("", "''"), ("a b", "'a b'"), ("it's", r"'it'\''s'"), ("$a", "'$a'")]
        {
            assert_eq!(quoted(word), wanted);
        }
    }

    #[test]
    fn what_cannot_be_seen_is_escaped_and_read_back_by_a_shell() {
        let cases = [
            ("a\tb", r"$'a\tb'"),
            ("it's\r\n\\", r"$'it\'s\r\n\\'"),
            ("\u{1b}[31mä", r"$'\x1b[31mä'"),
            ("a\u{85}b\u{202e}c", r"$'a\xc2\x85b\xe2\x80\xaec'"),
            ("two\nlines", "'two\nlines'"),
        ];
        for (word, wanted) in cases {
            assert_eq!(quoted(word), wanted);
            let script = format!("printf %s {wanted}");
            match std::process::Command::new("bash").args(["-c", &script]).output() {
                Ok(read) => assert_eq!(String::from_utf8_lossy(&read.stdout), word, "{wanted}"),
                Err(error) => eprintln!("skipped: bash: {error}"),
            }
        }
    }
}
