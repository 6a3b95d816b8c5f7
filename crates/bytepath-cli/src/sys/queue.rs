//! Signals as a queue that can be waited for: a bit for each that came, and a pipe, which is readable
//! then. Sandboxes refuse the pair of sockets that is usual for this, and what is sent through it.
//!
//! Not for a process whose threads have tables of open files of their own: the handler runs in any of
//! them, and the pipe would be another file there.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::SigId;
use signal_hook::low_level::{register, unregister};

use super::actions::Quiet;

/// Signals that came and were not looked at.
#[derive(Debug)]
pub(crate) struct Queue {
    read: OwnedFd,
    heard: Arc<Heard>,
    caught: Vec<SigId>,
}

#[derive(Debug)]
struct Heard {
    came: AtomicU64,
    write: OwnedFd,
}

impl Queue {
    /// Catches these signals from now on.
    ///
    /// # Errors
    /// There is no pipe, or the signals are kept from the process.
    pub(crate) fn of(signals: impl IntoIterator<Item = i32>) -> std::io::Result<Queue> {
        let _quiet = Quiet::begin();
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let heard = Arc::new(Heard { came: AtomicU64::new(0), write });
        let mut queue = Queue { read, heard, caught: Vec::new() };
        signals.into_iter().try_for_each(|signal| queue.add(signal))?;
        Ok(queue)
    }

    /// Catches another.
    pub(crate) fn add(&mut self, signal: i32) -> std::io::Result<()> {
        let _quiet = Quiet::begin();
        let heard = self.heard.clone();
        let hear = move || {
            heard.came.fetch_or(1 << signal, SeqCst);
            // A pipe that is full is readable.
            let _ = rustix::io::write(&heard.write, b"!");
        };
        // SAFETY: it changes an atomic number and makes one system call, both of which handlers may.
        self.caught.push(unsafe { register(signal, hear) }?);
        Ok(())
    }

    /// Waits for one, no longer than this.
    pub(crate) fn wait(&self, most: Option<&Timespec>) {
        let mut fds = [PollFd::new(&self.read, PollFlags::IN)];
        // A signal that interrupts it is one of those that it waits for.
        let _ = poll(&mut fds, most);
    }

    /// Whether any came since they were last asked for.
    pub(crate) fn has_any(&self) -> bool {
        self.heard.came.load(SeqCst) != 0
    }

    /// Those that came since they were last asked for, each once.
    pub(crate) fn came(&self) -> impl Iterator<Item = i32> + use<> {
        // What comes after this is asked for once more, perhaps in vain.
        while rustix::io::read(&self.read, &mut [0; 64]).is_ok_and(|count| count > 0) {}
        let came = self.heard.came.swap(0, SeqCst);
        (1..64).filter(move |signal| came & 1 << signal != 0)
    }
}

impl AsFd for Queue {
    /// Readable when a signal came.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.read.as_fd()
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        for caught in self.caught.drain(..) {
            unregister(caught);
        }
    }
}
