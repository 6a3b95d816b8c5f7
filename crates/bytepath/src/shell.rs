//! Commands that are told to people, who paste them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

/// A word as a shell takes it. What cannot be seen, is no text, or is not copied as it is, is written by
/// escapes (`$'a\tb'`), which bash, zsh and ksh know, and POSIX since 2024.
pub fn quoted(word: impl AsRef<OsStr>) -> String {
    let bytes = word.as_ref().as_bytes();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains(is_unseen) => {
            // `=ls` is the path of a program to zsh.
            match !text.is_empty() && !text.starts_with('=') && text.chars().all(plain) {
                true => text.to_owned(),
                false => format!("'{}'", text.replace('\'', r"'\''")),
            }
        }
        _ => {
            let escaped = |chunk: std::str::Utf8Chunk<'_>| {
                chunk.valid().chars().map(escaped).collect::<String>()
                    + &hexadecimal(chunk.invalid())
            };
            format!("$'{}'", bytes.utf8_chunks().map(escaped).collect::<String>())
        }
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
        c if is_unseen(c) => hexadecimal(c.to_string().as_bytes()),
        c => c.to_string(),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!(r"\x{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_a_shell_would_read_are_quoted() {
        assert_eq!(quoted("/a/b-c.json"), "/a/b-c.json");
        for (word, wanted) in [
            ("", "''"),
            ("a b", "'a b'"),
            ("it's", r"'it'\''s'"),
            ("$a", "'$a'"),
            ("=ls", "'=ls'"),
            ("a=ls", "a=ls"),
        ] {
            assert_eq!(quoted(word), wanted);
        }
    }

    #[test]
    fn what_cannot_be_seen_or_is_no_text_is_escaped_and_read_back_by_a_shell() {
        let cases: [(&[u8], &str); 6] = [
            (b"a\tb", r"$'a\tb'"),
            (b"it's\r\n\\", r"$'it\'s\r\n\\'"),
            ("\u{1b}[31mä".as_bytes(), r"$'\x1b[31mä'"),
            ("a\u{85}b\u{202e}c".as_bytes(), r"$'a\xc2\x85b\xe2\x80\xaec'"),
            (b"two\nlines", "'two\nlines'"),
            (b"it's \xff\xc3A", r"$'it\'s \xff\xc3A'"),
        ];
        for (word, wanted) in cases {
            assert_eq!(quoted(OsStr::from_bytes(word)), wanted);
            let script = format!("printf %s {wanted}");
            match std::process::Command::new("bash").args(["-c", &script]).output() {
                Ok(read) => assert_eq!(read.stdout, word, "{wanted}"),
                Err(error) => eprintln!("skipped: bash: {error}"),
            }
        }
    }
}
