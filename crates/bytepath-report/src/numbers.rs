//! Figures as people read them: about three significant digits, never a wall of them.

/// What stands in a table where a figure is unknown.
pub const UNKNOWN: &str = "–";

const THOUSANDS: [&str; 5] = ["", "k", "M", "G", "T"];
const BINARY: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

/// A figure with about three significant digits: `0.830`, `8.51`, `94.2`, `312`, `1234`, `12.3k`,
/// `1.49M`; small ones keep three digits (`0.0123`), and tiny and huge ones take an exponent
/// (`1.23e-5`). Figures that are not finite are `–`.
pub fn figure(value: f64) -> String {
    match value.abs() {
        size if !size.is_finite() => UNKNOWN.to_owned(),
        0.0 => "0".to_owned(),
        size if !(0.000_999_5..999.5e12).contains(&size) => format!("{value:.2e}"),
        size if size < 9_999.5 => format!("{value:.*}", decimals(size)),
        _ => with_suffix(value),
    }
}

/// How many there were: `2`, `955`, `12.3k`; something between whole numbers as any figure.
pub fn count(value: f64) -> String {
    if value.fract() == 0.0 && value.abs() < 9_999.5 { format!("{value}") } else { figure(value) }
}

/// So many of a thing whose plural ends in s: `1 file`, `2 files`.
pub fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// A time in its own unit: `1.25 s`, `500 ms`, `136 µs`, `20.0 ns`.
pub fn time(seconds: f64) -> String {
    let size = seconds.abs();
    let (times, unit) = match size {
        _ if size == 0.0 || size >= 0.9995 => (1.0, "s"),
        _ if size >= 0.9995e-3 => (1e3, "ms"),
        _ if size >= 0.9995e-6 => (1e6, "µs"),
        _ => (1e9, "ns"),
    };
    format!("{} {unit}", figure(seconds * times))
}

/// An interval: `[91.0, 96.3]`.
pub fn interval([low, high]: [f64; 2]) -> String {
    format!("[{}, {}]", figure(low), figure(high))
}

/// A ratio: `1.02x`.
pub fn ratio(value: f64) -> String {
    ratio_within(value, None)
}

/// A ratio that stands beside its interval, as the interval's ends do where it would else lie outside
/// of it: `1.003x` beside `[1.002, 1.005]`, and `1.00x` beside `[0.998, 1.02]`.
pub fn ratio_within(value: f64, interval: Option<[f64; 2]>) -> String {
    format!("{}x", times(value, interval))
}

/// The same as a factor in a sentence: `1.02`.
pub fn times(value: f64, interval: Option<[f64; 2]>) -> String {
    let usual = figure(value);
    let is_outside = |[low, high]: [f64; 2]| {
        usual.parse::<f64>().is_ok_and(|shown| !(low..=high).contains(&shown))
    };
    if interval.is_some_and(is_outside) { near_one(value, Rounded::Nearest) } else { usual }
}

/// The interval of a ratio: `[1.004, 1.048]`. Near 1 it holds all of the interval, and only an end
/// that is 1 reads as 1, so that everybody sees on which side of 1 and of 1 ± 2% an end lies.
pub fn ratio_interval([low, high]: [f64; 2]) -> String {
    format!("[{}, {}]", near_one(low, Rounded::Down), near_one(high, Rounded::Up))
}

/// So near to 1 a ratio has tenths of a percent, as verdicts do.
const NEAR_ONE: f64 = 0.1;
/// The smallest step of a float beside 1 shows in so many decimals.
const DECIMALS_MAX: usize = 16;

/// The logarithms that ends come from leave errors of about 1e-15, which move none by a whole step.
const NOISE: f64 = 1e-12;

/// To which side a figure is rounded.
#[derive(Clone, Copy)]
enum Rounded {
    Down,
    Nearest,
    Up,
}

/// With as many decimals as it takes to tell it from 1.
fn near_one(value: f64, rounded: Rounded) -> String {
    if value == 1.0 || (value - 1.0).abs() >= NEAR_ONE || !value.is_finite() {
        return figure(value);
    }
    let with = |decimals: usize| {
        let nearest = format!("{value:.decimals$}");
        let shown: f64 = nearest.parse().unwrap_or(value);
        let step = 0.1_f64.powi(decimals as i32);
        match rounded {
            Rounded::Down if shown > value + NOISE => format!("{:.decimals$}", shown - step),
            Rounded::Up if shown < value - NOISE => format!("{:.decimals$}", shown + step),
            _ => nearest,
        }
    };
    let reads_as_one = |text: &String| text.parse() == Ok(1.0);
    (3..DECIMALS_MAX).map(with).find(|text| !reads_as_one(text)).unwrap_or(with(DECIMALS_MAX))
}

/// A size in the binary units: `512 B`, `22 KiB`, `1 MiB`, `1.50 GiB`. Whole ones have no decimals.
pub fn bytes(count: u64) -> String {
    let mut unit_bytes = 1_u64;
    let mut unit = 0;
    while unit + 1 < BINARY.len() && rounds_to_next_unit(count, unit_bytes) {
        unit_bytes <<= 10;
        unit += 1;
    }
    let name = BINARY[unit];
    if count.is_multiple_of(unit_bytes) {
        format!("{} {name}", count / unit_bytes)
    } else {
        format!("{} {name}", figure(count as f64 / unit_bytes as f64))
    }
}

/// Whether a count reads as 1024 or more of a unit, so that the next unit says it better. Counts
/// just below are rounded up: 1,048,575 bytes are `1.00 MiB`, not `1024 KiB`.
fn rounds_to_next_unit(count: u64, unit_bytes: u64) -> bool {
    if unit_bytes == 1 { count >= 1024 } else { count as f64 / unit_bytes as f64 >= 1023.5 }
}

/// How many decimals make about three significant digits. The bounds sit where rounding would add
/// a digit: 9.996 is `10.0`, not `10.00`.
fn decimals(size: f64) -> usize {
    match size {
        _ if size >= 99.95 => 0,
        _ if size >= 9.995 => 1,
        _ if size >= 0.999_5 => 2,
        _ if size >= 0.099_95 => 3,
        _ if size >= 0.009_995 => 4,
        _ => 5,
    }
}

fn with_suffix(value: f64) -> String {
    let mut scaled = value;
    let mut step = 0;
    while scaled.abs() >= 999.5 && step + 1 < THOUSANDS.len() {
        scaled /= 1000.0;
        step += 1;
    }
    format!("{scaled:.*}{}", decimals(scaled.abs()), THOUSANDS[step])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_thing_is_no_plural() {
        assert_eq!(counted(0, "file"), "0 files");
        assert_eq!(counted(1, "file"), "1 file");
        assert_eq!(counted(2, "file"), "2 files");
    }

    #[test]
    fn counts_are_whole_and_times_have_their_unit() {
        let counts = [(0.0, "0"), (2.0, "2"), (9999.0, "9999"), (12_345.0, "12.3k"), (2.5, "2.50")];
        for (value, wanted) in counts {
            assert_eq!(count(value), wanted);
        }
        let times = [
            (0.0, "0 s"),
            (1.25, "1.25 s"),
            (0.9996, "1.00 s"),
            (0.5, "500 ms"),
            (1.36e-4, "136 µs"),
        ];
        for (seconds, wanted) in times.into_iter().chain([(2e-8, "20.0 ns"), (90.0, "90.0 s")]) {
            assert_eq!(time(seconds), wanted);
        }
    }

    #[test]
    fn figures_keep_about_three_significant_digits() {
        let cases = [
            (0.0, "0"),
            (0.83, "0.830"),
            (0.1042, "0.104"),
            (8.51, "8.51"),
            (94.2, "94.2"),
            (312.0, "312"),
            (1234.4, "1234"),
            (12_345.0, "12.3k"),
            (1_486_000.0, "1.49M"),
            (27_625_004.0, "27.6M"),
            (3.5e9, "3.50G"),
            (0.0123, "0.0123"),
            (0.001_234, "0.00123"),
            (0.000_012_34, "1.23e-5"),
            (1e18, "1.00e18"),
            (-8.512, "-8.51"),
        ];
        for (value, expected) in cases {
            assert_eq!(figure(value), expected, "{value}");
        }
    }

    #[test]
    fn rounding_up_never_adds_a_digit() {
        let cases = [
            (9.996, "10.0"),
            (99.96, "100"),
            (9_999.6, "10.0k"),
            (999_600.0, "1.00M"),
            (0.999_6, "1.00"),
            (0.099_96, "0.100"),
            (0.009_996, "0.0100"),
            (0.000_999_6, "0.00100"),
        ];
        for (value, expected) in cases {
            assert_eq!(figure(value), expected, "{value}");
        }
    }

    #[test]
    fn a_figure_that_is_not_finite_reads_as_unknown() {
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(figure(value), UNKNOWN);
        }
    }

    #[test]
    fn intervals_and_ratios_read_as_in_the_tables() {
        assert_eq!(interval([91.0, 96.3]), "[91.0, 96.3]");
        assert_eq!(interval([0.98, 1.05]), "[0.980, 1.05]");
        assert_eq!(ratio(1.018), "1.02x");
        assert_eq!(ratio(15.23), "15.2x");
    }

    #[test]
    fn only_the_end_of_a_ratio_that_is_1_reads_as_1() {
        for (ends, shown) in [
            ([1.0021, 1.0049], "[1.002, 1.005]"),
            ([1.004, 1.048], "[1.004, 1.048]"),
            ([0.996, 1.048], "[0.996, 1.048]"),
            ([0.994, 1.006], "[0.994, 1.006]"),
            ([0.999_96, 1.000_03], "[0.999, 1.001]"),
            ([0.98, 0.999_96], "[0.980, 0.99996]"),
            ([1.000_03, 1.02], "[1.00003, 1.020]"),
            ([1.0 + f64::EPSILON, 1.5], "[1.0000000000000002, 1.50]"),
            ([0.5, 1.0 - f64::EPSILON], "[0.500, 0.9999999999999998]"),
            ([1.0 - f64::EPSILON, 1.0 + f64::EPSILON], "[0.9999999999999998, 1.0000000000000002]"),
            ([1.0, 1.0094], "[1.00, 1.010]"),
            ([0.0, f64::INFINITY], "[0, –]"),
        ] {
            assert_eq!(ratio_interval(ends), shown, "{ends:?}");
        }
    }

    #[test]
    fn an_end_beyond_a_margin_around_1_reads_as_beyond_it_and_one_within_as_within() {
        for (ends, shown) in [
            ([0.9905, 1.0204], "[0.990, 1.021]"),
            ([0.985, 1.0249], "[0.985, 1.025]"),
            ([0.98, 1.02], "[0.980, 1.020]"),
            ([0.98 - f64::EPSILON, 1.02 + f64::EPSILON], "[0.980, 1.020]"),
            ([0.9799, 1.0201], "[0.979, 1.021]"),
            ([0.9801, 1.0199], "[0.980, 1.020]"),
            ([0.95 - 1e-9, 1.05 + 1e-9], "[0.949, 1.051]"),
            ([0.899, 1.101], "[0.899, 1.10]"),
        ] {
            assert_eq!(ratio_interval(ends), shown, "{ends:?}");
        }
    }

    #[test]
    fn a_ratio_lies_within_the_interval_beside_it() {
        for (value, ends, shown) in [
            (1.0035, [1.0021, 1.0049], "1.004x"),
            (1.0035, [0.998, 1.0049], "1.00x"),
            (1.0061, [0.998, 1.009], "1.006x"),
            (0.999_7, [0.9994, 0.999_9], "0.9997x"),
            (2.004, [2.0035, 2.0045], "2.00x"),
        ] {
            assert_eq!(ratio_within(value, Some(ends)), shown, "{value} {ends:?}");
        }
    }

    #[test]
    fn sizes_take_the_largest_unit_that_says_them_well() {
        let cases = [
            (0, "0 B"),
            (512, "512 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            (22 << 10, "22 KiB"),
            (1 << 20, "1 MiB"),
            ((1 << 20) - 1, "1.00 MiB"),
            (1000 << 10, "1000 KiB"),
            (3 << 29, "1.50 GiB"),
            (10 << 30, "10 GiB"),
            (u64::MAX, "16.0 EiB"),
        ];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected, "{count}");
        }
    }
}
