//! Views that a forked process has inherited: it may read them for as long as it is that program, so until then
//! their memory is not the sender's again.
//!
//! A pipe tells how long that is. The forked process has its writing end, and so has whoever is forked from that
//! one in turn; this process has the reading end. A fork while there are no views costs nothing, any other one a
//! descriptor until the forked process is gone.
//!
//! What others have done before and after a fork may let other threads run, which fork, too, or get what the forked
//! process inherits. Forks that overlap so have one pipe, from the first to the end of the last.
//!
//! All of it is only looked at with the interpreter held, which a process that forks holds, too: so it is never
//! locked by a thread that the forked process does not have.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytepath::channel::{Borrowed, SharedBytes};
use pyo3::prelude::*;
use rustix::pipe::{PipeFlags, pipe_with};

use super::gate;
use super::inbox::is_readable;

/// Blocks that Python has views of.
static VIEWED: AtomicUsize = AtomicUsize::new(0);
/// Forks that are over; those that overlapped are one.
static FORKS: AtomicU64 = AtomicU64::new(0);
/// Blocks that are kept for forked processes alone.
static KEPT: AtomicUsize = AtomicUsize::new(0);
static KNOWN: Mutex<Known> =
    Mutex::new(Known { begun: None, forked: Vec::new(), kept: Vec::new() });

struct Known {
    /// While processes are being forked: the writing end, if a pipe was to be had.
    begun: Option<Option<OwnedFd>>,
    forked: Vec<Forked>,
    kept: Vec<Kept>,
}

/// A process that was forked while there were views, or those that were at once.
struct Forked {
    forks_before: u64,
    /// The reading end; where no pipe was to be had it is taken to be there for ever.
    ends: Option<OwnedFd>,
}

/// A block that nobody has a view of here any more.
struct Kept {
    forks_before: u64,
    _borrowed: Borrowed,
}

/// A block of the sender's, which has it back when neither this nor a forked process has it any more.
#[derive(Debug)]
pub(crate) struct Lent {
    /// Until it is dropped.
    borrowed: Option<Borrowed>,
    forks_before: u64,
}

impl Lent {
    pub(super) fn new(borrowed: Borrowed) -> Lent {
        VIEWED.fetch_add(1, SeqCst);
        if gate::is_closed() {
            known().begin();
        }
        Lent { borrowed: Some(borrowed), forks_before: FORKS.load(SeqCst) }
    }

    pub(crate) fn bytes(&self) -> SharedBytes<'_> {
        self.borrowed.as_ref().expect("it is there until this is dropped").bytes()
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        VIEWED.fetch_sub(1, SeqCst);
        let forks_before = self.forks_before;
        if let Some(borrowed) = self.borrowed.take()
            && (forks_before < FORKS.load(SeqCst) || gate::is_closed())
        {
            let mut known = known();
            known.kept.push(Kept { forks_before, _borrowed: borrowed });
            known.give_back();
        }
    }
}

impl Known {
    /// Has what is being forked hold the views that there are.
    fn begin(&mut self) {
        if self.begun.is_some() {
            return;
        }
        self.give_back();
        let (ends, begun) = pipe_with(PipeFlags::CLOEXEC).ok().unzip();
        self.begun = Some(begun);
        self.forked.push(Forked { forks_before: FORKS.load(SeqCst), ends });
    }

    /// Gives back what no forked process has any more.
    fn give_back(&mut self) {
        self.forked.retain(Forked::lives);
        let forked = &self.forked;
        let has = |kept: &Kept| forked.iter().any(|it| it.forks_before >= kept.forks_before);
        self.kept.retain(has);
        KEPT.store(self.kept.len(), SeqCst);
    }
}

impl Forked {
    fn lives(&self) -> bool {
        // Nobody writes: it is readable once nobody could.
        self.ends.as_ref().is_none_or(|ends| !is_readable(ends))
    }
}

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives back what no forked process has any more, if anything is kept for one.
pub(super) fn give_back(_: Python<'_>) {
    if KEPT.load(SeqCst) > 0 {
        known().give_back();
    }
}

/// Whether something is kept for forked processes, of whose end no descriptor tells that Python waits on.
#[pyfunction]
pub(crate) fn gives_back_later() -> bool {
    KEPT.load(SeqCst) > 0
}

/// To be called before this process forks.
#[pyfunction]
pub(crate) fn about_to_fork() {
    gate::close();
    if VIEWED.load(SeqCst) > 0 {
        known().begin();
    }
}

/// To be called when it has, or could not.
#[pyfunction]
pub(crate) fn forked_in_parent() {
    if gate::open() {
        FORKS.fetch_add(1, SeqCst);
        known().begun = None;
    }
}

/// To be called in the forked process, which keeps nothing for others.
#[pyfunction]
pub(crate) fn forked_in_child() {
    gate::open_in_child();
    let mut known = known();
    // Open for as long as this process is there.
    std::mem::forget(known.begun.take());
    known.forked.clear();
    known.give_back();
}
