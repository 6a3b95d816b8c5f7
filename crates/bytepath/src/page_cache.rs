//! What of a file is in the page cache: asked, filled, dropped.

use std::io::IoSliceMut;
use std::ops::Range;
use std::os::fd::AsFd;

use rustix::fs::{Advice, FileType};
use rustix::io::{Errno, ReadWriteFlags};

use crate::endpoint::place;
use crate::pages::AlignedBuffer;
use crate::sys::mapped_file::{Access, MappedFile};

/// RWF_DONTCACHE of linux/fs.h, which rustix has no name for.
pub(crate) const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

/// Mapped at once, when pages are counted.
const PIECE_BYTES: u64 = 1 << 30;

/// Read at once, when pages are filled.
const READ_BYTES: usize = 1 << 20;

/// How many of the pages of the first `bytes` of a file or device are in the page cache, and how
/// many pages there are; a regular file has none behind its end. The kernel tells only who owns or may write the file; to others it says
/// that all are.
///
/// # Errors
/// The kernel's word where the file cannot be mapped.
pub fn resident_pages(file: impl AsFd, bytes: u64) -> Result<(u64, u64), Errno> {
    let page = rustix::param::page_size() as u64;
    let status = rustix::fs::fstat(&file)?;
    let bytes = match FileType::from_raw_mode(status.st_mode) {
        FileType::RegularFile => bytes.min(u64::try_from(status.st_size).unwrap_or(0)),
        _ => bytes,
    };
    let (mut resident, mut at) = (0, 0);
    while at < bytes {
        let len = PIECE_BYTES.min(bytes - at) as usize;
        let mapping = MappedFile::from(&file, at, len, Access::Read)?;
        resident += mapping.residency()?.filter(|is_there| *is_there).count() as u64;
        at += len as u64;
    }
    Ok((resident, bytes.div_ceil(page)))
}

/// Whether each page of a range of a regular file, as far as the file goes, is in the page cache. The
/// range begins with a page. Told as by [`resident_pages`]; see [`is_told`].
///
/// # Errors
/// The kernel's word where the file cannot be mapped.
pub(crate) fn residency(file: impl AsFd, range: Range<u64>) -> Result<Vec<bool>, Errno> {
    let end = range.end.min(file_bytes(&file)?);
    match usize::try_from(end.saturating_sub(range.start)) {
        Ok(0) => Ok(Vec::new()),
        Ok(len) => {
            let mapping = MappedFile::from(&file, range.start, len, Access::Read)?;
            mapping.residency().map(Iterator::collect)
        }
        Err(_) => Err(Errno::OVERFLOW),
    }
}

/// Whether the kernel tells this process what of a regular file is in the page cache. Where it does
/// not, it says that all is, and so of a page behind the end.
///
/// # Errors
/// The kernel's word where the file cannot be mapped.
pub(crate) fn is_told(file: impl AsFd) -> Result<bool, Errno> {
    let page = rustix::param::page_size();
    let behind = file_bytes(&file)?.next_multiple_of(page as u64);
    let from = |at| MappedFile::from(&file, at, page, Access::Read);
    let mapping = match from(behind) {
        // The file is as long as its file system has them: one of the last pages, which hardly ever is
        // in the page cache, has to do. Of 2^63 - 1 bytes the very last cannot be mapped either.
        Err(Errno::OVERFLOW) => from(behind.saturating_sub(2 * page as u64))?,
        mapped => mapped?,
    };
    Ok(!mapping.residency()?.any(|is_there| is_there))
}

/// How many bytes of a regular file lie in the page cache, in whole pages; told as by
/// [`resident_pages`].
///
/// # Errors
/// The kernel's word where the file cannot be mapped.
pub fn resident_bytes(file: impl AsFd) -> Result<u64, Errno> {
    let bytes = file_bytes(&file)?;
    let (resident, _) = resident_pages(file, bytes)?;
    Ok(resident * rustix::param::page_size() as u64)
}

fn file_bytes(file: impl AsFd) -> Result<u64, Errno> {
    Ok(u64::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0))
}

/// Reads the first `bytes` of a file into the page cache.
///
/// # Errors
/// The kernel's word.
pub fn fill(file: impl AsFd, bytes: u64) -> Result<(), Errno> {
    let mut piece = AlignedBuffer::new(READ_BYTES);
    let mut at = 0;
    while at < bytes {
        let len = (bytes - at).min(READ_BYTES as u64) as usize;
        match rustix::io::pread(&file, &mut piece[..len], at) {
            Ok(0) => return Ok(()),
            Ok(count) => at += count as u64,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

/// Reads once at a place, and leaves nothing in the page cache that was not there before.
///
/// # Errors
/// EOPNOTSUPP, EINVAL or ENOSYS where the file system or the kernel (before Linux 6.14) cannot; else
/// as pread(2).
pub fn read_leaving(file: impl AsFd, room: &mut [u8], at: u64) -> Result<usize, Errno> {
    rustix::io::preadv2(file, &mut [IoSliceMut::new(room)], place(at), DONTCACHE)
}

/// Writes back what is not on the device, and drops all of the file from the page cache that can
/// be: pages that are mapped, locked or just in use stay.
///
/// # Errors
/// The kernel's word.
pub fn drop_pages(file: impl AsFd) -> Result<(), Errno> {
    rustix::fs::fsync(&file)?;
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed)
}
