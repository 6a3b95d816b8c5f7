//! Times, owner, extended attributes, access lists and mode: what a copy keeps besides bytes.

use std::cell::Cell;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use rustix::path::Arg as _;

use super::place::{Directory, Follow, Place, is_directory};
use super::shared::Shared;
use super::told::{Done, Weight};
use super::voice::q;
use crate::sys::modes::chmod_at;
use crate::sys::xattrs;

/// Bits of a mode that chmod(2) sets.
pub(super) const MODE_BITS: u32 = 0o7777;

/// Set-user-ID, set-group-ID and sticky.
const SPECIAL_BITS: u32 = 0o7000;

/// Something whose attributes are read or set.
pub(super) struct Subject<'a> {
    pub(super) place: &'a Place,
    /// Where it is open; a symbolic link or device is not.
    pub(super) open: Option<BorrowedFd<'a>>,
    /// Where it is a directory that is open for no more than looking names up.
    held: Option<BorrowedFd<'a>>,
    /// Whether it is known to have no access list: its attributes were listed, or it is so new.
    pub(super) unlisted: Cell<bool>,
}

impl<'a> Subject<'a> {
    pub(super) fn new(place: &'a Place, open: Option<BorrowedFd<'a>>) -> Subject<'a> {
        Subject { place, open, held: None, unlisted: Cell::new(false) }
    }

    /// A directory that is held open, whatever has its name by now; whole, or for looking names up.
    pub(super) fn held(place: &'a Place, open: &'a OwnedFd, whole: bool) -> Subject<'a> {
        let open = open.as_fd();
        Subject { held: (!whole).then_some(open), ..Subject::new(place, whole.then_some(open)) }
    }
}

impl Subject<'_> {
    pub(super) fn stat(&self) -> Result<Stat, Errno> {
        match self.open.or(self.held) {
            Some(fd) => rustix::fs::fstat(fd),
            None => self.place.stat(Follow::No),
        }
    }

    pub(super) fn set_times(&self, stat: &Stat) -> Result<(), Errno> {
        let times = times(stat);
        match self.open {
            Some(fd) => rustix::fs::futimens(fd, &times),
            None => {
                let (directory, name, flags) = self.named();
                rustix::fs::utimensat(directory, name, &times, flags)
            }
        }
    }

    pub(super) fn set_owner(&self, user: Option<Uid>, group: Option<Gid>) -> Result<(), Errno> {
        match self.open {
            Some(fd) => rustix::fs::fchown(fd, user, group),
            None => {
                let (directory, name, flags) = self.named();
                rustix::fs::chownat(directory, name, user, group, flags)
            }
        }
    }

    pub(super) fn set_mode(&self, mode: u32) -> Result<(), Errno> {
        let mode = Mode::from_raw_mode(mode & MODE_BITS);
        if let Some(fd) = self.open {
            return rustix::fs::fchmod(fd, mode);
        }
        let (directory, name, flags) = self.named();
        let set = name.into_with_c_str(|name| Ok(chmod_at(directory, name, mode, flags)))?;
        match set {
            // Linux before 6.6 does not have it, and filters that do not know it refuse it.
            Err(refused @ (Errno::NOSYS | Errno::PERM)) => self.set_mode_by_number(mode, refused),
            answer => answer,
        }
    }

    /// Sets the mode by what O_PATH has opened, which cannot be exchanged: fchmodat(2) follows symbolic
    /// links. Where /proc is not mounted, nothing is there by its number, and the call that was refused
    /// is the one that was missed.
    fn set_mode_by_number(&self, mode: Mode, refused: Errno) -> Result<(), Errno> {
        let opened;
        let fd = match self.held {
            Some(held) => held,
            None => {
                opened = self.place.open(OFlags::PATH | OFlags::NOFOLLOW, 0)?;
                opened.as_fd()
            }
        };
        match rustix::fs::chmod(by_number(fd), mode) {
            Err(Errno::NOENT) => Err(refused),
            answer => answer,
        }
    }

    /// Sets a mode without special bits such that those that are there stay: what a new directory
    /// has of the one that holds it (set-group-ID) is not the source's to take away.
    pub(super) fn set_mode_of_directory(&self, mode: u32) -> Result<(), Errno> {
        if mode & SPECIAL_BITS != 0 {
            return self.set_mode(mode);
        }
        self.set_mode(mode | self.stat()?.st_mode & SPECIAL_BITS)
    }

    /// Removes an access list, such as a new file has of its directory: the mode says all then.
    pub(super) fn drop_list(&self, name: &CStr) -> Result<(), Errno> {
        if name == ACCESS_LIST && self.unlisted.get() {
            return Ok(());
        }
        // Filters refuse to remove, whether there is anything or not.
        match self.get(name) {
            Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => Ok(()),
            _ => self.remove(name),
        }
    }

    fn list(&self) -> Result<Vec<CString>, Errno> {
        let names = with_room(|room| match self.open {
            Some(fd) => rustix::fs::flistxattr(fd, room),
            None => match self.held {
                Some(held) => rustix::fs::listxattr(by_number(held), room),
                None => self.list_by_name(room),
            },
        })?;
        let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
        Ok(names.map(|name| CString::new(name).expect("split at NUL")).collect())
    }

    fn list_by_name(&self, room: &mut [u8]) -> Result<usize, Errno> {
        self.at(|directory, name| xattrs::list_at(directory, name, room))?
            .unwrap_or_else(|| rustix::fs::llistxattr(self.path(), room))
    }

    fn get_by_name(&self, attribute: &CStr, room: &mut [u8]) -> Result<usize, Errno> {
        self.at(|directory, name| xattrs::get_at(directory, name, attribute, room))?
            .unwrap_or_else(|| rustix::fs::lgetxattr(self.path(), attribute, room))
    }

    fn set_by_name(&self, attribute: &CStr, value: &[u8]) -> Result<(), Errno> {
        self.at(|directory, name| xattrs::set_at(directory, name, attribute, value))?
            .unwrap_or_else(|| {
                rustix::fs::lsetxattr(self.path(), attribute, value, XattrFlags::empty())
            })
    }

    fn remove_by_name(&self, attribute: &CStr) -> Result<(), Errno> {
        self.at(|directory, name| xattrs::remove_at(directory, name, attribute))?
            .unwrap_or_else(|| rustix::fs::lremovexattr(self.path(), attribute))
    }

    /// Makes a call by the directory and the name in it.
    fn at<T>(&self, call: impl FnOnce(BorrowedFd<'_>, &CStr) -> T) -> Result<T, Errno> {
        let Place { directory, name, .. } = self.place;
        name.as_bytes().into_with_c_str(|name| Ok(call(directory.as_fd(), name)))
    }

    fn get(&self, name: &CStr) -> Result<Vec<u8>, Errno> {
        with_room(|room| match self.open {
            Some(fd) => rustix::fs::fgetxattr(fd, name, room),
            None => match self.held {
                Some(held) => rustix::fs::getxattr(by_number(held), name, room),
                None => self.get_by_name(name, room),
            },
        })
    }

    fn set(&self, name: &CStr, value: &[u8]) -> Result<(), Errno> {
        let flags = XattrFlags::empty();
        match self.open {
            Some(fd) => rustix::fs::fsetxattr(fd, name, value, flags),
            None => match self.held {
                Some(held) => rustix::fs::setxattr(by_number(held), name, value, flags),
                None => self.set_by_name(name, value),
            },
        }
    }

    fn remove(&self, name: &CStr) -> Result<(), Errno> {
        match self.open {
            Some(fd) => rustix::fs::fremovexattr(fd, name),
            None => match self.held {
                Some(held) => rustix::fs::removexattr(by_number(held), name),
                None => self.remove_by_name(name),
            },
        }
    }

    /// Where it is for calls by name.
    fn named(&self) -> (BorrowedFd<'_>, &OsStr, AtFlags) {
        match self.held {
            Some(held) => (held, OsStr::new(""), AtFlags::EMPTY_PATH),
            None => (self.place.directory.as_fd(), &self.place.name, AtFlags::SYMLINK_NOFOLLOW),
        }
    }

    /// A path for calls that know no directory descriptors.
    fn path(&self) -> OsString {
        match &self.place.directory {
            Directory::Working => self.place.name.clone(),
            held => super::place::joined(&by_number(held.as_fd()), &self.place.name),
        }
    }
}

/// The path by which /proc names an open descriptor.
fn by_number(fd: BorrowedFd<'_>) -> OsString {
    format!("/proc/thread-self/fd/{}", fd.as_raw_fd()).into()
}

/// Repeats a call with more room until the answer fits: most have nothing to say.
fn with_room(mut call: impl FnMut(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    /// The kernel's XATTR_LIST_MAX and XATTR_SIZE_MAX.
    const BYTES_MAX: usize = 64 << 10;
    let mut little = [0; 256];
    match call(&mut little) {
        Err(Errno::RANGE) => {}
        answer => return answer.map(|count| little[..count].to_vec()),
    }
    let mut room = vec![0; 8 * little.len()];
    loop {
        match call(&mut room) {
            Ok(count) => {
                room.truncate(count);
                return Ok(room);
            }
            Err(Errno::RANGE) if room.len() < BYTES_MAX => room.resize(room.len() * 8, 0),
            Err(errno) => return Err(errno),
        }
    }
}

fn times(stat: &Stat) -> Timestamps {
    let time = |seconds, nanoseconds| Timespec {
        tv_sec: seconds,
        tv_nsec: i64::try_from(nanoseconds).unwrap_or_default(),
    };
    Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    }
}

/// User and group, as they are given to another file.
pub(super) fn owner(stat: &Stat) -> (Option<Uid>, Option<Gid>) {
    (Some(Uid::from_raw(stat.st_uid)), Some(Gid::from_raw(stat.st_gid)))
}

pub(super) fn same_owner(one: &Stat, other: &Stat) -> bool {
    (one.st_uid, one.st_gid) == (other.st_uid, other.st_gid)
}

/// Sets the context that the kernel gives to files this process makes from now on.
pub(super) fn set_creation_context(context: &OsStr) -> Result<(), Errno> {
    std::fs::write("/proc/self/attr/fscreate", context.as_bytes())
        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

impl Shared<'_> {
    /// Permissions that a copy gets only once it has its owner, or that directories get only by the
    /// umask.
    pub(super) fn omitted(&self, stat: &Stat) -> u32 {
        let never = match (self.settings.preserve.ownership, is_directory(stat)) {
            (true, _) => 0o077,
            (false, true) => 0o022,
            (false, false) => 0,
        };
        stat.st_mode & MODE_BITS & never
    }

    /// Gives the copy the times of the source.
    pub(super) fn keep_times(&self, sink: &Subject<'_>, stat: &Stat) -> Done {
        match sink.set_times(stat) {
            Err(errno) => {
                let what = format!("preserving times for {}", q(&sink.place.shown));
                self.voice.not_kept(what, errno, self.weight())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Gives the copy the owner of the source; the mode that it may have then: without the special
    /// bits if it has another owner.
    pub(super) fn keep_owner(
        &self,
        sink: &Subject<'_>,
        stat: &Stat,
        before: Option<&Stat>,
    ) -> Done<u32> {
        if let Some(before) = before.filter(|_| self.settings.preserve.mode) {
            self.restrict(sink, stat, before)?;
        }
        let (user, group) = owner(stat);
        let Err(errno) = sink.set_owner(user, group) else { return Ok(stat.st_mode) };
        if matches!(errno, Errno::PERM | Errno::INVAL) {
            // At least the group, if that may be.
            let _ = sink.set_owner(None, group);
        }
        if !self.is_usual_refusal(errno) {
            let what = format!("failed to preserve ownership for {}", q(&sink.place.shown));
            self.voice.not_kept(what, errno, self.weight())?;
        }
        Ok(stat.st_mode & !SPECIAL_BITS)
    }

    /// Before a file that is there changes hands: what neither its old nor its new mode allows its
    /// owner is taken away, so that the new owner never has more than either.
    fn restrict(&self, sink: &Subject<'_>, stat: &Stat, before: &Stat) -> Done {
        let mode = before.st_mode & stat.st_mode & 0o700;
        let set = match is_directory(before) {
            // Its special bits are nothing to its owner.
            true => sink.set_mode_of_directory(mode),
            false => sink.set_mode(mode),
        };
        match set {
            Err(errno) if !self.is_usual_refusal(errno) => {
                let what = format!("clearing permissions for {}", q(&sink.place.shown));
                self.voice.not_kept(what, errno, self.weight())
            }
            _ => Ok(()),
        }
    }

    /// What it is not to keep an attribute.
    pub(super) fn weight(&self) -> Weight {
        if self.settings.preserve.required { Weight::Failure } else { Weight::Warning }
    }

    /// What every ordinary user is answered who would give files away.
    pub(super) fn is_usual_refusal(&self, errno: Errno) -> bool {
        matches!(errno, Errno::PERM | Errno::INVAL) && !self.settings.privileged
    }

    /// Copies extended attributes, but for access lists and the SELinux context.
    pub(super) fn keep_xattrs(&self, source: &Subject<'_>, sink: &Subject<'_>) -> Done {
        let (from, to) = (&source.place.shown, &sink.place.shown);
        let names = match source.list() {
            Ok(names) => names,
            Err(Errno::NOSYS | Errno::NOTSUP) => return Ok(()),
            Err(errno) => {
                return self.xattr_fault(format!("listing attributes of {}", q(from)), errno);
            }
        };
        source.unlisted.set(!names.iter().any(|name| name.as_c_str() == ACCESS_LIST));
        let (mut outcome, mut unsupported) = (Ok(()), false);
        for name in names.iter().filter(|name| is_copied(name.to_bytes())) {
            let shown = || q(OsStr::from_bytes(name.to_bytes()));
            match source.get(name).map(|value| sink.set(name, &value)) {
                Err(errno) => {
                    let what = format!("getting attribute {} of {}", shown(), q(from));
                    outcome = self.xattr_fault(what, errno).and(outcome);
                }
                Ok(Ok(())) => {}
                Ok(Err(Errno::NOTSUP)) => unsupported = true,
                Ok(Err(errno)) => {
                    let what = format!("setting attribute {} for {}", shown(), q(to));
                    outcome = self.xattr_fault(what, errno).and(outcome);
                }
            }
        }
        if unsupported {
            let what = format!("setting attributes for {}", q(to));
            outcome = self.xattr_fault(what, Errno::NOTSUP).and(outcome);
        }
        outcome
    }

    /// A fault, that is told of unless the attributes are only kept where they can be.
    fn xattr_fault(&self, what: String, errno: Errno) -> Done {
        let preserve = &self.settings.preserve;
        let unsupported = matches!(errno, Errno::NOTSUP | Errno::NOSYS);
        let all = preserve.xattr_required || self.settings.attributes_only;
        if all || (!preserve.quiet && !unsupported) {
            let required = preserve.xattr_required;
            let weight = if required { Weight::Failure } else { Weight::Warning };
            self.voice.not_kept(what, errno, weight)
        } else {
            Ok(())
        }
    }

    /// Copies the SELinux context.
    pub(super) fn keep_context(&self, source: &Subject<'_>, sink: &Subject<'_>) -> Done {
        let preserve = &self.settings.preserve;
        let copied = source.get(CONTEXT).and_then(|value| sink.set(CONTEXT, &value));
        match copied {
            Err(errno) if preserve.context_required => {
                let what =
                    format!("failed to set the security context of {}", q(&sink.place.shown));
                Err(self.voice.failed(what, errno))
            }
            _ => Ok(()),
        }
    }

    /// Gives the copy the mode of the source, and its access lists.
    pub(super) fn keep_mode(
        &self,
        source: &Subject<'_>,
        sink: &Subject<'_>,
        mode: u32,
        stat: &Stat,
    ) -> Done {
        // Where the list cannot be kept, the mode is kept all the same.
        let listed = keep_list(ACCESS_LIST, source, sink);
        let set = if is_directory(stat) {
            let listed = listed.and_then(|()| keep_list(DEFAULT_LIST, source, sink));
            listed.and(sink.set_mode_of_directory(mode))
        } else {
            listed.and(sink.set_mode(mode))
        };
        set.or_else(|errno| self.mode_not_kept(sink, errno))
    }
}

pub(super) const ACCESS_LIST: &CStr = c"system.posix_acl_access";
/// An access list of no more than owner, group and others, as the kernel has it: 4 bytes, and 8 for
/// each.
const LIST_BYTES_OF_MODE: usize = 4 + 3 * 8;
const DEFAULT_LIST: &CStr = c"system.posix_acl_default";
const CONTEXT: &CStr = c"security.selinux";
/// The kernel takes them away with the first byte that is written.
const CAPABILITIES: &CStr = c"security.capability";

/// Whether files that are made in a directory may begin with an access list, as its default list has
/// it.
pub(super) fn may_give_lists(directory: impl AsFd) -> bool {
    let list = rustix::fs::fgetxattr(directory, DEFAULT_LIST, &mut [0_u8; 0]);
    !matches!(list, Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS))
}

/// Copies an access list, where there are any; removes the sink's where the source has none.
pub(super) fn keep_access_list(source: &Subject<'_>, sink: &Subject<'_>) -> Result<(), Errno> {
    match keep_list(ACCESS_LIST, source, sink) {
        Err(Errno::NOTSUP | Errno::NOSYS) => Ok(()),
        answer => answer,
    }
}

/// What an access list lets the group itself do, if there is one: the mode says what it lets anybody do but
/// owner and others.
pub(super) fn group_may(listed: &Subject<'_>) -> Option<u32> {
    const GROUP_OBJ: u8 = 4;
    let list = listed.get(ACCESS_LIST).ok()?;
    let (entries, _) = list.get(4..)?.as_chunks::<8>();
    entries.iter().find(|entry| entry[0] == GROUP_OBJ).map(|entry| entry[2].into())
}

/// Copies the attributes that a file keeps whatever is written to it, as far as they may be set.
pub(super) fn keep_what_writing_leaves(source: &Subject<'_>, sink: &Subject<'_>) {
    let names = source.list().unwrap_or_default();
    let stays = |name: &&CString| {
        let is_kept = is_copied(name.to_bytes()) || name.as_c_str() == CONTEXT;
        is_kept && name.as_c_str() != CAPABILITIES
    };
    for name in names.iter().filter(stays) {
        let _ = source.get(name).and_then(|value| sink.set(name, &value));
    }
}

/// Copies an access list; removes the sink's where the source has none.
fn keep_list(name: &CStr, source: &Subject<'_>, sink: &Subject<'_>) -> Result<(), Errno> {
    match source.get(name) {
        Ok(list) => match sink.set(name, &list) {
            // The mode says as much. Of default lists that cannot be kept the classic tells nothing.
            Err(Errno::NOTSUP | Errno::NOSYS)
                if name != ACCESS_LIST || list.len() <= LIST_BYTES_OF_MODE =>
            {
                Ok(())
            }
            answer => answer,
        },
        Err(Errno::NODATA | Errno::NOTSUP | Errno::NOSYS) => sink.drop_list(name),
        Err(errno) => Err(errno),
    }
}

/// Whether an attribute is copied as such. Access lists go with the mode; the others are left out
/// by libattr's /etc/xattr.conf, which the classic goes by.
fn is_copied(name: &[u8]) -> bool {
    const LEFT_OUT: &[&[u8]] = &[
        b"security.selinux",
        b"security.evm",
        b"system.nfs4_acl",
        b"system.nfs4acl",
        b"system.posix_acl_access",
        b"system.posix_acl_default",
    ];
    const BEGINNINGS: &[&[u8]] = &[b"trusted.SGI_", b"xfsroot.", b"user.Beagle.", b"afs."];
    !LEFT_OUT.contains(&name) && !BEGINNINGS.iter().any(|begin| name.starts_with(begin))
}
