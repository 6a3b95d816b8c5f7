//! Extended attributes of a name in a directory that is open.
//!
//! Older kernels take nothing but paths for what is not open itself, which then has to lead through
//! /proc: that costs several times as much.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

/// listxattrat(2), of Linux 6.13, has this number on every architecture.
const SYS_LISTXATTRAT: libc::c_long = 465;

/// Whether this kernel does not have it, or a filter lets nobody call it.
static IS_MISSING: AtomicBool = AtomicBool::new(false);

/// Lists the attributes of a name, of a symbolic link its own; how many bytes they take, none being
/// written where there is no room. `None` where the kernel has no such call.
pub(crate) fn list_at(
    directory: impl AsFd,
    name: &CStr,
    room: &mut [u8],
) -> Option<Result<usize, Errno>> {
    if IS_MISSING.load(Relaxed) {
        return None;
    }
    let (fd, flags) = (directory.as_fd().as_raw_fd(), libc::AT_SYMLINK_NOFOLLOW);
    // SAFETY: the name ends with a zero, and no more is written than there is room for.
    let count = unsafe {
        let (room, bytes) = (room.as_mut_ptr(), room.len());
        libc::syscall(SYS_LISTXATTRAT, fd, name.as_ptr(), flags, room, bytes)
    };
    match usize::try_from(count) {
        Ok(count) => Some(Ok(count)),
        Err(_) => match Errno::from_io_error(&std::io::Error::last_os_error()) {
            // Listing attributes needs no permission.
            Some(Errno::NOSYS | Errno::PERM) | None => {
                IS_MISSING.store(true, Relaxed);
                None
            }
            Some(errno) => Some(Err(errno)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_and_what_it_leads_to_have_their_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        std::fs::write(&file, b"x").expect("a file");
        std::os::unix::fs::symlink("file", folder.path().join("link")).expect("a link");
        let flags = rustix::fs::XattrFlags::empty();
        if let Err(errno) = rustix::fs::setxattr(&file, c"user.colour", b"red", flags) {
            eprintln!("skipped: no attributes here: {errno}");
            return;
        }
        let open = std::fs::File::open(folder.path()).expect("it is there");
        let mut room = [0; 64];
        let Some(listed) = list_at(&open, c"file", &mut room) else {
            eprintln!("skipped: this kernel has no listxattrat");
            return;
        };
        let count = listed.expect("a list");
        assert!(room[..count].split(|byte| *byte == 0).any(|name| name == b"user.colour"));
        assert_eq!(list_at(&open, c"file", &mut [0; 4]), Some(Err(Errno::RANGE)));
        let count = list_at(&open, c"link", &mut room).expect("as before").expect("a list");
        assert!(!room[..count].split(|byte| *byte == 0).any(|name| name == b"user.colour"));
        assert_eq!(list_at(&open, c"none", &mut room), Some(Err(Errno::NOENT)));
    }
}
