//! A name in a directory that is held open. Whatever happens to the path meanwhile, and however
//! long it is, the place stays the same one.

use std::ffi::{CString, OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use crate::closed;

/// A directory that names are looked up in.
#[derive(Clone, Default)]
pub(super) enum Directory {
    /// The one that the program was started in.
    #[default]
    Working,
    /// One that is held open.
    Held(Arc<OwnedFd>),
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Directory::Working => CWD,
            Directory::Held(fd) => fd.as_fd(),
        }
    }
}

/// A name in a directory.
#[derive(Clone, Default)]
pub(super) struct Place {
    pub(super) directory: Directory,
    /// As it is looked up there: one component within a tree, any path for an operand.
    pub(super) name: OsString,
    /// As messages show it.
    pub(super) shown: OsString,
    /// Bytes of `shown` that stand before the path from the directory that the operands are copied
    /// into.
    pub(super) base_bytes: usize,
}

/// Whether a symbolic link stands for what it leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follow {
    Yes,
    No,
}

impl Follow {
    pub(super) fn when(follows: bool) -> Follow {
        if follows { Follow::Yes } else { Follow::No }
    }
}

impl Place {
    /// The place of an operand.
    pub(super) fn operand(name: &OsStr) -> Place {
        let (name, shown) = (name.to_owned(), name.to_owned());
        Place { directory: Directory::Working, name, shown, base_bytes: 0 }
    }

    /// The place of this name in the directory that is open as `directory` and has this place.
    pub(super) fn below(&self, directory: &Arc<OwnedFd>, name: &OsStr) -> Place {
        let mut place = Place::default();
        place.be_below(self, directory, name);
        place
    }

    /// Makes it the place of this name in the directory that is open as `directory` and has the place
    /// `above`, in the memory that it has.
    pub(super) fn be_below(&mut self, above: &Place, directory: &Arc<OwnedFd>, name: &OsStr) {
        self.directory = Directory::Held(directory.clone());
        self.name.clear();
        self.name.push(name);
        let mut shown = std::mem::take(&mut self.shown).into_vec();
        shown.clear();
        join(&mut shown, &above.shown, name);
        self.shown = OsString::from_vec(shown);
        self.base_bytes = above.base_bytes;
    }

    /// Makes it the place of another name in its directory, in the memory that it has.
    pub(super) fn turn_to(&mut self, name: &OsStr) {
        let mut shown = std::mem::take(&mut self.shown).into_vec();
        shown.truncate(shown.len() - self.name.len());
        shown.extend_from_slice(name.as_bytes());
        self.shown = OsString::from_vec(shown);
        self.name.clear();
        self.name.push(name);
    }

    /// The same place under another name in its directory.
    pub(super) fn renamed(&self, name: OsString) -> Place {
        let kept = self.shown.len() - self.name.len().min(self.shown.len());
        let shown = [&self.shown.as_bytes()[..kept], name.as_bytes()].concat();
        Place { name, shown: OsString::from_vec(shown), ..self.clone() }
    }

    /// The path from the directory that the operands are copied into.
    pub(super) fn relative(&self) -> &OsStr {
        OsStr::from_bytes(&self.shown.as_bytes()[self.base_bytes..])
    }

    /// That nothing is there, where it is an operand that leads to a descriptor that was closed.
    fn check(&self, follow: Follow) -> Result<(), Errno> {
        match (&self.directory, follow) {
            (Directory::Working, Follow::Yes) => closed::check(&self.name),
            (Directory::Working, Follow::No) => closed::check_itself(&self.name),
            (Directory::Held(_), _) => Ok(()),
        }
    }

    pub(super) fn stat(&self, follow: Follow) -> Result<Stat, Errno> {
        self.check(follow)?;
        match (self.stat_once(follow), &self.directory) {
            (Err(Errno::NAMETOOLONG), Directory::Working) => {
                let reached = self.reached()?;
                rustix::fs::statat(&reached.directory, &reached.name, at(follow))
            }
            (answer, _) => answer,
        }
    }

    fn stat_once(&self, follow: Follow) -> Result<Stat, Errno> {
        rustix::fs::statat(&self.directory, &self.name, at(follow))
    }

    /// The same place by the directory that holds it, for an operand too long for the kernel.
    fn reached(&self) -> Result<Place, Errno> {
        let mut rest = self.name.as_bytes();
        let mut place = self.clone();
        // Every piece ends at a slash, well below what one call takes, and a name follows: slashes alone
        // are looked up nowhere.
        while without_slashes(OsStr::from_bytes(rest)).len() > PIECE_BYTES {
            let cut = rest[..PIECE_BYTES].iter().rposition(|byte| *byte == b'/');
            let cut = cut.filter(|cut| *cut > 0).ok_or(Errno::NAMETOOLONG)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let piece = OsStr::from_bytes(&rest[..cut]);
            let opened = rustix::fs::openat(&place.directory, piece, flags, Mode::empty())?;
            place.directory = Directory::Held(Arc::new(opened));
            rest = &rest[cut..];
            rest = &rest[rest.iter().position(|byte| *byte != b'/').unwrap_or(rest.len())..];
        }
        place.name = OsStr::from_bytes(rest).to_owned();
        Ok(place)
    }

    /// The operand by a directory that holds it, where it is too long to be looked up at once.
    pub(super) fn shortened(self) -> Place {
        match self.name.len() > PIECE_BYTES {
            true => self.reached().unwrap_or(self),
            false => self,
        }
    }

    pub(super) fn open(&self, flags: OFlags, mode: u32) -> Result<OwnedFd, Errno> {
        self.check(Follow::when(!flags.intersects(OFlags::NOFOLLOW | OFlags::EXCL)))?;
        let mode = Mode::from_raw_mode(mode);
        // Opening a FIFO or a slow device may be interrupted before anything is opened.
        loop {
            match rustix::fs::openat(&self.directory, &self.name, flags | OFlags::CLOEXEC, mode) {
                Err(Errno::INTR) => {}
                answer => return answer,
            }
        }
    }

    pub(super) fn remove(&self) -> Result<(), Errno> {
        rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty())
    }

    /// Gives what is there this other name, and takes the place of what has it.
    pub(super) fn rename_to(&self, other: &Place) -> Result<(), Errno> {
        rustix::fs::renameat(&self.directory, &self.name, &other.directory, &other.name)
    }

    /// What the symbolic link of this place says.
    pub(super) fn read_link(&self) -> Result<CString, Errno> {
        rustix::fs::readlinkat(&self.directory, &self.name, Vec::with_capacity(LINK_BYTES))
    }

    /// The directory that holds it, and its name there.
    pub(super) fn parent(&self) -> (OsString, OsString) {
        let (folder, last) = split(&self.name);
        (folder.to_owned(), last.to_owned())
    }

    /// Opens the directory that holds it, to be read or for looking names up alone.
    pub(super) fn open_folder(&self, access: OFlags) -> Result<OwnedFd, Errno> {
        let flags = access | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::openat(&self.directory, self.parent().0, flags, Mode::empty())
    }

    /// Whether both are one entry of one directory.
    pub(super) fn is_same_entry(&self, other: &Place) -> bool {
        let ((folder, name), (other_folder, other_name)) = (self.parent(), other.parent());
        if name != other_name {
            return false;
        }
        let found = |place: &Place, folder: &OsStr| {
            rustix::fs::statat(&place.directory, folder, AtFlags::empty()).ok()
        };
        match (found(self, &folder), found(other, &other_folder)) {
            (Some(one), Some(other)) => same_file(&one, &other),
            _ => false,
        }
    }
}

/// What most symbolic links say is shorter.
const LINK_BYTES: usize = 128;

/// Pieces of a path that is too long for one call are at most this long: half of PATH_MAX.
const PIECE_BYTES: usize = 2048;

fn at(follow: Follow) -> AtFlags {
    match follow {
        Follow::Yes => AtFlags::empty(),
        Follow::No => AtFlags::SYMLINK_NOFOLLOW,
    }
}

/// Whether both are of one inode.
pub(super) fn same_file(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

pub(super) fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

pub(super) fn is_directory(stat: &Stat) -> bool {
    kind(stat) == FileType::Directory
}

pub(super) fn is_link(stat: &Stat) -> bool {
    kind(stat) == FileType::Symlink
}

/// The path without the slashes at its end; of slashes alone, one.
pub(super) fn without_slashes(path: &OsStr) -> &OsStr {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(bytes.len().min(1), |at| at + 1);
    OsStr::from_bytes(&bytes[..end])
}

/// The folder and the last component of a path.
fn split(path: &OsStr) -> (&OsStr, &OsStr) {
    let path = without_slashes(path).as_bytes();
    match path.iter().rposition(|byte| *byte == b'/') {
        None => (OsStr::new("."), OsStr::from_bytes(path)),
        Some(slash) => {
            let folder = match slash {
                0 => OsStr::new("/"),
                slash => without_slashes(OsStr::from_bytes(&path[..slash])),
            };
            (folder, OsStr::from_bytes(&path[slash + 1..]))
        }
    }
}

/// The last component, slashes at its end included; nothing for a root.
pub(super) fn last_component(path: &OsStr) -> &OsStr {
    let bytes = path.as_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |at| at + 1);
    let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
    OsStr::from_bytes(if end == 0 { b"" } else { &bytes[start..] })
}

/// The name below the directory, with one slash between them.
pub(super) fn joined(directory: &OsStr, name: &OsStr) -> OsString {
    let mut path = Vec::new();
    join(&mut path, directory, name);
    OsString::from_vec(path)
}

/// The same, in memory that is empty. What is in a directory that is shown as nothing is shown by its name
/// alone.
fn join(path: &mut Vec<u8>, directory: &OsStr, name: &OsStr) {
    path.reserve(directory.len() + 1 + name.len());
    if directory.is_empty() {
        return path.extend_from_slice(name.as_bytes());
    }
    path.extend_from_slice(directory.as_bytes());
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    match (path.ends_with(b"/"), name.as_bytes().starts_with(b"/")) {
        // Below the root, an absolute name is to stay below it.
        (true, true) => path.push(b'.'),
        (false, false) => path.push(b'/'),
        _ => {}
    }
    path.extend_from_slice(name.as_bytes());
}
