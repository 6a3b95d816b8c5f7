//! How much a file is given by one call, where pages of other files or pipes are copied into it.
//!
//! File systems with large folios (ext4 since Linux 6.16, xfs, btrfs) take one piece of memory for as
//! much as one call writes. Larger ones are faster: 1 GiB from file to file on ext4 went at 3.8 GiB/s
//! by 128 KiB and at 4.3 by 512 KiB (copy_file_range, which gives 64 KiB, at 3.7). But memory that a
//! virtual machine has given back to its host (free page reporting) comes in large pieces before all
//! others, and asking the host for it again took ten times as long as the copy. So the larger pieces
//! have to prove themselves, and are left as soon as they are the slower ones.

use std::time::Duration;

/// The sizes, each of which has to be no slower than the one before it. The first is as much as
/// copy_file_range gives: pieces that there are most of among those that are in use. From 1 MiB on,
/// memory of the host's was the rule: 0.6 GiB/s where 512 KiB gave 2.5 and more.
const SIZES_BYTES: [usize; 4] = [64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// What is moved by pieces of a size before they are judged.
const WINDOW_BYTES: [u64; 4] = [1 << 20, 4 << 20, 8 << 20, 8 << 20];

/// What is moved by the smallest before larger ones are tried: two windows, one of which may be disturbed.
const FIRST_BYTES: u64 = 2 << 20;

/// After so much by larger ones, the smallest are judged again: what they gave may have been a bad moment.
const AGAIN_BYTES: u64 = 128 << 20;

/// What is moved by smaller pieces before larger ones get another chance; twice as much after each
/// that they did not use.
const PENANCE_BYTES: u64 = 64 << 20;

/// Which pieces a file gets, and how they have done.
pub(super) struct Pieces {
    /// Which of the sizes.
    at: usize,
    /// What is still to be moved by them before the next are tried.
    to_go: u64,
    window: Rate,
    /// What was moved since the smallest were judged.
    since_small: u64,
    /// What each size gave.
    gave: [Rate; SIZES_BYTES.len()],
    /// What is moved by each when the next turn out to be slow.
    penance_bytes: [u64; SIZES_BYTES.len()],
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

    /// What is to be expected after this and a window of so much: better at once, worse by a tenth at most, so
    /// that a moment's disturbance makes no other size look good.
    fn then(self, window: Rate) -> Rate {
        let worst = Rate { time: self.time.mul_f64(1.1), ..self };
        if self.bytes > 0 && window.time > worst.time_of(window.bytes) { worst } else { window }
    }
}

impl Default for Pieces {
    fn default() -> Self {
        Pieces {
            at: 0,
            to_go: FIRST_BYTES,
            window: Rate::default(),
            since_small: 0,
            gave: Default::default(),
            penance_bytes: [PENANCE_BYTES; SIZES_BYTES.len()],
        }
    }
}

impl Pieces {
    /// Whether all larger pieces have turned out to be the slower ones.
    pub(super) fn are_better_small(&self) -> bool {
        self.at == 0 && self.penance_bytes[0] > PENANCE_BYTES
    }

    /// How much the next call is to write.
    pub(super) fn bytes(&self) -> usize {
        SIZES_BYTES[self.at]
    }

    /// Pieces of that size moved so much in this time.
    pub(super) fn took(&mut self, piece_bytes: usize, bytes: u64, time: Duration) {
        if piece_bytes != self.bytes() {
            return;
        }
        self.window = Rate { bytes: self.window.bytes + bytes, time: self.window.time + time };
        self.to_go = self.to_go.saturating_sub(bytes);
        self.since_small = if self.at == 0 { 0 } else { self.since_small + bytes };
        // A part of the window took longer than all of it would have by smaller pieces.
        if self.at > 0
            && self.window.time > self.gave[self.at - 1].time_of(WINDOW_BYTES[self.at] * 5 / 4)
        {
            let penance_bytes = &mut self.penance_bytes[self.at - 1];
            self.to_go = *penance_bytes;
            *penance_bytes = penance_bytes.saturating_mul(2);
            self.at -= 1;
            self.window = Rate::default();
        } else if self.window.bytes >= WINDOW_BYTES[self.at] {
            let window = std::mem::take(&mut self.window);
            self.gave[self.at] = self.gave[self.at].then(window);
            if self.to_go == 0 && self.since_small >= AGAIN_BYTES {
                (self.at, self.to_go) = (0, FIRST_BYTES);
            } else if self.to_go == 0 && self.at + 1 < SIZES_BYTES.len() {
                self.at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Moves so much where a byte takes so long by pieces of each size; how much went by each.
    fn moved_by(total: u64, mut nanoseconds_a_byte: impl FnMut(usize, u64) -> f64) -> [u64; 4] {
        let (mut pieces, mut moved, mut by) = (Pieces::default(), 0, [0; 4]);
        while moved < total {
            let (bytes, at) = (pieces.bytes() as u64, pieces.at);
            let nanoseconds = nanoseconds_a_byte(at, moved) * bytes as f64;
            pieces.took(bytes as usize, bytes, Duration::from_nanos(nanoseconds as u64));
            moved += bytes;
            by[at] += bytes;
        }
        by
    }

    #[test]
    fn large_pieces_stay_where_they_are_the_faster_ones() {
        let by = moved_by(1 << 30, |at, _| [0.3, 0.25, 0.2, 0.2][at]);
        let again = (1 << 30) / AGAIN_BYTES;
        assert_eq!((by[0] / FIRST_BYTES, by[1] / WINDOW_BYTES[1]), (again, again));
    }

    #[test]
    fn pieces_that_are_slow_are_left_at_once_and_tried_ever_less_often() {
        let by = moved_by(1 << 30, |at, _| [0.3, 6.0, 6.0, 6.0][at]);
        assert!(by[1] <= 5 * (1 << 20) && by[2..] == [0, 0], "{by:?}");
        let by = moved_by(1 << 30, |at, _| [0.3, 0.25, 6.0, 6.0][at]);
        assert!(by[0] <= 8 * FIRST_BYTES && by[2] <= 5 * (1 << 20), "{by:?}");
    }

    #[test]
    fn a_bad_moment_of_the_smallest_is_made_good_soon() {
        let bad_until = |end| {
            let by = moved_by(1 << 30, |at, moved| match moved < end {
                true => 20.0,
                false => [0.3, 6.0, 6.0, 6.0][at],
            });
            by[1..].iter().sum::<u64>()
        };
        assert!(bad_until(FIRST_BYTES) <= AGAIN_BYTES + (16 << 20));
        // One bad window of two is none.
        assert!(bad_until(FIRST_BYTES / 2) <= 5 * (1 << 20));
    }

    #[test]
    fn large_pieces_that_become_slow_half_way_are_left_there() {
        let (half, mut after) = (512 << 20, 0);
        moved_by(1 << 30, |at, moved| {
            let slow = at > 0 && moved >= half;
            after += if slow { SIZES_BYTES[at] as u64 } else { 0 };
            if slow { 6.0 } else { 0.3 }
        });
        assert!(after <= 2 * WINDOW_BYTES[1], "{after}");
    }
}
