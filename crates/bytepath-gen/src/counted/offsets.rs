//! Where a line begins: the bytes before each, in closed form, and back.

use super::Rule;

/// The last line: what a signed 64-bit number counts up to, and one more.
pub(super) const LAST_LINE: u64 = 1 << 63;

/// Bytes of all lines before `line` (1 is the first).
pub(super) fn bytes_before(rule: Rule, line: u64) -> u128 {
    let mut bytes = 0;
    let mut first: u64 = 1;
    let mut digits = 1;
    while first < line {
        let end = first.checked_mul(10).map_or(line, |next| next.min(line));
        bytes += span_bytes(rule, first, end, digits);
        (first, digits) = (end, digits + 1);
    }
    bytes
}

/// Bytes of the lines from `first` up to `end`, which have numbers of so many digits.
fn span_bytes(rule: Rule, first: u64, end: u64, digits: u64) -> u128 {
    let lines = u128::from(end - first);
    let numbered = |each: u128| each * u128::from(digits + 1);
    match rule {
        Rule::Plain => numbered(lines),
        Rule::FizzBuzz => {
            let multiples = |of: u64| u128::from((end - 1) / of - (first - 1) / of);
            let (three, five, both) = (multiples(3), multiples(5), multiples(15));
            // "Fizz" and "Buzz" take five bytes a line, both together nine.
            let words = (three - both) * 5 + (five - both) * 5 + both * 9;
            words + numbered(lines + both - three - five)
        }
    }
}

/// The line that holds byte `at` of all lines: the last that does not begin behind it.
pub(super) fn line_at(rule: Rule, at: u128) -> u64 {
    let (mut low, mut high) = (1, LAST_LINE + 1);
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if bytes_before(rule, middle) <= at {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}
