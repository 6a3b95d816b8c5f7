//! The numbers of tracepoints, from tracefs: where it is mounted, or from a mount of our own that
//! nobody sees and that is gone with this process.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

/// Where tracefs usually is.
const PLACES: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// What is there beside the tracepoints, and can be read by whoever can read them: a rule may allow folders
/// to be listed, or tracefs to be mounted, and none of its files to be opened.
const BESIDE: &str = "header_page";

/// Where tracepoints can be looked up.
#[derive(Debug)]
pub(crate) enum Tracepoints {
    Mounted(PathBuf),
    Own(OwnedFd),
}

impl Tracepoints {
    /// Finds them.
    ///
    /// # Errors
    /// EACCES or EPERM: only root may. ENODEV: this kernel has none.
    pub(crate) fn find() -> io::Result<Tracepoints> {
        let mut refused = None;
        for place in PLACES {
            match Tracepoints::Mounted(place.into()).readable() {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    refused = Some(error);
                }
                Err(_) => {}
                found => return found,
            }
        }
        own().and_then(Tracepoints::readable).map_err(|error| refused.unwrap_or(error))
    }

    fn readable(self) -> io::Result<Tracepoints> {
        self.text(BESIDE).map(|_| self)
    }

    /// The number of a tracepoint, by its group and name: `sched/sched_switch`.
    pub(crate) fn id(&self, name: &str) -> Option<u64> {
        self.text(&format!("{name}/id")).ok()?.trim().parse().ok()
    }

    /// What a file says of a tracepoint: `sched/sched_switch/format`.
    ///
    /// # Errors
    /// ENOENT: there is no such tracepoint.
    pub(crate) fn text(&self, path: &str) -> io::Result<String> {
        match self {
            Tracepoints::Mounted(events) => fs::read_to_string(events.join(path)),
            Tracepoints::Own(mount) => {
                let path = format!("events/{path}");
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = openat(mount, path, flags, Mode::empty())?;
                let mut text = String::new();
                fs::File::from(file).read_to_string(&mut text)?;
                Ok(text)
            }
        }
    }
}

/// A mount that has no place: it can be reached by its descriptor alone.
fn own() -> io::Result<Tracepoints> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&context)?;
    let none = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    Ok(Tracepoints::Own(fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, none)?))
}
