//! How much a file is given by one call, where pages of other files or pipes are copied into it.
//!
//! File systems with large folios (ext4 since Linux 6.16, xfs, btrfs) take one piece of memory for as
//! much as one call writes. Larger ones are faster: 1 GiB from file to file on ext4 went at 3.8 GiB/s
//! by 128 KiB and at 4.3 by 512 KiB (copy_file_range, which gives 64 KiB, at 3.7). But memory that a
//! virtual machine has given back to its host (free page reporting) comes in large pieces before all
//! others, and asking the host for it again took ten times as long as the copy. So the larger pieces
//! have to prove themselves, and are left as soon as they are the slower ones.

use std::time::Duration;

/// As much as copy_file_range gives: pieces that there are most of among those that are in use.
const SMALL_BYTES: usize = 64 << 10;

/// From 1 MiB on, memory of the host's was the rule: 0.6 GiB/s where 512 KiB gave 2.5 and more.
const LARGE_BYTES: usize = 512 << 10;

/// What is moved by pieces of one size before they are judged.
const SMALL_WINDOW_BYTES: u64 = 1 << 20;
const LARGE_WINDOW_BYTES: u64 = 8 << 20;

/// What is moved by small pieces before large ones get another chance; twice as much after each
/// that they did not use.
const PENANCE_BYTES: u64 = 64 << 20;

/// Which pieces a file gets, and how they have done.
pub(super) struct Pieces {
    size: Size,
    window: Rate,
    /// What small pieces gave last.
    small: Rate,
    penance_bytes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Size {
    /// So many bytes to go.
    Small(u64),
    Large,
}

/// Bytes in a time.
#[derive(Clone, Copy, Default)]
struct Rate {
    bytes: u64,
    time: Duration,
}

impl Rate {
    /// How long so many bytes take at this rate.
    fn time_of(self, bytes: u64) -> Duration {
        self.time.mul_f64(bytes as f64 / self.bytes.max(1) as f64)
    }
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            size: Size::Small(SMALL_WINDOW_BYTES),
            window: Rate::default(),
            small: Rate::default(),
            penance_bytes: PENANCE_BYTES,
        }
    }
}

impl Pieces {
    /// Whether large pieces have turned out to be the slower ones.
    pub(super) fn are_better_small(&self) -> bool {
        self.size != Size::Large && self.penance_bytes > PENANCE_BYTES
    }

    /// How much the next call is to write.
    pub(super) fn bytes(&self) -> usize {
        match self.size {
            Size::Small(_) => SMALL_BYTES,
            Size::Large => LARGE_BYTES,
        }
    }

    /// Pieces of that size moved so much in this time.
    pub(super) fn took(&mut self, bytes: u64, time: Duration) {
        self.window = Rate { bytes: self.window.bytes + bytes, time: self.window.time + time };
        match self.size {
            Size::Small(to_go) if self.window.bytes >= to_go => {
                self.small = std::mem::take(&mut self.window);
                self.size = Size::Large;
            }
            Size::Small(_) => {}
            // A part of the window took longer than all of it would have by small pieces.
            Size::Large if self.window.time > self.small.time_of(LARGE_WINDOW_BYTES * 5 / 4) => {
                self.window = Rate::default();
                self.size = Size::Small(self.penance_bytes);
                self.penance_bytes = self.penance_bytes.saturating_mul(2);
            }
            Size::Large if self.window.bytes >= LARGE_WINDOW_BYTES => {
                self.window = Rate::default();
            }
            Size::Large => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves so much where a byte takes so long by pieces of either size; how much went by large ones.
    fn large_bytes(total: u64, mut nanoseconds_a_byte: impl FnMut(bool, u64) -> f64) -> u64 {
        let (mut pieces, mut moved, mut large) = (Pieces::default(), 0, 0);
        while moved < total {
            let bytes = pieces.bytes() as u64;
            let is_large = bytes > SMALL_BYTES as u64;
            let nanoseconds = nanoseconds_a_byte(is_large, moved) * bytes as f64;
            pieces.took(bytes, Duration::from_nanos(nanoseconds as u64));
            moved += bytes;
            large += if is_large { bytes } else { 0 };
        }
        large
    }

    #[test]
    fn large_pieces_stay_where_they_are_the_faster_ones() {
        let large = large_bytes(1 << 30, |large, _| if large { 0.25 } else { 0.3 });
        assert_eq!(large, (1 << 30) - SMALL_WINDOW_BYTES);
    }

    #[test]
    fn large_pieces_that_are_slow_are_left_after_one_and_tried_ever_less_often() {
        let large = large_bytes(1 << 30, |large, _| if large { 6.0 } else { 0.3 });
        assert!(large <= 5 * LARGE_BYTES as u64, "{large}");
    }

    #[test]
    fn large_pieces_that_become_slow_half_way_are_left_there() {
        let half = 512 << 20;
        let large = large_bytes(1 << 30, |large, at| if large && at >= half { 6.0 } else { 0.3 });
        let after = large - (half - SMALL_WINDOW_BYTES);
        assert!(after <= LARGE_WINDOW_BYTES + 4 * LARGE_BYTES as u64, "{after}");
    }
}
