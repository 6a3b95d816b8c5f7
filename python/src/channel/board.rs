//! What all who have a queue know of it: who receives from it, how much is in it, and how much of that is
//! not done. A page of shared words, which counts only for how to wait, and for what is told to people.

use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use bytepath::pages::{PageSize, SharedMemory};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use super::errors::{no_memory, taken_fd};
use super::signal::{Signal, identity, is_gone};
use super::waiting::Deadline;

/// Words: each that is waited for is followed by one that changes with it and by how many wait. Two are the token. The
/// last ones say which processes are in the middle of putting something.
const RECEIVER: usize = 0;
const INSIDE: usize = 16;
const UNDONE: usize = 32;
const TOKEN: usize = 48;
/// How often something was told to be done.
const DONE: usize = 50;
const PUTTING: usize = 64;
const CHANGES: usize = 1;
const WAITING: usize = 2;

const BYTES: usize = 4096;
/// More threads than so many are not noted while they put: what one of them leaves behind stays counted.
const PLACES: usize = BYTES / 8 - PUTTING;

const SLICE: Duration = Duration::from_millis(50);

/// A page of words that processes share.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Board(SharedMemory);

#[pymethods]
impl Board {
    /// A new one, with a number that nobody else knows.
    #[staticmethod]
    fn create(token: u128) -> PyResult<Board> {
        let board = SharedMemory::create(BYTES, PageSize::Base).map(Board).map_err(no_memory)?;
        board.word(TOKEN).store(token as u64, SeqCst);
        board.word(TOKEN + 1).store((token >> 64) as u64, SeqCst);
        Ok(board)
    }

    /// One that was inherited, or passed on, as a descriptor, which it takes.
    #[staticmethod]
    fn from_fd(fd: i32) -> PyResult<Board> {
        let memory = SharedMemory::open(taken_fd(fd)?);
        memory.map(Board).map_err(no_memory)
    }

    fn fileno(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }

    /// Makes this process the receiver; the process that is, where another one is.
    fn claim(&self) -> PyResult<u32> {
        let (word, ours) = (self.word(RECEIVER), own_identity()?);
        loop {
            let theirs = word.load(SeqCst);
            if theirs == ours {
                return Ok(0);
            }
            if theirs != 0 && !is_gone(theirs) {
                return Ok((theirs >> 32) as u32);
            }
            let claimed = match theirs {
                0 => word.compare_exchange(0, ours, SeqCst, SeqCst).is_ok(),
                gone => self.follow(gone, ours),
            };
            if claimed {
                return Ok(0);
            }
        }
    }

    /// Ends that, if it is so.
    fn unclaim(&self) {
        let theirs = self.word(RECEIVER).load(SeqCst);
        if (theirs >> 32) as u32 == std::process::id() {
            self.follow(theirs, 0);
        }
    }

    /// For who has found that the receiver is gone: unless another one has come since, what was put for it
    /// takes no room any more.
    fn lose_receiver(&self) {
        let theirs = self.word(RECEIVER).load(SeqCst);
        if theirs == 0 || is_gone(theirs) {
            self.follow(theirs, 0);
        }
    }

    fn inside(&self) -> i64 {
        self.count(INSIDE)
    }

    fn undone(&self) -> i64 {
        self.count(UNDONE)
    }

    pub(super) fn add_undone(&self, count: i64) {
        if count < 0 {
            // First, for who looks meanwhile.
            self.word(DONE).fetch_add(1, SeqCst);
        }
        self.add(UNDONE, count);
    }

    /// Waits until nothing is inside, and all that was got is done; false where that did not come in time.
    fn wait_until_done(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        // That less is inside without having been got is seen at the next look.
        self.wait(py, UNDONE, Deadline::after(timeout), || self.is_done())
    }
}

impl Board {
    /// Waits until fewer than so many are inside, and counts one more, which is about to be put: the place where
    /// that is noted, for `has_put`. None where it did not come in time.
    pub(super) fn take_room(
        &self,
        py: Python<'_>,
        most: i64,
        deadline: Deadline,
    ) -> PyResult<Option<usize>> {
        let ours = known_identity()?;
        loop {
            if let Some(place) = self.try_take_room(ours, most) {
                return Ok(Some(place));
            }
            if !self.wait(py, INSIDE, deadline, || self.count(INSIDE) < most)? {
                return Ok(None);
            }
        }
    }

    /// It was put, or was not.
    pub(super) fn has_put(&self, place: usize, sent: bool) -> PyResult<()> {
        let ours = known_identity()?;
        let is_counted = place == PLACES || self.leave(place, ours);
        match (is_counted, sent) {
            (true, false) => self.add(INSIDE, -1),
            // This process was taken for gone, by one that sees other processes.
            (false, true) => self.add(INSIDE, 1),
            (true, true) | (false, false) => {}
        }
        Ok(())
    }

    pub(super) fn has_got(&self) {
        self.add(INSIDE, -1);
    }

    /// What only those can say who have the queue, whatever user they are by now.
    pub(super) fn token(&self) -> [u8; 16] {
        let [low, high] = [TOKEN, TOKEN + 1].map(|at| u128::from(self.word(at).load(SeqCst)));
        (high << 64 | low).to_le_bytes()
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0.words()[index]
    }

    fn signal(&self, index: usize) -> Signal<'_> {
        Signal { changes: self.0.half_word(index + CHANGES), waiting: self.word(index + WAITING) }
    }

    fn count(&self, index: usize) -> i64 {
        self.word(index).load(SeqCst) as i64
    }

    /// Whether nothing is inside, and all is done. Whoever puts what follows from a task, and then
    /// tells that the task is done, may do so between the two looks: so both count only where
    /// nothing was told meanwhile.
    fn is_done(&self) -> bool {
        let before = self.count(DONE);
        self.count(INSIDE) <= 0 && self.count(UNDONE) <= 0 && self.count(DONE) == before
    }

    fn try_take_room(&self, ours: u64, most: i64) -> Option<usize> {
        if self.count(INSIDE) >= most {
            return None;
        }
        let place = self.come(ours);
        let one_more = |inside: u64| ((inside as i64) < most).then_some(inside + 1);
        if self.word(INSIDE).fetch_update(SeqCst, SeqCst, one_more).is_ok() {
            return Some(place);
        }
        if place < PLACES {
            self.leave(place, ours);
        }
        None
    }

    /// Notes that this process is putting, at a place that is free; where none is, at none.
    fn come(&self, ours: u64) -> usize {
        let is_free = |place: &usize| {
            self.word(PUTTING + place).compare_exchange(0, ours, SeqCst, SeqCst).is_ok()
        };
        (0..PLACES).find(is_free).unwrap_or(PLACES)
    }

    /// Whether that was still noted.
    fn leave(&self, place: usize, theirs: u64) -> bool {
        let noted = (place < PLACES).then(|| self.word(PUTTING + place));
        noted.is_some_and(|word| word.compare_exchange(theirs, 0, SeqCst, SeqCst).is_ok())
    }

    /// What processes that were killed were putting is not inside.
    fn forget_gone(&self) {
        for place in 0..PLACES {
            let theirs = self.word(PUTTING + place).load(SeqCst);
            if theirs != 0 && is_gone(theirs) && self.leave(place, theirs) {
                self.add(INSIDE, -1);
            }
        }
    }

    /// Another receiver, or none, follows one, if that is still so: what that one had not got is lost, but for what
    /// is being put just now, of which who puts it learns how it ends.
    fn follow(&self, theirs: u64, ours: u64) -> bool {
        let inside = self.count(INSIDE);
        let is_putting = |place: &usize| self.word(PUTTING + place).load(SeqCst) != 0;
        let lost = inside - (0..PLACES).filter(is_putting).count() as i64;
        let follows = self.word(RECEIVER).compare_exchange(theirs, ours, SeqCst, SeqCst).is_ok();
        if follows {
            self.add(INSIDE, -lost.max(0));
        }
        follows
    }

    /// Nothing is counted below zero.
    fn add(&self, index: usize, count: i64) {
        let added = |before: u64| Some((before as i64).saturating_add(count).max(0) as u64);
        let _ = self.word(index).fetch_update(SeqCst, SeqCst, added);
        if count < 0 {
            self.signal(index).wake(i32::MAX as u32);
        }
    }

    fn wait(
        &self,
        py: Python<'_>,
        index: usize,
        deadline: Deadline,
        is_enough: impl Fn() -> bool + Sync,
    ) -> PyResult<bool> {
        while !is_enough() {
            py.detach(|| self.forget_gone());
            if is_enough() {
                break;
            }
            if deadline.is_over() {
                return Ok(false);
            }
            py.check_signals()?;
            py.detach(|| self.signal(index).sleep(deadline.slice().min(SLICE), &is_enough));
        }
        Ok(true)
    }
}

/// The same, looked up once in a process.
fn known_identity() -> PyResult<u64> {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let known = KNOWN.load(SeqCst);
    if (known >> 32) as u32 == std::process::id() {
        return Ok(known);
    }
    let ours = own_identity()?;
    KNOWN.store(ours, SeqCst);
    Ok(ours)
}

/// This process.
pub(super) fn own_identity() -> PyResult<u64> {
    identity(std::process::id()).map_err(|error| {
        let message =
            format!("cannot look at this process in /proc, for others to know it: {error}");
        PyOSError::new_err((error.raw_os_error(), message))
    })
}
