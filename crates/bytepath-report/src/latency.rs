//! How long the requests of an arm took: percentiles for people, and the whole histogram for
//! whoever wants others.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::arm::Arm;

/// The name under which an arm's parameters hold it.
pub const PARAM: &str = "latency";

/// A request that takes longer than this many nanoseconds counts as taking so long.
const LONGEST_NS: u64 = 60_000_000_000;

/// Digits that a latency keeps in the histogram: it is told to 1%.
const DIGITS: u8 = 2;

/// Latencies, over all samples of an arm.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the requests took at most so long; in nanoseconds, as all of these.
    pub p50_ns: u64,
    /// 95 of 100 did.
    pub p95_ns: u64,
    /// 99 of 100 did.
    pub p99_ns: u64,
    /// 999 of 1000 did.
    #[serde(rename = "p99.9_ns")]
    pub p999_ns: u64,
    /// All did.
    pub max_ns: u64,
    /// The histogram: HdrHistogram's V2 encoding, compressed, in base64. None where another
    /// program measured and told percentiles alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub histogram: Option<String>,
}

/// A histogram that cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[error("a histogram of latencies cannot be kept: {0}")]
pub struct LatencyError(String);

impl LatencyError {
    fn of(error: impl std::fmt::Display) -> LatencyError {
        LatencyError(error.to_string())
    }
}

/// A histogram of nanoseconds with nothing in it.
pub fn empty() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, DIGITS).expect("the bounds are right")
}

/// A histogram as text.
///
/// # Errors
/// It has more than fits.
pub fn encoded(histogram: &Histogram<u64>) -> Result<String, LatencyError> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(histogram, &mut bytes).map_err(LatencyError::of)?;
    Ok(BASE64_STANDARD.encode(bytes))
}

/// The histogram that the text is of.
///
/// # Errors
/// It is of none.
pub fn decoded(text: &str) -> Result<Histogram<u64>, LatencyError> {
    let bytes = BASE64_STANDARD.decode(text).map_err(LatencyError::of)?;
    Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(LatencyError::of)
}

impl Latency {
    /// What a histogram says.
    ///
    /// # Errors
    /// As [`encoded`].
    pub fn of(histogram: &Histogram<u64>) -> Result<Latency, LatencyError> {
        Ok(Latency {
            p50_ns: histogram.value_at_quantile(0.5),
            p95_ns: histogram.value_at_quantile(0.95),
            p99_ns: histogram.value_at_quantile(0.99),
            p999_ns: histogram.value_at_quantile(0.999),
            max_ns: histogram.max(),
            histogram: Some(encoded(histogram)?),
        })
    }

    /// The latencies that an arm's parameters hold.
    pub fn of_arm(arm: &Arm) -> Option<Latency> {
        serde_json::from_value(arm.params.get(PARAM)?.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_comes_back_from_its_text_with_its_percentiles() {
        let mut histogram = empty();
        for ns in 1..=1000_u64 {
            histogram.saturating_record(ns * 1000);
        }
        histogram.saturating_record(u64::MAX);
        let latency = Latency::of(&histogram).expect("it fits");
        let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 100;
        assert!(near(latency.p50_ns, 500_000) && near(latency.p99_ns, 990_000), "{latency:?}");
        assert!(near(latency.max_ns, LONGEST_NS), "{latency:?}");
        let back = decoded(latency.histogram.as_deref().unwrap_or_default()).expect("its text");
        assert_eq!(back, histogram);
    }

    #[test]
    fn text_that_is_of_no_histogram_is_refused() {
        for text in ["", "AAAA", "no base64!"] {
            assert!(decoded(text).is_err(), "{text:?}");
        }
    }
}
