//! `--direct-io`: what O_DIRECT wants of memory and descriptors.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;

use bytepath::{Endpoint, Kind};
use rustix::fs::OFlags;

/// Takes O_DIRECT off, where it was on: the last bytes of a file rarely fill a block.
pub(crate) fn undirected(fd: impl AsFd) -> bool {
    let Ok(flags) = rustix::fs::fcntl_getfl(&fd) else { return false };
    flags.contains(OFlags::DIRECT)
        && rustix::fs::fcntl_setfl(&fd, flags.difference(OFlags::DIRECT)).is_ok()
}

/// The open files that have it by us, each with the flags that it had: other processes share them, and
/// have them back also when a signal ends this one.
static CHANGED: Mutex<Vec<(OwnedFd, OFlags)>> = Mutex::new(Vec::new());

/// O_DIRECT on a descriptor, where its file system has it, until this is dropped.
pub(crate) struct Directed(Option<RawFd>);

impl Directed {
    /// Only where it is about the page cache: a pipe would become one of packets (pipe(2)), whose
    /// reader loses what it does not take at once.
    pub(crate) fn set(end: &Endpoint<'_>) -> Self {
        let cached = matches!(end.kind(), Kind::File | Kind::BlockDevice);
        Directed(cached.then(|| set(end.as_fd())).flatten())
    }
}

/// Sets it and notes what was there; by which descriptor, if it could be done.
fn set(fd: BorrowedFd<'_>) -> Option<RawFd> {
    let kept = fd.try_clone_to_owned().ok()?;
    let before = rustix::fs::fcntl_getfl(fd).ok()?;
    let mut changed = CHANGED.lock().ok()?;
    rustix::fs::fcntl_setfl(fd, before | OFlags::DIRECT).ok()?;
    let number = kept.as_raw_fd();
    changed.push((kept, before));
    Some(number)
}

impl Drop for Directed {
    fn drop(&mut self) {
        let Some(number) = self.0 else { return };
        put_back(|kept| kept.as_raw_fd() == number);
    }
}

/// Gives all of them the flags that they had.
pub(crate) fn put_back_all() {
    put_back(|_| true);
}

fn put_back(which: impl Fn(&OwnedFd) -> bool) {
    let Ok(mut changed) = CHANGED.lock() else { return };
    for (kept, before) in changed.extract_if(.., |(kept, _)| which(kept)) {
        let _ = rustix::fs::fcntl_setfl(&kept, before);
    }
}
