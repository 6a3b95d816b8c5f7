//! A directory that is being copied: both of its ends, and what is known of them.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::Stat;
use rustix::process::{Resource, getrlimit};

use super::rounds::Rounds;
use super::seen::{Identity, identity};
use super::turns::{Turn, Way};

/// Directories of one path that are held open, at most; fewer where few files may be open.
const OPEN_MAX: usize = 64;

/// A directory that is being copied.
pub(super) struct Level {
    pub(super) source: End,
    pub(super) sink: End,
    /// The place of what is in it.
    pub(super) way: Way,
    /// Where its entries are gone through in another order than that of their inodes.
    pub(super) rounds: Option<Rounds>,
}

impl Level {
    /// The first of its entries that is yet to be gone through, where later ones may have been.
    pub(super) fn first_left_out(&self) -> Option<Turn> {
        self.rounds.as_ref().and_then(Rounds::first_left).map(|at| self.way.entry(at))
    }
}

/// One end of it.
pub(super) struct End {
    /// Closed while the copying is far below.
    pub(super) open: Option<Arc<OwnedFd>>,
    pub(super) inode: Identity,
    /// Whether `..` of the next directory below leads back.
    pub(super) returns: bool,
}

/// How many levels may be open, by the limit on open files.
pub(super) fn levels_open() -> usize {
    // Each takes two; some are left for the files themselves and for the standard ones.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files.saturating_sub(10) / 2).unwrap_or(OPEN_MAX).clamp(1, OPEN_MAX)
}

/// The directory that was made for a copy, or was there.
pub(super) struct Target {
    pub(super) inode: Identity,
    /// Whether it is open for more than looking names up.
    pub(super) whole: bool,
    /// The mode that it is to have again.
    pub(super) mode: Option<u32>,
    pub(super) is_new: bool,
}

impl Target {
    /// A directory that several processes fill, open for more than looking names up; the mode that it
    /// is to have again, and whether one of them made it.
    pub(super) fn there(stat: &Stat, mode: Option<u32>, is_new: bool) -> Target {
        Target { inode: identity(stat), whole: true, mode, is_new }
    }
}
