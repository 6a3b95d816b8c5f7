//! Holes of files, as far as their file systems can be believed.
//!
//! Files of ext4 that have no extents, as those that were made by ext2 and ext3, are told wrong: data
//! that has no blocks yet, as it waits in memory, is taken for a hole where blocks are missing before
//! it (Linux 6.18). Once it is on the device it is told, so it is brought there first; of all others
//! that is done only where nothing at all is told to be data and there are blocks all the same.

use std::os::fd::BorrowedFd;

use rustix::fs::SeekFrom;
use rustix::io::Errno;

use crate::machine;
use crate::sys::write_back::{Until, write_back};

/// The holes of one open file. Costs a system call before the first is asked for, on ext4 another.
#[derive(Debug, Clone, Copy)]
pub struct Holes<'fd> {
    file: BorrowedFd<'fd>,
    are_believed: bool,
}

impl<'fd> Holes<'fd> {
    /// Those of this file. Where data has to be on the device first, waits for it.
    pub fn of(file: BorrowedFd<'fd>) -> Holes<'fd> {
        let whole = 0..i64::MAX as u64;
        let are_believed =
            !has_late_blocks(file) || write_back(file, &whole, Until::Written).is_ok();
        Holes { file, are_believed }
    }

    /// Where there is data next, from a place on; none behind a hole up to the end. The file stands
    /// there afterwards, if there is any.
    ///
    /// # Errors
    /// The kernel's word; EINVAL or EOPNOTSUPP where holes are not told of, or not to be believed.
    pub fn data(&self, at: u64) -> Result<Option<u64>, Errno> {
        if !self.are_believed {
            return Err(Errno::OPNOTSUPP);
        }
        let ask = || match rustix::fs::seek(self.file, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => Ok(None),
            answer => answer.map(Some),
        };
        let has_blocks = || rustix::fs::fstat(self.file).is_ok_and(|stat| stat.st_blocks > 0);
        match ask()? {
            None if at == 0 && has_blocks() => {
                rustix::fs::fdatasync(self.file).map_err(|_| Errno::OPNOTSUPP)?;
                ask()
            }
            answer => Ok(answer),
        }
    }

    /// Where a hole begins next, from data on; at the end if there is none before. The file stands there
    /// afterwards.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn hole(&self, data: u64) -> Result<u64, Errno> {
        rustix::fs::seek(self.file, SeekFrom::Hole(data))
    }
}

/// Whether data of a file may have no blocks yet that its file system goes by.
fn has_late_blocks(file: BorrowedFd<'_>) -> bool {
    /// FS_EXTENT_FL of linux/fs.h, which rustix has no name for.
    const EXTENTS: u32 = 0x8_0000;
    let has_extents =
        || rustix::fs::ioctl_getflags(file).is_ok_and(|flags| flags.bits() & EXTENTS != 0);
    // Whose file an overlay gives is told by its flags alone.
    matches!(machine::type_of(file), Some("ext4" | "overlay")) && !has_extents()
}
