//! Where a part of the work is done: source and destination held open, and the directory in the
//! destination that is there as long as the work: stages, and lists of names too long to be sent.

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;

use bytepath_lab::file_set::free_bytes;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;

use super::Options;
use super::words::Name;
use crate::cp::place::{Directory, Place, joined};

/// A directory in source and destination.
pub(super) struct Ends {
    pub(super) source: Arc<OwnedFd>,
    pub(super) sink: Arc<OwnedFd>,
}

/// Both roots, and the directory for the work.
pub(super) struct Ground {
    pub(super) source: PathBuf,
    /// The source's device and inode when this process was started, where they are told.
    root: Option<String>,
    /// The source, as long as a request is worked on.
    held: Option<OwnedFd>,
    pub(super) sink: PathBuf,
    /// The destination, as long as a request is worked on, where it was there when that came.
    held_sink: Option<OwnedFd>,
    pub(super) run: PathBuf,
    /// Nobody else's names begin with it.
    pub(super) token: String,
    /// How many names it has made.
    made: std::cell::Cell<u64>,
}

/// Bytes of a list that are read at once, where no end is known; more where no name ends in them.
pub(super) const LIST_BYTES: u64 = 1 << 20;

/// Where lists lie, in the directory for the work.
pub(super) const LISTS: &str = "lists";

/// How lists are opened, whatever stands in their place.
const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);

/// How new ones are.
const NEW: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::EXCL)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

impl Ground {
    pub(super) fn new(options: &Options) -> Ground {
        let Options { source, destination, run, token, root, .. } = options;
        let (source, sink, run) = (source.clone(), destination.clone(), run.clone());
        let (root, token) = (root.clone(), token.clone());
        let (held, held_sink) = (None, None);
        Ground { source, root, held, sink, held_sink, run, token, made: Default::default() }
    }

    /// Holds both open for a request: what is unmounted meanwhile, or mounted over the source, looks like nothing
    /// that was removed from it, and nothing is put into what has come to have the destination's name.
    ///
    /// # Errors
    /// The kernel's word, and ESTALE where it is another directory than it was.
    pub(super) fn hold(&mut self) -> Result<(), Errno> {
        let open = rustix::fs::open(&self.source, DIRECTORY, Mode::empty())?;
        let stat = rustix::fs::fstat(&open)?;
        let there = format!("{}:{}", stat.st_dev, stat.st_ino);
        if self.root.as_ref().is_some_and(|root| *root != there) {
            return Err(Errno::STALE);
        }
        self.held = Some(open);
        self.held_sink = rustix::fs::open(&self.sink, DIRECTORY, Mode::empty()).ok();
        Ok(())
    }

    /// Lets others unmount them.
    pub(super) fn let_go(&mut self) {
        (self.held, self.held_sink) = (None, None);
    }

    /// # Errors
    /// The kernel's word, but for ENOENT, by which what is gone from the source is told.
    pub(super) fn source_root(&self) -> Result<OwnedFd, Errno> {
        let held = self.held.as_ref().ok_or(Errno::STALE)?;
        rustix::fs::openat(held, ".", DIRECTORY, Mode::empty()).map_err(|errno| match errno {
            Errno::NOENT => Errno::STALE,
            errno => errno,
        })
    }

    pub(super) fn sink_root(&self) -> Result<OwnedFd, Errno> {
        match &self.held_sink {
            Some(held) => rustix::fs::openat(held, ".", DIRECTORY, Mode::empty()),
            None => rustix::fs::open(&self.sink, DIRECTORY, Mode::empty()),
        }
    }

    /// A name for a large file in the stage, which no other beginning of it has.
    pub(super) fn new_large(&self, k: u64) -> Name {
        Name(format!("large-{k}-{}-{}", self.token, self.next()).into())
    }

    fn next(&self) -> u64 {
        self.made.replace(self.made.get() + 1)
    }

    /// Whether there is much room in the destination besides so many bytes, as far as it tells.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        const BYTES: u64 = 64 << 20;
        const FILES: u64 = 1000;
        rustix::fs::statvfs(&self.sink).is_ok_and(|room| {
            // Some file systems count no inodes.
            let files = room.f_files == 0 || room.f_favail >= FILES;
            files && free_bytes(&room) >= bytes.saturating_add(BYTES)
        })
    }

    /// The directory for the work, held open.
    ///
    /// # Errors
    /// The kernel's word, and EPERM for one of somebody else's: who owns the destination can put another in
    /// its place at any time, and by links in that have this process write, or remove, files anywhere.
    pub(super) fn run_directory(&self) -> Result<OwnedFd, Errno> {
        self.own(CWD, self.run.as_os_str())
    }

    /// Opens a directory by its name in another.
    ///
    /// # Errors
    /// As of [`Ground::run_directory`].
    pub(super) fn own(&self, above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
        let open = directory(above, name)?;
        let owner = rustix::fs::fstat(&open)?.st_uid;
        // A server of files may take root for nobody.
        let is_ours = owner == rustix::process::geteuid().as_raw() || owner == self.maker(&open)?;
        is_ours.then_some(open).ok_or(Errno::PERM)
    }

    /// Whose the files are that this process makes in a directory.
    fn maker(&self, open: &OwnedFd) -> Result<u32, Errno> {
        let name = format!("{}-{}", self.token, self.next());
        let file = rustix::fs::openat(open, &name, NEW, Mode::RUSR | Mode::WUSR)?;
        let _ = rustix::fs::unlinkat(open, &name, AtFlags::empty());
        Ok(rustix::fs::fstat(file)?.st_uid)
    }

    /// Makes a list of names, and says how it is called.
    pub(super) fn new_list(&self) -> std::io::Result<(std::fs::File, OsString)> {
        let name = OsString::from(format!("{}-{}", self.token, self.next()));
        let lists = self.own(self.run_directory()?.as_fd(), OsStr::new(LISTS))?;
        let file = rustix::fs::openat(lists, &name, NEW, Mode::RUSR | Mode::WUSR)?;
        Ok((file.into(), name))
    }

    /// Writes a list of names; how it is called.
    pub(super) fn write_list(&self, lines: &[u8]) -> std::io::Result<OsString> {
        let (mut file, name) = self.new_list()?;
        file.write_all(lines)?;
        kept(&file)?;
        Ok(name)
    }

    /// A list's bytes from one place to another, or the first of those up to its end, with one whole name at least.
    ///
    /// # Errors
    /// Besides those of reading: it is no file, does not reach so far, ends within a name, or has nothing, as after
    /// a crash of its file system.
    pub(super) fn read_list(
        &self,
        name: &OsStr,
        from: u64,
        to: Option<u64>,
    ) -> std::io::Result<Vec<u8>> {
        let lists = self.own(self.run_directory()?.as_fd(), OsStr::new(LISTS))?;
        let mut file = std::fs::File::from(rustix::fs::openat(lists, name, LIST, Mode::empty())?);
        if !file.metadata()?.is_file() {
            return Err(Errno::INVAL.into());
        }
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        let most = to.map_or(LIST_BYTES, |to| to.saturating_sub(from));
        (&file).take(most).read_to_end(&mut bytes)?;
        let has_name = |bytes: &[u8]| memchr::memchr(0, bytes).is_some();
        if to.is_none() && !has_name(&bytes) {
            BufReader::new(file).read_until(0, &mut bytes)?;
        }
        let whole = match to {
            Some(_) => bytes.len() as u64 == most,
            // Behind the last name there is nothing.
            None => has_name(&bytes) || from > 0 && bytes.is_empty(),
        };
        if !whole {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        Ok(bytes)
    }

    /// The name as messages show it, in the source and in the destination.
    pub(super) fn shown(&self, path: &OsStr) -> (OsString, OsString) {
        match path.is_empty() {
            true => (self.source.clone().into(), self.sink.clone().into()),
            false => (joined(self.source.as_os_str(), path), joined(self.sink.as_os_str(), path)),
        }
    }

    /// The directories of this path, held open.
    pub(super) fn folders(
        &self,
        path: &OsStr,
    ) -> Result<(Arc<OwnedFd>, Arc<OwnedFd>), (Side, Errno)> {
        let folder = split(path).0;
        let source = self.source_root().and_then(|root| below(root, folder));
        let sink = self.sink_root().and_then(|root| below(root, folder));
        let source = source.map_err(|errno| (Side::Source, errno))?;
        Ok((Arc::new(source), Arc::new(sink.map_err(|errno| (Side::Sink, errno))?)))
    }

    /// The places of this path, its directories held open.
    pub(super) fn places(&self, path: &OsStr) -> Result<(Place, Place), (Side, Errno)> {
        let (source, sink) = self.folders(path)?;
        let (from, to) = self.shown(path);
        let place = |open, shown| Place {
            directory: Directory::Held(open),
            name: split(path).1.to_owned(),
            shown,
            base_bytes: 0,
        };
        Ok((place(source, from), place(sink, to)))
    }
}

/// What the stage of this part of the work is called.
pub(super) fn stage(number: u32) -> OsString {
    format!("stage-{number}").into()
}

/// The directory of a path, which is empty for the root, and the name in it.
pub(super) fn split(path: &OsStr) -> (&OsStr, &OsStr) {
    let bytes = path.as_bytes();
    let (folder, name) = match memchr::memrchr(b'/', bytes) {
        Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
        None => (&bytes[..0], bytes),
    };
    (OsStr::from_bytes(folder), OsStr::from_bytes(name))
}

/// Brings a list to the device before anybody writes down that it is there.
pub(super) fn kept(list: &std::fs::File) -> std::io::Result<()> {
    list.sync_data()
}

/// Which of the two roots something is below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Source,
    Sink,
}

/// How directories are opened. No symbolic link is followed below the roots.
pub(super) const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Opens a directory by its name in another.
pub(super) fn directory(above: BorrowedFd<'_>, name: &OsStr) -> Result<OwnedFd, Errno> {
    rustix::fs::openat(above, name, DIRECTORY | OFlags::NOFOLLOW, Mode::empty())
}

/// Opens a directory by its path below another, one component after the other: paths may be longer
/// than one call takes.
pub(super) fn below(root: OwnedFd, path: &OsStr) -> Result<OwnedFd, Errno> {
    let names = path.as_bytes().split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.map(OsStr::from_bytes).try_fold(root, |above, name| directory(above.as_fd(), name))
}
