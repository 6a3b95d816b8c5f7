//! Amounts and times in the few columns that a line has for them.

/// What is counted, and in which steps its prefixes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Units {
    step: Step,
    /// `B`, `b`, or nothing for lines.
    suffix: &'static str,
    /// Eight for bits, else one.
    factor: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Powers of 1024: KiB, MiB.
    Binary,
    /// Powers of 1000: kB, MB.
    Decimal,
}

impl Units {
    /// Lines come in thousands and have no name; bits are only ever bits of bytes.
    pub(crate) fn of(options: &super::DisplayOptions) -> Self {
        let (suffix, factor) = match (options.counts_lines(), options.bits) {
            (true, _) => ("", 1),
            (false, true) => ("b", 8),
            (false, false) => ("B", 1),
        };
        let decimal = options.si || options.counts_lines();
        Self { step: if decimal { Step::Decimal } else { Step::Binary }, suffix, factor }
    }

    /// The name of one of it: `B`, `b`, or nothing.
    pub(crate) fn suffix(self) -> &'static str {
        self.suffix
    }

    /// So many bytes in these units, without prefix.
    pub(crate) fn count(self, bytes: f64) -> f64 {
        bytes * f64::from(self.factor)
    }

    /// The same, exactly.
    pub(crate) fn whole(self, bytes: u64) -> u128 {
        u128::from(bytes) * u128::from(self.factor)
    }

    /// Three digits and a prefix, always in four columns before the prefix: ` 100  B`, `1.18KiB`,
    /// `99.9MB`. Above 99.9 the fraction is cut off, as the columns for it are gone.
    pub(crate) fn text(self, bytes: f64) -> String {
        let (value, prefix) = self.prefixed(self.count(bytes));
        let number = match value.abs() {
            large if large > 99.9 => format!("{:4}", value.trunc()),
            small => format!("{value:.*}", decimals(small)),
        };
        format!("{number}{prefix}{}", self.suffix)
    }

    fn prefixed(self, value: f64) -> (f64, &'static str) {
        let (step, none, large, small): (f64, &str, &[_], &[_]) = match self.step {
            Step::Binary => (1024.0, "  ", &LARGE_BINARY, &SMALL_BINARY),
            Step::Decimal => (1000.0, " ", &LARGE_DECIMAL, &SMALL_DECIMAL),
        };
        if value.abs() < SMALLEST {
            return (0.0, none);
        }
        let mut found = (value, none);
        for prefix in large.iter().take_while(|_| value.abs() >= 1.0) {
            if found.0.abs() < step {
                break;
            }
            found = (found.0 / step, prefix);
        }
        for prefix in small {
            if found.0.abs() >= 1.0 {
                break;
            }
            found = (found.0 * step, prefix);
        }
        found
    }
}

/// What is less stands for nothing at all: no prefix is left for it.
const SMALLEST: f64 = 1e-9;

const LARGE_BINARY: [&str; 8] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "Zi", "Yi"];
const LARGE_DECIMAL: [&str; 8] = ["k", "M", "G", "T", "P", "E", "Z", "Y"];
const SMALL_BINARY: [&str; 3] = ["mi", "ui", "ni"];
const SMALL_DECIMAL: [&str; 3] = ["m", "u", "n"];

/// Places behind the point so that three digits are shown, also where rounding adds one before it.
fn decimals(value: f64) -> usize {
    if value < 9.995 { 2 } else { 1 }
}

/// Hours, minutes and seconds; beyond a day, days before them: `0:00:09`, `24:00:00`, `1:00:00:01`.
pub(crate) fn clock(seconds: u64) -> String {
    let seconds = seconds.min(CLOCK_S_MAX);
    let (minutes, second) = (seconds / 60, seconds % 60);
    let (hours, minute) = (minutes / 60, minutes % 60);
    if seconds > DAY_S {
        format!("{}:{:02}:{minute:02}:{second:02}", hours / 24, hours % 24)
    } else {
        format!("{hours}:{minute:02}:{second:02}")
    }
}

const DAY_S: u64 = 86_400;

/// One second less than a million days: more is a guess gone wrong, and would push the rest of the
/// line away.
const CLOCK_S_MAX: u64 = 1_000_000 * DAY_S - 1;

/// A number in four digits, large ones with an exponent, as C's `%.4g` has it: `1.144`, `1.1e+04`.
pub(crate) fn four_digits(value: f64) -> String {
    if !value.is_finite() || value <= 0.0 {
        return "0".into();
    }
    // Rounded first: 9999.6 has five digits before the point, not four.
    let rounded = format!("{value:.3e}");
    let (digits, exponent) = rounded.split_once('e').unwrap_or((&rounded, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..4).contains(&exponent) {
        let places = usize::try_from(3 - exponent).unwrap_or(0);
        without_zeros(&format!("{value:.places$}")).to_owned()
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{}e{sign}{:02}", without_zeros(digits), exponent.unsigned_abs())
    }
}

fn without_zeros(number: &str) -> &str {
    match number.contains('.') {
        true => number.trim_end_matches('0').trim_end_matches('.'),
        false => number,
    }
}

#[cfg(test)]
mod tests {
    use super::super::DisplayOptions;
    use super::*;

    fn units(options: DisplayOptions) -> Units {
        Units::of(&options)
    }

    fn texts(units: Units, values: &[f64]) -> Vec<String> {
        values.iter().map(|value| units.text(*value)).collect()
    }

    #[test]
    fn bytes_take_seven_columns_up_to_where_the_next_prefix_begins() {
        let values = [0.0, 1.0, 10.0, 99.0, 100.0, 999.0, 1000.0, 1023.0, 1024.0, 1210.0, 5760.0];
        let shown = texts(units(DisplayOptions::default()), &values);
        let expected = [
            "0.00  B", "1.00  B", "10.0  B", "99.0  B", " 100  B", " 999  B", "1000  B", "1023  B",
            "1.00KiB", "1.18KiB", "5.62KiB",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_has_no_column_for_a_fraction_is_cut_not_rounded() {
        let values = [10_188.0, 10_239.0, 102_297.0, 102_298.0, 102_399.0, 102_400.0, 1_048_575.0];
        let shown = texts(units(DisplayOptions::default()), &values);
        let expected =
            ["9.95KiB", "10.0KiB", "99.9KiB", "  99KiB", "  99KiB", " 100KiB", "1023KiB"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn prefixes_reach_beyond_what_can_be_counted() {
        let tib = (1_u64 << 40) as f64;
        let shown = texts(units(DisplayOptions::default()), &[tib, 1024.0 * tib, u64::MAX as f64]);
        assert_eq!(shown, ["1.00TiB", "1.00PiB", "16.0EiB"]);
        let bits = units(DisplayOptions { bits: true, ..Default::default() });
        assert_eq!(texts(bits, &[u64::MAX as f64]), [" 128Eib"]);
    }

    #[test]
    fn si_counts_in_thousands_and_bits_are_eight_a_byte() {
        let si = units(DisplayOptions { si: true, ..Default::default() });
        let values = [1.0, 999.0, 1000.0, 1025.0, 102_348.0, 1_047_552.0];
        let expected = ["1.00 B", " 999 B", "1.00kB", "1.02kB", " 102kB", "1.05MB"];
        assert_eq!(texts(si, &values), expected);
        let bits = units(DisplayOptions { bits: true, ..Default::default() });
        assert_eq!(texts(bits, &[10.0, 99.0, 999.0]), ["80.0  b", " 792  b", "7.80Kib"]);
        let both = units(DisplayOptions { bits: true, si: true, ..Default::default() });
        assert_eq!(texts(both, &[99.0, 999.0]), [" 792 b", "7.99kb"]);
    }

    #[test]
    fn lines_have_no_unit_and_come_in_thousands() {
        let lines = units(DisplayOptions { null: true, bits: true, ..Default::default() });
        let values = [2.0, 999.0, 1000.0, 99_900.0, 150_000.0, 2_500_000.0];
        let expected = ["2.00 ", " 999 ", "1.00k", "99.9k", " 150k", "2.50M"];
        assert_eq!(texts(lines, &values), expected);
    }

    #[test]
    fn rates_below_one_have_prefixes_of_their_own() {
        let bytes = units(DisplayOptions::default());
        let expected = [" 512miB", " 921miB", "1.02miB", "1.05uiB", "0.00  B"];
        assert_eq!(texts(bytes, &[0.5, 0.9, 0.001, 0.000_001, 1e-30]), expected);
        let si = units(DisplayOptions { si: true, ..Default::default() });
        assert_eq!(texts(si, &[0.9, 0.01, 0.000_001]), [" 900mB", "10.0mB", "1.00uB"]);
    }

    #[test]
    fn going_backwards_is_shown_as_such() {
        let bytes = units(DisplayOptions::default());
        assert_eq!(texts(bytes, &[-5.0, -2048.0]), ["-5.00  B", "-2.00KiB"]);
    }

    #[test]
    fn clocks_show_days_only_beyond_one() {
        let cases = [
            (0, "0:00:00"),
            (59, "0:00:59"),
            (3_600, "1:00:00"),
            (86_399, "23:59:59"),
            (86_400, "24:00:00"),
            (86_401, "1:00:00:01"),
            (90_061, "1:01:01:01"),
            (3_600_000_000, "41666:16:00:00"),
            (u64::MAX, "999999:23:59:59"),
        ];
        for (seconds, text) in cases {
            assert_eq!(clock(seconds), text);
        }
    }

    #[test]
    fn ratios_have_four_digits() {
        let cases = [
            (1.0, "1"),
            (1.1444, "1.144"),
            (12.345, "12.35"),
            (9_999.6, "1e+04"),
            (10_986.0, "1.099e+04"),
            (2.25e6, "2.25e+06"),
            (0.5, "0.5"),
            (0.0, "0"),
        ];
        for (value, text) in cases {
            assert_eq!(four_digits(value), text, "{value}");
        }
    }
}
