//! Extended attributes of a name in a directory that is open.
//!
//! Older kernels take nothing but paths for what is not open itself, which then has to lead through
//! /proc: that costs several times as much.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use rustix::io::Errno;

/// The calls, of Linux 6.13, have these numbers on every architecture.
const SYS_SETXATTRAT: libc::c_long = 463;
const SYS_GETXATTRAT: libc::c_long = 464;
const SYS_LISTXATTRAT: libc::c_long = 465;
const SYS_REMOVEXATTRAT: libc::c_long = 466;

/// Whether this kernel does not have them, or a filter lets nobody call them.
static ARE_MISSING: AtomicBool = AtomicBool::new(false);

/// The kernel's `struct xattr_args`.
#[repr(C)]
struct Args {
    value: u64,
    bytes: u32,
    flags: u32,
}

impl Args {
    const BYTES: usize = size_of::<Args>();

    fn of(value: *const u8, bytes: usize) -> Args {
        // No attribute has more than 64 KiB.
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Args { value: value.expose_provenance() as u64, bytes, flags: 0 }
    }
}

/// Lists the attributes of a name, of a symbolic link its own; how many bytes they take, none being
/// written where there is no room. `None` where the kernel has no such call.
pub(crate) fn list_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    room: &mut [u8],
) -> Option<Result<usize, Errno>> {
    let rest = [room.as_mut_ptr().expose_provenance(), room.len(), 0];
    // SAFETY: no more is written than there is room for.
    unsafe { call(SYS_LISTXATTRAT, directory, name, rest) }
}

/// What an attribute of a name says, in the same way.
pub(crate) fn get_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    room: &mut [u8],
) -> Option<Result<usize, Errno>> {
    let args = Args::of(room.as_mut_ptr(), room.len());
    // SAFETY: the attribute ends with a zero, and no more is written than there is room for.
    unsafe { call(SYS_GETXATTRAT, directory, name, with(attribute, &args)) }
}

/// Sets an attribute of a name.
pub(crate) fn set_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
    value: &[u8],
) -> Option<Result<(), Errno>> {
    let args = Args::of(value.as_ptr(), value.len());
    // SAFETY: the attribute ends with a zero, the value has so many bytes, and nothing is written.
    let set = unsafe { call(SYS_SETXATTRAT, directory, name, with(attribute, &args)) };
    set.map(|set| set.map(drop))
}

/// Removes an attribute of a name.
pub(crate) fn remove_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    attribute: &CStr,
) -> Option<Result<(), Errno>> {
    let rest = [attribute.as_ptr().expose_provenance(), 0, 0];
    // SAFETY: the attribute ends with a zero, and nothing is written.
    let removed = unsafe { call(SYS_REMOVEXATTRAT, directory, name, rest) };
    removed.map(|removed| removed.map(drop))
}

fn with(attribute: &CStr, args: &Args) -> [usize; 3] {
    let args = std::ptr::from_ref(args).expose_provenance();
    [attribute.as_ptr().expose_provenance(), args, Args::BYTES]
}

/// Makes one of them. `None` where they are missing.
///
/// # Safety
/// `rest` are pointers and lengths as this call takes them.
unsafe fn call(
    number: libc::c_long,
    directory: BorrowedFd<'_>,
    name: &CStr,
    rest: [usize; 3],
) -> Option<Result<usize, Errno>> {
    if ARE_MISSING.load(Relaxed) {
        return None;
    }
    let (fd, [first, second, third]) = (directory.as_raw_fd(), rest);
    let flags = libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the name ends with a zero; the rest is the caller's word.
    let told = unsafe { libc::syscall(number, fd, name.as_ptr(), flags, first, second, third) };
    let errno = match usize::try_from(told) {
        Ok(told) => return Some(Ok(told)),
        Err(_) => super::last_error(),
    };
    // Who lists and reads needs no permission.
    let reads = matches!(number, SYS_LISTXATTRAT | SYS_GETXATTRAT);
    if errno == Errno::NOSYS || errno == Errno::PERM && reads {
        ARE_MISSING.store(true, Relaxed);
        return None;
    }
    Some(Err(errno))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn attributes_of_a_name_are_set_told_and_removed() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("file"), b"x").expect("a file");
        let open = std::fs::File::open(folder.path()).expect("it is there");
        let (open, colour) = (open.as_fd(), c"user.colour");
        match set_at(open, c"file", colour, b"red") {
            Some(Ok(())) => {}
            other => return eprintln!("skipped: no attributes by name here: {other:?}"),
        }
        let mut room = [0; 8];
        assert_eq!(get_at(open, c"file", colour, &mut room), Some(Ok(3)));
        assert_eq!(&room[..3], b"red");
        assert_eq!(get_at(open, c"file", colour, &mut []), Some(Ok(3)));
        assert_eq!(get_at(open, c"file", colour, &mut [0]), Some(Err(Errno::RANGE)));
        assert_eq!(remove_at(open, c"file", colour), Some(Ok(())));
        assert_eq!(get_at(open, c"file", colour, &mut room), Some(Err(Errno::NODATA)));
        assert_eq!(remove_at(open, c"file", colour), Some(Err(Errno::NODATA)));
    }

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
        let Some(listed) = list_at(open.as_fd(), c"file", &mut room) else {
            eprintln!("skipped: this kernel has no listxattrat");
            return;
        };
        let count = listed.expect("a list");
        assert!(room[..count].split(|byte| *byte == 0).any(|name| name == b"user.colour"));
        assert_eq!(list_at(open.as_fd(), c"file", &mut [0; 4]), Some(Err(Errno::RANGE)));
        let count = list_at(open.as_fd(), c"link", &mut room).expect("as before").expect("a list");
        assert!(!room[..count].split(|byte| *byte == 0).any(|name| name == b"user.colour"));
        assert_eq!(list_at(open.as_fd(), c"none", &mut room), Some(Err(Errno::NOENT)));
    }
}
