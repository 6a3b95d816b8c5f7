//! How long the requests of an arm took: percentiles for people, and the whole histogram for
//! whoever wants others.

use std::io::Read as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};
use serde::{Deserialize, Serialize};

use crate::arm::Arm;

/// The name under which an arm's parameters hold it.
pub const PARAM: &str = "latency";

/// A request of ours that takes longer than this many nanoseconds counts as taking so long.
const LONGEST_NS: u64 = 60_000_000_000;

/// Digits that a latency keeps in the histogram: it is told to 0.1%. By two, medians of samples that
/// differ by half a percent are one figure, and have an interval of no width.
const DIGITS: u8 = 3;

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

/// A histogram of what another program counted: nanoseconds, and how many requests took so long. It
/// grows with the longest.
///
/// # Errors
/// It has more than fits.
pub fn counted(
    counts: impl IntoIterator<Item = (u64, u64)>,
) -> Result<Histogram<u64>, LatencyError> {
    let mut histogram = empty();
    histogram.auto(true);
    for (ns, count) in counts {
        histogram.record_n(ns, count).map_err(LatencyError::of)?;
    }
    Ok(histogram)
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

/// What V2's encoding begins with where it is compressed (HdrHistogram's V2_COMPRESSED_COOKIE).
const COMPRESSED: [u8; 4] = 0x1c84_9314_u32.to_be_bytes();

/// Of a compressed one, the cookie and the length before the compressed bytes.
const COMPRESSED_HEADER_BYTES: usize = 8;

/// Of one that is not, what is before its counts, of whose bytes it tells the number behind the cookie.
const HEADER_BYTES: usize = 40;

/// More than a histogram of four digits takes.
const PLAIN_BYTES_MAX: u64 = 4 << 20;

/// The histogram that the text is of.
///
/// # Errors
/// It is of none, or of one that is larger than any of ours.
pub fn decoded(text: &str) -> Result<Histogram<u64>, LatencyError> {
    let mut bytes = BASE64_STANDARD.decode(text).map_err(LatencyError::of)?;
    if bytes.starts_with(&COMPRESSED) {
        let compressed = bytes.get(COMPRESSED_HEADER_BYTES..).unwrap_or_default();
        let mut plain = Vec::new();
        let mut decoder = ZlibDecoder::new(compressed).take(PLAIN_BYTES_MAX + 1);
        decoder.read_to_end(&mut plain).map_err(LatencyError::of)?;
        bytes = plain;
    }
    if bytes.len() as u64 > PLAIN_BYTES_MAX {
        return Err(LatencyError(format!("it has more than {PLAIN_BYTES_MAX} bytes")));
    }
    // The library sets aside as much memory as is claimed before it looks for the counts.
    let claimed = bytes.get(4..8).and_then(|four| four.try_into().ok()).map(u32::from_be_bytes);
    let there = bytes.len().saturating_sub(HEADER_BYTES);
    if let Some(claimed) = claimed.filter(|claimed| *claimed as usize > there) {
        return Err(LatencyError(format!("it claims {claimed} bytes of counts and has {there}")));
    }
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
        let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 1000;
        assert!(near(latency.p50_ns, 501_000) && near(latency.p99_ns, 991_000), "{latency:?}");
        assert!(near(latency.max_ns, LONGEST_NS), "{latency:?}");
        let back = decoded(latency.histogram.as_deref().unwrap_or_default()).expect("its text");
        assert_eq!(back, histogram);
    }

    #[test]
    fn what_another_program_counted_keeps_its_longest() {
        let long_ns = 5 * LONGEST_NS;
        let mut all = counted([(1000, 3), (long_ns, 2)]).expect("it fits");
        all.add(counted([(2 * long_ns, 1)]).expect("it fits")).expect("it grows");
        let latency = Latency::of(&all).expect("it fits");
        let near = |found: u64, expected: u64| found.abs_diff(expected) <= expected / 1000;
        assert!(near(latency.p50_ns, 1000) || near(latency.p50_ns, long_ns), "{latency:?}");
        assert!(near(latency.max_ns, 2 * long_ns), "{latency:?}");
        let back = decoded(latency.histogram.as_deref().unwrap_or_default()).expect("its text");
        assert_eq!((back.len(), back.count_at(long_ns)), (6, 2));
    }

    /// A compressed histogram of these bytes, whose header claims so many of counts.
    fn claiming(claimed: u32, counts: &[u8]) -> String {
        let mut plain = 0x1c84_9313_u32.to_be_bytes().to_vec();
        plain.extend(claimed.to_be_bytes());
        plain.extend([0_u32.to_be_bytes(), 2_u32.to_be_bytes()].concat());
        plain.extend([1_u64, LONGEST_NS, 1_f64.to_bits()].map(u64::to_be_bytes).concat());
        plain.extend(counts);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        std::io::Write::write_all(&mut encoder, &plain).expect("memory takes it");
        let compressed = encoder.finish().expect("memory takes it");
        let length = (compressed.len() as u32).to_be_bytes();
        BASE64_STANDARD.encode([&COMPRESSED, &length, compressed.as_slice()].concat())
    }

    #[test]
    fn a_histogram_that_claims_more_than_it_has_takes_no_memory() {
        // A count of one at the first place.
        assert_eq!(decoded(&claiming(1, &[2])).map(|histogram| histogram.len()).ok(), Some(1));
        let claims = |text: String| decoded(&text).expect_err("it is damaged").to_string();
        let told = claims(claiming(u32::MAX, &[2]));
        assert!(told.contains("it claims 4294967295 bytes of counts and has 1"), "{told}");
        let told = claims(claiming(8 << 20, &vec![0; 8 << 20]));
        assert!(told.contains("it has more than 4194304 bytes"), "{told}");
    }

    #[test]
    fn text_that_is_of_no_histogram_is_refused() {
        for text in ["", "AAAA", "no base64!"] {
            assert!(decoded(text).is_err(), "{text:?}");
        }
    }
}
