//! How an end waits: first awake for a moment, then asleep on its descriptor, in slices between which
//! Python's signals are seen.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use super::errors::os_error;
use super::{forks, gate};

/// Waking another CPU may cost as much as this, so that staying awake in vain at most doubles it.
const AWAKE: Duration = Duration::from_micros(100);
/// A sleep lasts no longer: a signal that came just before it is seen then, and so is what another thread
/// has changed.
const SLICE: Duration = Duration::from_millis(50);
/// Between two looks at what nobody tells of.
const MOMENT: Duration = Duration::from_millis(2);
/// Looks between two looks at the clock, and after how long others are let run.
const TURNS: u32 = 32;
const ALONE: Duration = Duration::from_micros(20);

/// When to give up: never, or at a moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    /// As Python tells it: seconds, or None for never.
    pub(crate) fn after(timeout: Option<f64>) -> Deadline {
        let longest = 1e9;
        // What is no number is no time.
        let timeout = timeout.filter(|&seconds| seconds < longest || seconds.is_nan());
        Deadline(timeout.map(|seconds| {
            Instant::now() + Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or_default()
        }))
    }

    pub(crate) fn earlier(self, other: Deadline) -> Deadline {
        match (self.0, other.0) {
            (Some(one), Some(other)) => Deadline(Some(one.min(other))),
            (one, other) => Deadline(one.or(other)),
        }
    }

    pub(crate) fn is_over(self) -> bool {
        self.0.is_some_and(|until| Instant::now() >= until)
    }

    pub(crate) fn slice(self) -> Duration {
        self.0.map_or(SLICE, |until| SLICE.min(until.saturating_duration_since(Instant::now())))
    }
}

/// What an end that waits can do.
pub(crate) trait Waiter: Sync {
    type Got: Send;
    /// Looks whether it can go on.
    fn look(&self) -> Result<Option<Self::Got>, PyError>;
    /// Whether spinning would only keep the other end from going on.
    fn spins_in_vain(&self) -> bool;
    /// The descriptor that becomes readable once it can go on; `None` where it can already, or nobody
    /// would tell.
    fn watch(&self) -> Result<Option<Arc<OwnedFd>>, PyError>;
}

/// An error that is made into an exception where the interpreter is held.
pub(crate) type PyError = Box<dyn FnOnce(Python<'_>) -> PyErr + Send>;

/// Waits, without the interpreter's lock; `None` where the time is over.
pub(crate) fn wait<W: Waiter>(
    py: Python<'_>,
    waiter: &W,
    deadline: Deadline,
) -> PyResult<Option<W::Got>> {
    if deadline.is_over() {
        return Ok(None);
    }
    if let Some(got) = py.detach(|| spin(waiter, deadline)).map_err(|error| error(py))? {
        return Ok(Some(got));
    }
    let mut in_vain = false;
    loop {
        py.check_signals()?;
        forks::give_back(py);
        let turn = py.detach(|| {
            let watched = {
                let _look = gate::look();
                waiter.watch()?
            };
            match watched {
                Some(events) => {
                    in_vain = false;
                    sleep(events.as_fd(), deadline.slice()).map_err(|errno| -> PyError {
                        Box::new(move |_| os_error("cannot wait for the channel", errno))
                    })?;
                }
                None if in_vain => std::thread::sleep(MOMENT.min(deadline.slice())),
                None => in_vain = true,
            }
            let _look = gate::look();
            waiter.look()
        });
        match turn.map_err(|error| error(py))? {
            Some(got) => return Ok(Some(got)),
            None if deadline.is_over() => {
                py.check_signals()?;
                return Ok(None);
            }
            None => {}
        }
    }
}

fn spin<W: Waiter>(waiter: &W, deadline: Deadline) -> Result<Option<W::Got>, PyError> {
    let began = Instant::now();
    loop {
        let look = gate::look();
        let in_vain = waiter.spins_in_vain();
        for _ in 0..if in_vain { 2 } else { TURNS } {
            if let Some(got) = waiter.look()? {
                return Ok(Some(got));
            }
            if in_vain {
                std::thread::yield_now();
            } else {
                std::hint::spin_loop();
            }
        }
        drop(look);
        let spent = began.elapsed();
        if in_vain || spent > AWAKE || deadline.is_over() {
            return Ok(None);
        }
        if spent > ALONE {
            std::thread::yield_now();
        }
    }
}

fn sleep(fd: BorrowedFd<'_>, most: Duration) -> Result<(), Errno> {
    let most = Timespec::try_from(most).unwrap_or_default();
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&most)) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}
