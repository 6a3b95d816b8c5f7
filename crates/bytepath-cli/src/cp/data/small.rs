//! Small files: read into memory that each thread keeps, and written from there, with no plan made.
//!
//! Costs per file: one read, one write and one copy more than inside the kernel, which for so few
//! bytes is less than asking it for that. Another read where the first does not show the end.

use std::cell::RefCell;

use rustix::fs::{FileType, Stat};

use super::{Data, Fault};
use crate::cp::entry::Shared;
use crate::cp::place::kind;
use crate::cp::settings::Sparse;

/// A file of this size or more is worth a plan.
const SMALL_BYTES: i64 = 128 << 10;

thread_local! {
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

impl Data<'_> {
    /// Whether nothing needs to be known of a new copy for it to get the bytes of such a file.
    pub(in crate::cp) fn is_plain(shared: &Shared<'_>, stat: &Stat) -> bool {
        let (settings, plan) = (shared.settings, shared.plan);
        let asks = plan.route.is_some() || plan.profile.is_some() || plan.explain_plan;
        kind(stat) == FileType::RegularFile
            && (0..SMALL_BYTES).contains(&stat.st_size)
            && settings.sparse != Sparse::Always
            // It tells how much the kernel did by itself.
            && !settings.debug
            && !asks
            && !shared.extras.one_by_one()
    }

    /// Whether it is a small file of which only the bytes are wanted. A file that says it is empty
    /// may be one of /proc.
    pub(super) fn is_small(&self) -> bool {
        self.sink_is_file && Data::is_plain(self.shared, &self.source_stat)
    }

    /// Copies it, and all that it has become longer by.
    pub(super) fn copy_small(&self) -> Result<(), Fault> {
        ROOM.with_borrow_mut(|room| {
            // One more, so that a read that fills it is not taken for the end.
            room.resize(SMALL_BYTES as usize + 1, 0);
            let mut done = 0;
            loop {
                let count = self.read(room)?;
                if count == 0 {
                    return Ok(());
                }
                self.write(&room[..count])?;
                self.shared.tally.add(count as u64);
                if self.is_all(count) {
                    return Ok(());
                }
                done += count as u64;
                self.shared.hand.reached(done);
            }
        })
    }

    /// Whether so many bytes, read at once where more were asked for, are the file. Files of /proc
    /// and /sys are on no device, and may give the rest with the next read.
    fn is_all(&self, count: usize) -> bool {
        self.source_stat.st_blocks > 0 && i64::try_from(count) == Ok(self.source_stat.st_size)
    }
}
