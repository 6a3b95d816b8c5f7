//! A directory beside the destination in which files wait that are to take the place of others: who is
//! late finds it gone, and with it the only way to a name that is taken.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rustix::io::Errno;

use super::place::{Directory, Place};

/// It, held open.
pub(super) struct Stage {
    directory: Arc<OwnedFd>,
    device: u64,
    /// Nobody else's names begin with it.
    token: String,
    made: AtomicU64,
}

impl Stage {
    /// One that is open.
    ///
    /// # Errors
    /// The kernel's word.
    pub(super) fn new(open: OwnedFd, token: &str) -> Result<Stage, Errno> {
        let device = rustix::fs::fstat(&open)?.st_dev;
        let (directory, made) = (Arc::new(open), AtomicU64::new(0));
        Ok(Stage { directory, device, token: token.to_owned(), made })
    }

    /// Whether it is still there, which ends with the part of the work that it is for.
    pub(super) fn is_there(&self) -> bool {
        rustix::fs::fstat(&self.directory).is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// Whether what waits here can be renamed into a directory of this device.
    pub(super) fn is_on(&self, device: u64) -> bool {
        self.device == device
    }

    /// A place of this name in it.
    pub(super) fn place(&self, name: &OsStr) -> Place {
        let name = name.to_owned();
        let directory = Directory::Held(self.directory.clone());
        Place { directory, shown: name.clone(), name, base_bytes: 0 }
    }

    /// A place in it that nobody else has.
    pub(super) fn new_place(&self) -> Place {
        let number = self.made.fetch_add(1, Relaxed);
        self.place(OsStr::new(&format!("{}-{number}", self.token)))
    }
}
