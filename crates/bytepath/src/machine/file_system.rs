//! Which file system a file is on: it decides which routes answer and what they cost.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, OFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::{files, mounts};
use crate::error::Refusal;

/// The file system of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileSystem {
    /// Its type: `ext4`, `btrfs`, `tmpfs`, `nfs`, `fuse.sshfs`, …; the number in hexadecimal where
    /// it has no known name.
    pub name: String,
    /// The number by which statfs tells the type. ext2, ext3 and ext4 share one.
    pub magic: u64,
    /// Where it is mounted. `None` where it is not mounted at all (pipes, memfd), or the table of
    /// mounts cannot be read.
    pub mount_point: Option<PathBuf>,
    /// What is mounted there, such as a device.
    pub source: Option<String>,
    /// The options it is mounted with.
    pub options: Vec<String>,
}

/// A file whose file system could not be told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot tell the file system of {what}: {errno}; {remedy}")]
pub struct FileSystemError {
    /// The path, or the descriptor's number.
    pub what: String,
    /// The kernel's word.
    pub errno: Errno,
    /// What to try.
    pub remedy: &'static str,
}

impl FileSystemError {
    fn new(what: String, errno: Errno) -> FileSystemError {
        let remedy = match errno {
            Errno::NOENT => "name a file or directory that exists",
            Errno::ACCESS => "a directory on the way may not be searched by you",
            Errno::LOOP => "a symbolic link leads back to itself",
            _ => "look at it with stat -f",
        };
        FileSystemError { what, errno, remedy }
    }
}

/// The file system on which the file at `path` is (links are followed).
///
/// # Errors
///
/// When the path leads to nothing that we may look at.
pub fn file_system(path: &Path) -> Result<FileSystem, FileSystemError> {
    let wrong = |errno| FileSystemError::new(path.display().to_string(), errno);
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()));
    described(file.map_err(wrong)?.as_fd()).map_err(wrong)
}

/// The file system of an open file.
///
/// # Errors
///
/// When the kernel refuses to tell, which it does for none of its own.
pub fn file_system_of(file: BorrowedFd<'_>) -> Result<FileSystem, FileSystemError> {
    described(file).map_err(|errno| FileSystemError::new(format!("descriptor {file:?}"), errno))
}

/// The type alone, by one system call; `None` where it has no known name.
pub(crate) fn type_of(file: BorrowedFd<'_>) -> Option<&'static str> {
    magic_of(file).ok().and_then(known)
}

/// Whether it can be of this type, by one system call where it is: types without a number that is known, as the
/// many of fuse, are not told apart, and some have several (cifs).
pub(crate) fn may_be_of(file: BorrowedFd<'_>, kind: &str) -> bool {
    let wanted = MAGICS.iter().find(|(_, name)| *name == kind).map(|(magic, _)| *magic);
    magic_of(file).is_ok_and(|magic| wanted.is_none_or(|wanted| wanted == magic))
        || file_system_of(file).is_ok_and(|found| found.name == kind)
}

/// Whether io_uring may read and write a file.
///
/// It goes on by itself where a file answers short. FUSE does not tell it where, with direct access
/// (O_DIRECT, or FOPEN_DIRECT_IO of its server): the same bytes come again, in the place of those that
/// follow, and count as read (Linux 6.18). An overlay on it does tell.
///
/// # Errors
/// It is on FUSE.
pub(crate) fn takes_ring(file: BorrowedFd<'_>) -> Result<(), Refusal> {
    // Some servers do not answer that one.
    if magic_of(file).map_or(Some("fuse"), known) == Some("fuse") {
        return Err(Refusal::because(
            "io_uring loses its place in files of FUSE that answer short",
        ));
    }
    Ok(())
}

/// Whether a mapping of a file ends where its bytes do.
///
/// Behind its end a mapping gives zeros up to the end of the page. Where a server tells the size, the file
/// may have fewer bytes than that, which only reading it shows; and an overlay may lie on such files.
///
/// # Errors
/// It is on none of the file systems that know themselves how long their files are.
pub(crate) fn maps_to_its_end(file: BorrowedFd<'_>) -> Result<(), Refusal> {
    const OWN: &[&str] = &[
        "bcachefs",
        "btrfs",
        "erofs",
        "exfat",
        "ext4",
        "f2fs",
        "hugetlbfs",
        "iso9660",
        "ramfs",
        "squashfs",
        "tmpfs",
        "vfat",
        "xfs",
        "zfs",
    ];
    match type_of(file) {
        Some(name) if OWN.contains(&name) => Ok(()),
        name => Err(Refusal::because(format!(
            "a server may tell the size of files of {}, and have fewer bytes of them",
            name.unwrap_or("this file system")
        ))),
    }
}

/// Whether a file may be stored compressed: by its own attribute, or by its mount's option (btrfs),
/// also where the table of mounts cannot be read.
pub(crate) fn may_compress(file: BorrowedFd<'_>) -> bool {
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::empty());
    if told.is_ok_and(|told| told.stx_attributes.contains(StatxAttributes::COMPRESSED)) {
        return true;
    }
    let compresses =
        |mount: mounts::Mount| mount.options.iter().any(|option| option.starts_with("compress"));
    type_of(file) == Some("btrfs") && mount_of(file).is_none_or(compresses)
}

fn magic_of(file: BorrowedFd<'_>) -> rustix::io::Result<u64> {
    // The field is signed on some machines and never wider than this.
    Ok(u64::from(rustix::fs::fstatfs(file)?.f_type as u32))
}

fn described(file: BorrowedFd<'_>) -> rustix::io::Result<FileSystem> {
    let magic = magic_of(file)?;
    let mount = mount_of(file);
    let name = mount.as_ref().map(|mount| mount.kind.clone()).unwrap_or_else(|| name(magic));
    let (mount_point, source, options) = match mount {
        Some(mount) => (Some(mount.point), Some(mount.source), mount.options),
        None => (None, None, Vec::new()),
    };
    Ok(FileSystem { name, magic, mount_point, source, options })
}

/// Goes by the mount's number, since device numbers mislead: btrfs gives files another than its
/// mount.
fn mount_of(file: BorrowedFd<'_>) -> Option<mounts::Mount> {
    let told = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID).ok();
    let told = told.filter(|told| told.stx_mask & StatxFlags::MNT_ID.bits() != 0);
    // A filter may refuse it, or the kernel be older; a thread may have descriptors of its own.
    let by_descriptor = || {
        let about = format!("proc/thread-self/fdinfo/{}", file.as_raw_fd());
        files::value(&files::text(Path::new("/"), &about)?, "mnt_id")?.parse().ok()
    };
    let number: u64 = told.map(|told| told.stx_mnt_id).or_else(by_descriptor)?;
    let table = files::text(Path::new("/"), "proc/self/mountinfo")?;
    mounts::parse(&table).find(|mount| mount.id == number)
}

fn name(magic: u64) -> String {
    known(magic).map_or_else(|| format!("{magic:#x}"), str::to_owned)
}

fn known(magic: u64) -> Option<&'static str> {
    MAGICS.iter().find(|(known, _)| *known == magic).map(|(_, name)| *name)
}

/// From linux/magic.h and the file systems' own sources.
const MAGICS: &[(u64, &str)] = &[
    (0x0000_9fa0, "proc"),
    (0x0000_ef53, "ext4"),
    (0x0000_6969, "nfs"),
    (0x0000_4d44, "vfat"),
    (0x0000_9660, "iso9660"),
    (0x0000_1cd1, "devpts"),
    (0x0102_1994, "tmpfs"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x1980_0202, "mqueue"),
    (0x2011_bab0, "exfat"),
    (0x2fc1_2fc1, "zfs"),
    (0x5049_4446, "pid"),
    (0x5049_5045, "pipe"),
    (0x534f_434b, "socket"),
    (0x5346_414f, "afs"),
    (0x5846_5342, "xfs"),
    (0x5a4f_4653, "zonefs"),
    (0x6264_6576, "bdev"),
    (0x6265_6572, "sysfs"),
    (0x6573_5546, "fuse"),
    (0x7371_7368, "squashfs"),
    (0x794c_7630, "overlay"),
    (0x8584_58f6, "ramfs"),
    (0x9123_683e, "btrfs"),
    (0x9584_58f6, "hugetlbfs"),
    (0xca45_1a4e, "bcachefs"),
    (0xe0f5_e1e2, "erofs"),
    (0xf2f5_2010, "f2fs"),
    (0xfe53_4d42, "smb2"),
    (0xff53_4d42, "cifs"),
];

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn proc_is_proc_by_path_and_by_descriptor() {
        let Ok(file) = File::open("/proc/version") else {
            println!("skipped: /proc is not mounted");
            return;
        };
        let by_path = file_system(Path::new("/proc/version")).expect("a file system");
        assert_eq!(by_path.name, "proc");
        assert_eq!(file_system_of(file.as_fd()), Ok(by_path));
    }

    #[test]
    fn a_mounted_file_system_tells_where_and_how() {
        let here = file_system(Path::new("/")).expect("a file system");
        if here.mount_point.is_none() {
            println!("skipped: the table of mounts does not show the root here");
            return;
        }
        assert_eq!(here.mount_point, Some(PathBuf::from("/")));
        assert!(here.options.iter().any(|option| option == "rw" || option == "ro"), "{here:?}");
    }

    #[test]
    fn a_pipe_is_on_no_mount() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let pipe = file_system_of(reader.as_fd()).expect("a file system");
        assert_eq!((pipe.name.as_str(), pipe.mount_point), ("pipe", None));
    }

    #[test]
    fn a_path_to_nothing_is_an_error_with_a_remedy() {
        let error = file_system(Path::new("/no/such/file")).expect_err("there is no such file");
        assert_eq!(error.errno, Errno::NOENT);
        assert!(error.to_string().starts_with("cannot tell the file system of /no/such/file: "));
        assert!(error.to_string().ends_with("; name a file or directory that exists"));
    }

    #[test]
    fn unknown_types_show_their_number() {
        assert_eq!(name(0x1234), "0x1234");
    }
}
