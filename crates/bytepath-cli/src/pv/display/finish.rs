//! When it will be over: how long from now, and at what time on the wall.

use std::time::SystemTime;

use crate::sys::local_time::Civil;

/// How a moment is written on the wall here: seconds after the epoch, taken apart.
pub(crate) type Zone = fn(i64) -> Option<Civil>;

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
pub(crate) fn wall(now: SystemTime, seconds_left: u64, zone: Zone) -> String {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let left = seconds_left.min(LEFT_S_MAX);
    let end = i64::try_from(now.saturating_add(left)).unwrap_or(i64::MAX);
    let Some(Civil { year, month, day, hour, minute, second }) = zone(end) else {
        return "--:--:--".to_owned();
    };
    let time = format!("{hour:02}:{minute:02}:{second:02}");
    match left > DATED_FROM_S {
        true => format!("{year:04}-{month:02}-{day:02} {time}"),
        false => time,
    }
}

const DATED_FROM_S: u64 = 6 * 3_600;

/// Seven thousand years, so that the year keeps its four digits.
const LEFT_S_MAX: u64 = 7_000 * 365 * 86_400;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::local_time::utc;
    use std::time::Duration;

    fn at(seconds_left: u64) -> String {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        wall(now, seconds_left, utc)
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
        assert_eq!(at(5), "22:13:25");
        assert_eq!(at(21_600), "04:13:20");
        assert_eq!(at(21_601), "2023-11-15 04:13:21");
    }

    #[test]
    fn the_farthest_end_has_a_year_of_four_digits() {
        assert_eq!(at(u64::MAX), "9019-03-23 22:13:20");
    }
}
