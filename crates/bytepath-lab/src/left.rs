//! What runs make and a killed one leaves behind: folders, cgroups, devices of memory, settings. The
//! next run removes them, or puts them back. Each such thing has a note (`notes`).

use std::fs::OpenOptions;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use crate::devices::zram;
use crate::swap::areas;
use crate::{cgroups, hugetlb_pool, kept_settings};

mod notes;

use notes::Kept;
pub(crate) use notes::{Alone, Note};

/// A file that may be behind a loop device, while it has a name: until the device goes by itself.
pub(crate) const IMAGE: &str = "image";

/// How an image is made: nobody else ever reads what comes to be in it.
pub(crate) fn image_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options
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
        Folder::noted(directory)?.made()
    }

    /// The same for what is large: its note is on the device before it, so that a power cut does not leave it
    /// without.
    ///
    /// # Errors
    /// As of [`Folder::make`].
    pub fn make_lasting(directory: &Path) -> std::io::Result<Folder> {
        let folder = Folder::noted(directory)?;
        folder.note.outlasts_the_machine();
        folder.made()
    }

    /// One that is not there as yet.
    fn noted(directory: &Path) -> std::io::Result<Folder> {
        let mut note = Alone::wait()?.note()?;
        let path = directory.join(&note.name);
        note.tell(path.as_os_str().as_bytes())?;
        Ok(Folder { path, note })
    }

    fn made(self) -> std::io::Result<Folder> {
        std::fs::create_dir(&self.path)?;
        Ok(self)
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

/// Removes what runs left that were killed, and tells what that was: of each thing, or each note of one,
/// that stays there, why.
///
/// # Errors
/// The notes cannot be looked for.
pub fn undo() -> std::io::Result<Vec<Left>> {
    let mut all = match Alone::where_noted()? {
        Some(alone) => undone_of(&alone)?,
        None => Vec::new(),
    };
    for alone in Alone::elsewhere() {
        all.extend(undone_of(&alone).unwrap_or_default());
    }
    Ok(all)
}

/// What was noted in one place.
fn undone_of(alone: &Alone) -> std::io::Result<Vec<Left>> {
    let mut all = Vec::new();
    let stays = |note: &Kept<'_>, error: std::io::Error| Left {
        path: note.path(),
        what: REMOVED,
        removed: Err(error.to_string()),
    };
    let mut ours = Vec::new();
    for note in alone.all()? {
        match note.read() {
            Ok(None) => {}
            Ok(Some(told)) => ours.push((rank(&told.text), note, told)),
            Err(error) => all.push(stays(&note, error)),
        }
    }
    ours.sort_by_key(|(rank, ..)| *rank);
    for (_, note, told) in &ours {
        let left = undone(note, &told.text);
        let is_done = left.as_ref().is_none_or(|left| left.removed.is_ok());
        all.extend(left);
        // Only then: what stays keeps its note, and the next run tries again.
        if is_done && let Err(error) = note.remove() {
            all.push(stays(note, error));
        }
    }
    Ok(all)
}

/// What is undone first: processes use what they run on, and limits slow down what is undone next.
fn rank(told: &[u8]) -> u8 {
    let is_group = || cgroups::is_group(Path::new(std::ffi::OsStr::from_bytes(told)));
    match () {
        () if is_group() => 0,
        () if kept_settings::Found::read(told).is_some() => 1,
        () => 2,
    }
}

/// Removes what a note names.
fn undone(note: &Kept<'_>, told: &[u8]) -> Option<Left> {
    if let Some(device) = zram::Found::read(told) {
        device.undone()
    } else if let Some(settings) = kept_settings::Found::read(told) {
        settings.undone()
    } else if let Some(pages) = hugetlb_pool::Found::read(told) {
        pages.undone()
    } else {
        folder_undone(note, PathBuf::from(std::ffi::OsString::from_vec(told.to_owned())))
    }
}

/// Nothing where there is no such folder. A note that its run did not come to write names nothing.
fn folder_undone(note: &Kept<'_>, path: PathBuf) -> Option<Left> {
    if path.file_name() != Some(&note.name) {
        return None;
    }
    match removed(&path) {
        Ok(false) => None,
        Ok(true) => Some(Left { path, what: REMOVED, removed: Ok(()) }),
        Err(error) => Some(Left { path, what: REMOVED, removed: Err(error.to_string()) }),
    }
}

/// Removes a folder of ours, or a cgroup; whether it was there.
fn removed(path: &Path) -> std::io::Result<bool> {
    if cgroups::is_group(path) {
        return cgroups::remove(path).map(|()| true);
    }
    let image = path.join(IMAGE);
    // A link of that name is none of ours, nor is the file that it leads to.
    if image.symlink_metadata().is_ok_and(|found| found.is_file()) {
        areas::off_below(path).map_err(std::io::Error::other)?;
    }
    match std::fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
