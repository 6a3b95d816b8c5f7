//! Runs work that may take long without holding the interpreter: in a thread of its own, while the
//! calling thread looks after signals, progress and peers that do not move.
//!
//! Where the interpreter ends meanwhile, the calling thread (a daemon, as others are waited for) sleeps
//! until the process is gone: PyO3 sees to that, also before Python 3.14, which would end the thread
//! through frames of Rust.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytepath::{Cancel, Meter};
use pyo3::prelude::*;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::errors;

/// A signal wakes the main thread at once, unless the kernel gave it to another; so often it looks by
/// itself.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What the calling thread looks after.
pub(crate) struct Watch<'a> {
    /// Called with the bytes so far.
    pub(crate) progress: Option<&'a Bound<'a, PyAny>>,
    /// Bytes that the sink took before this work, which count.
    pub(crate) before: u64,
    /// How often.
    pub(crate) every: Duration,
    /// How long nothing may move.
    pub(crate) stall: Option<Duration>,
    /// Where the bytes are counted.
    pub(crate) meter: &'a Meter,
}

impl Watch<'_> {
    /// Bytes so far.
    fn bytes(&self) -> u64 {
        self.before + self.meter.bytes()
    }
}

/// What ended the work before it was done.
pub(crate) enum Ended {
    /// An exception of a signal's handler, or of the callback.
    Raised(PyErr),
    /// Nothing moved for so long.
    Stalled(Duration),
}

/// What became of the work, and what ended it, if anything did.
pub(crate) type Outcome<T> = (T, Option<Ended>);

/// Does short work on this thread, the interpreter let go of meanwhile.
pub(crate) fn at_once<T: Send>(py: Python<'_>, work: impl FnOnce() -> T + Send) -> T {
    py.detach(work)
}

/// Does work on a thread of its own. An exception (of a signal's handler, or of the callback) cancels it,
/// and so does that nothing moved for too long.
///
/// # Errors
/// There are no descriptors or threads left.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    watch: &Watch<'_>,
    work: impl FnOnce(&Cancel) -> T + Send,
) -> PyResult<Outcome<T>> {
    let lacking = |what, error: std::io::Error| errors::lacking(py, what, &error, watch.before);
    let cancel = Cancel::new().map_err(|error| lacking("descriptor", error))?;
    let done = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|errno| lacking("descriptor", errno.into()))?;
    std::thread::scope(|scope| {
        let (own_cancel, own_done) = (&cancel, done.as_fd());
        let worker = std::thread::Builder::new().name("bytepath".to_owned()).spawn_scoped(
            scope,
            move || {
                // Also where the work panics, so that nobody waits for it.
                let _told = Told(own_done);
                work(own_cancel)
            },
        );
        let worker = worker.map_err(|error| lacking("thread", error))?;
        let mut stalled = Stalled::new(watch.stall);
        let mut told = Instant::now();
        let mut ended = None;
        while !wait(py, done.as_fd(), watch.every.min(LOOK_EVERY)) {
            let looked = py
                .check_signals()
                .map_err(Ended::Raised)
                .and_then(|()| stalled.look(watch.bytes()))
                .and_then(|()| {
                    if told.elapsed() < watch.every {
                        return Ok(());
                    }
                    told = Instant::now();
                    tell(watch).map_err(Ended::Raised)
                });
            if let Err(by) = looked {
                cancel.cancel();
                ended = Some(by);
                break;
            }
        }
        // After a cancel it stops within a call, which nothing can hurry.
        match py.detach(|| worker.join()) {
            Ok(done) => Ok((done, ended)),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Calls back with the bytes so far.
///
/// # Errors
/// The callback's.
pub(crate) fn tell(watch: &Watch<'_>) -> PyResult<()> {
    match watch.progress {
        Some(progress) => progress.call1((watch.bytes(),)).map(drop),
        None => Ok(()),
    }
}

/// Whether the work was done within that time; a signal ends the wait.
fn wait(py: Python<'_>, done: std::os::fd::BorrowedFd<'_>, most: Duration) -> bool {
    py.detach(|| {
        let most = Timespec::try_from(most).ok();
        let mut ends = [PollFd::from_borrowed_fd(done, PollFlags::IN)];
        poll(&mut ends, most.as_ref()).is_ok_and(|count| count > 0)
    })
}

/// Says that the work is over.
struct Told<'fd>(std::os::fd::BorrowedFd<'fd>);

impl Drop for Told<'_> {
    fn drop(&mut self) {
        let _ = rustix::io::write(self.0, &1_u64.to_ne_bytes());
    }
}

/// Whether anything moves.
struct Stalled {
    most: Option<Duration>,
    bytes: u64,
    since: Instant,
}

impl Stalled {
    fn new(most: Option<Duration>) -> Stalled {
        Stalled { most, bytes: 0, since: Instant::now() }
    }

    fn look(&mut self, bytes: u64) -> Result<(), Ended> {
        let Some(most) = self.most else { return Ok(()) };
        if bytes != self.bytes {
            (self.bytes, self.since) = (bytes, Instant::now());
        }
        if self.since.elapsed() < most { Ok(()) } else { Err(Ended::Stalled(most)) }
    }
}
