//! What the mover has done so far, for whoever draws; told without locks or system calls.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytepath::Meter;
use rustix::process::Pid;

use super::Settings;
use super::display::{Buffer, Way};
use crate::metrics::Figures;
use crate::sys::nudge::nudge;

/// Counts of one side's transfer.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Told by the library's routes.
    pub(crate) meter: Meter,
    /// Bytes that went through a buffer of ours, and left it.
    by_hand_bytes: AtomicU64,
    lines: AtomicU64,
    /// How the bytes go, see `way`.
    way: AtomicU8,
    buffer_used_bytes: AtomicU64,
    buffer_bytes: AtomicU64,
    /// See `wakes`.
    wakes: AtomicBool,
    /// Bytes known to be on the device.
    durable_bytes: AtomicU64,
    /// The whole, see `size`.
    size: AtomicU64,
    size_is: AtomicU8,
    /// The thread that moves, where a slow reader can keep it in a call; else 0.
    mover: AtomicI32,
    /// See `told_elapsed`.
    elapsed: Mutex<Option<Duration>>,
    pub(crate) tail: Mutex<Tail>,
}

const WAYS: [Way; 3] = [Way::Splice, Way::SplicePipe, Way::CopyFileRange];

impl Tally {
    /// Bytes that the sink has taken.
    pub(crate) fn bytes(&self) -> u64 {
        self.meter.bytes() + self.by_hand_bytes.load(Relaxed)
    }

    /// Lines that the sink has taken.
    pub(crate) fn lines(&self) -> u64 {
        self.lines.load(Relaxed)
    }

    /// Counts bytes and lines written from our buffer. One thread tells.
    pub(crate) fn wrote(&self, bytes: usize, lines: u64) {
        let add = |count: &AtomicU64, more| count.store(count.load(Relaxed) + more, Relaxed);
        add(&self.by_hand_bytes, bytes as u64);
        add(&self.lines, lines);
    }

    /// Says which thread moves from now on, if a slow reader can keep it in a call.
    pub(crate) fn moved_by(&self, thread: Option<Pid>) {
        self.mover.store(Pid::as_raw(thread), Relaxed);
    }

    /// Has the mover tell what a call of its has moved so far.
    pub(crate) fn nudge(&self) -> bool {
        let mover = Pid::from_raw(self.mover.load(Relaxed));
        mover.inspect(|mover| nudge(*mover)).is_some()
    }

    /// Says whether the mover wakes when it is to end, and then tells what it holds.
    pub(crate) fn wakes(&self, wakes: bool) {
        self.wakes.store(wakes, Relaxed);
    }

    /// Whether it does.
    pub(crate) fn is_awaited(&self) -> bool {
        self.wakes.load(Relaxed)
    }

    /// Takes over for how long another has counted; behind what it counted in that time.
    pub(crate) fn set_elapsed(&self, elapsed: Duration) {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner) = Some(elapsed);
    }

    /// For how long another has counted, where it is another who counts.
    pub(crate) fn told_elapsed(&self) -> Option<Duration> {
        *self.elapsed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes over what another counted.
    pub(crate) fn set(&self, bytes: u64, lines: u64) {
        self.by_hand_bytes.store(bytes, Relaxed);
        self.lines.store(lines, Relaxed);
    }

    /// What the buffer of ours holds.
    pub(crate) fn holds(&self, used_bytes: usize, capacity_bytes: usize) {
        self.buffer_used_bytes.store(used_bytes as u64, Relaxed);
        self.buffer_bytes.store(capacity_bytes as u64, Relaxed);
    }

    /// The sink took so much of what the buffer of ours holds.
    pub(crate) fn gave(&self, bytes: usize) {
        let held = self.held_bytes().saturating_sub(bytes as u64);
        self.buffer_used_bytes.store(held, Relaxed);
    }

    /// Holds nothing any more; what it held.
    pub(crate) fn let_go(&self) -> u64 {
        self.buffer_used_bytes.swap(0, Relaxed)
    }

    /// Bytes that our buffer holds.
    pub(crate) fn held_bytes(&self) -> u64 {
        self.buffer_used_bytes.load(Relaxed)
    }

    /// Says that the kernel moves the bytes, and how.
    pub(crate) fn goes(&self, way: Way) {
        let place = WAYS.iter().position(|known| *known == way).unwrap_or(0);
        self.buffer_bytes.store(0, Relaxed);
        self.way.store(u8::try_from(place).unwrap_or(0), Relaxed);
    }

    pub(crate) fn buffer(&self) -> Buffer {
        match self.buffer_bytes.load(Relaxed) {
            0 => Buffer::Unused(WAYS[usize::from(self.way.load(Relaxed)) % WAYS.len()]),
            capacity_bytes => {
                let used_bytes = self.buffer_used_bytes.load(Relaxed);
                Buffer::Filled { used_bytes, capacity_bytes }
            }
        }
    }

    /// Everything moved is on the device.
    pub(crate) fn settled(&self) {
        self.durable_bytes.store(self.bytes(), Relaxed);
    }

    pub(crate) fn durable_bytes(&self) -> u64 {
        self.durable_bytes.load(Relaxed)
    }

    /// How far it is, for whoever measures.
    pub(crate) fn figures(&self, settings: &Settings) -> Figures {
        let lines = settings.options.display.counts_lines();
        let durable = settings.options.transfer.durable;
        let mut figures = Figures {
            // What is counted in lines has no size in bytes.
            expected_bytes: self.size().filter(|_| !lines),
            durable_bytes: durable.then(|| self.durable_bytes()),
            lines: lines.then(|| self.lines()),
            ..Figures::of(&self.meter)
        };
        figures.add_uncounted("read-write", self.by_hand_bytes.load(Relaxed));
        figures
    }

    pub(crate) fn set_size(&self, size: Option<u64>) {
        self.size.store(size.unwrap_or(0), Relaxed);
        self.size_is.store(if size.is_some() { KNOWN } else { UNKNOWN }, Relaxed);
    }

    /// Takes the whole from its bytes, where lines are counted: counting them beforehand would be
    /// reading everything twice.
    pub(crate) fn set_size_by_bytes(&self, bytes: Option<u64>) {
        self.set_size(bytes);
        if bytes.is_some() {
            self.size_is.store(BYTES_OF_LINES, Relaxed);
        }
    }

    /// The whole, in what is counted, as far as it is known by now.
    pub(crate) fn size(&self) -> Option<u64> {
        let size = self.size.load(Relaxed);
        match self.size_is.load(Relaxed) {
            UNKNOWN => None,
            BYTES_OF_LINES => Some(lines_in_all(self.lines(), self.bytes(), size)),
            _ => Some(size),
        }
    }
}

/// What `size` is.
const UNKNOWN: u8 = 0;
const KNOWN: u8 = 1;
const BYTES_OF_LINES: u8 = 2;

/// How many lines there will be, if the rest is like what was seen; exact at the end. Before the
/// first, as many as there can be, so that nothing of them is done.
fn lines_in_all(lines: u64, bytes: u64, all_bytes: u64) -> u64 {
    if bytes >= all_bytes {
        return lines;
    }
    if lines == 0 {
        return all_bytes;
    }
    let scaled = u128::from(lines) * u128::from(all_bytes) / u128::from(bytes.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// The last of what was written, for -A and %L.
#[derive(Debug, Default, Clone)]
pub(crate) struct Tail {
    /// The last bytes, at most `TAIL_BYTES`.
    pub(crate) bytes: Vec<u8>,
    /// The beginning of the last whole line.
    pub(crate) line: Vec<u8>,
    /// The beginning of the line that is not ended.
    open_line: Vec<u8>,
}

/// More than any terminal is wide.
const TAIL_BYTES: usize = 4 << 10;

impl Tail {
    /// Takes in what was written, of which lines end with `line_end`.
    pub(crate) fn add(&mut self, piece: &[u8], line_end: u8) {
        let last = &piece[piece.len().saturating_sub(TAIL_BYTES)..];
        let excess = (self.bytes.len() + last.len()).saturating_sub(TAIL_BYTES);
        self.bytes.drain(..excess.min(self.bytes.len()));
        self.bytes.extend_from_slice(last);
        let Some(end) = memchr::memrchr(line_end, piece) else {
            return extend(&mut self.open_line, piece);
        };
        match memchr::memrchr(line_end, &piece[..end]) {
            Some(before) => {
                self.line.clear();
                extend(&mut self.line, &piece[before + 1..end]);
            }
            None => {
                self.line = std::mem::take(&mut self.open_line);
                extend(&mut self.line, &piece[..end]);
            }
        }
        self.open_line.clear();
        extend(&mut self.open_line, &piece[end + 1..]);
    }
}

/// Adds as much as there is room for.
fn extend(line: &mut Vec<u8>, more: &[u8]) {
    let room = TAIL_BYTES.saturating_sub(line.len());
    line.extend_from_slice(&more[..more.len().min(room)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_of_the_whole_follow_from_the_share_of_the_bytes() {
        let tally = Tally::default();
        tally.set_size_by_bytes(Some(1000));
        assert_eq!(tally.size(), Some(1000));
        tally.wrote(100, 0);
        assert_eq!(tally.size(), Some(1000));
        tally.wrote(150, 5);
        assert_eq!(tally.size(), Some(20));
        tally.wrote(750, 2);
        assert_eq!((tally.lines(), tally.size()), (7, Some(7)));
        // It grew meanwhile.
        tally.wrote(1000, 3);
        assert_eq!((tally.lines(), tally.size()), (10, Some(10)));
        tally.set_size_by_bytes(None);
        assert_eq!(tally.size(), None);
        assert_eq!(lines_in_all(u64::MAX, 1, u64::MAX), u64::MAX);
    }

    #[test]
    fn the_tail_is_the_last_bytes_and_the_last_whole_line_over_any_pieces() {
        let mut tail = Tail::default();
        for piece in [&b"one\ntw"[..], b"o", b"\nthr", b"ee"] {
            tail.add(piece, b'\n');
        }
        assert_eq!(tail.bytes, b"one\ntwo\nthree");
        assert_eq!(tail.line, b"two");
        tail.add(b"\nfour\nfive\n", b'\n');
        assert_eq!(tail.line, b"five");
        tail.add(&[b'x'; 9000], b'\n');
        assert_eq!((tail.bytes.len(), tail.line.as_slice()), (TAIL_BYTES, &b"five"[..]));
        let mut zeros = Tail::default();
        zeros.add(b"a\nb\0c\nd\0e", 0);
        assert_eq!(zeros.line, b"c\nd");
    }
}
