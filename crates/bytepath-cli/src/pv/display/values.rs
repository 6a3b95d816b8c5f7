//! Numbers after pv's letters, refused in pv's words: the letter, what was written, what was expected.

use clap::builder::TypedValueParser;
use clap::error::ErrorKind;
use std::ffi::OsStr;

/// Reads a number, or says as pv does what it expected.
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
            let value = value.display();
            let message = format!("-{letter}: {value}: {}\n", self.expected);
            clap::Error::raw(ErrorKind::ValueValidation, message)
        })
    }
}
