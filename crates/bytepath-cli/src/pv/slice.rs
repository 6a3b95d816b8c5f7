//! How much the library is told to move at once: long enough to cost nothing, short enough that what
//! changes meanwhile is noticed soon.

use std::time::Duration;

/// How much the library is told to move at once.
pub(crate) struct Slice {
    pub(crate) bytes: u64,
}

/// The first: small enough that a new rate for a slow source holds soon. It doubles until a slice
/// lasts a tenth of a second, or is so large that what comes between two of them costs nothing.
const SLICE_BYTES: u64 = 1 << 20;
const SLICE_BYTES_MIN: u64 = 64 << 10;
/// The last to notice a new rate is who had a fast source that has become slow.
const SLICE_BYTES_MAX: u64 = 64 << 20;

impl Default for Slice {
    fn default() -> Slice {
        Slice { bytes: SLICE_BYTES }
    }
}

impl Slice {
    pub(crate) fn took(&mut self, time: Duration) {
        self.bytes = match time {
            short if short < Duration::from_millis(50) => self.bytes * 2,
            long if long > Duration::from_millis(200) => self.bytes / 2,
            _ => self.bytes,
        }
        .clamp(SLICE_BYTES_MIN, SLICE_BYTES_MAX);
    }
}
