//! Sharing a range of one file's extents with another (FICLONERANGE), which rustix has for whole
//! files only.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, AsRawFd};

use rustix::io::Errno;
use rustix::ioctl::{Setter, ioctl};

/// struct file_clone_range of linux/fs.h.
#[repr(C)]
struct CloneRange {
    source: i64,
    source_offset: u64,
    source_length: u64,
    sink_offset: u64,
}

/// FICLONERANGE of linux/fs.h.
const FICLONERANGE: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<CloneRange>(0x94, 13);

/// Makes `bytes` of the sink from `to` on the same as those of the source from `from` on. A length
/// of 0 would mean everything, and is refused here.
pub(crate) fn clone_range(
    source: impl AsFd,
    from: u64,
    bytes: u64,
    sink: impl AsFd,
    to: u64,
) -> Result<(), Errno> {
    if bytes == 0 {
        return Err(Errno::INVAL);
    }
    let range = CloneRange {
        source: i64::from(source.as_fd().as_raw_fd()),
        source_offset: from,
        source_length: bytes,
        sink_offset: to,
    };
    // SAFETY: FICLONERANGE reads a struct file_clone_range, which this is, and keeps no pointer.
    let call = unsafe { Setter::<FICLONERANGE, CloneRange>::new(range) };
    // SAFETY: the call only reads the record and the two descriptors, which are open.
    unsafe { ioctl(sink, call) }
}
