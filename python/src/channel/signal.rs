//! Words in memory that processes share: to wait until others change something, and to take turns.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rustix::event::Timespec;
use rustix::process::Pid;
use rustix::thread::futex;

/// A word that changes, and one for how many wait for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signal<'m> {
    pub(super) changes: &'m AtomicU32,
    pub(super) waiting: &'m AtomicU64,
}

impl Signal<'_> {
    /// Wakes so many of those that wait, after something has changed.
    pub(super) fn wake(self, most: u32) {
        if self.waiting.load(SeqCst) > 0 {
            self.changes.fetch_add(1, SeqCst);
            let _ = futex::wake(self.changes, futex::Flags::empty(), most);
        }
    }

    /// Sleeps until woken, at most so long, unless it is ready.
    pub(super) fn sleep(self, most: Duration, is_ready: impl FnOnce() -> bool) {
        self.waiting.fetch_add(1, SeqCst);
        let seen = self.changes.load(SeqCst);
        if !is_ready() {
            let most = Timespec::try_from(most).unwrap_or_default();
            let _ = futex::wait(self.changes, futex::Flags::empty(), seen, Some(&most));
        }
        self.waiting.fetch_sub(1, SeqCst);
    }
}

/// Who may go on alone: one process at a time. One that is killed meanwhile is followed by another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turns<'m> {
    pub(super) whose: &'m AtomicU64,
    pub(super) ends: Signal<'m>,
}

/// How a turn began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    Ordinary,
    /// The one before was killed in the middle of it.
    Inherited,
}

/// Looks before the first sleep: a turn lasts some microseconds.
const LOOKS: u32 = 200;
/// So often it is looked whether the process whose turn it is lives.
const SLICE: Duration = Duration::from_millis(20);

impl Turns<'_> {
    /// Waits for this process's turn, at most for a slice; `None` where it did not come. No two threads
    /// of a process may ask at once.
    pub(super) fn begin(self, ours: u64) -> Option<Turn> {
        for _ in 0..LOOKS {
            if self.whose.compare_exchange(0, ours, SeqCst, SeqCst).is_ok() {
                return Some(Turn::Ordinary);
            }
            std::hint::spin_loop();
        }
        self.ends.sleep(SLICE, || self.whose.load(SeqCst) == 0);
        let theirs = self.whose.load(SeqCst);
        let is_gone = theirs != 0 && theirs != ours && identity((theirs >> 32) as u32) != theirs;
        let expected = if is_gone { theirs } else { 0 };
        self.whose.compare_exchange(expected, ours, SeqCst, SeqCst).ok().map(
            |before| match before {
                0 => Turn::Ordinary,
                _ => Turn::Inherited,
            },
        )
    }

    pub(super) fn end(self) {
        self.whose.store(0, SeqCst);
        self.ends.wake(1);
    }
}

/// A process as no other one is: its number, and when it began, in the clock's ticks. 0 where there is
/// none, or it has ended and was not waited for.
pub(super) fn identity(pid: u32) -> u64 {
    let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return 0 };
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    let Ok(stat) = stat else { return 0 };
    // The second field is a name in brackets, which may hold anything.
    let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    if matches!(fields.next(), Some("Z" | "X")) {
        return 0;
    }
    let began = fields.nth(18).and_then(|began| began.parse::<u64>().ok()).unwrap_or(0);
    u64::from(pid.as_raw_nonzero().get().unsigned_abs()) << 32 | (began & u64::from(u32::MAX))
}
