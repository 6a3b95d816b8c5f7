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
    let (mut first, mut base, mut digits) = (1u64, 0, 1);
    // Among the lines whose numbers have as many digits.
    let (end, left) = loop {
        let end = first.saturating_mul(10).min(LAST_LINE + 1);
        let bytes = span_bytes(rule, first, end, digits);
        if at < base + bytes || end > LAST_LINE {
            break (end, at - base);
        }
        (first, base, digits) = (end, base + bytes, digits + 1);
    };
    // Every fifteen lines have as many bytes, so the line is nearly known.
    let fifteen = span_bytes(rule, first, first + 15, digits);
    let about = u128::from(first) + left * 15 / fifteen;
    let about = u64::try_from(about).unwrap_or(LAST_LINE);
    let (mut low, mut high) =
        (about.saturating_sub(15).max(first), about.saturating_add(16).min(end));
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if span_bytes(rule, first, middle, digits) <= left {
            low = middle;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_lies_in_its_line() {
        let mut random = fastrand::Rng::with_seed(1);
        let powers = (0..19).map(|power| 10u64.pow(power));
        let near = powers.flat_map(|power| power.saturating_sub(3).max(1)..power + 40);
        let anywhere = (0..20_000).map(|_| random.u64(1..=LAST_LINE) >> random.u32(0..63));
        for line in near.chain(anywhere).map(|line| line.max(1)).chain([LAST_LINE]) {
            for rule in [Rule::Plain, Rule::FizzBuzz] {
                let (first, next) = (bytes_before(rule, line), bytes_before(rule, line + 1));
                let text = rule.word(line).map_or_else(|| line.to_string(), str::to_owned);
                assert_eq!(next - first, text.len() as u128 + 1, "{rule:?} {line}");
                for at in [first, next - 1] {
                    assert_eq!(line_at(rule, at), line, "{rule:?} byte {at}");
                }
            }
        }
    }
}
