//! The number of a line, kept as the characters that are written: counting them on is cheaper than
//! making them anew.

/// Room for every number that 64 bits hold, and the tab.
const ROOM: usize = 21;

/// Where the last digit stands.
const LAST: usize = ROOM - 2;

/// Numbers are padded to this width.
const WIDTH: usize = 6;

/// See the module.
pub(super) struct LineNumber {
    characters: [u8; ROOM],
    first: usize,
}

impl LineNumber {
    pub(super) fn new() -> LineNumber {
        let mut characters = [b' '; ROOM];
        characters[LAST] = b'0';
        characters[LAST + 1] = b'\t';
        LineNumber { characters, first: LAST }
    }

    /// The next number, right-aligned, and a tab.
    pub(super) fn next(&mut self) -> &[u8] {
        let mut at = LAST;
        while self.characters[at] == b'9' {
            self.characters[at] = b'0';
            at -= 1;
        }
        self.characters[at] = match self.characters[at] {
            b' ' => b'1',
            digit => digit + 1,
        };
        self.first = self.first.min(at);
        &self.characters[self.first.min(LAST + 1 - WIDTH)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_what_printf_makes_of_them() {
        let mut number = LineNumber::new();
        for line in 1..=1_234_567 {
            let got = number.next();
            if [1, 9, 10, 99, 100, 999_999, 1_000_000, 1_234_567].contains(&line) {
                assert_eq!(got, format!("{line:6}\t").as_bytes());
            }
        }
    }
}
