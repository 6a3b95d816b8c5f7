//! Control groups of a run, of version 1 or 2, whichever has the controller: made beside or below
//! this process's own, and gone with the run.

use std::fs;
use std::io::{Error, ErrorKind, Result as IoResult};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::left::Folder;

/// `CGROUP_SUPER_MAGIC` and `CGROUP2_SUPER_MAGIC` of linux/magic.h.
const MAGIC: [u64; 2] = [0x0027_e0eb, 0x6367_7270];

/// Processes that were ended are gone within this time, unless they wait for a device.
const ENDING_TIME_MAX: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Which interface a group has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    /// A hierarchy for each controller.
    V1,
    /// One hierarchy for all.
    V2,
}

/// A hierarchy that has a controller, and where groups can be made in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    pub(crate) version: Version,
    /// Where it is mounted.
    pub(crate) root: PathBuf,
    /// The group that new ones are made in.
    pub(crate) parent: PathBuf,
}

/// A group of this run; its processes are ended and it is removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) version: Version,
    folder: Folder,
}

impl Hierarchy {
    /// The hierarchy that has this controller.
    ///
    /// # Errors
    /// None has, or none that is of use to this process: why, and what to do.
    pub(crate) fn of(controller: &str) -> Result<Hierarchy, String> {
        // Names of directories, of mounts that have nothing to do with it too, are bytes.
        let read = |path: &str| fs::read(path).unwrap_or_default();
        let [mounted, own] = ["/proc/self/mountinfo", "/proc/self/cgroup"].map(read);
        let mounts = mounts(&String::from_utf8_lossy(&mounted));
        let own = String::from_utf8_lossy(&own);
        let first =
            mounts.iter().find(|mount| mount.controllers.iter().any(|has| has == controller));
        if let Some(mount) = first {
            let path = own_group(&own, Some(controller)).unwrap_or_default();
            let root = mount.point.clone();
            return Ok(Hierarchy { version: Version::V1, parent: mount.place(&path), root });
        }
        let second = mounts.iter().find(|mount| mount.version == Version::V2);
        let Some(second) = second else {
            return Err(format!(
                "no hierarchy of cgroups with the {controller} controller is mounted \
                 here: mount one (as root: mount -t cgroup2 none /sys/fs/cgroup)"
            ));
        };
        let path = own_group(&own, None).unwrap_or_default();
        second.handing_down(&second.place(&path), controller)
    }

    /// Makes a group.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(crate) fn group(&self) -> Result<Group, String> {
        let made = Folder::make(&self.parent);
        let folder = made.map_err(|error| {
            let hint = match error.kind() {
                ErrorKind::PermissionDenied => "; that takes root",
                ErrorKind::ReadOnlyFilesystem => {
                    "; in a container it may be read-only: run it on the host"
                }
                _ => "",
            };
            format!("cannot make a cgroup in {}: {error}{hint}", self.parent.display())
        })?;
        Ok(Group { version: self.version, folder })
    }
}

impl Group {
    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Sets one of its files.
    pub(crate) fn set(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.path().join(file);
        fs::write(&path, value)
            .map_err(|error| format!("cannot write {value} to {}: {error}", path.display()))
    }

    /// What one of its files says; nothing where there is none.
    pub(crate) fn text(&self, file: &str) -> String {
        fs::read_to_string(self.path().join(file)).unwrap_or_default()
    }

    /// A number that is all of one of its files, or that follows a word in it.
    pub(crate) fn number(&self, file: &str, word: Option<&str>) -> Option<u64> {
        let text = self.text(file);
        match word {
            None => text.trim().parse().ok(),
            Some(word) => numbered(&text, word),
        }
    }
}

/// The number in the line that begins with a word.
pub(crate) fn numbered(text: &str, word: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(word)?.trim().parse().ok())
}

/// Whether a folder is a cgroup; a link to one is none.
pub(crate) fn is_group(folder: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = rustix::fs::open(folder, flags, Mode::empty());
    let found = opened.and_then(rustix::fs::fstatfs);
    found.is_ok_and(|found| MAGIC.contains(&(found.f_type as u64)))
}

/// Ends the processes of a group and removes it.
pub(crate) fn remove(group: &Path) -> IoResult<()> {
    let until = Instant::now() + ENDING_TIME_MAX;
    loop {
        end_all(group);
        match fs::remove_dir(group) {
            Err(error) if Errno::from_io_error(&error) == Some(Errno::BUSY) => {
                if Instant::now() > until {
                    return Err(Error::other("processes in it do not end"));
                }
                std::thread::sleep(LOOK_EVERY);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            done => return done,
        }
    }
}

fn end_all(group: &Path) {
    use rustix::process::{Pid, Signal, kill_process};
    let pids = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
    for pid in pids.lines().filter_map(|line| line.parse().ok()).filter_map(Pid::from_raw) {
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// A hierarchy that is mounted.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    version: Version,
    /// Which of its groups is to be seen at the point.
    root: PathBuf,
    point: PathBuf,
    /// Of version 1.
    controllers: Vec<String>,
}

impl Mount {
    /// Where a group is to be seen.
    fn place(&self, group: &str) -> PathBuf {
        let below = Path::new(group).strip_prefix(&self.root).unwrap_or(Path::new(""));
        self.point.join(below)
    }

    /// The nearest group at or above `own` whose children have the controller. A group with processes
    /// gives its children none, unless it is the root.
    fn handing_down(&self, own: &Path, controller: &str) -> Result<Hierarchy, String> {
        let has = |group: &Path, file: &str| {
            let text = fs::read_to_string(group.join(file)).unwrap_or_default();
            text.split_whitespace().any(|word| word == controller)
        };
        let above = own.ancestors().take_while(|group| group.starts_with(&self.point));
        for group in above {
            if has(group, "cgroup.subtree_control") {
                let (root, parent) = (self.point.clone(), group.to_owned());
                return Ok(Hierarchy { version: Version::V2, root, parent });
            }
        }
        match has(&self.point, "cgroup.controllers") {
            true => Err(format!(
                "no cgroup gives its children the {controller} controller; as root: echo \
                 +{controller} >{}/cgroup.subtree_control",
                self.point.display()
            )),
            false => Err(format!(
                "the cgroups here have no {controller} controller; is it disabled on the kernel's \
                 command line (cgroup_disable=), or kept by a hierarchy of version 1 that is not \
                 mounted?"
            )),
        }
    }
}

/// The hierarchies in the text of `/proc/self/mountinfo`.
fn mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (before, after) = line.split_once(" - ")?;
        let mut words = before.split(' ').skip(3);
        let (root, point) = (words.next()?.into(), words.next()?.into());
        let mut words = after.split(' ');
        let version = match words.next()? {
            "cgroup" => Version::V1,
            "cgroup2" => Version::V2,
            _ => return None,
        };
        let controllers = match version {
            Version::V1 => words.nth(1)?.split(',').map(str::to_owned).collect(),
            Version::V2 => Vec::new(),
        };
        Some(Mount { version, root, point, controllers })
    };
    text.lines().filter_map(mount).collect()
}

/// The group that this process is in, in the hierarchy of a controller or in that of version 2, from
/// the text of `/proc/self/cgroup`.
fn own_group(text: &str, controller: Option<&str>) -> Option<String> {
    text.lines().find_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let is_it = match controller {
            Some(controller) => controllers.split(',').any(|has| has == controller),
            None => controllers.is_empty(),
        };
        is_it.then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
30 24 0:27 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
31 30 0:28 / /sys/fs/cgroup/memory rw,nosuid shared:9 - cgroup cgroup rw,memory
32 30 0:29 /lxc/7 /sys/fs/cgroup/io rw - cgroup cgroup rw,blkio,cpu
33 30 0:30 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw,nsdelegate
";

    #[test]
    fn hierarchies_are_found_where_they_are_mounted() {
        let mounts = mounts(MOUNTS);
        assert_eq!(mounts.len(), 3);
        assert!(mounts[0].controllers.contains(&"memory".to_owned()));
        assert_eq!(mounts[0].place("/a/b"), Path::new("/sys/fs/cgroup/memory/a/b"));
        assert_eq!(mounts[1].place("/lxc/7/b"), Path::new("/sys/fs/cgroup/io/b"));
        assert_eq!(mounts[2].version, Version::V2);
    }

    #[test]
    fn a_link_to_a_group_is_no_group() {
        let told = fs::read_to_string("/proc/self/mountinfo").expect("Linux has it");
        let Some(mount) = super::mounts(&told).into_iter().next() else {
            println!("skipped: no hierarchy of cgroups is mounted here");
            return;
        };
        let folder = tempfile::tempdir().expect("a folder");
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&mount.point, &link).expect("made");
        assert_eq!((is_group(&mount.point), is_group(&link)), (true, false));
    }

    #[test]
    fn the_own_group_is_that_of_the_controller() {
        let text = "7:blkio,io:/x\n4:memory:/a/b\n0::/user.slice\n";
        assert_eq!(own_group(text, Some("memory")).as_deref(), Some("/a/b"));
        assert_eq!(own_group(text, Some("blkio")).as_deref(), Some("/x"));
        assert_eq!(own_group(text, None).as_deref(), Some("/user.slice"));
        assert_eq!(own_group(text, Some("pids")), None);
    }
}
