//! `--verify`: source and copy are read again and compared. Costs what reading both costs, and an
//! fsync, after which the copy's pages can be dropped so that it is read from the device.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytepath::holes::Holes;
use bytepath::page_cache;
use bytepath::pages::AlignedBuffer;
use rustix::fs::{Advice, FileType, Stat};
use rustix::io::Errno;

use super::hand::Why;
use super::holes::length;
use super::pair::Pair;
use super::place::kind;
use super::shared::Shared;
use super::told::Done;
use super::voice::q;
use crate::device;
use crate::errno::word;

/// Bytes compared together.
const CHUNK_BYTES: usize = 256 << 10;

impl Shared<'_> {
    /// Sees that a side can be read again, if it is to be.
    pub(super) fn check_verify(&self, pair: &Pair, side: &str, stat: &Stat) -> Done {
        if !self.extras.verify
            || matches!(kind(stat), FileType::RegularFile | FileType::BlockDevice)
        {
            return Ok(());
        }
        Err(self.voice.wrong(format!(
            "cannot verify {}: {side} is neither a file nor a block device, and cannot be read \
             again; leave out --verify",
            q(&pair.sink.shown)
        )))
    }

    /// Compares a copy with what it was made from.
    pub(super) fn verify(&self, pair: &Pair, source: &OwnedFd, copy: &OwnedFd) -> Done {
        let (from, to) = (q(&pair.source.shown), q(&pair.sink.shown));
        let bytes = rustix::fs::fstat(source).map_or(0, |stat| length(source, &stat));
        self.hand.rereads(Why::Verify, bytes);
        let differ = self.differ_on_device((source, copy), &to);
        self.hand.has_reread();
        self.told_apart((&from, &to), differ?)
    }

    /// Where a copy, as it is called, differs from its source, read from the device where it can be.
    fn differ_on_device(
        &self,
        (source, copy): (&OwnedFd, &OwnedFd),
        to: &str,
    ) -> Done<Result<Option<u64>, (Which, Errno)>> {
        // What is not on the device yet cannot be dropped from memory. Where dropping is refused
        // (tmpfs has no device), the copy in memory is all there is.
        let settled = device::settle(copy);
        settled.map_err(|errno| self.voice.failed(format!("error syncing {to}"), errno))?;
        let drop_copy = || rustix::fs::fadvise(copy, 0, None, Advice::DontNeed);
        let _ = drop_copy();
        let differ = self.differ_at(source.as_fd(), copy.as_fd(), 0..u64::MAX);
        if self.extras.leaves_cache().is_some() {
            let _ = drop_copy();
        }
        Ok(differ)
    }

    /// Says where source and copy, as they are called, differ, or why that is not known.
    pub(super) fn told_apart(
        &self,
        (from, to): (&str, &str),
        differ: Result<Option<u64>, (Which, Errno)>,
    ) -> Done {
        match differ {
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

impl Shared<'_> {
    /// The first of these bytes that two files have not in common. With `--direct` and `--uncached` reading them
    /// leaves the page cache as it was, or a note.
    pub(super) fn differ_at(
        &self,
        source: BorrowedFd<'_>,
        copy: BorrowedFd<'_>,
        bytes: Range<u64>,
    ) -> Result<Option<u64>, (Which, Errno)> {
        let leaves = self.extras.leaves_cache().is_some();
        let reader = || Reader { by: if leaves { By::Leaving } else { By::Cached } };
        let (mut one, mut other) = (reader(), reader());
        let each = |at, data_bytes| self.hand.reread(at, data_bytes);
        let differ = differ_at((source, &mut one), (copy, &mut other), bytes, each);
        for (reader, which) in [(one, "source"), (other, "copy")] {
            if let By::Refused(errno) = reader.by {
                let why = format!("reading with RWF_DONTCACHE is refused for the {which}");
                self.note_kept_in_cache(&format!("{why}: {}", word(errno)));
            }
        }
        differ
    }
}

/// Reads a file at places.
struct Reader {
    by: By,
}

/// What reading does to the page cache.
enum By {
    /// What is read stays there.
    Cached,
    /// What was not there before is dropped again.
    Leaving,
    /// It was to be dropped, and stays for this word of the kernel's.
    Refused(Errno),
}

impl Reader {
    fn read(&mut self, file: BorrowedFd<'_>, room: &mut [u8], at: u64) -> Result<usize, Errno> {
        if let By::Leaving = self.by {
            match page_cache::read_leaving(file, room, at) {
                Err(errno @ (Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS | Errno::PERM)) => {
                    self.by = By::Refused(errno);
                }
                answer => return answer,
            }
        }
        rustix::io::pread(file, room, at)
    }

    /// Reads until the room is full or the file ends.
    fn fill(&mut self, file: BorrowedFd<'_>, room: &mut [u8], at: u64) -> Result<usize, Errno> {
        // Up to the largest offset that there is: a request beyond it is refused as a whole.
        let most = (i64::MAX as u64).saturating_sub(at).min(room.len() as u64) as usize;
        let room = &mut room[..most];
        let mut filled = 0;
        while filled < room.len() {
            match self.read(file, &mut room[filled..], at + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(filled)
    }
}

fn differ_at(
    (source, source_reader): (BorrowedFd<'_>, &mut Reader),
    (copy, copy_reader): (BorrowedFd<'_>, &mut Reader),
    bytes: Range<u64>,
    each: impl Fn(u64, u64),
) -> Result<Option<u64>, (Which, Errno)> {
    let (mut one, mut other) = (AlignedBuffer::new(CHUNK_BYTES), AlignedBuffer::new(CHUNK_BYTES));
    // A device does not end where a copy does.
    let goes_on = rustix::fs::fstat(copy).is_ok_and(|stat| kind(&stat) == FileType::BlockDevice);
    let holes = (Holes::of(source), Holes::of(copy));
    let mut at = bytes.start;
    loop {
        at = behind_holes((source, copy), &holes, at).min(bytes.end);
        let most = (bytes.end - at).min(CHUNK_BYTES as u64) as usize;
        let count = source_reader
            .fill(source, &mut one[..most], at)
            .map_err(|errno| (Which::Source, errno))?;
        let most = if goes_on { count } else { most };
        let copied =
            copy_reader.fill(copy, &mut other[..most], at).map_err(|errno| (Which::Copy, errno))?;
        if one[..count] != other[..copied] {
            let common = one[..count].iter().zip(&other[..copied]);
            let same = common.take_while(|(one, other)| one == other).count();
            return Ok(Some(at + same as u64));
        }
        each(at + count as u64, count as u64);
        if count < CHUNK_BYTES {
            return Ok(None);
        }
        at += count as u64;
    }
}

/// Where either has data again: before, both are holes, and equal without being read.
fn behind_holes(
    (source, copy): (BorrowedFd<'_>, BorrowedFd<'_>),
    (of_source, of_copy): &(Holes<'_>, Holes<'_>),
    at: u64,
) -> u64 {
    let data = |file, holes: &Holes<'_>| match holes.data(at) {
        Ok(Some(data)) => data,
        // A hole up to the end.
        Ok(None) => rustix::fs::fstat(file)
            .map_or(at, |stat| u64::try_from(stat.st_size).unwrap_or(at).max(at)),
        Err(_) => at,
    };
    data(source, of_source).min(data(copy, of_copy))
}
