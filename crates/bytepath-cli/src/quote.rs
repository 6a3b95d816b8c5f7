//! File names in messages, as GNU's tools show them: plain, or quoted such that a shell takes the
//! quoted name for the same file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

/// The name as a message shows it.
pub(crate) fn quoted(name: &OsStr) -> Vec<u8> {
    quoted_in(name.as_bytes(), Charset::of_environment())
}

/// The same as text: what is no character of the locale is escaped.
pub(crate) fn shown(name: impl AsRef<OsStr>) -> String {
    String::from_utf8_lossy(&quoted(name.as_ref())).into_owned()
}

/// The name as it is where all of it can be printed, as the original pv writes it; otherwise quoted.
pub(crate) fn printable(name: impl AsRef<OsStr>) -> String {
    let name = name.as_ref();
    let pieces = pieces(name.as_bytes(), Charset::of_environment());
    match pieces.iter().all(|piece| matches!(piece, Piece::Printed(_))) {
        true => name.to_string_lossy().into_owned(),
        false => shown(name),
    }
}

/// The name as messages show it that quote every name, as those of cp do.
pub(crate) fn always_quoted(name: &OsStr) -> String {
    let quoted = always_quoted_in(name.as_bytes(), Charset::of_environment());
    // What is no character of the locale is escaped.
    String::from_utf8_lossy(&quoted).into_owned()
}

/// A word of the command line that is wrong, or a name, as the locale quotes it.
pub(crate) fn locale_quoted(word: &[u8]) -> String {
    let charset = Charset::of_environment();
    let (open, close) = if charset == Charset::Utf8 { ("‘", "’") } else { ("'", "'") };
    let mut out = Vec::new();
    for piece in pieces(word, charset) {
        match piece {
            Piece::Printed(b"\\") => out.extend_from_slice(b"\\\\"),
            Piece::Printed(b"'") if charset == Charset::Ascii => out.extend_from_slice(b"\\'"),
            Piece::Printed(bytes) => out.extend_from_slice(bytes),
            Piece::Escaped(byte) => escape(byte, &mut out),
        }
    }
    format!("{open}{}{close}", String::from_utf8_lossy(&out))
}

/// What the locale makes of bytes beyond ASCII.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Charset {
    Ascii,
    Utf8,
}

impl Charset {
    /// By the first of the variables that is set when it is first asked for, as setlocale(3) reads them.
    fn of_environment() -> Charset {
        static OF_ENVIRONMENT: OnceLock<Charset> = OnceLock::new();
        *OF_ENVIRONMENT.get_or_init(Charset::of_variables)
    }

    fn of_variables() -> Charset {
        let set = |name: &&str| std::env::var(name).is_ok_and(|value| !value.is_empty());
        let first = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find(|name| set(name));
        let value = first.and_then(|name| std::env::var(name).ok()).unwrap_or_default();
        let value = value.to_ascii_lowercase();
        match value.contains("utf-8") || value.contains("utf8") {
            true => Charset::Utf8,
            false => Charset::Ascii,
        }
    }
}

/// A piece of a name.
#[derive(Clone, Copy)]
enum Piece<'n> {
    /// A character that can be printed.
    Printed(&'n [u8]),
    /// A byte that cannot.
    Escaped(u8),
}

fn quoted_in(name: &[u8], charset: Charset) -> Vec<u8> {
    let pieces = pieces(name, charset);
    let escapes = pieces.iter().any(|piece| matches!(piece, Piece::Escaped(_)));
    if !escapes && !needs_quotes(name) {
        return name.to_vec();
    }
    always_quoted_in(name, charset)
}

fn always_quoted_in(name: &[u8], charset: Charset) -> Vec<u8> {
    let pieces = pieces(name, charset);
    let escapes = pieces.iter().any(|piece| matches!(piece, Piece::Escaped(_)));
    if !escapes && name.contains(&b'\'') && fits_double_quotes(name) {
        return [b"\"", name, b"\""].concat();
    }
    single_quoted(&pieces)
}

fn pieces(name: &[u8], charset: Charset) -> Vec<Piece<'_>> {
    if charset == Charset::Ascii {
        return name.iter().enumerate().map(|(at, _)| ascii(&name[at..=at])).collect();
    }
    let mut pieces = Vec::new();
    for chunk in name.utf8_chunks() {
        for (at, character) in chunk.valid().char_indices() {
            let bytes = &chunk.valid().as_bytes()[at..at + character.len_utf8()];
            match is_printed(character) {
                true => pieces.push(Piece::Printed(bytes)),
                false => pieces.extend(bytes.iter().map(|byte| Piece::Escaped(*byte))),
            }
        }
        pieces.extend(chunk.invalid().iter().map(|byte| Piece::Escaped(*byte)));
    }
    pieces
}

/// Whether a C library prints it: no control, no end of a line or paragraph, no noncharacter.
fn is_printed(character: char) -> bool {
    let is_noncharacter =
        matches!(character, '\u{fdd0}'..='\u{fdef}') || u32::from(character) & 0xfffe == 0xfffe;
    !character.is_control() && !matches!(character, '\u{2028}' | '\u{2029}') && !is_noncharacter
}

fn ascii(byte: &[u8]) -> Piece<'_> {
    match byte[0] {
        b' '..=b'~' => Piece::Printed(byte),
        other => Piece::Escaped(other),
    }
}

/// Whether a shell, or a reader of "name: message", would take the name for something else.
fn needs_quotes(name: &[u8]) -> bool {
    let special = |byte: &u8| b" !\"$&'()*:;<=>?[\\^`|".contains(byte);
    matches!(name, b"" | b"{" | b"}" | [b'#' | b'~', ..]) || name.iter().any(special)
}

/// Whether the name is the same between double quotes. GNU is more careful here than a shell
/// needs, and it is its choice that people know.
fn fits_double_quotes(name: &[u8]) -> bool {
    let inside = |byte: &u8| !b"!\"$&()*;<=>?[\\^`|{}".contains(byte);
    let later = name.iter().skip(1).any(|byte| b"#~".contains(byte));
    name.iter().all(inside) && !later
}

/// Between single quotes, which hold everything but themselves; bytes that cannot be printed go
/// between `$'` and `'`.
fn single_quoted(pieces: &[Piece<'_>]) -> Vec<u8> {
    let mut out = vec![b'\''];
    let mut escaping = false;
    for piece in pieces {
        match *piece {
            Piece::Escaped(byte) => {
                if !escaping {
                    out.extend_from_slice(b"'$'");
                }
                escaping = true;
                escape(byte, &mut out);
            }
            Piece::Printed(bytes) => {
                let between: &[u8] = match (bytes, escaping) {
                    (b"'", _) => b"'\\'",
                    (_, true) => b"''",
                    (_, false) => b"",
                };
                escaping = false;
                out.extend_from_slice(between);
                out.extend_from_slice(bytes);
            }
        }
    }
    out.push(b'\'');
    out
}

fn escape(byte: u8, out: &mut Vec<u8>) {
    let letter = match byte {
        7 => b'a',
        8 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        11 => b'v',
        12 => b'f',
        b'\r' => b'r',
        _ => return out.extend_from_slice(format!("\\{byte:03o}").as_bytes()),
    };
    out.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_quoted_where_a_shell_would_need_it() {
        let cases: &[(&[u8], &[u8])] = &[
            (b"plain-1.txt", b"plain-1.txt"),
            (b"", b"''"),
            (b"a b", b"'a b'"),
            (b"a:b", b"'a:b'"),
            (b"a~", b"a~"),
            (b"~a", b"'~a'"),
            (b"{", b"'{'"),
            (b"{a", b"{a"),
            (b"a'b", b"\"a'b\""),
            (b"a'b$", b"'a'\\''b$'"),
            (b"a\nb", b"'a'$'\\n''b'"),
            (b"\x01", b"''$'\\001'"),
            (b"\xc3\xa9", b"\xc3\xa9"),
            (b"\xc3", b"''$'\\303'"),
            (b"\x92'", b"''$'\\222'\\'''"),
            (b"'\x92'a\x92b", b"''\\'''$'\\222'\\''a'$'\\222''b'"),
            // The end of a line, noncharacters, and a neighbour of theirs.
            (b"\xe2\x80\xa8", b"''$'\\342\\200\\250'"),
            (b"\xef\xbf\xbf", b"''$'\\357\\277\\277'"),
            (b"\xef\xb7\x90", b"''$'\\357\\267\\220'"),
            (b"\xf0\x9f\xbf\xbe", b"''$'\\360\\237\\277\\276'"),
            (b"\xef\xbf\xbd", b"\xef\xbf\xbd"),
        ];
        for (name, wanted) in cases {
            let got = quoted_in(name, Charset::Utf8);
            assert_eq!(got, *wanted, "{}", String::from_utf8_lossy(&got));
        }
        assert_eq!(always_quoted_in(b"plain", Charset::Utf8), b"'plain'");
        assert_eq!(quoted_in(b"\xc3\xa9", Charset::Ascii), b"''$'\\303\\251'");
    }
}
