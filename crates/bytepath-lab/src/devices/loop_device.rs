//! Loop devices of a run: a file with no name behind a device that goes by itself when nobody has
//! it open any more, however the run ends.

use std::fs::File;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::file_set;
use crate::left::{Folder, IMAGE, image_options};
use crate::sys::loops;

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
            let smaller = "take a smaller one, or ";
            let hint =
                file_set::size_hint(&error, smaller, "; take a smaller one, or another --dir");
            format!("no file for it in {place}: {error}{hint}")
        };
        file_set::is_room(directory, bytes).map_err(failed)?;
        let folder = Folder::make_lasting(directory).map_err(failed)?;
        let image = image_options().open(folder.path().join(IMAGE));
        let image = image.and_then(|file| file_set::reserved(file, bytes)).map_err(failed)?;
        let (path, device) = attached(&image, Way::Cached)?;
        Ok(Loop { path, image, _device: device })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn image(&self) -> &File {
        &self.image
    }
}

/// Where devices are asked for.
const CONTROL: &str = "/dev/loop-control";

/// Others may take the device that was free a moment ago; so often in a row they do not.
const TRIES: u32 = 100;

/// Which way a device reads and writes its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By the page cache.
    Cached,
    /// Past it.
    Direct,
}

/// A loop device of a file, which is there for as long as somebody has it open.
///
/// # Errors
/// Why not, for a person.
pub(crate) fn attached(image: &File, way: Way) -> Result<(PathBuf, File), String> {
    let failed = |what: &str, errno: Errno| {
        let hint = match errno {
            Errno::NOENT | Errno::NODEV => "; the kernel needs its loop module (modprobe loop)",
            Errno::PERM | Errno::ACCESS => "; a container may have to be given its devices",
            _ => "",
        };
        format!("{what}: {}{hint}", std::io::Error::from(errno))
    };
    let opened = |path: &Path| {
        let file = File::options().read(true).write(true).open(path);
        file.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    };
    let control = opened(CONTROL.as_ref()).map_err(|errno| failed(CONTROL, errno))?;
    for _ in 0..TRIES {
        let number = loops::free(&control).map_err(|errno| failed(CONTROL, errno))?;
        let path = PathBuf::from(format!("/dev/loop{number}"));
        let device = opened(&path).and_then(|device| {
            loops::configure(&device, image)?;
            Ok(device)
        });
        match device {
            // Somebody else has given it a file, or is removing it.
            Err(Errno::BUSY | Errno::NXIO) => {}
            Err(errno) => return Err(failed(&path.to_string_lossy(), errno)),
            Ok(device) => {
                if way == Way::Direct {
                    let what = || format!("{} past the page cache", path.display());
                    loops::set_direct(&device).map_err(|errno| failed(&what(), errno))?;
                }
                return Ok((path, device));
            }
        }
    }
    Err(format!("others took each of the {TRIES} loop devices that were free; try again"))
}
