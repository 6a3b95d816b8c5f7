//! Numbers after pv's letters, refused in pv's words: the letter, what was written, what it expected.

use std::ffi::OsStr;

use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::error::ErrorKind;

/// Reads a number, or says as pv does what it expected.
///
/// The error is a raw one of kind `ValueValidation` that reads `-i: abc: numeric argument expected`,
/// so that whoever prints it can put the program's name before it.
#[derive(Clone)]
pub(crate) struct Number<T> {
    read: fn(&str) -> Option<T>,
    expected: &'static str,
}

/// A count without sign, point or suffix.
pub(crate) fn integer() -> Number<usize> {
    Number { read: |text| digits(text)?.parse().ok(), expected: "integer argument expected" }
}

/// A time in whole seconds.
pub(crate) fn whole_seconds() -> Number<u64> {
    Number { read: |text| digits(text)?.parse().ok(), expected: "integer argument expected" }
}

/// A time in seconds: digits with at most one point, no sign, no suffix.
pub(crate) fn seconds() -> Number<f64> {
    Number { read: decimal, expected: "numeric argument expected" }
}

/// Text that is shown. It may be made of a file's name, which may be none.
pub(crate) fn shown() -> impl TypedValueParser<Value = String> {
    OsStringValueParser::new().map(|text| text.to_string_lossy().into_owned())
}

fn digits(text: &str) -> Option<&str> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then_some(text)
}

fn decimal(text: &str) -> Option<f64> {
    text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then(|| text.parse().ok())?
}

impl<T: Clone + Send + Sync + 'static> TypedValueParser for Number<T> {
    type Value = T;

    fn parse_ref(
        &self,
        _: &clap::Command,
        arg: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<T, clap::Error> {
        let letter = arg.and_then(clap::Arg::get_short).unwrap_or('?');
        value.to_str().and_then(self.read).ok_or_else(|| {
            let value = value.to_string_lossy();
            let message = format!("-{letter}: {value}: {}\n", self.expected);
            clap::Error::raw(ErrorKind::ValueValidation, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::DisplayOptions;

    #[derive(Parser)]
    struct Pv {
        #[command(flatten)]
        display: DisplayOptions,
    }

    fn refused(option: &str, value: &str) -> String {
        let read = Pv::try_parse_from(["pv", option, value]);
        read.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn numbers_that_are_none_are_refused_in_pvs_words() {
        let cases = [
            ("-i", "abc", "-i: abc: numeric argument expected"),
            ("--interval", "1s", "-i: 1s: numeric argument expected"),
            ("-D", "1.2.3", "-D: 1.2.3: numeric argument expected"),
            ("-w", "4x", "-w: 4x: integer argument expected"),
            ("-H", "", "-H: : integer argument expected"),
            ("-A", "1K", "-A: 1K: integer argument expected"),
            ("-m", "1.5", "-m: 1.5: integer argument expected"),
            ("-w", "99999999999999999999", "-w: 99999999999999999999: integer argument expected"),
        ];
        for (option, value, words) in cases {
            assert_eq!(refused(option, value).trim_end(), format!("error: {words}"));
        }
    }

    #[test]
    fn times_may_have_a_fraction() {
        let read = Pv::try_parse_from(["pv", "-i", "0.1", "-D", "2", "-m", "60"]).expect("numbers");
        assert_eq!(read.display.interval, Some(0.1));
        assert_eq!(read.display.delay_start, Some(2.0));
        assert_eq!(read.display.average_rate_window, Some(60));
    }
}
