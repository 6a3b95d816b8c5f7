//! `--direct-io`: what O_DIRECT wants of memory and descriptors.

use std::os::fd::{AsFd, BorrowedFd};

use bytepath::{Endpoint, Kind};
use rustix::fs::OFlags;

/// Takes O_DIRECT off, where it was on: the last bytes of a file rarely fill a block.
pub(crate) fn undirected(fd: impl AsFd) -> bool {
    let Ok(flags) = rustix::fs::fcntl_getfl(&fd) else { return false };
    flags.contains(OFlags::DIRECT)
        && rustix::fs::fcntl_setfl(&fd, flags.difference(OFlags::DIRECT)).is_ok()
}

/// O_DIRECT on a descriptor, where its file system has it, until this is dropped.
pub(crate) struct Directed<'fd> {
    fd: BorrowedFd<'fd>,
    before: Option<OFlags>,
}

impl<'fd> Directed<'fd> {
    /// Only where it is about the page cache: a pipe would become one of packets (pipe(2)), whose
    /// reader loses what it does not take at once.
    pub(crate) fn set(end: &'fd Endpoint<'_>) -> Self {
        let fd = end.as_fd();
        let cached = matches!(end.kind(), Kind::File | Kind::BlockDevice);
        let before = cached.then(|| rustix::fs::fcntl_getfl(fd).ok()).flatten();
        let set = |flags: &OFlags| rustix::fs::fcntl_setfl(fd, *flags | OFlags::DIRECT).is_ok();
        Directed { fd, before: before.filter(set) }
    }
}

impl Drop for Directed<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = rustix::fs::fcntl_setfl(self.fd, before);
        }
    }
}
