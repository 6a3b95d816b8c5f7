//! How an end of a channel is to be.

use std::time::Duration;

use super::hello::TAKES_HUGETLB;
use crate::pages::PageSize;
use crate::wait::{HYBRID_BUDGET, Wait};

/// Who may be at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Users {
    /// The same user, or root.
    #[default]
    Same,
    /// Anybody. Memory from the pool of huge pages is not shared with them: they could take its
    /// pages away.
    Any,
}

impl Users {
    /// What an end takes that may have such a user at the other.
    pub(super) fn takes(self) -> u32 {
        match self {
            Users::Same => TAKES_HUGETLB,
            Users::Any => 0,
        }
    }
}

/// How an end of a channel is to be. The sender's says how large the ring is and what it is made of.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// Bytes of the ring, rounded up to a multiple of 64; 4 KiB at the least, 1 TiB at the most. A
    /// receiver takes a ring of up to 64 MiB, or of what its own setup says here where that is more: for
    /// a larger one, both ends say so.
    pub ring_bytes: usize,
    /// What the ring is made of. Of [`PageSize::Huge`] it takes whole ones, 2 MiB at the least; one of less
    /// than about 500 KiB is made of small ones instead, and takes what it has and a few KiB. Where
    /// [`PageSize::Huge`] is not to be had, pages of the pool of huge pages are taken, if both ends may have
    /// them, or else small ones. [`PageSize::Hugetlb`] is not done without.
    pub pages: PageSize,
    /// What this end does when it cannot go on.
    pub wait: Wait,
    /// Who may be at the other end.
    pub users: Users,
    /// How long the other end may take for each answer while the channel is made.
    pub patience: Duration,
}

/// Two of them fit into a common L2 cache, so that what one end wrote is still near for the other.
const RING_BYTES: usize = 512 << 10;

impl Default for Setup {
    fn default() -> Setup {
        Setup {
            ring_bytes: RING_BYTES,
            pages: PageSize::Huge,
            wait: Wait::Hybrid(HYBRID_BUDGET),
            users: Users::default(),
            patience: Duration::from_secs(5),
        }
    }
}
