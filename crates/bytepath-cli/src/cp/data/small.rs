//! Small files, and what is between holes that are close together, with no plan made: copied inside
//! the kernel, or read into memory that each thread keeps and written from there.
//!
//! Costs for each: one call; or one read, one write and one copy more. Another call where the first
//! does not show the end.

use std::cell::{Cell, RefCell};

use bytepath::pages::Memory;
use rustix::fs::{FileType, Stat, copy_file_range};
use rustix::io::Errno;

use super::{Data, Fault};
use crate::cp::entry::Shared;
use crate::cp::hand::Other;
use crate::cp::place::kind;
use crate::cp::settings::{Reflink, Sparse};

/// A file of this size or more is worth a plan.
const SMALL_BYTES: usize = 128 << 10;

thread_local! {
    /// Whether the kernel refused to copy between files, as it does from one device to another.
    static REFUSED: Cell<bool> = const { Cell::new(false) };
    static ROOM: RefCell<Option<Memory>> = const { RefCell::new(None) };
}

/// Does something with memory that has room for one byte more than a small file, so that a read that
/// fills it is not taken for the end.
fn with_room<T>(act: impl FnOnce(&mut [u8]) -> Result<T, Fault>) -> Result<T, Fault> {
    ROOM.with_borrow_mut(|kept| {
        let room = match kept {
            Some(room) => room,
            none => none.insert(super::room(SMALL_BYTES + 1)?),
        };
        act(room.as_mut_slice())
    })
}

impl Data<'_> {
    /// Whether nothing needs to be known of a new copy for it to get the bytes of such a file.
    pub(in crate::cp) fn is_plain(shared: &Shared<'_>, stat: &Stat) -> bool {
        kind(stat) == FileType::RegularFile
            && (0..SMALL_BYTES as i64).contains(&stat.st_size)
            && shared.settings.sparse != Sparse::Always
            && Data::needs_no_plan(shared)
    }

    /// Whether nothing was asked for that takes a plan, or tells of one.
    fn needs_no_plan(shared: &Shared<'_>) -> bool {
        let plan = shared.plan;
        let asks = plan.route.is_some() || plan.profile.is_some() || plan.explain_plan;
        // --debug tells how much the kernel did by itself.
        !shared.settings.debug && !asks && !shared.extras.one_by_one()
    }

    /// Whether so many bytes between two holes are copied by [`Data::copy_short`].
    pub(super) fn is_short(&self, bytes: u64) -> bool {
        bytes <= SMALL_BYTES as u64 && Data::needs_no_plan(self.shared)
    }

    /// Copies bytes between two holes; how many, which is fewer where the source was cut.
    pub(super) fn copy_short(&self, at: u64, bytes: u64) -> Result<u64, Fault> {
        with_room(|room| {
            let mut done = 0;
            while done < bytes {
                let most = (bytes - done) as usize;
                let count = match rustix::io::pread(self.source, &mut room[..most], at + done) {
                    Ok(0) => break,
                    Err(Errno::INTR) => continue,
                    answer => answer.map_err(Fault::Reading)?,
                };
                self.write_at(at + done, &room[..count])?;
                self.shared.hand.add(Other::ReadWrite, count as u64);
                done += count as u64;
                self.shared.hand.reached(at + done);
            }
            Ok(done)
        })
    }

    /// Whether it is a small file of which only the bytes are wanted. A file that says it is empty
    /// may be one of /proc.
    pub(super) fn is_small(&self) -> bool {
        self.sink_is_file && Data::is_plain(self.shared, &self.source_stat)
    }

    /// Copies it, and all that it has become longer by.
    pub(super) fn copy_small(&self) -> Result<(), Fault> {
        let start = self.copy_inside();
        if self.is_all(start) {
            return Ok(());
        }
        with_room(|room| {
            let mut done = start;
            loop {
                let count = self.read(room)?;
                if count == 0 {
                    return Ok(());
                }
                self.write(&room[..count])?;
                self.shared.hand.add(Other::ReadWrite, count as u64);
                done += count;
                if self.is_all(done) {
                    return Ok(());
                }
                self.shared.hand.reached(done as u64);
            }
        })
    }

    /// Copies what the kernel copies by itself, in one call; how many bytes. Whatever stops it is met
    /// again by the reading and writing of the rest, which tells the two apart.
    fn copy_inside(&self) -> usize {
        let stat = &self.source_stat;
        let asked = stat.st_size > 0
            && stat.st_blocks > 0
            && self.shared.settings.reflink != Reflink::Never;
        if !asked || REFUSED.get() {
            return 0;
        }
        match copy_file_range(self.source, None, self.sink, None, SMALL_BYTES) {
            Ok(count) => {
                self.shared.hand.add(Other::CopyFileRange, count as u64);
                self.shared.hand.reached(count as u64);
                count
            }
            Err(errno) => {
                REFUSED.set(errno != Errno::INTR);
                0
            }
        }
    }

    /// Whether so many bytes, come by where more were asked for, are the file. Files of /proc
    /// and /sys are on no device, and may give the rest with the next read.
    fn is_all(&self, count: usize) -> bool {
        self.source_stat.st_blocks > 0 && i64::try_from(count) == Ok(self.source_stat.st_size)
    }
}
