//! When it will be over: how long from now, and at what time on the wall.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Slower than this, no end is in sight.
const RATE_MIN: f64 = 0.001;

/// Seconds until the rest has been moved at this rate, to the nearest whole one; 0 where nothing is
/// left, and where nothing moves.
pub(crate) fn seconds_left(amount: u64, size: u64, rate: f64) -> u64 {
    let left = size.saturating_sub(amount);
    if rate <= RATE_MIN {
        return 0;
    }
    // A conversion that saturates.
    (left as f64 / rate).round() as u64
}

/// The time on the wall in so many seconds, with the date where it is more than six hours away.
pub(crate) fn wall(now: SystemTime, seconds_left: u64, zone: &TimeZone) -> String {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let left = seconds_left.min(LEFT_S_MAX);
    let form = if left > DATED_FROM_S { "%Y-%m-%d %H:%M:%S" } else { "%H:%M:%S" };
    let end = i64::try_from(now.saturating_add(left)).unwrap_or(i64::MAX);
    let end = Timestamp::from_second(end).unwrap_or(Timestamp::MAX);
    end.to_zoned(zone.clone()).strftime(form).to_string()
}

const DATED_FROM_S: u64 = 6 * 3_600;

/// Seven thousand years, so that the year keeps its four digits.
const LEFT_S_MAX: u64 = 7_000 * 365 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds_left: u64, zone: &str) -> String {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let zone = TimeZone::posix(zone).expect("a zone");
        wall(now, seconds_left, &zone)
    }

    #[test]
    fn what_is_left_is_rounded_to_whole_seconds() {
        let cases = [
            (100, 350, 100.0, 3),
            (200, 350, 100.0, 2),
            (300, 350, 100.0, 1),
            (400, 350, 100.0, 0),
            (0, 100, 0.0, 0),
            (1, 10, 0.001, 0),
            (2, 10, 0.001_001, 7_992),
            (0, u64::MAX, 1e-2, u64::MAX),
        ];
        for (amount, size, rate, seconds) in cases {
            assert_eq!(seconds_left(amount, size, rate), seconds, "{amount} of {size}");
        }
    }

    #[test]
    fn an_end_within_six_hours_needs_no_date() {
        assert_eq!(at(5, "UTC0"), "22:13:25");
        assert_eq!(at(21_600, "UTC0"), "04:13:20");
        assert_eq!(at(21_601, "UTC0"), "2023-11-15 04:13:21");
    }

    #[test]
    fn the_end_is_told_in_local_time() {
        assert_eq!(at(10, "CET-1CEST,M3.5.0,M10.5.0/3"), "23:13:30");
        assert_eq!(at(10, "<+0545>-5:45"), "03:58:30");
        assert_eq!(at(21_999, "EST5EDT,M3.2.0,M11.1.0"), "2023-11-14 23:19:59");
    }

    #[test]
    fn the_farthest_end_has_a_year_of_four_digits() {
        assert_eq!(at(u64::MAX, "UTC0"), "9019-03-23 22:13:20");
    }
}
