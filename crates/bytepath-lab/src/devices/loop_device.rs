//! Loop devices of a run: a file with no name behind a device that goes by itself when nobody has
//! it open any more, however the run ends.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};

use crate::file_set;
use crate::left::{Folder, IMAGE, image_options};
use crate::tools::said;

/// A loop device of this run.
#[derive(Debug)]
pub struct Loop {
    path: PathBuf,
    image: File,
    /// Keeps it there.
    _device: File,
}

impl Loop {
    /// Makes one of this size, with its file in `directory`.
    ///
    /// # Errors
    /// Why not, with the remedy, for a person.
    pub(super) fn make(directory: &Path, bytes: u64) -> Result<Loop, String> {
        if !rustix::process::geteuid().is_root() {
            return Err("that takes root; run it as root, or measure files with --dir".into());
        }
        let failed = |error: std::io::Error| {
            let place = directory.display();
            format!("no file for it in {place}: {error}; take a smaller one, or another --dir")
        };
        file_set::is_room(directory, bytes).map_err(failed)?;
        let folder = Folder::make(directory).map_err(failed)?;
        let path = folder.path().join(IMAGE);
        let image = image_options().open(&path);
        let image = image.and_then(|file| file_set::reserved(file, bytes)).map_err(failed)?;
        let (path, device) = attached(&path)?;
        Ok(Loop { path, image, _device: device })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn image(&self) -> &File {
        &self.image
    }
}

/// A loop device of a file, which is there for as long as somebody has it open.
pub(crate) fn attached(image: &Path) -> Result<(PathBuf, File), String> {
    attached_with(image, &[])
}

/// The same, with further words for losetup.
pub(crate) fn attached_with(image: &Path, words: &[&str]) -> Result<(PathBuf, File), String> {
    let mut words: Vec<&OsStr> = words.iter().map(OsStr::new).collect();
    words.extend(["--find".as_ref(), "--show".as_ref(), image.as_os_str()]);
    let device = said("losetup", &words)?;
    let opened = File::options().read(true).write(true).open(&device);
    // Somebody has it open, so it goes when that is closed.
    said("losetup", &["--detach".as_ref(), device.as_ref()])?;
    let opened = opened.map_err(|error| format!("cannot open {device}: {error}"))?;
    Ok((device.into(), opened))
}
