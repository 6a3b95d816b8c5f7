//! Slices read into a mapping of the sink, whose pages the kernel brings in beforehand: large ones, where
//! the file system has them.
//!
//! Costs per slice: a mapping; per 2 MiB two calls, one fault where pages are large, and 512 where they are
//! not; zeros, and one copy onto them.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::io::Errno;

use super::cpu_time;
use super::slices::{Copied, Why};
use crate::pages::HUGE_PAGE_BYTES as UNIT_BYTES;
use crate::sys::faults;
use crate::sys::file_mapping::FileMapping;

/// So many faults bring in a unit whose pages are large.
const FAULTS_FEW: u64 = 32;

/// What no unit takes whose memory is at hand (0.2 to 0.5 ms), and every one does that a virtual machine has
/// to ask its host for (5 to 11 ms).
const AT_HAND: Duration = Duration::from_millis(2);

/// A slow unit costs what so many fast ones gain: 2 MiB take a thread 0.4 ms.
const FOR_ONE_SLOW: u32 = 16;

/// With so much to go, one slow unit among others costs less than the rest would without this thread; near the
/// end, all would wait for it.
const PATIENT_BYTES: u64 = 64 << 20;

/// One thread's way of it.
pub(super) struct Mapped {
    /// Whether it stops where another way is faster.
    judges: bool,
    /// Whether a unit was as it should be.
    proven: bool,
    /// How many were fast since the last one that was slow.
    fast: u32,
}

impl Mapped {
    /// Where the memory is what the file system would have to take in any case.
    pub(super) fn anyhow() -> Mapped {
        Mapped { judges: false, proven: false, fast: 0 }
    }

    /// Where it is the faster way while pages are large and memory for them is at hand.
    pub(super) fn while_fast() -> Mapped {
        Mapped { judges: true, ..Mapped::anyhow() }
    }

    /// Copies so many bytes from a place in the source to one in the sink, which is open for both; from that
    /// place on there are so many in all.
    pub(super) fn copy(
        &mut self,
        (source, sink): (BorrowedFd<'_>, BorrowedFd<'_>),
        (from, to): (u64, u64),
        (bytes, all): (usize, u64),
    ) -> Copied {
        let mut copied = Copied { bytes: 0, calls: 2, why: None };
        let window = match FileMapping::of_sink(sink, to, bytes) {
            Ok(window) => window,
            Err(errno) => return Copied { why: Some(Why::Mapping(errno)), ..copied },
        };
        window.prefer_large_pages();
        let mut ready = 0;
        while copied.bytes < bytes {
            let range =
                copied.bytes..bytes.min(copied.bytes / UNIT_BYTES * UNIT_BYTES + UNIT_BYTES);
            if ready < range.end {
                ready = range.end;
                copied.calls += 1;
                if self.stops_at(&window, range.clone(), all >= PATIENT_BYTES) {
                    return Copied { why: Some(Why::Slow), ..copied };
                }
            }
            copied.calls += 1;
            match window.read_from(source, from + range.start as u64, range) {
                Ok(0) => return Copied { why: Some(Why::End), ..copied },
                Ok(count) => copied.bytes += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Copied { why: Some(Why::Reading(errno)), ..copied },
            }
        }
        copied
    }

    /// Brings in the pages of a range; whether that is a reason to stop. What cannot be brought in, the
    /// read that follows says.
    fn stops_at(&mut self, window: &FileMapping, range: Range<usize>, patient: bool) -> bool {
        let judged = self.judges && range.len() == UNIT_BYTES;
        let before = judged.then(|| (faults::of_this_thread(), cpu_time()));
        let brought = window.make_room(range);
        let Some((faults, began)) = before else { return false };
        let few = brought.is_ok() && faults::of_this_thread() - faults <= FAULTS_FEW;
        self.judged(few, cpu_time() - began, patient)
    }

    /// Whether a unit that took few faults, or many, and so long is a reason to stop: a slow one is, unless with
    /// patience, behind as many fast ones as make good for it.
    fn judged(&mut self, few_faults: bool, took: Duration, patient: bool) -> bool {
        if !few_faults {
            return !self.proven;
        }
        self.proven = true;
        if took <= AT_HAND {
            self.fast += 1;
            return false;
        }
        let borne = patient && self.fast >= FOR_ONE_SLOW;
        self.fast = 0;
        !borne
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(200);
    const SLOW: Duration = Duration::from_millis(6);

    /// After how many of these units it stops, if it does.
    fn stops(units: &[(bool, Duration)], patient: bool) -> Option<usize> {
        let mut mapped = Mapped::while_fast();
        let stops = |&(few, took): &(bool, Duration)| mapped.judged(few, took, patient);
        units.iter().position(stops).map(|before| before + 1)
    }

    #[test]
    fn small_pages_stop_it_at_once() {
        assert_eq!(stops(&[(false, FAST), (false, FAST)], true), Some(1));
        // A few in between come of memory in pieces.
        let between = [(true, FAST), (false, FAST), (false, SLOW), (true, FAST)];
        assert_eq!(stops(&between, true), None);
    }

    #[test]
    fn memory_that_is_slow_stops_it() {
        assert_eq!(stops(&[(true, SLOW)], true), Some(1));
        assert_eq!(stops(&[(true, FAST), (true, SLOW)], true), Some(2));
        let enough = [(true, FAST); FOR_ONE_SLOW as usize];
        let once = [enough.as_slice(), &[(true, SLOW)]].concat();
        assert_eq!(stops(&once.repeat(3), true), None);
        assert_eq!(stops(&once, false), Some(once.len()));
        let soon_again = [once.as_slice(), &enough[1..], &[(true, SLOW)]].concat();
        assert_eq!(stops(&soon_again, true), Some(soon_again.len()));
    }
}
