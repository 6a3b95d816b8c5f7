//! Small files, with no plan made: from one directory to another by name, or between two that are open.
//!
//! A plan costs more than what there is to move here, and so does everything else that is done for each
//! file. What is left: opening, looking, making and closing; and one call inside the kernel, which shares
//! blocks or copies bytes, or, where it does not between the two, one read, one write and one copy more
//! through memory that is kept.
//!
//! ```
//! use bytepath::small_files::{Between, SmallFiles};
//! use rustix::fs::{CWD, Mode, OFlags};
//! use std::os::fd::AsFd;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = rustix::fs::openat(CWD, "/etc", OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())?;
//! let folder = tempfile::tempdir()?;
//! let sink = rustix::fs::openat(CWD, folder.path(), OFlags::DIRECTORY | OFlags::RDONLY, Mode::empty())?;
//! let mut small = SmallFiles::new();
//! let copied = small.copy(&Between::new(source.as_fd(), sink.as_fd()), c"hostname")?;
//! assert_eq!(copied.all(), folder.path().join("hostname").metadata()?.len());
//! # Ok(()) }
//! ```

use std::ffi::CStr;
use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::error::{Side, Word};
use crate::pages::{Memory, Pages};
use crate::sys::closing::close;

/// From so many bytes on a file is worth a plan.
pub const SMALL_BYTES: usize = 128 << 10;

/// The least that a page has anywhere.
const PAGE_BYTES: usize = 4096;

/// Two directories, and how files are copied from one to the other.
#[derive(Debug, Clone, Copy)]
pub struct Between<'a> {
    source: BorrowedFd<'a>,
    sink: BorrowedFd<'a>,
    device: Option<u64>,
    single_names: bool,
    in_kernel: bool,
    shares: bool,
}

impl<'a> Between<'a> {
    /// Files of any device, each with the permissions of its source, but for the umask.
    pub fn new(source: BorrowedFd<'a>, sink: BorrowedFd<'a>) -> Between<'a> {
        let (device, single_names, in_kernel, shares) = (None, false, true, false);
        Between { source, sink, device, single_names, in_kernel, shares }
    }

    /// Leaves files that are not on this device.
    #[must_use]
    pub fn on_device(self, device: u64) -> Between<'a> {
        Between { device: Some(device), ..self }
    }

    /// Whether files that have several names are left.
    #[must_use]
    pub fn single_names(self, single: bool) -> Between<'a> {
        Between { single_names: single, ..self }
    }

    /// Whether the kernel may copy by itself, and so share blocks.
    #[must_use]
    pub fn in_kernel(self, may: bool) -> Between<'a> {
        Between { in_kernel: may, ..self }
    }

    /// Whether all blocks of a file are shared with its copy until either is written, which is asked
    /// for before anything else; files for which it is refused are copied.
    #[must_use]
    pub fn shares(self, shares: bool) -> Between<'a> {
        Between { shares, ..self }
    }

    /// Whether this is a file that is copied here, and no other: a small one without holes.
    fn takes(&self, stat: &Stat) -> bool {
        FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
            && (0..SMALL_BYTES as i64).contains(&stat.st_size)
            && stat.st_blocks >= stat.st_size / 512
            && !(self.single_names && stat.st_nlink > 1)
            && self.device.is_none_or(|device| device == stat.st_dev)
    }
}

/// Bytes that were moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes {
    /// Not at all, as their blocks are shared, by FICLONE.
    pub shared: u64,
    /// Inside the kernel, by copy_file_range(2).
    pub in_kernel: u64,
    /// Through memory, by read(2) and write(2).
    pub through_memory: u64,
}

impl Bytes {
    /// All of them.
    pub fn all(self) -> u64 {
        self.shared + self.in_kernel + self.through_memory
    }
}

/// A file that did not get all of its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotFilled {
    /// What was moved before.
    pub moved: Bytes,
    /// The end that failed; either, where there is no memory to copy through.
    pub side: Side,
    /// The kernel's word.
    pub errno: Errno,
}

impl fmt::Display for NotFilled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}: {}", self.side, self.moved.all(), Word(self.errno))
    }
}

impl std::error::Error for NotFilled {}

/// Why a file was not copied.
#[derive(Debug)]
#[non_exhaustive]
pub enum NotCopied {
    /// It is not small, has holes, is no file, or cannot be opened; or its copy cannot be made, as where
    /// something has its name. Nothing was done; the source, if it is open, is as it was opened.
    Left(Option<OwnedFd>),
    /// The copy was made, and holds what the source begins with.
    NotFilled(NotFilled),
    /// The file system tells at the end that bytes are lost, as NFS and quotas do.
    NotClosed(Errno),
}

impl fmt::Display for NotCopied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotCopied::Left(_) => f.write_str("not copied: no small file, or its name is taken"),
            NotCopied::NotFilled(not_filled) => not_filled.fmt(f),
            NotCopied::NotClosed(errno) => write!(f, "closing: {}", Word(*errno)),
        }
    }
}

impl std::error::Error for NotCopied {}

/// Copies small files, one after the other: a thread's own.
#[derive(Debug, Default)]
pub struct SmallFiles {
    /// Whether the kernel refused to copy between files, as it does from one device to another.
    refused: bool,
    room: Option<Memory>,
}

impl SmallFiles {
    /// Has no memory yet.
    pub fn new() -> SmallFiles {
        SmallFiles::default()
    }

    /// Copies the file of this name, if it is a small one, to where nothing has its name; how many
    /// bytes. A name that is a symbolic link is left.
    ///
    /// # Errors
    /// It was left as it is, or its copy is not whole.
    pub fn copy(&mut self, between: &Between<'_>, name: &CStr) -> Result<Bytes, NotCopied> {
        // Should it have become a FIFO meanwhile, nobody waits for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Ok(source) = open(between.source, name, flags, 0) else {
            return Err(NotCopied::Left(None));
        };
        let Ok(stat) = rustix::fs::fstat(&source) else { return Err(NotCopied::Left(None)) };
        if !between.takes(&stat) {
            return Err(NotCopied::Left(Some(source)));
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
        let Ok(sink) = open(between.sink, name, flags, stat.st_mode & 0o777) else {
            return Err(NotCopied::Left(Some(source)));
        };
        let moved = match between.shares && shared(&source, &sink, &stat) {
            true => Bytes { shared: stat.st_size as u64, ..Bytes::default() },
            false => self
                .fill(source.as_fd(), sink.as_fd(), &stat, between.in_kernel)
                .map_err(NotCopied::NotFilled)?,
        };
        close(sink).map_err(NotCopied::NotClosed)?;
        // Nothing can be lost by what was read.
        let _ = close(source);
        Ok(moved)
    }

    /// Copies what a small file has from where both stand, and all that it has become longer by. One
    /// that says it is empty may be of /proc, and is read.
    ///
    /// # Errors
    /// One end failed.
    pub fn fill(
        &mut self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        stat: &Stat,
        in_kernel: bool,
    ) -> Result<Bytes, NotFilled> {
        // Whatever stops the kernel is met again by the reading and writing of the rest, which tells
        // the ends apart.
        let mut moved = Bytes::default();
        if in_kernel && !self.refused && stat.st_size > 0 && stat.st_blocks > 0 {
            match rustix::fs::copy_file_range(source, None, sink, None, SMALL_BYTES) {
                Ok(count) => moved.in_kernel = count as u64,
                Err(errno) => self.refused = errno != Errno::INTR,
            }
        }
        // Files of /proc and /sys are on no device, and may give the rest with the next read.
        let is_all =
            |moved: Bytes| stat.st_blocks > 0 && i64::try_from(moved.all()) == Ok(stat.st_size);
        while !is_all(moved) {
            let room = self.room(moved)?;
            let count = match rustix::io::read(source, &mut *room) {
                Ok(0) => break,
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(NotFilled { moved, side: Side::Source, errno }),
            };
            write(sink, None, &room[..count], &mut moved)?;
        }
        Ok(moved)
    }

    /// Copies so many bytes from this place to the same; how many, which is fewer where the source
    /// was cut.
    ///
    /// # Errors
    /// One end failed.
    pub fn fill_at(
        &mut self,
        source: BorrowedFd<'_>,
        sink: BorrowedFd<'_>,
        at: u64,
        bytes: u64,
    ) -> Result<Bytes, NotFilled> {
        let mut moved = Bytes::default();
        while moved.all() < bytes {
            let room = self.room(moved)?;
            let most = usize::try_from(bytes - moved.all())
                .map_or(room.len(), |left| left.min(room.len()));
            let now = at + moved.all();
            let count = match rustix::io::pread(source, &mut room[..most], now) {
                Ok(0) => break,
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(NotFilled { moved, side: Side::Source, errno }),
            };
            write(sink, Some(now), &room[..count], &mut moved)?;
        }
        Ok(moved)
    }

    /// Memory to copy through: whole pages, as the kernel is slower between bytes that do not stand at
    /// the same place in theirs, and some of /proc (pagemap, kpagecount) give none but whole entries; and
    /// a page more than a small file has, so that a read that fills it is not taken for the end.
    fn room(&mut self, moved: Bytes) -> Result<&mut [u8], NotFilled> {
        let room = match &mut self.room {
            Some(room) => room,
            none => {
                let memory = Memory::allocate(SMALL_BYTES + PAGE_BYTES, &Pages::default());
                let errno = Errno::NOMEM;
                none.insert(memory.map_err(|_| NotFilled { moved, side: Side::Either, errno })?)
            }
        };
        Ok(room.as_mut_slice())
    }
}

/// Shares the blocks of a file with its copy, if there are any and they can be.
fn shared(source: &OwnedFd, sink: &OwnedFd, stat: &Stat) -> bool {
    stat.st_size > 0 && rustix::fs::ioctl_ficlone(sink, source).is_ok()
}

/// Opens it, however often that is interrupted.
fn open(
    directory: BorrowedFd<'_>,
    name: &CStr,
    flags: OFlags,
    mode: u32,
) -> Result<OwnedFd, Errno> {
    let mode = Mode::from_raw_mode(mode);
    loop {
        match rustix::fs::openat(directory, name, flags | OFlags::CLOEXEC, mode) {
            Err(Errno::INTR) => {}
            answer => return answer,
        }
    }
}

/// Writes all of it, at a place or where the sink stands.
fn write(
    sink: BorrowedFd<'_>,
    mut at: Option<u64>,
    mut bytes: &[u8],
    moved: &mut Bytes,
) -> Result<(), NotFilled> {
    while !bytes.is_empty() {
        let written = match at {
            Some(at) => rustix::io::pwrite(sink, bytes, at),
            None => rustix::io::write(sink, bytes),
        };
        let count = match written {
            Ok(count) if count > 0 => count,
            Err(Errno::INTR) => continue,
            answer => {
                let errno = answer.err().unwrap_or(Errno::NOSPC);
                return Err(NotFilled { moved: *moved, side: Side::Sink, errno });
            }
        };
        bytes = &bytes[count..];
        at = at.map(|at| at + count as u64);
        moved.through_memory += count as u64;
    }
    Ok(())
}
