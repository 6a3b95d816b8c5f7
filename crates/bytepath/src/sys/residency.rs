//! How much of a file is in the page cache: mincore(2) on a mapping that nobody looks at.

#![allow(unsafe_code)]

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// Bytes looked at in one call: a whole number of pages of every size.
const PIECE_BYTES: u64 = 256 << 20;

/// How many bytes of a file lie in the page cache, in whole pages. For files that the caller may
/// neither own nor write the kernel says that all do (since Linux 5.2).
///
/// # Errors
/// It cannot be mapped.
pub fn resident_bytes(file: impl AsFd) -> Result<u64, Errno> {
    let bytes = u64::try_from(rustix::fs::fstat(&file)?.st_size).unwrap_or(0);
    let (mut at, mut pages) = (0, 0);
    while at < bytes {
        let piece = PIECE_BYTES.min(bytes - at);
        pages += resident_pages(&file, at, piece as usize)?;
        at += piece;
    }
    Ok(pages * rustix::param::page_size() as u64)
}

fn resident_pages(file: impl AsFd, at: u64, bytes: usize) -> Result<u64, Errno> {
    let none = std::ptr::null_mut();
    // SAFETY: the kernel chooses the address, so no existing memory is replaced.
    let start =
        unsafe { rustix::mm::mmap(none, bytes, ProtFlags::READ, MapFlags::SHARED, file, at) }?;
    let mut pages = vec![0_u8; bytes.div_ceil(rustix::param::page_size())];
    // SAFETY: the range is the mapping made above, and there is a byte for each of its pages.
    let answer = unsafe { libc::mincore(start, bytes, pages.as_mut_ptr()) };
    let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO);
    // SAFETY: this is the mapping made above, and nothing points into it.
    unsafe { rustix::mm::munmap(start, bytes) }?;
    match answer {
        0 => Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64),
        _ => Err(errno),
    }
}
