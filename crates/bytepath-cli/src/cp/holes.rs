//! Holes of files, and what there is to be copied between them.

use std::os::fd::AsFd;

use bytepath::holes::Holes;
use rustix::fs::{FileType, SeekFrom, Stat};

use super::place::kind;

/// What there is to be copied of a file, about: holes are not.
pub(super) fn data_bytes(stat: &Stat) -> i64 {
    // Some file systems tell of no blocks at all.
    if stat.st_blocks == 0 { stat.st_size } else { stat.st_size.min(stat.st_blocks * 512) }
}

/// The bytes before a place of an open file, which stands elsewhere afterwards, that are no holes.
pub(super) fn data_before(file: impl AsFd, end: u64) -> u64 {
    let holes = Holes::of(file.as_fd());
    let (mut at, mut bytes) = (0, 0);
    while at < end {
        let data = match holes.data(at) {
            Ok(Some(data)) if data < end => data,
            Ok(_) => break,
            Err(_) => return end,
        };
        let Ok(hole) = holes.hole(data) else { return end };
        at = hole.min(end);
        bytes += at - data;
    }
    bytes
}

/// The bytes of an open file or block device, whose status does not tell. A device stands where it stood.
pub(super) fn length(file: impl AsFd, stat: &Stat) -> u64 {
    let of_device = || {
        let at = rustix::fs::tell(&file)?;
        let end = rustix::fs::seek(&file, SeekFrom::End(0))?;
        rustix::fs::seek(&file, SeekFrom::Start(at)).map(|_| end)
    };
    match kind(stat) {
        FileType::BlockDevice => of_device().unwrap_or(0),
        _ => u64::try_from(stat.st_size).unwrap_or(0),
    }
}

/// Whether a file has fewer blocks than its size takes.
pub(super) fn has_holes(stat: &Stat) -> bool {
    kind(stat) == FileType::RegularFile && stat.st_blocks < stat.st_size / 512
}
