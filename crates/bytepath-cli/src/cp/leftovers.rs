//! Names that a killed run left in a directory: of files on their way to take the place of others.

use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, RawDir};
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use super::atomic::{self, PART_END};
use super::entries::ENTRIES_BYTES;
use super::extras::Extras;
use super::passing::BESIDE_START;
use super::place::{Place, joined, same_file};

/// Removes what killed runs left beside the place of a copy.
pub(super) fn sweep_beside(sink: &Place, extras: &Extras) {
    if let Ok(open) = sink.open_folder(OFlags::RDONLY) {
        sweep(&open, extras);
    }
}

/// Removes what killed runs left in a directory, as far as it may be removed. Parts of files stay
/// where this run goes on with them.
pub(super) fn sweep(directory: &OwnedFd, extras: &Extras) {
    // The directory's own position is left alone: others may be reading it.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(open) = rustix::fs::openat(directory, ".", flags, Mode::empty()) else { return };
    let mut room = Vec::with_capacity(ENTRIES_BYTES);
    let mut reader = RawDir::new(&open, room.spare_capacity_mut());
    while let Some(Ok(entry)) = reader.next() {
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        let part = if !extras.atomic && is_part(name) { idle_part(&open, name) } else { None };
        if part.is_some() || is_of_the_dead(name) && !is_held(&open, name) {
            let _ = rustix::fs::unlinkat(&open, name, AtFlags::empty());
        }
    }
}

/// Removes the part of a file that is whole, where nobody copies to it.
pub(super) fn remove_part(sink: &Place) {
    let (folder, name) = sink.parent();
    let part = sink.renamed(joined(&folder, &atomic::part_name(&name)));
    if let Some(_held) = idle_part(&part.directory, &part.name) {
        let _ = part.remove();
    }
}

/// Whether the process that made it is gone, or may be: one of another machine or container that shares the
/// file system is not seen.
fn is_of_the_dead(name: &OsStr) -> bool {
    let number = || {
        let rest = name.to_str()?.strip_prefix(BESIDE_START)?;
        let (process, attempt) = rest.split_once('-')?;
        attempt.parse::<u32>().ok()?;
        Pid::from_raw(process.parse().ok()?)
    };
    number().is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH))
}

/// Whether it is the name of a part.
fn is_part(name: &OsStr) -> bool {
    let bytes = name.as_bytes();
    bytes.starts_with(b".") && bytes.ends_with(PART_END.as_bytes())
}

/// The part of a file that nobody copies to, and of this user's: nobody begins to as long as this is open.
fn idle_part(directory: impl AsFd, name: &OsStr) -> Option<OwnedFd> {
    let open = opened(&directory, name).ok()?;
    let stat = rustix::fs::fstat(&open).ok().filter(atomic::is_own)?;
    locked(&open).ok()?;
    // Whoever held it before may have given it its last name, and another have made the next part.
    let named = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    same_file(&named, &stat).then_some(open)
}

/// Whether somebody copies to it.
fn is_held(directory: impl AsFd, name: &OsStr) -> bool {
    opened(directory, name).is_ok_and(|open| locked(&open) == Err(Errno::WOULDBLOCK))
}

fn opened(directory: impl AsFd, name: &OsStr) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(directory, name, flags, Mode::empty())
}

fn locked(open: &OwnedFd) -> Result<(), Errno> {
    rustix::fs::flock(open, FlockOperation::NonBlockingLockExclusive)
}
