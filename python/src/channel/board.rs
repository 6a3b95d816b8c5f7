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

/// Words: each that is waited for is followed by one that changes with it and by how many wait.
const RECEIVER: usize = 0;
const INSIDE: usize = 16;
const UNDONE: usize = 32;
const CHANGES: usize = 1;
const WAITING: usize = 2;

const SLICE: Duration = Duration::from_millis(50);

/// A page of words that processes share.
#[pyclass(frozen, module = "bytepath._bytepath")]
#[derive(Debug)]
pub(crate) struct Board(SharedMemory);

#[pymethods]
impl Board {
    #[staticmethod]
    fn create() -> PyResult<Board> {
        let memory = SharedMemory::create(4096, PageSize::Base);
        memory.map(Board).map_err(no_memory)
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
        (self.word(INSIDE).load(SeqCst) as i64).max(0)
    }

    fn add_inside(&self, count: i64) {
        self.add(INSIDE, count);
    }

    /// Waits until fewer than so many are inside; false where that did not come in time.
    fn wait_for_room(&self, py: Python<'_>, most: i64, timeout: Option<f64>) -> PyResult<bool> {
        self.wait(py, INSIDE, timeout, |inside| inside < most)
    }

    fn undone(&self) -> i64 {
        self.word(UNDONE).load(SeqCst) as i64
    }

    pub(super) fn add_undone(&self, count: i64) {
        self.add(UNDONE, count);
    }

    /// Waits until all is done; false where that did not come in time.
    fn wait_until_done(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.wait(py, UNDONE, timeout, |undone| undone <= 0)
    }
}

impl Board {
    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0.words()[index]
    }

    fn signal(&self, index: usize) -> Signal<'_> {
        Signal { changes: self.0.half_word(index + CHANGES), waiting: self.word(index + WAITING) }
    }

    /// Another receiver, or none, follows one, if that is still so: what that one had not got is lost.
    fn follow(&self, theirs: u64, ours: u64) -> bool {
        let lost = self.word(INSIDE).load(SeqCst) as i64;
        let follows = self.word(RECEIVER).compare_exchange(theirs, ours, SeqCst, SeqCst).is_ok();
        if follows {
            self.add(INSIDE, -lost);
        }
        follows
    }

    fn add(&self, index: usize, count: i64) {
        self.word(index).fetch_add(count as u64, SeqCst);
        if count < 0 {
            self.signal(index).wake(i32::MAX as u32);
        }
    }

    fn wait(
        &self,
        py: Python<'_>,
        index: usize,
        timeout: Option<f64>,
        enough: impl Fn(i64) -> bool + Sync,
    ) -> PyResult<bool> {
        let deadline = Deadline::after(timeout);
        let is_enough = || enough(self.word(index).load(SeqCst) as i64);
        while !is_enough() {
            if deadline.is_over() {
                return Ok(false);
            }
            py.check_signals()?;
            py.detach(|| self.signal(index).sleep(deadline.slice().min(SLICE), is_enough));
        }
        Ok(true)
    }
}

/// This process.
pub(super) fn own_identity() -> PyResult<u64> {
    identity(std::process::id()).map_err(|error| {
        let message =
            format!("cannot look at this process in /proc, for others to know it: {error}");
        PyOSError::new_err((error.raw_os_error(), message))
    })
}
