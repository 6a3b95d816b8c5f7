//! Colours and the like, by pv's names: the codes of ECMA-48's Select Graphic Rendition.

/// The code of a name, or a number as it is; `None` for what is neither.
pub(crate) fn code(name: &str) -> Option<u8> {
    if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
        return name.parse().ok();
    }
    let known = |list: &[(&str, u8)], name: &str| {
        list.iter().find(|(known, _)| *known == name).map(|(_, code)| *code)
    };
    match (name.strip_prefix("bg-"), name.strip_prefix("fg-")) {
        (Some(ground), _) => known(COLOURS, ground).map(|code| code + TO_BACKGROUND),
        (None, Some(colour)) => known(COLOURS, colour),
        // "default" alone would not tell which default.
        (None, None) if name == "default" => None,
        (None, None) => known(COLOURS, name).or_else(|| known(OTHERS, name)),
    }
}

const COLOURS: &[(&str, u8)] = &[
    ("black", 30),
    ("red", 31),
    ("green", 32),
    ("brown", 33),
    ("yellow", 33),
    ("blue", 34),
    ("magenta", 35),
    ("cyan", 36),
    ("white", 37),
    ("default", 39),
];

const TO_BACKGROUND: u8 = 10;

const OTHERS: &[(&str, u8)] = &[
    ("reset", RESET),
    ("none", RESET),
    ("bold", 1),
    ("dim", 2),
    ("italic", 3),
    ("underscore", 4),
    ("underline", 4),
    ("blink", 5),
    ("reverse", 7),
    ("no-bold", 22),
    ("no-dim", 22),
    ("no-italic", 23),
    ("no-underscore", 24),
    ("no-underline", 24),
    ("no-blink", 25),
    ("no-reverse", 27),
];

/// Back to how it was.
pub(crate) const RESET: u8 = 0;

/// What a terminal obeys. Terminals are only sure to take sixteen codes at once.
pub(crate) fn sequence(codes: &[u8]) -> String {
    let part = |codes: &[u8]| {
        let codes: Vec<String> = codes.iter().map(u8::to_string).collect();
        format!("\x1b[{}m", codes.join(";"))
    };
    codes.chunks(16).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_codes() {
        let cases = [
            ("red", Some(31)),
            ("fg-red", Some(31)),
            ("bg-red", Some(41)),
            ("fg-default", Some(39)),
            ("bg-default", Some(49)),
            ("none", Some(0)),
            ("no-underline", Some(24)),
            ("007", Some(7)),
            ("255", Some(255)),
            ("256", None),
            ("RED", None),
            (" red", None),
            ("bg-bold", None),
            ("default", None),
            ("-1", None),
            ("+1", None),
            ("1x", None),
            ("", None),
        ];
        for (name, expected) in cases {
            assert_eq!(code(name), expected, "{name}");
        }
    }

    #[test]
    fn codes_are_told_together_up_to_sixteen() {
        assert_eq!(sequence(&[38, 5, 208]), "\x1b[38;5;208m");
        let many = "\x1b[1;1;1;1;1;1;1;1;1;1;1;1;1;1;1;1m\x1b[1m";
        assert_eq!(sequence(&[1; 17]), many);
    }
}
