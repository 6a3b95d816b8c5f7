//! Which files are so large that several threads copy one.

use std::os::fd::AsFd;

use rustix::fs::{FileType, fstat, fstatfs};

use super::place::kind;

/// Files from this size on are copied one after the other, each by several threads.
const LARGE_BYTES: i64 = 96 << 20;
/// To memory, where several threads copy one file as fast as they copy several.
const LARGE_BYTES_IN_MEMORY: i64 = 32 << 20;

/// Whether a file of this size is one of those, of a file system that this is on.
pub(super) fn is_large(bytes: i64, sink: impl AsFd) -> bool {
    bytes >= LARGE_BYTES || bytes >= LARGE_BYTES_IN_MEMORY && is_in_memory(sink)
}

/// Whether a file or directory is of a file system that keeps its files in memory and nowhere else. The
/// nodes of devices may lie on one too, which tells nothing of where their bytes go.
pub(super) fn is_in_memory(sink: impl AsFd) -> bool {
    // <linux/magic.h>
    const TMPFS_MAGIC: u32 = 0x0102_1994;
    const RAMFS_MAGIC: u32 = 0x8584_58f6;
    let holds_files = |kind| matches!(kind, FileType::RegularFile | FileType::Directory);
    fstatfs(&sink).is_ok_and(|on| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(on.f_type as u32)))
        && fstat(&sink).is_ok_and(|stat| holds_files(kind(&stat)))
}
