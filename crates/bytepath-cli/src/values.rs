//! What people write after an option: sizes, durations, names from the library's lists.

use std::ffi::OsString;
use std::ops::{Bound, RangeBounds};
use std::time::Duration;

use bytepath::Wait;
use bytepath::inlets::{INLETS, Inlet};
use bytepath::outlets::{Fresh, OUTLETS, Outlet};
use bytepath::placement::Placement;
use bytepath_lab::ends::Starter;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

/// Units of sizes. K, M, G, T alone are powers of 1024, as with dd, head and split.
const UNITS: &[(&str, u64)] = &[
    ("", 1),
    ("B", 1),
    ("K", 1 << 10),
    ("KIB", 1 << 10),
    ("KB", 1_000),
    ("M", 1 << 20),
    ("MIB", 1 << 20),
    ("MB", 1_000_000),
    ("G", 1 << 30),
    ("GIB", 1 << 30),
    ("GB", 1_000_000_000),
    ("T", 1 << 40),
    ("TIB", 1 << 40),
    ("TB", 1_000_000_000_000),
];

/// What the help says of them.
pub(crate) const NOTATION: &str = "A SIZE is a number of bytes, or one with a unit: K, M, G and T, or KiB, MiB, GiB and TiB, \
    are powers of 1024; KB, MB, GB and TB are powers of 1000. A TIME is a number of seconds, or one with us, ms, s, m or h. \
    Both may be fractions: 64K, 1.5G, 300ms, 0.5. The options that cat, cp, pv and tee have of their classics are read as those \
    read them.";

/// More than 0% and less than 100%.
pub(crate) const PART: (Bound<f64>, Bound<f64>) = (Bound::Excluded(0.0), Bound::Excluded(100.0));

/// A percentage within these bounds: 5, 2.5%.
pub(crate) fn percent<B>(bounds: B) -> impl Fn(&str) -> Result<f64, String> + Clone + use<B>
where
    B: RangeBounds<f64> + Clone,
{
    move |text| match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if bounds.contains(&percent) => Ok(percent),
        _ => Err(format!("{text:?} is no percentage between 0 and 100")),
    }
}

/// A size above 0, in bytes: 65536, 64K, 1MiB, 1.5G.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    match amount(text)? {
        0 => Err("a size of 0 bytes moves nothing".into()),
        bytes => Ok(bytes),
    }
}

/// The same, or 0.
pub(crate) fn amount(text: &str) -> Result<u64, String> {
    let digits =
        text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let unit = unit.trim().to_ascii_uppercase();
    let factor = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, factor)| *factor);
    let factor = factor.filter(|_| number.parse::<f64>().is_ok()).ok_or_else(|| {
        format!("{text:?} is no size; write bytes, or a number with K, M, G, T, KiB, KB, …")
    })?;
    let bytes = match number.parse::<u64>() {
        Ok(whole) => whole.checked_mul(factor),
        Err(_) => fraction(number, factor),
    };
    bytes.ok_or_else(|| format!("{text:?} is no size that fits in 64 bits; write for example 64K"))
}

/// 1.5 of a unit, where that is a whole number of bytes or is cut to one.
fn fraction(number: &str, factor: u64) -> Option<u64> {
    let bytes = number.parse::<f64>().ok()? * factor as f64;
    (bytes.is_finite() && bytes < u64::MAX as f64).then_some(bytes as u64)
}

/// A size that fits this machine's memory addresses.
pub(crate) fn buffer_size(text: &str) -> Result<usize, String> {
    let bytes = size(text)?;
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= BUFFER_BYTES_MAX => Ok(bytes),
        _ => Err(format!("{text} is too large; a buffer or pipe has at most 1 GiB")),
    }
}

const BUFFER_BYTES_MAX: usize = 1 << 30;

/// A duration: 300ms, 2s, 50us, 1m; a number alone is seconds.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let digits =
        text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit.trim() {
        "us" | "µs" => 1e-6,
        "ms" => 1e-3,
        "" | "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("{text:?} is no duration; write for example 300ms, 2s or 1m")),
    };
    let number: f64 = number
        .parse()
        .map_err(|_| format!("{text:?} is no duration; write for example 300ms, 2s or 1m"))?;
    match Duration::try_from_secs_f64(number * seconds) {
        Ok(time) if time <= DURATION_MAX => Ok(time),
        _ => Err(format!("{text:?} is more than 100 years, the longest there is here")),
    }
}

/// What can be added to any moment, and told to the kernel.
const DURATION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// A duration above 0 that somebody might wait for.
pub(crate) fn some_time(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("a sample of no time measures nothing".into()),
        time if time > TIME_MAX => Err(format!("{text} is more than an hour a sample")),
        time => Ok(time),
    }
}

/// A duration before the clock starts, which may be none.
pub(crate) fn warm_up(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        time if time > TIME_MAX => Err(format!("{text} is more than an hour of warm-up")),
        time => Ok(time),
    }
}

const TIME_MAX: Duration = Duration::from_secs(3600);

/// Takes the names of OUTLETS, and lists them with what they do.
pub(crate) fn outlets() -> impl TypedValueParser<Value = &'static dyn Outlet> {
    let all = OUTLETS.iter().map(|outlet| (outlet.name(), outlet.summary()));
    one_of(all).try_map(|name| bytepath::outlets::by_name(&name).ok_or("no such outlet"))
}

/// Takes the names of INLETS, and lists them with what they do.
pub(crate) fn inlets() -> impl TypedValueParser<Value = &'static dyn Inlet> {
    let all = INLETS.iter().map(|inlet| (inlet.name(), inlet.summary()));
    one_of(all).try_map(|name| bytepath::inlets::by_name(&name).ok_or("no such inlet"))
}

pub(crate) fn one_of(
    all: impl Iterator<Item = (&'static str, &'static str)>,
) -> PossibleValuesParser {
    all.map(|(name, summary)| PossibleValue::new(name).help(summary)).collect::<Vec<_>>().into()
}

/// A wait by its name.
pub(crate) fn wait(name: &str) -> Result<Wait, String> {
    Wait::named(name).ok_or_else(|| unknown("wait", name, Wait::NAMES.iter().copied()))
}

/// A way to fresh pages by its name.
pub(crate) fn fresh(name: &str) -> Result<Fresh, String> {
    Fresh::named(name)
        .ok_or_else(|| unknown("way to fresh pages", name, Fresh::NAMES.iter().copied()))
}

/// A placement by its name.
pub(crate) fn placement(name: &str) -> Result<Placement, String> {
    name.parse().map_err(|error| format!("{error}"))
}

/// Placements by their names, and pairs of CPUs: same-cpu,2,3,cross-cpu.
pub(crate) fn placements(text: &str) -> Result<Vec<Placement>, String> {
    let is_cpu = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut words = text.split(',').peekable();
    let mut placements = Vec::new();
    while let Some(word) = words.next() {
        let pair = words.next_if(|next| is_cpu(word) && is_cpu(next));
        let name = pair.map_or_else(|| word.to_owned(), |other| format!("{word},{other}"));
        placements.push(placement(&name)?);
    }
    Ok(placements)
}

/// A process that starts ends.
pub(crate) fn starter(text: &str) -> Result<Starter, String> {
    let pid = text.parse().ok().and_then(Starter::numbered);
    pid.ok_or_else(|| format!("{text:?} is no process"))
}

/// What is said of a name that is none of these.
pub(crate) fn unknown<'a>(
    what: &str,
    name: &str,
    names: impl IntoIterator<Item = &'a str>,
) -> String {
    let names: Vec<_> = names.into_iter().collect();
    format!("there is no {what} {name:?}; there are: {}", names.join(", "))
}

/// Options in the spelling of the published programs (--buf_size) become ours (--buf-size); what
/// follows a bare -- is no option.
pub(crate) fn kebab_case(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut options = true;
    args.enumerate()
        .map(|(place, arg)| {
            // Those of `gen` have none of that spelling, and the words of `gen yes` are what it writes;
            // those of `fleet` are read by somebody else.
            options &= arg != "--" && !(place == 1 && (arg == "gen" || arg == "fleet"));
            match arg.to_str() {
                Some(text) if options && text.starts_with("--") => {
                    let (name, value) = text.split_at(text.find('=').unwrap_or(text.len()));
                    OsString::from(name.replace('_', "-") + value)
                }
                _ => arg,
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_what_people_mean_by_them() {
        let cases = [
            ("1", 1),
            ("64K", 65_536),
            ("64k", 65_536),
            ("1MiB", 1 << 20),
            ("1MB", 1_000_000),
            ("1.5G", 3 << 29),
            ("5 GiB", 5 << 30),
        ];
        for (text, bytes) in cases {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "-1", "1Q", "0", "99999999999999999999", "1.2.3", "99999999T", "١K"]
        {
            assert!(size(text).is_err(), "{text}");
        }
        for text in ["", "K", "1.2.3M", "."] {
            assert!(size(text).is_err_and(|why| why.contains("write bytes")), "{text}");
        }
    }

    #[test]
    fn placements_are_names_and_pairs_of_cpus() {
        let pair = Placement::Pinned { source: 2, sink: 3 };
        let all = vec![Placement::SameCpu, pair, Placement::CrossCpu];
        assert_eq!(placements("same-cpu,2,3,cross-cpu"), Ok(all));
        for text in ["", "2", "2,3,4", "same-cpu,", "2,same-cpu"] {
            assert!(placements(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_what_people_mean_by_them() {
        assert_eq!(duration("300ms"), Ok(Duration::from_millis(300)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(duration("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(duration("876000h"), Ok(DURATION_MAX));
        for text in ["", "ms", "1y", "-1s", "1e400s", "876001h", "5000000000000000h", "."] {
            assert!(duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn only_the_names_of_options_are_respelled() {
        let args = ["b", "--buf_size=a_b", "--pipe_size", "a_b", "-a_b", "--", "--a_b"];
        let kebab = kebab_case(args.iter().map(OsString::from));
        assert_eq!(kebab, ["b", "--buf-size=a_b", "--pipe-size", "a_b", "-a_b", "--", "--a_b"]);
    }
}
