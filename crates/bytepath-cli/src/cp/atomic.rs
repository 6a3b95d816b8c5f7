//! `--atomic`: a file is made without a name, and gets it once it is whole and on the device.
//! Whatever ends the program, nothing half is left.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::fs::{Access, AtFlags, CWD, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::attributes::{
    Subject, group_may, keep_access_list, keep_what_writing_leaves, owner, same_owner,
};
use super::pair::Sink;
use super::passing;
use super::place::{Directory, Follow, Place, joined, kind, same_file};
use super::settings::Preserve;
use super::stage::Stage;
use crate::device;

/// A file that has no name yet, or one that nobody knows.
pub(super) struct Unnamed {
    /// Where it is to be.
    place: Place,
    /// The name that it has meanwhile, where the file system makes no files without.
    meanwhile: Option<Arc<Place>>,
    /// Whether something is replaced.
    replaces: bool,
    /// What it is to be like, open where it may be read: it may lose its name meanwhile.
    like: Option<Box<(Stat, Option<OwnedFd>)>>,
    /// Whether what did not become whole is left for the next run.
    left: Left,
    /// Whether its bytes are brought to the device before it is named.
    durable: Durable,
}

/// Whether a name is given to bytes that are on the device alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Durable {
    Yes,
    No,
}

/// What becomes of a file that did not become whole.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Left {
    Nothing,
    Part,
}

/// What becomes of a destination.
pub(super) enum Begun {
    /// A new file is copied to, and named later.
    Unnamed(OwnedFd, Unnamed),
    /// It is no file that could be replaced.
    AsItIs,
}

/// Why no copy was begun.
pub(super) struct NotBegun {
    pub(super) errno: Errno,
    /// The directory that may not be written, though the file in it may.
    pub(super) folder: Option<OsString>,
}

impl From<Errno> for NotBegun {
    fn from(errno: Errno) -> NotBegun {
        NotBegun { errno, folder: None }
    }
}

/// Why a file is not known to have its name for good.
pub(super) enum NotNamed {
    /// Its bytes are not on the device. The destination is as it was.
    Syncing(Errno),
    /// It has no name. The destination is as it was.
    Naming(Errno),
    /// It has its name, which may not be on the device.
    SyncingFolder(Errno),
}

impl From<NotNamed> for Errno {
    fn from(why: NotNamed) -> Errno {
        let (NotNamed::Syncing(errno) | NotNamed::Naming(errno) | NotNamed::SyncingFolder(errno)) =
            why;
        errno
    }
}

/// Makes the file, with this mode, beside the destination.
///
/// # Errors
/// Why the destination may not be written, or no file can be made.
pub(super) fn begin(place: &Place, sink: &Sink, mode: u32, force: bool) -> Result<Begun, NotBegun> {
    begin_by(place, sink, mode, force, |place, mode| {
        make(place, mode).map(|(open, meanwhile)| (open, meanwhile, Left::Nothing))
    })
}

/// As [`begin`], in a stage, with no fsync; by [`begin`] itself where the stage is on another device.
///
/// # Errors
/// As [`begin`]; ENOENT once the stage is gone.
pub(super) fn begin_staged(
    place: &Place,
    sink: &Sink,
    mode: u32,
    force: bool,
    stage: &Stage,
) -> Result<Begun, NotBegun> {
    let folder = rustix::fs::statat(&place.directory, place.parent().0, AtFlags::empty())?;
    if !stage.is_on(folder.st_dev) {
        return begin(place, sink, mode, force);
    }
    let begun = begin_by(place, sink, mode, force, |_, mode| {
        let staged = Arc::new(stage.new_place());
        let open = staged.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)?;
        Ok((open, Some(staged), Left::Nothing))
    })?;
    Ok(match begun {
        Begun::Unnamed(open, mut unnamed) => {
            unnamed.durable = Durable::No;
            Begun::Unnamed(open, unnamed)
        }
        Begun::AsItIs => Begun::AsItIs,
    })
}

/// As [`begin`], in a file that stays, under a name that the next run knows, until it is whole:
/// there may be one already. Nobody else may read it, unless all may read the source.
///
/// # Errors
/// As [`begin`]; EBUSY where another program copies to it.
pub(super) fn begin_part(
    place: &Place,
    sink: &Sink,
    source: &Stat,
    force: bool,
) -> Result<Begun, NotBegun> {
    begin_by(place, sink, PART_MODE, force, |place, mode| match part(place, source)? {
        Some((open, part)) => Ok((open, Some(Arc::new(part)), Left::Part)),
        None => make(place, mode).map(|(open, meanwhile)| (open, meanwhile, Left::Nothing)),
    })
}

fn begin_by(
    place: &Place,
    sink: &Sink,
    mode: u32,
    force: bool,
    make: impl FnOnce(&Place, u32) -> Result<(OwnedFd, Option<Arc<Place>>, Left), Errno>,
) -> Result<Begun, NotBegun> {
    let there = match &sink.stat {
        Some(stat) if kind(stat) != FileType::RegularFile => return Ok(Begun::AsItIs),
        there if sink.is_new() => there.as_ref().filter(|_| false),
        there => there.as_ref(),
    };
    let replaces = there.is_some() || sink.replaced;
    if there.is_some() && !force {
        // Replacing needs no right to write the file; copying does.
        let (directory, name) = (&place.directory, &place.name);
        rustix::fs::accessat(directory, name, Access::WRITE_OK, AtFlags::EACCESS)?;
    }
    if there.is_none() && place.name.as_bytes().ends_with(b"/") {
        // By such a name only a directory could be made.
        return Err(Errno::NOTDIR.into());
    }
    if !replaces && place.stat(Follow::No).is_ok() {
        // A link that leads nowhere, or somebody was faster.
        return Ok(Begun::AsItIs);
    }
    let place = held(&behind(place, sink)?)?;
    // Nobody reads by the mode of the source what the mode of the replaced file does not let them.
    let mode = if there.is_some() { PART_MODE } else { mode };
    let (open, meanwhile, left) = make(&place, mode).map_err(|errno| match errno {
        Errno::ACCESS | Errno::PERM | Errno::ROFS if replaces => {
            NotBegun { errno, folder: Some(folder_shown(&place)) }
        }
        _ => errno.into(),
    })?;
    let durable = Durable::Yes;
    let like = there.map(|stat| {
        // Its attributes by its name are had by way of /proc.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        Box::new((*stat, place.open(flags, 0).ok()))
    });
    Ok(Begun::Unnamed(open, Unnamed { place, meanwhile, replaces, like, left, durable }))
}

/// Symbolic links that are followed, at most: as many as the kernel follows.
const LINKS_MAX: u32 = 40;

/// The place that a symbolic link leads to, or else the same place.
///
/// # Errors
/// The kernel's word; ENOENT where the link does not say where that is.
pub(super) fn behind(place: &Place, sink: &Sink) -> Result<Place, Errno> {
    if sink.link.is_none() {
        return Ok(place.clone());
    }
    let mut found = place.clone();
    for _ in 0..LINKS_MAX {
        let target = match found.read_link() {
            Ok(target) => target.into_bytes(),
            Err(Errno::INVAL) => break,
            Err(errno) => return Err(errno),
        };
        let target = OsStr::from_bytes(&target);
        found = match target.as_bytes().starts_with(b"/") {
            true => Place::operand(target),
            false => found.renamed(joined(&found.parent().0, target)),
        };
    }
    // What a link of /proc says is of another file, or of none, once that was removed or moved.
    match same_file(&found.stat(Follow::No)?, &place.stat(Follow::Yes)?) {
        true => Ok(found),
        false => Err(Errno::NOENT),
    }
}

/// The same place in its own directory, held open for what is to be synced.
fn held(place: &Place) -> Result<Place, Errno> {
    let open = match place.open_folder(OFlags::RDONLY) {
        // It may be written all the same.
        Err(Errno::ACCESS) => place.open_folder(OFlags::PATH),
        answer => answer,
    }?;
    let name = place.parent().1;
    Ok(Place { directory: Directory::Held(Arc::new(open)), name, ..place.clone() })
}

/// The directory of a place, as messages show it.
fn folder_shown(place: &Place) -> OsString {
    match Path::new(&place.shown).parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.into(),
        _ => ".".into(),
    }
}

fn make(place: &Place, mode: u32) -> Result<(OwnedFd, Option<Arc<Place>>), Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let raw = Mode::from_raw_mode(mode);
    let made = match is_proc_there() {
        true => rustix::fs::openat(&place.directory, ".", flags, raw),
        false => Err(Errno::OPNOTSUPP),
    };
    match made {
        // File systems that cannot: NFS, FUSE, overlayfs before Linux 6.2 (EISDIR before 3.11).
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::NOENT | Errno::INVAL) => {
            let mut made = None;
            let named = passing::beside(place, |beside| {
                let open = beside.open(OFlags::RDWR | OFlags::CREATE | OFlags::EXCL, mode)?;
                // Others that look for what the dead have left see that it is none of it.
                let _ = rustix::fs::flock(&open, FlockOperation::NonBlockingLockExclusive);
                made = Some(open);
                Ok(())
            })?;
            Ok((made.expect("it was made"), Some(named)))
        }
        answer => answer.map(|open| (open, None)),
    }
}

/// The permissions of a part.
const PART_MODE: u32 = 0o600;

/// How often a part is opened that somebody else names at the same moment, or holds.
const ATTEMPTS_MAX: u32 = 10;

/// How long whoever only looks whether a part can be removed may hold it, about.
const HELD_FOR: Duration = Duration::from_millis(100);

/// The name of what is not whole yet.
pub(super) fn part_name(name: &OsStr) -> OsString {
    let mut part = OsString::from(".");
    part.push(name);
    part.push(PART_END);
    part
}

/// What such names end with.
pub(super) const PART_END: &str = ".bytepath-part";

/// Opens the part that an earlier run left, or makes one, and keeps others from it; none where
/// there can be none, because the name would be too long or is somebody else's.
fn part(place: &Place, source: &Stat) -> Result<Option<(OwnedFd, Place)>, Errno> {
    let part = place.renamed(part_name(&place.name));
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    for _ in 0..ATTEMPTS_MAX {
        let there = part.open(flags, 0);
        let is_new = there.as_ref().is_err_and(|errno| *errno == Errno::NOENT);
        let opened = match is_new {
            true => part.open(flags | OFlags::CREATE | OFlags::EXCL, PART_MODE),
            false => there,
        };
        let open = match opened {
            Ok(open) => open,
            Err(Errno::EXIST) => continue,
            Err(Errno::NAMETOOLONG | Errno::LOOP | Errno::ISDIR | Errno::NXIO) => return Ok(None),
            // One that is to replace a file that may not be written: begun anew.
            Err(Errno::ACCESS) if part.stat(Follow::No).is_ok_and(|stat| is_own(&stat)) => {
                part.remove()?;
                continue;
            }
            Err(errno) => return Err(errno),
        };
        let stat = rustix::fs::fstat(&open)?;
        if !is_own(&stat) {
            if is_new {
                // By its file system every file is another's: no later run would go on with it.
                part.remove()?;
            }
            return Ok(None);
        }
        // Another refusal is that of a file system without locks.
        let locked = rustix::fs::flock(&open, FlockOperation::NonBlockingLockExclusive);
        if locked == Err(Errno::WOULDBLOCK) {
            std::thread::sleep(HELD_FOR);
            continue;
        }
        // Whoever held it before may have given it its last name.
        if !part.stat(Follow::No).is_ok_and(|named| same_file(&named, &stat)) {
            continue;
        }
        if is_new || !may_be_open_to_others(&open, &stat, source) {
            return Ok(Some((open, part)));
        }
        part.remove()?;
    }
    Err(Errno::BUSY)
}

/// Whether others may hold a part open that could change what is copied to it, or may not read that: in a
/// directory of theirs, any file of ours can have been given its name.
fn may_be_open_to_others(open: &OwnedFd, part: &Stat, source: &Stat) -> bool {
    let theirs = if source.st_mode & 0o004 == 0 { 0o077 } else { 0o022 };
    if part.st_mode & theirs == 0 {
        return false;
    }
    // Where the file system keeps no modes (vfat, CIFS), none tells anything.
    let _ = rustix::fs::fchmod(open, Mode::from_raw_mode(PART_MODE));
    rustix::fs::fstat(open).is_ok_and(|stat| stat.st_mode & theirs == 0)
}

/// Whether it is its owner's alone, as parts are made.
pub(super) fn is_closed(open: &OwnedFd) -> bool {
    rustix::fs::fstat(open).is_ok_and(|stat| stat.st_mode & 0o777 & !PART_MODE == 0)
}

/// Whether nobody else can have made it, nor reach it by another name.
pub(super) fn is_own(stat: &Stat) -> bool {
    let user = rustix::process::geteuid().as_raw();
    kind(stat) == FileType::RegularFile && stat.st_nlink == 1 && stat.st_uid == user
}

/// Makes a file in the directory of the destination, whose group it may have and whose default list,
/// and gives it this name, which is on the same file system. Its owner may read and write it.
///
/// # Errors
/// The kernel's word: no file can be made, or the name cannot.
pub(super) fn make_named(place: &Place, name: Place) -> Result<OwnedFd, Errno> {
    let (open, meanwhile) = make(place, PART_MODE)?;
    // A default list may have taken that away.
    rustix::fs::fchmod(&open, Mode::from_raw_mode(PART_MODE))?;
    let (replaces, like) = (false, None);
    let (left, durable) = (Left::Nothing, Durable::No);
    Unnamed { place: name, meanwhile, replaces, like, left, durable }.name(&open)?;
    Ok(open)
}

/// Gives a file the mode and access list that a new one would have beside the destination.
///
/// # Errors
/// The kernel's word.
pub(super) fn be_like_new(open: &OwnedFd, place: &Place, mode: u32) -> Result<(), Errno> {
    let (new, meanwhile) = make(place, mode)?;
    if let Some(meanwhile) = meanwhile {
        meanwhile.remove()?;
    }
    let new = (&Subject::new(place, Some(new.as_fd())), &rustix::fs::fstat(&new)?);
    be_like(open, new, &Preserve::default())
}

/// What replaces a file has its mode, its access list, its extended attributes and, where it may, its
/// owner: copying would have left them. What it is to have of its source is not lent to it meanwhile: the
/// owner of the replaced file would open it.
pub(super) fn be_like(
    open: &OwnedFd,
    (there, stat): (&Subject<'_>, &Stat),
    preserve: &Preserve,
) -> Result<(), Errno> {
    let (user, group) = owner(stat);
    let is_root = rustix::process::geteuid().is_root();
    let is_given_later = preserve.ownership && is_root;
    let owned = match is_given_later {
        true => same_owner(&rustix::fs::fstat(open)?, stat),
        false => match rustix::fs::fchown(open, user, group) {
            Err(Errno::PERM | Errno::INVAL) => {
                // At least the group, if that may be.
                let _ = rustix::fs::fchown(open, None, group);
                false
            }
            given => given.map(|()| true)?,
        },
    };
    keep_what_writing_leaves(there, &Subject::new(there.place, Some(open.as_fd())));
    if preserve.mode {
        return Ok(());
    }
    // Before the mode, whose group would be everything that the list allows anybody.
    keep_access_list(there, &Subject::new(there.place, Some(open.as_fd())))?;
    // Bytes that are written by anybody but root take the rights of the owner away.
    let bits = if owned && is_root { 0o7777 } else { 0o777 };
    let mut mode = stat.st_mode & bits;
    if !is_given_later && rustix::fs::fstat(open)?.st_gid != stat.st_gid {
        // What the group had is not for another: that one and all others have what both had. Of an access
        // list, nobody whom it names has more.
        let both = mode >> 3 & mode & group_may(there).unwrap_or(0o7) & 0o7;
        mode = mode & !0o77 | both << 3 | both;
    }
    match rustix::fs::fchmod(open, Mode::from_raw_mode(mode)) {
        // Where the file system keeps no modes, both have the same.
        Err(_) if rustix::fs::fstat(open)?.st_mode & 0o7777 == mode => Ok(()),
        set => set,
    }
}

impl Unnamed {
    /// Gives the file what it is to have of the one that it replaces.
    ///
    /// # Errors
    /// The kernel's word.
    pub(super) fn be_like_replaced(&self, file: &OwnedFd, keep: &Preserve) -> Result<(), Errno> {
        let Some((stat, replaced)) = self.like.as_deref() else { return Ok(()) };
        let replaced = Subject::new(&self.place, replaced.as_ref().map(AsFd::as_fd));
        be_like(file, (&replaced, stat), keep)
    }

    /// Brings the bytes of a part to the device as long as it is the copier's own, which is what a later run
    /// would go on with.
    ///
    /// # Errors
    /// The kernel's word.
    pub(super) fn sync_part(&self, file: &OwnedFd) -> Result<(), Errno> {
        match (&self.left, &self.durable) {
            (Left::Part, Durable::Yes) => device::settle_all(file),
            _ => Ok(()),
        }
    }

    /// Gives the file its name, after its bytes are on the device.
    ///
    /// # Errors
    /// The kernel's word, and what it was said of.
    pub(super) fn name(mut self, file: &OwnedFd) -> Result<(), NotNamed> {
        if self.durable == Durable::Yes {
            device::settle_all(file).map_err(NotNamed::Syncing)?;
        }
        // NFS gives another name to what is replaced while it is open.
        self.like = None;
        self.put_in_place(file).map_err(NotNamed::Naming)?;
        self.meanwhile = None;
        if self.durable == Durable::No {
            return Ok(());
        }
        // The name is on the device once its directory is. What cannot be opened to be synced is
        // synced when the kernel thinks fit.
        match device::settle_all(self.place.directory.as_fd()) {
            Err(Errno::BADF) | Ok(()) => Ok(()),
            Err(errno) => Err(NotNamed::SyncingFolder(errno)),
        }
    }

    fn put_in_place(&self, file: &OwnedFd) -> Result<(), Errno> {
        let (place, by_number) = (&self.place, by_number(file));
        match &self.meanwhile {
            Some(meanwhile) => meanwhile.rename_to(place),
            None if !self.replaces => link_to(&by_number, place),
            None => {
                let beside = passing::beside(place, |beside| link_to(&by_number, beside))?;
                let renamed = beside.rename_to(place);
                if renamed.is_err() {
                    let _ = beside.remove();
                }
                renamed
            }
        }
    }
}

impl Drop for Unnamed {
    /// What did not become whole is removed.
    fn drop(&mut self) {
        if let (Some(meanwhile), Left::Nothing) = (&self.meanwhile, self.left) {
            let _ = meanwhile.remove();
        }
    }
}

/// Whether /proc is mounted, without which a file that has no name cannot get one.
pub(super) fn is_proc_there() -> bool {
    static THERE: OnceLock<bool> = OnceLock::new();
    *THERE.get_or_init(|| rustix::fs::access("/proc/thread-self/fd", Access::EXISTS).is_ok())
}

/// The path by which /proc names the open file, so that a name can be made for it without
/// CAP_DAC_READ_SEARCH (see open(2), O_TMPFILE).
fn by_number(file: &OwnedFd) -> OsString {
    format!("/proc/thread-self/fd/{}", file.as_raw_fd()).into()
}

fn link_to(file: &OsStr, place: &Place) -> Result<(), Errno> {
    let flags = AtFlags::SYMLINK_FOLLOW;
    rustix::fs::linkat(CWD, file, &place.directory, &place.name, flags)
}
