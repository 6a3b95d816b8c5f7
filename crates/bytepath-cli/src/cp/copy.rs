//! The copy of a file while it is open.

use std::cell::OnceCell;
use std::os::fd::OwnedFd;

use rustix::fs::Stat;
use rustix::io::Errno;

use super::atomic::Unnamed;
use super::data::SinkEnd;
use super::pair::Within;

/// The copy while it is open.
pub(super) struct Copy {
    pub(super) open: OwnedFd,
    pub(super) is_new: bool,
    /// Permissions that it has only once it has its owner.
    pub(super) omitted: u32,
    /// The name that it gets when it is whole.
    pub(super) unnamed: Option<Box<Unnamed>>,
    /// What an earlier run left of it.
    pub(super) kept: Kept,
    /// Whether that run may have made it, and not come to its attributes.
    pub(super) is_left: bool,
    /// The directory that it was made in, where that is known.
    pub(super) within: Option<Within>,
    /// Its status, once that was asked for.
    pub(super) stat: OnceCell<Stat>,
}

/// What an earlier run left of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    Nothing,
    /// So many bytes; both files stand behind them.
    Bytes(u64),
    Whole,
}

impl Copy {
    pub(super) fn new(open: OwnedFd, is_new: bool, omitted: u32, unnamed: Option<Unnamed>) -> Copy {
        let unnamed = unnamed.map(Box::new);
        let (kept, within, stat) = (Kept::Nothing, None, OnceCell::new());
        Copy { open, is_new, omitted, unnamed, kept, is_left: false, within, stat }
    }

    /// Its status. Once that was asked for, Linux gives its next change a time of its own (multigrain
    /// timestamps, since 6.13), for which XFS begins a transaction: of a new file it is not asked for
    /// before the bytes are there.
    pub(super) fn stat(&self) -> Result<&Stat, Errno> {
        match self.stat.get() {
            Some(stat) => Ok(stat),
            None => rustix::fs::fstat(&self.open).map(|stat| self.stat.get_or_init(|| stat)),
        }
    }

    /// Where its bytes go.
    pub(super) fn ends(&self) -> Result<SinkEnd, Errno> {
        match self.within {
            Some(within) if self.is_new => Ok(SinkEnd { device: within.device, is_file: true }),
            _ => self.stat().map(SinkEnd::of),
        }
    }

    /// Whether it is known to have no access list.
    pub(super) fn is_without_list(&self) -> bool {
        self.is_new && self.within.is_some_and(|within| !within.gives_lists)
    }
}
