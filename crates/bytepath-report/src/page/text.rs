//! Text from a record as a page may show it: whoever made the record wrote it, and it may be anything.

/// Longer names are cut.
pub(super) const NAME_MAX: usize = 160;
/// Longer sentences are cut.
pub(super) const SENTENCE_MAX: usize = 2000;

/// The text as one that can be shown: without control characters and without those that turn the
/// direction of what follows, and no longer than so many characters.
pub(super) fn shown(text: &str, most: usize) -> String {
    let safe = |c: char| if is_harmless(c) { c } else { char::REPLACEMENT_CHARACTER };
    let mut kept: String = text.chars().take(most).map(safe).collect();
    if text.chars().nth(most).is_some() {
        kept.push('…');
    }
    kept
}

fn is_harmless(c: char) -> bool {
    let turns =
        matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}');
    c == '\n' || !(c.is_control() || turns)
}

/// JSON as it may stand in a script element: nothing in it ends the element or begins a comment.
pub(super) fn json_in_script(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '<' => text.push_str("\\u003c"),
            '>' => text.push_str("\\u003e"),
            '&' => text.push_str("\\u0026"),
            '\u{2028}' => text.push_str("\\u2028"),
            '\u{2029}' => text.push_str("\\u2029"),
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mislead_or_is_endless_is_not_shown() {
        assert_eq!(shown("a\u{202e}b\u{7}c\nd", 99), "a\u{fffd}b\u{fffd}c\nd");
        assert_eq!(shown("abcdef", 3), "abc…");
        assert_eq!(shown("abc", 3), "abc");
        assert_eq!(shown("ääää", 2), "ää…");
        // What stands for them takes three bytes each.
        assert_eq!(shown("\u{1}\u{2}\u{3}", 2), "\u{fffd}\u{fffd}…");
    }

    #[test]
    fn json_cannot_end_the_script_that_holds_it() {
        let json = serde_json::to_string("</script><!-- & \u{2028}").expect("a string");
        let embedded = json_in_script(&json);
        assert!(!embedded.contains(['<', '>', '&', '\u{2028}']), "{embedded}");
        let back: String = serde_json::from_str(&embedded).expect("it is still JSON");
        assert_eq!(back, "</script><!-- & \u{2028}");
    }
}
