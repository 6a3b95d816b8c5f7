//! `--verify`: source and copy are read again and compared. Costs what reading both costs, and an
//! fsync, after which the copy's pages can be dropped so that it is read from the device.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Advice, FileType, SeekFrom};
use rustix::io::Errno;

use super::entry::{Pair, Shared};
use super::place::kind;
use super::voice::{Done, q};

/// Bytes compared together.
const CHUNK_BYTES: usize = 256 << 10;

impl Shared<'_> {
    /// Compares a copy with what it was made from.
    pub(super) fn verify(&self, pair: &Pair, source: &OwnedFd, copy: &OwnedFd) -> Done {
        let (from, to) = (q(&pair.source.shown), q(&pair.sink.shown));
        let file = |fd: &OwnedFd| {
            rustix::fs::fstat(fd).is_ok_and(|stat| kind(&stat) == FileType::RegularFile)
        };
        if !file(source) || !file(copy) {
            let what =
                format!("cannot verify {to}: it or {from} is no file that can be read again");
            return Err(self.voice.wrong(what));
        }
        // What is not on the device yet cannot be dropped from memory. Where dropping is refused
        // (tmpfs has no device), the copy in memory is all there is.
        let synced = rustix::fs::fdatasync(copy);
        synced.map_err(|errno| self.voice.failed(format!("error syncing {to}"), errno))?;
        let _ = rustix::fs::fadvise(copy, 0, None, Advice::DontNeed);
        match differ_at(source.as_fd(), copy.as_fd()) {
            Ok(None) => Ok(()),
            Ok(Some(at)) => Err(self.voice.wrong(format!(
                "{to} differs from {from} at byte {at}; was either changed meanwhile? Copy again, \
                 and check the device if that does not help"
            ))),
            Err((Which::Source, errno)) => {
                Err(self.voice.failed(format!("error reading {from}"), errno))
            }
            Err((Which::Copy, errno)) => {
                Err(self.voice.failed(format!("error reading {to}"), errno))
            }
        }
    }
}

/// Which of the two could not be read.
pub(super) enum Which {
    Source,
    Copy,
}

/// The first byte that they have not in common.
pub(super) fn differ_at(
    source: BorrowedFd<'_>,
    copy: BorrowedFd<'_>,
) -> Result<Option<u64>, (Which, Errno)> {
    let (mut one, mut other) = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    let mut at = 0;
    loop {
        at = behind_holes(source, copy, at);
        let count = fill(source, &mut one, at).map_err(|errno| (Which::Source, errno))?;
        let copied = fill(copy, &mut other, at).map_err(|errno| (Which::Copy, errno))?;
        if one[..count] != other[..copied] {
            let common = one[..count].iter().zip(&other[..copied]);
            let same = common.take_while(|(one, other)| one == other).count();
            return Ok(Some(at + same as u64));
        }
        if count < CHUNK_BYTES {
            return Ok(None);
        }
        at += count as u64;
    }
}

/// Where either has data again: before, both are holes, and equal without being read.
fn behind_holes(source: BorrowedFd<'_>, copy: BorrowedFd<'_>, at: u64) -> u64 {
    let data = |file| match rustix::fs::seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        // A hole up to the end.
        Err(Errno::NXIO) => rustix::fs::fstat(file)
            .map_or(at, |stat| u64::try_from(stat.st_size).unwrap_or(at).max(at)),
        Err(_) => at,
    };
    data(source).min(data(copy))
}

/// Reads until the room is full or the file ends.
fn fill(file: BorrowedFd<'_>, room: &mut [u8], at: u64) -> Result<usize, Errno> {
    let mut filled = 0;
    while filled < room.len() {
        match rustix::io::pread(file, &mut room[filled..], at + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(filled)
}
