//! A table of open files that a thread has to itself.
//!
//! Threads that open and close files one after the other in one table wait for each other's locks
//! and cache lines: copying small files with two threads took a third less time with two tables.
//! Costs two calls when the thread begins, and one for each file that it gets from the others.

#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// The first descriptor that is none of the standard ones.
const FIRST: libc::c_uint = 3;

/// Says that this thread has a table of its own, and gets files from that of the process.
pub(crate) struct OwnFiles {
    process: OwnedFd,
}

impl OwnFiles {
    /// Gives this thread a table with nothing but the standard descriptors in it; `None` where that,
    /// or getting files from the other table, is refused, and all is as it was. To be called by a
    /// thread that has nothing open: from now on, descriptors of other threads mean nothing here,
    /// and what this one opens means nothing to them.
    ///
    /// # Errors
    /// There is a table, but files cannot be got from the other.
    pub(crate) fn begin() -> Result<Option<OwnFiles>, Errno> {
        // Nothing of this may be open any more when the table is changed.
        let refused = of_process().and_then(|process| get(&process, &process).map(drop)).is_err();
        if refused {
            return Ok(None);
        }
        match begin_empty() {
            true => of_process().map(|process| Some(OwnFiles { process })),
            false => Ok(None),
        }
    }

    /// A descriptor of this thread for what another thread has open as this one, and keeps open
    /// meanwhile. It may only be borrowed here: dropping it would close another file.
    pub(crate) fn get(&self, theirs: &OwnedFd) -> Result<OwnedFd, Errno> {
        get(&self.process, theirs)
    }
}

/// Gives this thread a table with nothing but the standard descriptors in it, so that the others need
/// not mind it; false where that is refused, and all is as it was. To be called by a thread that has
/// nothing else open.
pub(crate) fn begin_empty() -> bool {
    // SAFETY: it closes descriptors in a table that only this thread has from then on, where none
    // of them is in use, and changes nothing where it fails.
    let done = unsafe {
        let unshares = libc::CLOSE_RANGE_UNSHARE;
        libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, unshares)
    };
    done == 0
}

/// Makes room for so many open files, if they may be, in the table of a process that has one thread. Later,
/// with several threads, the kernel waits at each such growth until every CPU has done something else
/// (expand_fdtable calls synchronize_rcu: 14 ms on 16 CPUs, in which a tree of 20,000 files could be copied).
pub(crate) fn make_room(files: usize) {
    let Ok(last) = RawFd::try_from(files) else { return };
    if let Ok(any) = eventfd(0, EventfdFlags::CLOEXEC) {
        // Without it, it takes longer.
        let _ = rustix::io::fcntl_dupfd_cloexec(&any, last);
    }
}

/// Stands for the process, the first thread of which has the table that others share.
fn of_process() -> Result<OwnedFd, Errno> {
    pidfd_open(getpid(), PidfdFlags::empty())
}

fn get(process: &OwnedFd, theirs: &OwnedFd) -> Result<OwnedFd, Errno> {
    pidfd_getfd(process.as_fd(), theirs.as_raw_fd(), PidfdGetfdFlags::empty())
}
