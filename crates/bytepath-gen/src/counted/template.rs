//! The template of three hundred lines: which bytes are always the same, and which digit of the
//! number stands in each other place.
//!
//! Of the lines whose numbers have so many digits, every three hundred look alike but for the
//! digits above the tens. A byte of the template is either minus a character, which stands there, or
//! the place of a digit, counted from the hundreds.

use super::Rule;

/// Lines whose numbers share all digits above the tens.
pub(crate) const SEGMENT_LINES: u64 = 100;

/// Segments until the lines look alike again, as 300 is a multiple of 15.
pub(crate) const SEGMENTS: usize = 3;

/// Digits that can change without the template changing.
pub(crate) const DIGITS: usize = 16;

/// The template's beginning once more behind its end, for readers that look ahead.
const AHEAD_BYTES: usize = 128;

/// See the module.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    codes: Vec<i8>,
    /// Where each segment ends.
    ends: [usize; SEGMENTS],
    /// What it was made for.
    key: Key,
}

/// What a template depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) rule: Rule,
    /// How many digits the numbers have, at least 3.
    pub(crate) digits: u32,
    /// The digits beyond those that can change.
    pub(crate) top: u64,
}

impl Key {
    /// Of the segment of this number.
    pub(crate) fn of(rule: Rule, segment: u64) -> Key {
        let digits = segment.ilog10() + 1 + 2;
        let top = segment / 10u64.pow(DIGITS as u32);
        Key { rule, digits, top }
    }
}

impl Template {
    pub(crate) fn new(key: Key) -> Template {
        let mut codes = Vec::new();
        let mut ends = [0; SEGMENTS];
        for (segment, end) in ends.iter_mut().enumerate() {
            for line in 0..SEGMENT_LINES {
                key.line(segment as u64 * SEGMENT_LINES + line, &mut codes);
            }
            *end = codes.len();
        }
        codes.extend_from_within(..AHEAD_BYTES);
        Template { codes, ends, key }
    }

    pub(crate) fn key(&self) -> Key {
        self.key
    }

    pub(crate) fn ends(&self) -> [usize; SEGMENTS] {
        self.ends
    }

    /// Its bytes, and some of its beginning again.
    pub(crate) fn codes(&self) -> &[i8] {
        &self.codes
    }
}

impl Key {
    /// The codes of a line.
    fn line(self, line: u64, codes: &mut Vec<i8>) {
        let mut put = |text: &str| codes.extend(text.bytes().map(|byte| -(byte as i8)));
        match self.rule.word(line) {
            Some(word) => put(word),
            None => {
                let places = self.digits as usize - 2;
                if places > DIGITS {
                    put(&self.top.to_string());
                }
                codes.extend((0..places.min(DIGITS)).rev().map(|place| place as i8));
                codes.extend(format!("{:02}", line % 100).bytes().map(|byte| -(byte as i8)));
            }
        }
        codes.push(-(b'\n' as i8));
    }
}
