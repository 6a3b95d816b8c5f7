//! A thread that looks at files before their turn, once one that copies has to wait for a device though
//! the blocks of files are shared and their data not read: what it waits for then are their inodes, which
//! nothing in the kernel can be asked for ahead.
//!
//! It shares the table of open files of the one who goes through the tree, where the directories are open.

use std::sync::atomic::Ordering::Relaxed;

use rustix::fs::{AtFlags, statat};

use super::{Batch, Hall};

/// Inodes that are read together: XFS has 512 bytes for each and reads 16 KiB at once.
const INODES_TOGETHER: u64 = 32;

impl Hall {
    /// Somebody waits for a device.
    pub(super) fn is_waited_in(&self) {
        if !self.waits.load(Relaxed) {
            self.waits.store(true, Relaxed);
        }
    }

    /// The work of the scout, until there will be no more to copy.
    pub(in crate::cp) fn scout(&self) {
        let mut queue = self.queue();
        while !queue.over {
            let next = queue.waiting.iter().find(|batch| !batch.scouted.swap(true, Relaxed));
            if let Some(batch) = next.cloned() {
                drop(queue);
                batch.look();
                drop(batch);
                queue = self.queue();
            } else {
                queue = self.scouts.wait(queue).expect("nobody panics holding it");
            }
        }
    }
}

impl Batch {
    /// Looks at one of all files whose inodes are read together, as long as nobody copies them. Whatever is
    /// in the way of this is told of when the file is copied.
    fn look(&self) {
        let mut last = None;
        for at in self.files.clone() {
            let inodes = self.folder.entries.inode(at) / INODES_TOGETHER;
            if last != Some(inodes) && self.next.load(Relaxed) <= at {
                let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
                let _ = statat(&self.folder.source, self.folder.entries.c_name(at), flags);
            }
            last = Some(inodes);
        }
    }
}
