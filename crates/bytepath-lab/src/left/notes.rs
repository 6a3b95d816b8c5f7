//! Notes of what runs make, in a folder that only this user can write in: what they say is done later,
//! by root with root's rights.
//!
//! A run holds a lock on each of its notes for as long as it lives, so a note that nobody has locked is
//! of a run that is gone.

use std::ffi::OsString;
use std::fs::{DirBuilder, File};
use std::io::{Error, ErrorKind, Read as _, Result as IoResult, Seek as _, Write as _};
use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use bytepath::Profile;
use rustix::fs::{AtFlags, CWD, Dir, FlockOperation, Mode, OFlags, flock, open, openat};
use rustix::io::Errno;
use rustix::process::geteuid;

/// How the names of notes and folders begin: no other folder is ever removed.
const PREFIX: &str = ".bytepath-run-";

/// Ends what a note says; no name of a file has it.
const END: u8 = 0;

/// No note says more.
const NOTE_BYTES_MAX: u64 = 1 << 20;

/// Nobody else makes things that are noted, or undoes them, while it lives.
pub(crate) struct Alone {
    path: PathBuf,
    /// The folder, locked.
    folder: File,
}

impl Alone {
    /// Waits for its turn.
    pub(crate) fn wait() -> IoResult<Alone> {
        let path = place();
        made(&path).and_then(|()| Alone::at(&path)).map_err(|error| {
            // What is wrong with a folder that is there was said with the remedy.
            let remedy = match error.kind() {
                ErrorKind::Other => "",
                _ => "; set XDG_STATE_HOME to a folder of your own",
            };
            let text = format!("cannot keep notes in {}: {error}{remedy}", path.display());
            Error::new(error.kind(), text)
        })
    }

    /// The same where there are notes; none where nothing was ever noted, or where this user may not look, whose
    /// notes are not there then.
    pub(super) fn where_noted() -> IoResult<Option<Alone>> {
        let path = place();
        match Alone::at(&path) {
            Err(error)
                if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::PermissionDenied) =>
            {
                Ok(None)
            }
            Err(error) => Err(Error::new(error.kind(), format!("{}: {error}", path.display()))),
            Ok(alone) => Ok(Some(alone)),
        }
    }

    /// Likewise, one after the other, where runs of this user's keep their notes that have another HOME (sudo, cron),
    /// or none. What is not fit to be believed is somebody else's there.
    pub(super) fn elsewhere() -> impl Iterator<Item = Alone> {
        let here = place().canonicalize().ok();
        let others =
            other_places().into_iter().filter(move |other| other.canonicalize().ok() != here);
        others.filter_map(|other| Alone::at(&other).ok())
    }

    fn at(path: &Path) -> IoResult<Alone> {
        let unfit = |why: &str| {
            Err(Error::other(format!(
                "{why}, and what is noted in it is done; remove it, or set XDG_STATE_HOME to a folder \
                 of your own"
            )))
        };
        let folder = match open(path, READ | OFlags::DIRECTORY, Mode::empty()) {
            Err(Errno::NOTDIR | Errno::LOOP) => {
                return unfit("it is no folder, but a link or a file");
            }
            folder => File::from(folder?),
        };
        let found = folder.metadata()?;
        if found.uid() != geteuid().as_raw() {
            return unfit("it belongs to another user");
        }
        if found.mode() & OTHERS_WRITE != 0 {
            return unfit("everybody may write in it");
        }
        flock(&folder, FlockOperation::LockExclusive)?;
        Ok(Alone { path: path.to_owned(), folder })
    }

    /// A note with a name that no other has, about nothing as yet.
    pub(crate) fn note(&self) -> IoResult<Note> {
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), fastrand::u64(..));
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let lock = File::from(openat(&self.folder, &name, flags, Mode::RUSR | Mode::WUSR)?);
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Note { path: self.path.join(&name), name, lock })
    }

    /// The notes that are there.
    pub(super) fn all(&self) -> IoResult<Vec<Kept<'_>>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.folder)? {
            let name = entry?.file_name().to_owned();
            if name.as_bytes().starts_with(PREFIX.as_bytes()) {
                all.push(Kept { name: OsString::from_vec(name.into_bytes()), of: self });
            }
        }
        Ok(all)
    }
}

/// What this run has made; locked while it lives.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    pub(super) name: String,
    lock: File,
}

impl Note {
    /// Says what it is about, in place of what it said before: that is there until this is.
    pub(crate) fn tell(&mut self, what: &[u8]) -> IoResult<()> {
        self.lock.rewind()?;
        self.lock.write_all(&[what, &[END]].concat())?;
        self.lock.set_len(what.len() as u64 + 1)
    }

    /// Puts it on the device, before what stays there after a power cut too. Where that is refused, it is there
    /// for those of a run that is killed.
    pub(super) fn outlasts_the_machine(&self) {
        let _ = self.lock.sync_data();
        let _ = self.path.parent().map(|folder| File::open(folder)?.sync_all());
    }

    /// What it was about is gone.
    pub(crate) fn done(&self) {
        // One that stays is of something that is not there: the next run removes it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A note of some run.
pub(super) struct Kept<'a> {
    pub(super) name: OsString,
    of: &'a Alone,
}

/// What a note says whose run is gone, and the lock on it.
pub(super) struct Told {
    pub(super) text: Vec<u8>,
    _lock: File,
}

impl Kept<'_> {
    pub(super) fn path(&self) -> PathBuf {
        self.of.path.join(&self.name)
    }

    /// What it says; nothing where its run lives, or has removed it since.
    pub(super) fn read(&self) -> IoResult<Option<Told>> {
        // Something else of such a name, a FIFO say, is not waited for.
        let opened = openat(&self.of.folder, &self.name, READ | OFlags::NONBLOCK, Mode::empty());
        let mut file = match opened {
            Err(Errno::NOENT) => return Ok(None),
            opened => File::from(opened?),
        };
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != geteuid().as_raw() {
            return Err(Error::other("it is no note of yours; remove it"));
        }
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(None);
        }
        // Its run may have come to its end before it was locked.
        if file.metadata()?.nlink() == 0 {
            return Ok(None);
        }
        let mut text = Vec::new();
        (&mut file).take(NOTE_BYTES_MAX).read_to_end(&mut text)?;
        // What follows is of what it said before.
        text.truncate(text.iter().position(|byte| *byte == END).unwrap_or(text.len()));
        Ok(Some(Told { text, _lock: file }))
    }

    /// What it was about is gone.
    pub(super) fn remove(&self) -> IoResult<()> {
        let removed = rustix::fs::unlinkat(&self.of.folder, &self.name, AtFlags::empty());
        match removed {
            Err(Errno::NOENT) => Ok(()),
            removed => Ok(removed?),
        }
    }
}

/// How things are opened that somebody else might have put there.
const READ: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// `S_IWOTH` of inode(7).
const OTHERS_WRITE: u32 = 0o002;

/// Beside the profile; where this user's temporary files are, if there is no such place, none can be
/// made, or it is another user's (a sudo that keeps HOME).
fn place() -> PathBuf {
    let user = geteuid().as_raw();
    // What is not there yet would be made in what is.
    let is_own = |folder: &Path| {
        let mut there = folder.ancestors().filter_map(|at| Some((at, at.symlink_metadata().ok()?)));
        there
            .next()
            .is_none_or(|(at, found)| found.uid() == user || (at != folder && found.uid() == 0))
    };
    let profile = Profile::default_path();
    let beside = profile.as_deref().and_then(Path::parent).filter(|beside| is_own(beside));
    let notes = beside.map(|beside| beside.join("left")).filter(|notes| is_own(notes));
    let notes = notes.filter(|notes| may_be_made(notes));
    // Directly in there: what lies between might be made by anybody, and exchanged later.
    notes.unwrap_or_else(|| among_temporary_files(&std::env::temp_dir()))
}

/// Where a run of this user's keeps its notes that has another HOME, or none.
fn other_places() -> Vec<PathBuf> {
    let own_home = std::fs::read_to_string("/etc/passwd").ok().and_then(|all| {
        // name:password:uid:gid:comment:home:shell
        let mut users = all.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let user = geteuid().as_raw().to_string();
        let found = users.find(|fields| fields.get(2) == Some(&user.as_str()))?;
        found.get(5).map(PathBuf::from)
    });
    let at_home = own_home.map(|home| home.join(".local/state/bytepath/left"));
    at_home.into_iter().chain([among_temporary_files(Path::new("/tmp"))]).collect()
}

fn among_temporary_files(folder: &Path) -> PathBuf {
    folder.join(format!("bytepath-left-{}", geteuid().as_raw()))
}

/// Whether a folder is there, or the nearest above it that is may be written.
fn may_be_made(path: &Path) -> bool {
    let there = path.ancestors().find(|at| at.symlink_metadata().is_ok());
    there.is_some_and(|at| {
        let access = rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK;
        rustix::fs::accessat(CWD, at, access, AtFlags::EACCESS).is_ok()
    })
}

/// Makes the folder of notes, for this user alone.
fn made(path: &Path) -> IoResult<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}
