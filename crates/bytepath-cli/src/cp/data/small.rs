//! Small files: read into memory that each thread keeps, and written from there, with no plan made.
//!
//! Costs per file: two reads, of which the second sees the end, one write and one copy more than
//! inside the kernel, which for so few bytes is less than asking it for that.

use std::cell::RefCell;

use rustix::fs::FileType;

use super::{Data, Fault};
use crate::cp::place::kind;
use crate::cp::settings::Sparse;

/// A file of this size or more is worth a plan.
const SMALL_BYTES: i64 = 128 << 10;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Data<'_> {
    /// Whether it is a small file of which only the bytes are wanted. A file that says it is empty
    /// may be one of /proc.
    pub(super) fn is_small(&self) -> bool {
        let (stat, settings, plan) =
            (&self.source_stat, self.shared.settings, self.shared.plan);
        let asks = plan.route.is_some() || plan.profile.is_some() || plan.explain_plan;
        kind(stat) == FileType::RegularFile
            && self.sink_is_file
            && (0..SMALL_BYTES).contains(&stat.st_size)
            && settings.sparse != Sparse::Always
            // It tells how much the kernel did by itself.
            && !settings.debug
            && !asks
    }

    /// Copies it, and all that it has become longer by.
    pub(super) fn copy_small(&self) -> Result<(), Fault> {
        ROOM.with_borrow_mut(|room| {
            // One more, so that a read that fills it is not taken for the end.
            room.resize(SMALL_BYTES as usize + 1, 0);
            loop {
                let count = self.fill(room)?;
                self.write(&room[..count])?;
                self.shared.tally.add(count as u64);
                if count < room.len() {
                    return Ok(());
                }
            }
        })
    }
}
