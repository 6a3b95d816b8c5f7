//! Values that are one of a few words, abbreviated as GNU's tools allow, and what they say about
//! others.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use crate::quote::locale_quoted;

/// A word, and what it stands for.
pub(crate) type Choice<T> = (&'static str, T);

/// What the word stands for: it, or the beginning of words that all stand for the same.
///
/// # Errors
/// What is wrong with it, and which words there are. `context` is what it is the value of.
pub(crate) fn chosen<T: Copy + PartialEq>(
    context: &str,
    word: &OsStr,
    choices: &[Choice<T>],
) -> Result<T, String> {
    let word = word.as_bytes();
    if let Some((_, exact)) = choices.iter().find(|(name, _)| name.as_bytes() == word) {
        return Ok(*exact);
    }
    let mut begun = choices.iter().filter(|(name, _)| name.as_bytes().starts_with(word));
    let first = begun.next();
    match first {
        Some((_, value)) if begun.all(|(_, other)| other == value) => Ok(*value),
        Some(_) => Err(wrong("ambiguous", context, word, choices)),
        None => Err(wrong("invalid", context, word, choices)),
    }
}

fn wrong<T: PartialEq>(what: &str, context: &str, word: &[u8], choices: &[Choice<T>]) -> String {
    let quoted = |word: &str| locale_quoted(word.as_bytes());
    let (word, context) = (locale_quoted(word), quoted(context));
    let mut text = format!("{what} argument {word} for {context}\nValid arguments are:");
    for (at, (name, value)) in choices.iter().enumerate() {
        // Words that stand for the same share a line.
        let same = at > 0 && choices[at - 1].1 == *value;
        text.push_str(if same { ", " } else { "\n  - " });
        text.push_str(&quoted(name));
    }
    text
}
