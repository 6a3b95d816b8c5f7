//! A file for results: looked at before the work, so that nobody measures for minutes only to learn
//! that the folder is missing; written whole or not at all, so that an older result is there until
//! a better one is.

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::io::{ErrorKind, Read as _, Seek as _, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytepath_lab::store::Store;
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, StatxAttributes, StatxFlags, XattrFlags,
};
use rustix::fs::{accessat, fremovexattr, fsetxattr, getxattr, linkat, openat, statx};
use rustix::io::Errno;
use tempfile::{PathPersistError, TempPath};

use crate::close::{close, closed_well};
use crate::device;
use crate::errno::word;
use crate::quote::always_quoted;
use crate::said;
use crate::streams::{stdout, stdout_is_writable};
use crate::sys::given;
use crate::usage::wrong_usage;

/// Where results go: a file, or standard output for `-`.
pub(crate) struct Output {
    path: PathBuf,
    way: Way,
}

enum Way {
    Stdout,
    /// A device, FIFO or the like, or a file that is open already: it is written as it is.
    Special(File),
    /// A file that is there or is to be: it is replaced at the end.
    Replaced,
}

impl Output {
    /// Sees that `path` can be written, and leaves it as it is.
    pub(crate) fn open(path: &Path) -> anyhow::Result<Output> {
        match is_stdout(path) {
            true => is_writable()?,
            false => spares_the_store(path)?,
        }
        let way = Output::way(path).with_context(|| format!("cannot write {}", path.display()))?;
        let printed = identity(Path::new("-"));
        if matches!(way, Way::Replaced) && printed.is_some() && identity(path) == printed {
            let path = path.display();
            return Err(wrong_usage(format!(
                "what is printed goes to {path}, and would be lost; name another file"
            )));
        }
        Ok(Output { path: path.to_owned(), way })
    }

    /// Sees the same of what is opened later. To open a FIFO and close it tells whoever reads it that this
    /// was all.
    pub(crate) fn look(path: &Path) -> anyhow::Result<()> {
        match std::fs::metadata(path) {
            Ok(found) if found.file_type().is_fifo() && !is_stdout(path) => followed(path)
                .and_then(|_| Ok(accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS)?))
                .with_context(|| format!("cannot write {}", path.display())),
            _ => Output::open(path).map(drop),
        }
    }

    fn way(path: &Path) -> anyhow::Result<Way> {
        if is_stdout(path) {
            return Ok(Way::Stdout);
        }
        if let Some(open) = descriptor(path) {
            let open = open?;
            // Anything else is opened by its name as well, and waits as a writer expects.
            if open.metadata()?.is_file() {
                return Ok(Way::Special(open));
            }
        }
        followed(path)?;
        match File::options().write(true).open(path) {
            Ok(file) if file.metadata()?.is_file() => {
                let replaceable = followed(path).and_then(|path| is_replaceable(&path));
                replaceable.context("another cannot take its place")?;
                Ok(Way::Replaced)
            }
            Ok(file) => Ok(Way::Special(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                takes_files(folder(&followed(path)?))?;
                Ok(Way::Replaced)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The file, where it is one that is replaced, and not written as it is.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.is_file().then_some(&*self.path)
    }

    /// Whether writing waits for nobody who reads.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self.way, Way::Replaced)
    }

    /// Writes the results. A reader who left had enough of them: whatever else there is to write, and
    /// to tell by the exit code, is so all the same.
    pub(crate) fn write(self, text: &[u8]) -> anyhow::Result<()> {
        let failed = || format!("cannot write {}", self.path.display());
        said::printed(match self.way {
            Way::Stdout => {
                stdout().write_all(text).and_then(|()| kept()).context("standard output")
            }
            Way::Special(file) => to_special(file, text).with_context(failed),
            Way::Replaced => replace(&self.path, text).with_context(failed),
        })
    }
}

/// Sees that there is a standard output that can be written.
///
/// # Errors
/// There is none.
pub(crate) fn is_writable() -> anyhow::Result<()> {
    stdout_is_writable().map_err(|errno| anyhow::Error::msg(word(errno)).context("standard output"))
}

/// Sees that all that was printed is kept: some file systems tell only when a file is closed that its bytes
/// are lost.
///
/// # Errors
/// It is not.
pub(crate) fn ended_well() -> anyhow::Result<()> {
    kept().context("standard output")
}

/// The same, in the kernel's word.
///
/// # Errors
/// It is not.
pub(crate) fn kept() -> std::io::Result<()> {
    let stdout = std::io::stdout();
    match identity_of(stdout.as_fd()) {
        Some(_) => Ok(closed_well(stdout.as_fd())?),
        None => Ok(()),
    }
}

fn to_special(mut file: File, text: &[u8]) -> std::io::Result<()> {
    file.write_all(text)?;
    Ok(close(file.into())?)
}

/// A file that is replaced again and again, as long as nobody else puts another in its place.
pub(crate) struct Renewed {
    path: PathBuf,
    /// The file that was there in the beginning, until it is replaced.
    there: Option<(u64, u64)>,
    /// What all that is written begins with. Others may write into the file that stands there, and a
    /// file that they make may have the number of one that is gone.
    begins: &'static [u8],
    /// The file that was written last, by which it is known where the umask keeps its owner from reading it.
    made: Option<(u64, u64)>,
}

impl Renewed {
    /// What is there now is replaced.
    pub(crate) fn of(path: PathBuf, begins: &'static [u8]) -> Renewed {
        Renewed { there: identity(&path), path, begins, made: None }
    }

    /// Writes it; one that is no regular file is left as it is.
    ///
    /// # Errors
    /// It is none, or cannot be replaced; what was there is as it was.
    pub(crate) fn write(&mut self, text: &[u8]) -> anyhow::Result<()> {
        let path = &self.path;
        let found = match std::fs::metadata(path) {
            Ok(found) if !found.is_file() => anyhow::bail!("it is no regular file"),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            found => found.ok().and_then(of_file),
        };
        if descriptor(path).is_some() {
            anyhow::bail!("it is a descriptor of an open file; give the name of the file");
        }
        if found.is_some() && found != self.there && !self.is_ours(found) {
            anyhow::bail!("it was made meanwhile, and is left as it is");
        }
        let written = Written::beside(path, text)?;
        // The device itself would be asked again and again, and what is measured waits for it too.
        closed_well(written.file.as_fd())?;
        self.made = match found {
            Some(_) => written.replace()?,
            None => written.make()?,
        };
        self.there = None;
        Ok(())
    }

    fn is_ours(&self, found: Option<(u64, u64)>) -> bool {
        let mut begins = vec![0; self.begins.len()];
        match File::open(&self.path).and_then(|mut file| file.read_exact(&mut begins)) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => found == self.made,
            read => read.is_ok() && begins == self.begins,
        }
    }
}

/// A trial, gone as soon as made: a folder may be missing, full or read-only.
fn takes_files(folder: &Path) -> std::io::Result<()> {
    tempfile::tempfile_in(folder).map(drop)
}

/// Sees that a new file can be put in the place of this one, as far as it can be seen before.
fn is_replaceable(path: &Path) -> std::io::Result<()> {
    takes_files(folder(path))?;
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::empty());
    // One that is mounted there, as containers have some of their files.
    if found.is_ok_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)) {
        return Err(Errno::BUSY.into());
    }
    const STICKY: u32 = 0o1000;
    let (file, folder) = (std::fs::metadata(path)?, std::fs::metadata(folder(path))?);
    let user = rustix::process::geteuid();
    let is_anothers = !user.is_root() && ![file.uid(), folder.uid()].contains(&user.as_raw());
    match folder.mode() & STICKY != 0 && is_anothers {
        true => Err(Errno::PERM.into()),
        false => Ok(()),
    }
}

/// Puts a new file in the place of the old one, if there was one, with its owner and permissions.
fn replace(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let written = Written::beside(path, text)?;
    // Some file systems (NFS, those with quotas) tell only now that bytes are lost, while the old
    // ones are still there.
    device::settle(&written.file)?;
    written.replace()?;
    Ok(())
}

/// A new file that waits to be put in the place of the one at a path.
struct Written {
    file: File,
    /// Its passing name. It has none where the file system has such files, so that nothing is left of it where
    /// this process is killed while it writes.
    name: Option<TempPath>,
    /// The path.
    path: PathBuf,
}

impl Written {
    fn beside(path: &Path, text: &[u8]) -> std::io::Result<Written> {
        // What a link points to is replaced, and the link kept.
        let path = followed(path)?;
        // Its passing name is nobody's business, and would be in the error.
        let may = Access::WRITE_OK | Access::EXEC_OK;
        accessat(CWD, folder(&path), may, AtFlags::EACCESS)?;
        let (mut file, name) = match unnamed(folder(&path)) {
            Some(file) => (file, None),
            None => {
                let new = std::fs::Permissions::from_mode(0o666);
                let named = tempfile::Builder::new().permissions(new).tempfile_in(folder(&path))?;
                let (file, name) = named.into_parts();
                (file, Some(name))
            }
        };
        gives_access_as(&path, &file)?;
        file.write_all(text)?;
        Ok(Written { file, name, path })
    }

    /// Puts it there in any case; which file that is.
    fn replace(self) -> std::io::Result<Option<(u64, u64)>> {
        self.put(|name, path| name.persist(path))
    }

    /// Likewise, where nothing is there.
    fn make(self) -> std::io::Result<Option<(u64, u64)>> {
        self.put(|name, path| match name.persist_noclobber(path) {
            // Some file systems can only replace.
            Err(failed) if failed.error.kind() != ErrorKind::AlreadyExists => {
                failed.path.persist(path)
            }
            done => done,
        })
    }

    fn put(
        self,
        place: impl FnOnce(TempPath, &Path) -> Result<(), PathPersistError>,
    ) -> std::io::Result<Option<(u64, u64)>> {
        let Written { file, name, path } = self;
        let unnamed = PathBuf::from(format!("{OPEN}/{}", file.as_raw_fd()));
        let link = |name: &Path| {
            linkat(CWD, &unnamed, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(std::io::Error::from)
        };
        let name = match name {
            Some(name) => name,
            None => match link(&path) {
                Ok(()) => return Ok(identity_of(file.as_fd())),
                // Only a name takes the place of another.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    tempfile::Builder::new().make_in(folder(&path), link)?.into_temp_path()
                }
                // A security module may allow new files and no new names.
                Err(_) => {
                    let mut named = tempfile::Builder::new().tempfile_in(folder(&path))?;
                    gives_access_as(&unnamed, named.as_file())?;
                    (&file).rewind()?;
                    std::io::copy(&mut &file, named.as_file_mut())?;
                    device::settle(named.as_file())?;
                    named.into_temp_path()
                }
            },
        };
        let made = std::fs::metadata(&name).ok().and_then(of_file);
        place(name, &path)?;
        Ok(made)
    }
}

/// Gives a new file the owner, group, access list and permissions of the one whose place it takes, if
/// there is one, as far as that is allowed: who may read the one may read the other.
fn gives_access_as(old: &Path, new: &File) -> std::io::Result<()> {
    let Ok(found) = std::fs::metadata(old) else { return Ok(()) };
    let made = new.metadata()?;
    let (owner, group) = (Some(found.uid()), Some(found.gid()));
    if (owner, group) != (Some(made.uid()), Some(made.gid())) {
        // Who may not give files away may give them to a group that it is in.
        let _ = fchown(new, owner, group).or_else(|_| fchown(new, None, group));
    }
    let mut list = [0; LIST_BYTES_MAX];
    let _ = match getxattr(old, ACCESS_LIST, &mut list) {
        Ok(bytes) => fsetxattr(new, ACCESS_LIST, &list[..bytes], XattrFlags::empty()),
        // It may have one by the default list of its folder.
        Err(_) => fremovexattr(new, ACCESS_LIST),
    };
    // Last: a new owner takes set-id bits away. The umask is for new files.
    new.set_permissions(found.permissions())
}

/// A longer list is left out; the longest that ext4 keeps in a block is shorter.
const LIST_BYTES_MAX: usize = 4096;

/// The attribute that is the access list of a file.
const ACCESS_LIST: &CStr = c"system.posix_acl_access";

/// Where a file without a name can be given one.
const OPEN: &str = "/proc/self/fd";

/// A new file without a name; none where there cannot be one, or no name for it later.
fn unnamed(folder: &Path) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666);
    let file = Path::new(OPEN).exists().then(|| openat(CWD, folder, flags, mode))?;
    file.ok().map(File::from)
}

/// As many links as the kernel follows (MAXSYMLINKS).
const LINKS_MAX: usize = 40;

/// The file that a path leads to by symbolic links, or is to be made where the last of them points.
///
/// # Errors
/// The links lead nowhere, or are not to be followed.
fn followed(path: &Path) -> std::io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        if is_planted(&path) {
            return Err(Errno::ACCESS.into());
        }
        match std::fs::read_link(&path) {
            Ok(next) => path = folder(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(Errno::LOOP.into())
}

/// What is open already at a path that stands for a descriptor, as /dev/stderr, /dev/fd/3 and
/// /proc/self/fd/3 do. Whoever opened it goes on writing there, so a new file in the place of its
/// name would take away what it holds and what follows.
pub(crate) fn descriptor(path: &Path) -> Option<std::io::Result<File>> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let place = std::fs::canonicalize(folder(&path)).ok()?;
        if let Some(process) = whose_descriptors(&place) {
            let number = path.file_name()?.to_str()?.parse().ok()?;
            return Some(match process == std::process::id() {
                true => given::duplicate(number).map(File::from),
                false => File::options().append(true).open(&path),
            });
        }
        path = place.join(std::fs::read_link(&path).ok()?);
    }
    None
}

/// The process whose descriptors are in this folder: /proc/PID/fd, or /proc/PID/task/TID/fd.
fn whose_descriptors(folder: &Path) -> Option<u32> {
    let words: Vec<&str> = folder.to_str()?.strip_prefix("/proc/")?.split('/').collect();
    match words[..] {
        [process, "fd"] | [process, "task", _, "fd"] => process.parse().ok(),
        _ => None,
    }
}

/// Whether it is a symbolic link or FIFO of somebody else's in a folder where everybody makes them, as /tmp
/// is: what the kernel itself follows or opens for nobody else (fs.protected_symlinks and protected_fifos). A
/// FIFO that nobody reads would be waited for.
fn is_planted(path: &Path) -> bool {
    const STICKY_FOR_ALL: u32 = 0o1002;
    let lures = |found: &std::fs::Metadata| found.is_symlink() || found.file_type().is_fifo();
    let lure = path.symlink_metadata().ok().filter(lures);
    let Some((lure, folder)) = lure.zip(std::fs::metadata(folder(path)).ok()) else { return false };
    let owns = [rustix::process::geteuid().as_raw(), folder.uid()];
    folder.mode() & STICKY_FOR_ALL == STICKY_FOR_ALL && !owns.contains(&lure.uid())
}

/// The folder that a path names something in, as the kernel reads it: what ends in a slash or a dot names
/// nothing in the folder around it.
fn folder(path: &Path) -> &Path {
    let path = path.as_os_str().as_bytes();
    match memchr::memrchr(b'/', path) {
        Some(slash) => Path::new(OsStr::from_bytes(&path[..=slash])),
        None => Path::new("."),
    }
}

/// The first of these operands that is the file at this path, which is to be written beside the work.
pub(crate) fn met<'n>(
    path: &Path,
    operands: impl IntoIterator<Item = &'n OsStr>,
) -> Option<&'n OsStr> {
    let file = identity(path);
    let is_to_be = |place| !is_stdout(path) && to_be(path) == Some(place);
    let is_it = |operand: &&OsStr| match file {
        Some(_) => std::fs::metadata(operand).ok().and_then(of_file) == file,
        None => to_be(Path::new(operand)).is_some_and(is_to_be),
    };
    operands.into_iter().find(is_it)
}

/// Where results that go to the same place would be written over each other: a terminal or a pipe takes one
/// after the other.
#[derive(PartialEq)]
enum Place {
    There((u64, u64)),
    ToBe(PathBuf),
    Stdout,
}

fn place(path: &Path) -> Option<Place> {
    match identity(path) {
        Some(file) => Some(Place::There(file)),
        None if is_stdout(path) => Some(Place::Stdout),
        None => to_be(path).map(Place::ToBe),
    }
}

/// Sees that no two of these options write to one file, where the one result would be lost.
///
/// # Errors
/// Which they are.
pub(crate) fn each_its_own(files: &[(&str, Option<&Path>)]) -> Result<(), String> {
    let mut taken: Vec<(&str, Place)> = Vec::new();
    for (option, path) in files {
        let Some(place) = path.and_then(place) else { continue };
        if let Some((other, _)) = taken.iter().find(|(_, other)| *other == place) {
            return Err(format!("{other} and {option} are one file"));
        }
        taken.push((option, place));
    }
    Ok(())
}

/// The same, where standard output holds data.
///
/// # Errors
/// Which they are.
pub(crate) fn beside_data(files: &[(&str, Option<&Path>)]) -> Result<(), String> {
    each_its_own(&[&[("standard output", Some(Path::new("-")))], files].concat())
}

/// Sees that what an option writes is none of the files that are read, of which `-` is standard input.
///
/// # Errors
/// Which it is.
pub(crate) fn spares<'n>(
    option: &str,
    path: Option<&Path>,
    read: impl IntoIterator<Item = &'n OsStr>,
) -> Result<(), String> {
    let Some(path) = path.filter(|path| !is_stdout(path)) else { return Ok(()) };
    let (stdin, read): (Vec<_>, Vec<_>) = read.into_iter().partition(|name| *name == "-");
    // What is not there is something else's name, such as a run's.
    let there = read.into_iter().filter(|name| Path::new(name).exists());
    let over = |what: &str| Err(format!("{option} would be written over {what}"));
    match met(path, there) {
        Some(met) => over(&always_quoted(met)),
        None if !stdin.is_empty() && is_stdin(path) => over("standard input"),
        None => Ok(()),
    }
}

/// Whether it is the file that standard input reads.
fn is_stdin(path: &Path) -> bool {
    let stdin = std::io::stdin();
    identity_of(stdin.as_fd()).is_some_and(|it| identity(path) == Some(it))
}

/// Sees that what is written is no file of the store, where a run would be lost by it.
///
/// # Errors
/// It is one.
fn spares_the_store(path: &Path) -> anyhow::Result<()> {
    let store = Store::default_path().and_then(|store| std::fs::canonicalize(store).ok());
    let place = std::fs::canonicalize(path).ok().or_else(|| to_be(path));
    match (store, place) {
        (Some(store), Some(place)) if place.starts_with(&store) => Err(wrong_usage(format!(
            "{} is among the runs that bytepath keeps; name a file in another folder",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Sees that the file that an option replaces is none of those that are read and written.
///
/// # Errors
/// Which it is.
pub(crate) fn replaces_none<'n>(
    option: &str,
    path: Option<&Path>,
    operands: impl IntoIterator<Item = &'n OsStr>,
) -> Result<(), String> {
    let Some(path) = path else { return Ok(()) };
    let (stdin, stdout) = (std::io::stdin(), std::io::stdout());
    let streams = [(stdin.as_fd(), "standard input"), (stdout.as_fd(), "standard output")];
    let is_it = |open| identity_of(open).is_some_and(|it| identity(path) == Some(it));
    let stream = || streams.into_iter().find(|(open, _)| is_it(*open));
    match met(path, operands).map(always_quoted).or_else(|| stream().map(|(_, name)| name.into())) {
        Some(met) => Err(format!("{option} would replace {met}")),
        None => Ok(()),
    }
}

/// What is not there yet has no more than its place: a folder, and a name in it.
fn to_be(path: &Path) -> Option<PathBuf> {
    let path = followed(path).ok().filter(|path| !path.exists())?;
    Some(std::fs::canonicalize(folder(&path)).ok()?.join(path.file_name()?))
}

/// What tells the regular file at a path, or standard output for `-`, from others.
pub(crate) fn identity(path: &Path) -> Option<(u64, u64)> {
    match is_stdout(path) {
        true => identity_of(std::io::stdout().as_fd()),
        false => std::fs::metadata(path).ok().and_then(of_file),
    }
}

fn of_file(found: std::fs::Metadata) -> Option<(u64, u64)> {
    found.is_file().then(|| (found.dev(), found.ino()))
}

/// The same of one that is open.
pub(crate) fn identity_of(open: BorrowedFd<'_>) -> Option<(u64, u64)> {
    let found = rustix::fs::fstat(open).ok()?;
    let is_file = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    is_file.then_some((found.st_dev, found.st_ino))
}

/// Whether the path stands for standard output.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
