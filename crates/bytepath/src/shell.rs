//! Commands that are told to people, who paste them.

/// A word as a shell takes it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=+@%".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
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
}
