//! Folders that a run makes, and that the next one removes where a run was killed before it could.
//!
//! Each folder has a note in the user's state directory. The run holds a lock on its note for as
//! long as it lives, so a note that nobody has locked is of a run that is gone.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use bytepath::Profile;
use rustix::fs::{FlockOperation, flock};

/// How the names of folders begin: nothing else is ever removed.
const PREFIX: &str = ".bytepath-copies-";

/// The image of a file system, while it has a name: until its loop device goes by itself.
pub(super) const IMAGE: &str = "image";

/// A folder of this run, removed with everything in it when it is dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    note: PathBuf,
    /// Locked while the run lives.
    _lock: File,
}

impl Folder {
    /// Makes a folder in `directory`, noted before it is there.
    ///
    /// # Errors
    /// There is no right or no room for it, or for its note.
    pub fn make(directory: &Path) -> std::io::Result<Folder> {
        let notes = notes()?;
        let _alone = locked(&notes)?;
        let name = format!("{PREFIX}{}-{:016x}", std::process::id(), fastrand::u64(..));
        let (path, note) = (directory.join(&name), notes.join(&name));
        let mut lock = File::options().write(true).create_new(true).open(&note)?;
        flock(&lock, FlockOperation::LockExclusive)?;
        lock.write_all(path.as_os_str().as_bytes())?;
        let folder = Folder { path, note, _lock: lock };
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
            let _ = std::fs::remove_file(&self.note);
        }
    }
}

/// Removes what runs left that were killed; which folders those were.
///
/// # Errors
/// The notes cannot be read, or a folder cannot be removed.
pub fn undo() -> std::io::Result<Vec<PathBuf>> {
    let notes = notes()?;
    let _alone = locked(&notes)?;
    let mut undone = Vec::new();
    for entry in std::fs::read_dir(&notes)? {
        let note = entry?.path();
        if !note.file_name().is_some_and(|name| name.as_bytes().starts_with(PREFIX.as_bytes())) {
            continue;
        }
        let mut file = File::open(&note)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            // Its run lives.
            continue;
        }
        let mut told = Vec::new();
        file.read_to_end(&mut told)?;
        let path = PathBuf::from(std::ffi::OsString::from_vec(told));
        // A note that its run did not come to write names nothing.
        if path.file_name() == note.file_name() && removed(&path)? {
            undone.push(path);
        }
        std::fs::remove_file(&note)?;
    }
    Ok(undone)
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

/// Removes a folder of ours; whether it was there.
fn removed(path: &Path) -> std::io::Result<bool> {
    let image = path.join(IMAGE);
    if image.exists() {
        detach(&image);
    }
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where notes are kept: beside the profile, or where this user's temporary files are.
fn notes() -> std::io::Result<PathBuf> {
    let state = Profile::default_path().and_then(|profile| Some(profile.parent()?.to_owned()));
    let state = state.unwrap_or_else(|| {
        let user = rustix::process::geteuid().as_raw();
        std::env::temp_dir().join(format!("bytepath-{user}"))
    });
    let notes = state.join("copies");
    std::fs::create_dir_all(&notes).map_err(|error| {
        let text = format!("cannot keep notes in {}: {error}", notes.display());
        std::io::Error::new(error.kind(), text)
    })?;
    Ok(notes)
}

/// Nobody else makes or undoes while it lives.
fn locked(notes: &Path) -> std::io::Result<File> {
    let folder = File::open(notes)?;
    flock(&folder, FlockOperation::LockExclusive)?;
    Ok(folder)
}
