//! Lines that count: one number after the other, as they are or by the rules of FizzBuzz.
//!
//! Lines of small numbers are written one by one. From 1000 on they are filled in from a template
//! (see `template`), by the widest registers that the processor has (see `sys::filling`).

mod offsets;
pub(crate) mod template;

use std::io::Write as _;

use crate::Generator;
use crate::sys::filling::{self, Digits, Place};
use offsets::{LAST_LINE, bytes_before, line_at};
use template::{Key, SEGMENT_LINES, SEGMENTS, Template};

/// What stands in a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The number.
    Plain,
    /// "Fizz" in place of multiples of 3, "Buzz" of 5, "FizzBuzz" of both, else the number.
    FizzBuzz,
}

impl Rule {
    /// What stands in place of this number.
    fn word(self, number: u64) -> Option<&'static str> {
        match (self, number.is_multiple_of(3), number.is_multiple_of(5)) {
            (Rule::Plain, ..) | (_, false, false) => None,
            (_, true, false) => Some("Fizz"),
            (_, false, true) => Some("Buzz"),
            (_, true, true) => Some("FizzBuzz"),
        }
    }
}

/// Numbers below have lines that are written one by one.
const SMALL: u64 = 1000;

/// See the module.
#[derive(Debug, Clone)]
pub struct Counted {
    rule: Rule,
    /// Bytes of all lines before the first of this stream.
    before: u128,
    /// How many bytes the stream has.
    bytes: u128,
    /// Where it stands, if it was ever filled.
    standing: Option<Standing>,
}

/// A place among large numbers.
#[derive(Debug, Clone)]
struct Standing {
    /// The next byte, counted from the line of 1.
    at: u128,
    /// Where the digits end that can be counted up by adding to them.
    until: u128,
    template: Template,
    place: Place,
}

/// Lines that cannot be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutOfRange;

impl std::fmt::Display for OutOfRange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "lines are numbered from 1 to {LAST_LINE} (2^63)")
    }
}

impl std::error::Error for OutOfRange {}

impl Counted {
    /// The lines from number `from` on: `lines` of them, or up to 2^63.
    ///
    /// # Errors
    /// They begin before 1, or would go beyond 2^63.
    pub fn new(rule: Rule, from: u64, lines: Option<u64>) -> Result<Counted, OutOfRange> {
        if !(1..=LAST_LINE).contains(&from) {
            return Err(OutOfRange);
        }
        let end = match lines {
            None => LAST_LINE + 1,
            Some(lines) => {
                from.checked_add(lines).filter(|end| *end <= LAST_LINE + 1).ok_or(OutOfRange)?
            }
        };
        let before = bytes_before(rule, from);
        let bytes = bytes_before(rule, end) - before;
        Ok(Counted { rule, before, bytes, standing: None })
    }

    /// Fills with lines of numbers below [`SMALL`]; how many bytes that were.
    fn fill_small(&self, at: u128, into: &mut [u8]) -> usize {
        let first = line_at(self.rule, at);
        let skip = (at - bytes_before(self.rule, first)) as usize;
        let mut text = Vec::new();
        for number in first..SMALL {
            match self.rule.word(number) {
                Some(word) => text.extend_from_slice(word.as_bytes()),
                None => write!(text, "{number}").expect("memory takes it"),
            }
            text.push(b'\n');
            if text.len() - skip >= into.len() {
                break;
            }
        }
        let count = into.len().min(text.len() - skip);
        into[..count].copy_from_slice(&text[skip..skip + count]);
        count
    }

    /// Stands at a byte among large numbers.
    fn stand(&mut self, at: u128) -> &mut Standing {
        if !self.standing.as_ref().is_some_and(|standing| standing.at == at && at < standing.until)
        {
            let old = self.standing.take();
            self.standing = Some(Standing::new(self.rule, at, old));
        }
        self.standing.as_mut().expect("it stands there now")
    }
}

impl Standing {
    fn new(rule: Rule, at: u128, old: Option<Standing>) -> Standing {
        let segment = line_at(rule, at) / SEGMENT_LINES;
        let key = Key::of(rule, segment);
        let template = old
            .map(|old| old.template)
            .filter(|template| template.key() == key)
            .unwrap_or_else(|| Template::new(key));
        let in_cycle = (segment % SEGMENTS as u64) as usize;
        let begins = if in_cycle == 0 { 0 } else { template.ends()[in_cycle - 1] };
        let skip = at - bytes_before(rule, segment * SEGMENT_LINES);
        let place =
            Place { segment: in_cycle, at: begins + skip as usize, digits: Digits::of(segment) };
        // Where numbers get one more digit, or the digits that are counted up begin again.
        let (decade, round) = (10u64.checked_pow(key.digits), 10u64.pow(Digits::COUNTED + 2));
        let round = (segment * SEGMENT_LINES / round + 1).checked_mul(round);
        let until = [decade, round].into_iter().flatten().fold(LAST_LINE + 1, u64::min);
        Standing { at, until: bytes_before(rule, until), template, place }
    }
}

impl Generator for Counted {
    fn bytes(&self) -> Option<u128> {
        Some(self.bytes)
    }

    fn fill(&mut self, offset: u128, mut into: &mut [u8]) -> usize {
        let left = self.bytes.saturating_sub(offset);
        let all = usize::try_from(left).map_or(into.len(), |left| into.len().min(left));
        into = &mut into[..all];
        let mut at = self.before + offset;
        let large = bytes_before(self.rule, SMALL);
        while !into.is_empty() {
            let count = if at < large {
                self.fill_small(at, into)
            } else {
                let standing = self.stand(at);
                let most = usize::try_from(standing.until - at).unwrap_or(usize::MAX);
                let count = into.len().min(most);
                filling::fill(&standing.template, &mut standing.place, &mut into[..count]);
                standing.at += count as u128;
                count
            };
            at += count as u128;
            into = &mut into[count..];
        }
        all
    }

    fn another(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines as anybody would write them.
    fn plainly(rule: Rule, from: u64, lines: u64) -> Vec<u8> {
        let mut text = Vec::new();
        for number in from..from + lines {
            let line = match rule {
                Rule::FizzBuzz if number % 15 == 0 => "FizzBuzz".to_owned(),
                Rule::FizzBuzz if number % 3 == 0 => "Fizz".to_owned(),
                Rule::FizzBuzz if number % 5 == 0 => "Buzz".to_owned(),
                _ => number.to_string(),
            };
            text.extend_from_slice(line.as_bytes());
            text.push(b'\n');
        }
        text
    }

    fn filled(stream: &mut Counted, mut offset: u128, piece_bytes: usize) -> Vec<u8> {
        let (mut all, mut piece) = (Vec::new(), vec![0xee; piece_bytes]);
        loop {
            let count = stream.fill(offset, &mut piece);
            all.extend_from_slice(&piece[..count]);
            offset += count as u128;
            if count < piece.len() {
                return all;
            }
        }
    }

    /// Where anything changes: digits that are added or carried, templates, the end.
    fn places() -> Vec<u64> {
        let mut places = vec![1, LAST_LINE - 3499, 8_999_999_999_999_999_000];
        for power in 2..19 {
            let power = 10u64.pow(power);
            places
                .extend([power, 3 * power, 7 * power].map(|line| line.saturating_sub(1700).max(1)));
        }
        places
    }

    #[test]
    fn lines_are_those_of_a_plain_loop_wherever_digits_change() {
        for rule in [Rule::Plain, Rule::FizzBuzz] {
            for from in places() {
                let mut stream = Counted::new(rule, from, Some(3500)).expect("such lines");
                let expected = plainly(rule, from, 3500);
                assert_eq!(stream.bytes(), Some(expected.len() as u128), "{rule:?} from {from}");
                for piece_bytes in [1 << 20, 4096, 1001, 65, 32, 31] {
                    let found = filled(&mut stream, 0, piece_bytes);
                    let at = found.iter().zip(&expected).position(|(one, other)| one != other);
                    assert_eq!((at, found.len()), (None, expected.len()), "{rule:?} from {from}");
                }
            }
        }
    }

    #[test]
    fn a_stream_is_the_same_from_any_byte_on() {
        let mut random = fastrand::Rng::with_seed(2);
        for rule in [Rule::Plain, Rule::FizzBuzz] {
            for from in places() {
                let expected = plainly(rule, from, 700);
                let mut stream = Counted::new(rule, from, Some(700)).expect("such lines");
                for _ in 0..50 {
                    let at = random.usize(..expected.len());
                    let mut piece = vec![0; random.usize(..expected.len() - at + 10)];
                    let count = stream.fill(at as u128, &mut piece);
                    assert_eq!(count, piece.len().min(expected.len() - at));
                    assert!(
                        piece[..count] == expected[at..at + count],
                        "{rule:?} from {from} at {at}"
                    );
                }
            }
        }
    }

    #[test]
    fn unaligned_memory_is_filled_no_further_than_it_goes() {
        let expected = plainly(Rule::FizzBuzz, 999_900, 900);
        let mut stream = Counted::new(Rule::FizzBuzz, 999_900, None).expect("such lines");
        for start in 0..40 {
            for len in [0, 1, 30, 31, 32, 33, 63, 64, 65, 3000] {
                let mut memory = vec![0xee; 4096];
                stream.fill(0, &mut memory[start..start + len]);
                assert!(memory[start..start + len] == expected[..len], "{len} from {start}");
                let untouched = memory[..start].iter().chain(&memory[start + len..]);
                assert!(untouched.copied().all(|byte| byte == 0xee), "{len} from {start}");
            }
        }
    }

    #[test]
    fn lines_before_1_and_beyond_the_last_are_refused() {
        assert!(Counted::new(Rule::Plain, 0, None).is_err());
        assert!(Counted::new(Rule::Plain, LAST_LINE + 1, None).is_err());
        assert!(Counted::new(Rule::Plain, LAST_LINE, Some(2)).is_err());
        let mut last = Counted::new(Rule::Plain, LAST_LINE, None).expect("the last line");
        assert_eq!(filled(&mut last, 0, 64), b"9223372036854775808\n");
        assert_eq!(Counted::new(Rule::Plain, 1, Some(0)).expect("none").bytes(), Some(0));
    }
}
