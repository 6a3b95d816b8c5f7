//! Where copies are made: a folder, or a file system made for the run.
//!
//! File systems of a run are mounted nowhere: a descriptor holds the mount, the mount holds its loop
//! device, and the device holds an image that has no name any more. All of it goes with the last
//! descriptor, however the run ends.

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytepath::{machine, page_cache};
use bytepath_report::numbers;
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};

use crate::devices::loop_device::{Way, attached};
use crate::file_set::free_bytes;
use crate::left::{Folder, IMAGE, image_options};
use crate::tools::said;

/// Which file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The one of a directory that the user names.
    Directory,
    /// Memory.
    Tmpfs,
    /// An image on a loop device, made with mkfs of this name.
    Image(&'static str),
}

/// Every kind, in reading order.
pub const KINDS: &[Kind] =
    &[Kind::Directory, Kind::Tmpfs, Kind::Image("ext4"), Kind::Image("xfs"), Kind::Image("btrfs")];

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Directory => "dir",
            Kind::Tmpfs => "tmpfs",
            Kind::Image(name) => name,
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        KINDS.iter().copied().find(|kind| kind.name() == name)
    }
}

/// A place for copies; gone when dropped.
#[derive(Debug)]
pub struct Ground {
    kind: Kind,
    root: PathBuf,
    /// The file system's name.
    file_system: String,
    /// The image below it, whose bytes are in the page cache too.
    image: Option<File>,
    _held: Held,
}

/// What keeps a ground there.
#[derive(Debug)]
enum Held {
    Folder(#[allow(dead_code, reason = "it is removed on drop")] Folder),
    Mount(#[allow(dead_code, reason = "it goes on drop")] OwnedFd),
}

impl Ground {
    /// Makes one; images have `bytes`, and are made in `directory`, as a folder is.
    ///
    /// # Errors
    /// Why not, with the remedy, for a person.
    pub fn make(kind: Kind, directory: &Path, bytes: u64) -> Result<Ground, String> {
        match kind {
            Kind::Directory => Ground::folder(kind, directory),
            Kind::Tmpfs if rustix::process::geteuid().is_root() => {
                let mount = mounted("tmpfs", None)
                    .map_err(|errno| format!("cannot make a tmpfs: {}", word(errno)))?;
                Ok(Ground::mounted(kind, mount, None))
            }
            Kind::Tmpfs => shared_memory(),
            Kind::Image(name) => image(name, directory, bytes),
        }
    }

    fn folder(kind: Kind, directory: &Path) -> Result<Ground, String> {
        let failed = |error: std::io::Error| {
            format!("cannot make a folder in {}: {error}", directory.display())
        };
        let folder = Folder::make_lasting(directory).map_err(failed)?;
        let opened = File::open(folder.path()).map_err(failed)?;
        let found = machine::file_system_of(opened.as_fd()).map_err(|error| error.to_string())?;
        Ok(Ground {
            kind,
            root: folder.path().to_owned(),
            file_system: found.name,
            image: None,
            _held: Held::Folder(folder),
        })
    }

    fn mounted(kind: Kind, mount: OwnedFd, image: Option<File>) -> Ground {
        Ground {
            kind,
            // Programs that are started find it by this process's descriptor.
            root: format!("/proc/{}/fd/{}", std::process::id(), mount.as_raw_fd()).into(),
            file_system: kind.name().to_owned(),
            image,
            _held: Held::Mount(mount),
        }
    }

    /// The directory in which everything is made.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file system's name.
    pub fn file_system(&self) -> &str {
        &self.file_system
    }

    /// Whether its files are in memory and nowhere else.
    pub fn is_memory(&self) -> bool {
        matches!(self.file_system.as_str(), "tmpfs" | "ramfs")
    }

    /// Whether it is a mount made for it, which has no name but a link of /proc.
    pub fn is_mount(&self) -> bool {
        matches!(self._held, Held::Mount(_))
    }

    /// Whether so many bytes can be written: a disk or memory that would be filled is left as it is.
    ///
    /// # Errors
    /// Why not, with the remedy, for a person.
    pub fn has_room(&self, bytes: u64) -> Result<(), String> {
        if self.is_memory() {
            let room = machine::memory_room();
            if room.bytes < bytes {
                return Err(format!("{room}; take a smaller --size, or another --on"));
            }
        }
        let disks =
            [Some(rustix::fs::statvfs(&self.root)), self.image.as_ref().map(rustix::fs::fstatvfs)];
        for disk in disks.into_iter().flatten() {
            let disk = disk.map_err(|errno| format!("no room can be told: {}", word(errno)))?;
            let free = free_bytes(&disk);
            if free < bytes {
                return Err(format!(
                    "{} are free, and what is copied takes {} with its copy; take a smaller --size, \
                     fewer --files, or another --dir",
                    numbers::bytes(free),
                    numbers::bytes(bytes)
                ));
            }
        }
        Ok(())
    }

    /// Brings everything to the device.
    ///
    /// # Errors
    /// The device's word.
    pub fn sync(&self) -> Result<(), String> {
        let synced = File::open(&self.root).and_then(|root| Ok(rustix::fs::syncfs(root)?));
        synced.map_err(|error| format!("cannot bring {} to the device: {error}", self.kind.name()))
    }

    /// Drops what the page cache holds of the image below, so that a cold file is cold.
    ///
    /// # Errors
    /// It cannot be dropped.
    pub fn cool(&self) -> Result<(), String> {
        match &self.image {
            Some(image) => dropped_but(image, IMAGE_BYTES_LEFT_MAX)
                .map_err(|error| format!("the loop device's image: {error}")),
            None => Ok(()),
        }
    }
}

/// Drops what the page cache holds of a file, and sees that it did.
///
/// # Errors
/// Something is still there, or the system's word.
pub fn dropped(file: &File) -> Result<(), String> {
    dropped_but(file, 0)
}

/// A file system writes its log while nobody asks it to.
const IMAGE_BYTES_LEFT_MAX: u64 = 1 << 20;

/// Pages that are just being read or written are not dropped, and may be a moment later: the waits in
/// between begin with a millisecond, and double.
const DROPS_MAX: u32 = 10;

fn dropped_but(file: &File, left_max: u64) -> Result<(), String> {
    let told = |errno: Errno| std::io::Error::from(errno).to_string();
    let mut left = 0;
    for tried in 0..DROPS_MAX {
        page_cache::drop_pages(file).map_err(told)?;
        left = page_cache::resident_bytes(file).map_err(told)?;
        if left <= left_max {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(1 << tried));
    }
    Err(format!("{left} bytes stay in the page cache; somebody else uses the file"))
}

/// Root is not needed where everybody has a tmpfs.
fn shared_memory() -> Result<Ground, String> {
    let ground = Ground::folder(Kind::Tmpfs, Path::new("/dev/shm"))?;
    match ground.is_memory() {
        true => Ok(ground),
        false => Err(format!(
            "/dev/shm is no tmpfs but {}; as root one is made for the run",
            ground.file_system
        )),
    }
}

fn image(name: &'static str, directory: &Path, bytes: u64) -> Result<Ground, String> {
    if !rustix::process::geteuid().is_root() {
        return Err(format!("making an image of {name} takes root"));
    }
    let failed =
        |error: std::io::Error| format!("cannot make an image in {}: {error}", directory.display());
    let folder = Folder::make_lasting(directory).map_err(failed)?;
    let path = folder.path().join(IMAGE);
    let image = image_options().open(&path);
    let image = image.and_then(|file| file.set_len(bytes).map(|()| file)).map_err(failed)?;
    let mkfs = format!("mkfs.{name}");
    said(&mkfs, &["-q".as_ref(), path.as_os_str()])
        .map_err(|why| format!("{why}{}", hint(name)))?;
    let (device, _opened) = attached(&image, Way::Cached)?;
    let mount = mounted(name, Some(&device.to_string_lossy()))
        .map_err(|errno| format!("cannot mount a {name} image: {}", word(errno)));
    Ok(Ground::mounted(Kind::Image(name), mount?, Some(image)))
}

/// A file system that is mounted nowhere.
fn mounted(kind: &str, source: Option<&str>) -> Result<OwnedFd, Errno> {
    let made = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC)?;
    if let Some(source) = source {
        rustix::mount::fsconfig_set_string(made.as_fd(), "source", source)?;
    }
    rustix::mount::fsconfig_create(made.as_fd())?;
    let (flags, none) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
    rustix::mount::fsmount(made.as_fd(), flags, none)
}

/// Where mkfs comes from.
fn hint(name: &str) -> String {
    let package = match name {
        "ext4" => "e2fsprogs",
        "xfs" => "xfsprogs",
        _ => "btrfs-progs",
    };
    format!("; on Debian it is in {package}")
}

fn word(errno: Errno) -> std::io::Error {
    errno.into()
}
