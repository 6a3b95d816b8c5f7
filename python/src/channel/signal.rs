//! Words in memory that processes share: to wait until others change something, and to take turns.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytepath::pages::{HalfWord, SharedMemory};
use rustix::io::Errno;
use rustix::process::Pid;

/// All words of such memory. Behind each that is waited for are one that changes with it and one for how many wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Words<'m>(pub(super) &'m SharedMemory);

const CHANGES: usize = 1;
const WAITING: usize = 2;

impl<'m> Words<'m> {
    pub(super) fn word(self, index: usize) -> &'m AtomicU64 {
        &self.0.words()[index]
    }

    pub(super) fn signal(self, index: usize) -> Signal<'m> {
        let changes = self.0.half_word(index + CHANGES);
        Signal { changes, waiting: self.word(index + WAITING) }
    }

    pub(super) fn turns(self, index: usize) -> Turns<'m> {
        Turns { whose: self.word(index), ends: self.signal(index) }
    }
}

/// A word that changes, and one for how many wait for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signal<'m> {
    pub(super) changes: HalfWord<'m>,
    pub(super) waiting: &'m AtomicU64,
}

impl Signal<'_> {
    /// Wakes so many of those that wait, after something has changed.
    pub(super) fn wake(self, most: u32) {
        if self.waiting.load(SeqCst) > 0 {
            self.changes.fetch_add(1, SeqCst);
            self.changes.wake(most);
        }
    }

    /// Sleeps until woken, at most so long, unless it is ready.
    pub(super) fn sleep(self, most: Duration, is_ready: impl FnOnce() -> bool) {
        self.waiting.fetch_add(1, SeqCst);
        let seen = self.changes.load(SeqCst);
        if !is_ready() {
            self.changes.sleep(seen, Some(most));
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

/// Whoever would not wait waits for others' turns so long all the same, of which each lasts but a moment.
pub(super) const TURN_MAX: Duration = Duration::from_millis(200);
/// Looks before a sleep: a turn lasts some microseconds.
const LOOKS: u32 = 200;
/// So often it is looked whether the process whose turn it is lives.
const SLICE: Duration = Duration::from_millis(20);

impl Turns<'_> {
    /// Begins this process's turn, unless it is another's: then says whose. One whose turn it was at the last
    /// attempt, too, may have been killed, which takes long to find out. No two threads of a process may ask
    /// at once.
    pub(super) fn begin(self, ours: u64, last: u64) -> Result<Turn, u64> {
        for _ in 0..LOOKS {
            if self.whose.compare_exchange(0, ours, SeqCst, SeqCst).is_ok() {
                return Ok(Turn::Ordinary);
            }
            std::hint::spin_loop();
        }
        let theirs = self.whose.load(SeqCst);
        let follows = theirs != 0 && theirs == last && theirs != ours && is_gone(theirs);
        let began = follows && self.whose.compare_exchange(theirs, ours, SeqCst, SeqCst).is_ok();
        if began { Ok(Turn::Inherited) } else { Err(theirs) }
    }

    /// Sleeps until the turn ends, or for a slice.
    pub(super) fn wait(self) {
        self.ends.sleep(SLICE, || self.whose.load(SeqCst) == 0);
    }

    pub(super) fn end(self) {
        self.whose.store(0, SeqCst);
        self.ends.wake(1);
    }
}

/// A process as no other one is: its number, and when it began, in the clock's ticks.
///
/// # Errors
/// /proc does not tell.
pub(super) fn identity(pid: u32) -> std::io::Result<u64> {
    stat(pid).map(|(_, began)| identity_of(pid, began))
}

/// Whether this process has ended, as far as is known: one that cannot be looked at lives.
pub(super) fn is_gone(identity: u64) -> bool {
    let pid = (identity >> 32) as u32;
    let Some(known) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return true };
    if rustix::process::test_kill_process(known) == Err(Errno::SRCH) {
        return true;
    }
    // Descriptors may have run out, and other users' processes may be hidden.
    let Ok((state, began)) = stat(pid) else { return false };
    matches!(state, b'Z' | b'X') || identity_of(pid, began) != identity
}

fn identity_of(pid: u32, began: u64) -> u64 {
    u64::from(pid) << 32 | (began & u64::from(u32::MAX))
}

/// The state of a process, and when it began.
fn stat(pid: u32) -> std::io::Result<(u8, u64)> {
    let stat = std::fs::read(format!("/proc/{pid}/stat"))?;
    // The second field is a name in brackets, which may hold anything, and end in the middle of a letter.
    let stat = String::from_utf8_lossy(&stat);
    let mut fields = stat.rsplit(')').next().unwrap_or("").split_whitespace();
    let state = fields.next().and_then(|state| state.bytes().next());
    let began = fields.nth(18).and_then(|began| began.parse().ok());
    state.zip(began).ok_or_else(|| std::io::ErrorKind::InvalidData.into())
}
