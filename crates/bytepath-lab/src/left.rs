//! What runs make and a killed one leaves behind: folders, cgroups, devices of memory, settings. The
//! next run removes them, or puts them back.
//!
//! Each such thing has a note in the user's state directory. The run holds a lock on its note for as
//! long as it lives, so a note that nobody has locked is of a run that is gone.

use std::fs::File;
use std::io::{Read, Seek, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytepath::Profile;
use rustix::fs::{FlockOperation, flock};

use crate::devices::zram;
use crate::swap::areas;
use crate::{cgroups, hugetlb_pool, kept_settings};

/// How the names of notes and folders begin: no other folder is ever removed.
const PREFIX: &str = ".bytepath-run-";

/// A file that may be behind a loop device, while it has a name: until the device goes by itself.
pub(crate) const IMAGE: &str = "image";

/// Nobody else makes things that are noted, or undoes them, while it lives.
pub(crate) struct Alone {
    notes: PathBuf,
    _lock: File,
}

impl Alone {
    /// Waits for its turn.
    pub(crate) fn wait() -> std::io::Result<Alone> {
        let notes = notes();
        let made = std::fs::create_dir_all(&notes).and_then(|()| locked(&notes));
        let lock = made.map_err(|error| {
            let text = format!("cannot keep notes in {}: {error}", notes.display());
            std::io::Error::new(error.kind(), text)
        })?;
        Ok(Alone { notes, _lock: lock })
    }

    /// A note with a name that no other has, about nothing as yet.
    pub(crate) fn note(&self) -> std::io::Result<Note> {
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), fastrand::u64(..));
        let path = self.notes.join(&name);
        let lock = File::options().write(true).create_new(true).open(&path)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(Note { path, name, lock })
    }
}

/// What this run has made; locked while it lives.
#[derive(Debug)]
pub(crate) struct Note {
    path: PathBuf,
    name: String,
    lock: File,
}

impl Note {
    /// Says what it is about, in place of what it said before.
    pub(crate) fn tell(&mut self, what: &[u8]) -> std::io::Result<()> {
        self.lock.set_len(0)?;
        self.lock.rewind()?;
        self.lock.write_all(what)
    }

    /// What it was about is gone.
    pub(crate) fn done(&self) {
        // One that stays is of something that is not there: the next run removes it.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A folder of this run, removed with everything in it when it is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    note: Note,
}

impl Folder {
    /// Makes a folder in `directory`, noted before it is there.
    ///
    /// # Errors
    /// There is no right or no room for it, or for its note.
    pub fn make(directory: &Path) -> std::io::Result<Folder> {
        let mut note = Alone::wait()?.note()?;
        let path = directory.join(&note.name);
        note.tell(path.as_os_str().as_bytes())?;
        let folder = Folder { path, note };
        std::fs::create_dir(&folder.path)?;
        Ok(folder)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed keeps its note, and the next run tries again.
        if removed(&self.path).is_ok() {
            self.note.done();
        }
    }
}

/// Something that a killed run left.
#[derive(Debug)]
pub struct Left {
    /// It.
    pub path: PathBuf,
    /// What was to be done with it: `removed`, or `put back`.
    pub what: &'static str,
    /// Whether that is done, or why not.
    pub removed: Result<(), String>,
}

/// What is done with most things that a run left.
pub(crate) const REMOVED: &str = "removed";

/// Removes what runs left that were killed, and tells what that was.
///
/// # Errors
/// The notes cannot be read.
pub fn undo() -> std::io::Result<Vec<Left>> {
    let notes = notes();
    if !notes.exists() {
        return Ok(Vec::new());
    }
    let _alone = locked(&notes)?;
    let mut ours = Vec::new();
    for entry in std::fs::read_dir(&notes)? {
        let note = entry?.path();
        if note.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes())) {
            ours.push((rank(&note), note));
        }
    }
    ours.sort();
    let undone = ours.iter().map(|(_, note)| undone(note));
    Ok(undone.collect::<std::io::Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// What is undone first: processes use what they run on, and limits slow down what is undone next.
fn rank(note: &Path) -> u8 {
    let told = std::fs::read(note).unwrap_or_default();
    let is_group = || cgroups::is_group(Path::new(std::ffi::OsStr::from_bytes(&told)));
    match () {
        () if is_group() => 0,
        () if kept_settings::Found::read(&told).is_some() => 1,
        () => 2,
    }
}

/// Removes what a note names, where its run is gone, and the note with it.
fn undone(note: &Path) -> std::io::Result<Option<Left>> {
    let mut file = File::open(note)?;
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        // Its run lives.
        return Ok(None);
    }
    let mut told = Vec::new();
    file.read_to_end(&mut told)?;
    let left = if let Some(device) = zram::Found::read(&told) {
        device.undone()
    } else if let Some(settings) = kept_settings::Found::read(&told) {
        settings.undone()
    } else if let Some(pages) = hugetlb_pool::Found::read(&told) {
        pages.undone()
    } else {
        folder_undone(note, PathBuf::from(std::ffi::OsString::from_vec(told)))
    };
    if left.as_ref().is_none_or(|left| left.removed.is_ok()) {
        std::fs::remove_file(note)?;
    }
    Ok(left)
}

/// Nothing where there is no such folder. A note that its run did not come to write names nothing.
fn folder_undone(note: &Path, path: PathBuf) -> Option<Left> {
    if path.file_name() != note.file_name() {
        return None;
    }
    match removed(&path) {
        Ok(false) => None,
        Ok(true) => Some(Left { path, what: REMOVED, removed: Ok(()) }),
        Err(error) => Some(Left { path, what: REMOVED, removed: Err(error.to_string()) }),
    }
}

/// Takes away the loop devices of an image whose run did not come to it.
fn detach(image: &Path) {
    let losetup = |words: &[&str], last: &std::ffi::OsStr| {
        Command::new("losetup").args(words).arg(last).output().ok().map(|done| done.stdout)
    };
    let words = ["--noheadings", "--output", "NAME", "--associated"];
    let devices = losetup(&words, image.as_os_str()).unwrap_or_default();
    for device in String::from_utf8_lossy(&devices).split_whitespace() {
        // One that stays is told of by losetup to whoever asks; the folder can go all the same.
        let _ = losetup(&["--detach"], device.as_ref());
    }
}

/// Removes a folder of ours, or a cgroup; whether it was there.
fn removed(path: &Path) -> std::io::Result<bool> {
    if cgroups::is_group(path) {
        return cgroups::remove(path).map(|()| true);
    }
    let image = path.join(IMAGE);
    if image.exists() {
        areas::off_below(path).map_err(std::io::Error::other)?;
        detach(&image);
    }
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where notes are kept: beside the profile, or where this user's temporary files are.
fn notes() -> PathBuf {
    let state = Profile::default_path().and_then(|profile| Some(profile.parent()?.to_owned()));
    let state = state.unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("bytepath-{user}"))
    });
    state.join("left")
}

fn locked(notes: &Path) -> std::io::Result<File> {
    let folder = File::open(notes)?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}
