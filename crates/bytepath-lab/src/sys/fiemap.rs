//! Where a file lies on its device, by the ioctl FS_IOC_FIEMAP
//! (Documentation/filesystems/fiemap.rst).

#![allow(unsafe_code)]

use std::fs::File;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};

/// Extents asked for: the first one tells whether there are any.
const EXTENTS: usize = 1;

/// `struct fiemap` of linux/fiemap.h with room for one extent.
#[repr(C)]
#[derive(Default)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped_extents: u32,
    extent_count: u32,
    reserved: u32,
    extents: [Extent; EXTENTS],
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// `struct fiemap` without its extents, by whose size the call is numbered.
const HEAD_BYTES: usize = 32;

/// `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: Opcode =
    opcode::from_components(rustix::ioctl::Direction::ReadWrite, b'f', 11, HEAD_BYTES);

/// The extent has no place that is known, or lies within something else (FIEMAP_EXTENT_UNKNOWN,
/// _DELALLOC, _ENCODED, _DATA_INLINE).
const NO_PLACE: u32 = 0x2 | 0x4 | 0x8 | 0x200;

/// Have the file's bytes written back first (FIEMAP_FLAG_SYNC).
const SYNC: u32 = 1;

/// Where on its device the first bytes of a file lie; `None` where they lie nowhere on one.
///
/// # Errors
/// The file system does not tell.
pub(crate) fn first_place(file: &File) -> Result<Option<u64>, Errno> {
    let mut map =
        Fiemap { length: u64::MAX, flags: SYNC, extent_count: EXTENTS as u32, ..Fiemap::default() };
    // SAFETY: the opcode is that of FIEMAP, whose argument is a `struct fiemap` followed by as many
    // extents as it says there is room for, and so is `Fiemap`.
    let call = unsafe { Updater::<'_, FS_IOC_FIEMAP, Fiemap>::new(&mut map) };
    // SAFETY: the kernel writes no further than the extents that there is room for.
    unsafe { ioctl(file, call) }?;
    let first = &map.extents[0];
    Ok((map.mapped_extents > 0 && first.flags & NO_PLACE == 0).then_some(first.physical))
}
