//! What the kernel can tell about, and do to, groups of processes: cgroups and pressure (PSI).

use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::{Answer, files, mounts};

/// Which generations of cgroups are mounted, and where this process is in them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cgroups {
    /// Whether controllers of the first generation are mounted.
    pub v1: bool,
    /// Where the second generation is mounted.
    pub v2_mount: Option<PathBuf>,
    /// This process's group in the second generation, from its mount point: `/user.slice/…`.
    pub v2_group: Option<String>,
}

impl Cgroups {
    /// Reads the tables below `root` (`/` for this machine).
    pub fn read(root: &Path) -> Cgroups {
        let table = files::text(root, "proc/self/mountinfo").unwrap_or_default();
        let groups = files::text(root, "proc/self/cgroup").unwrap_or_default();
        let mut mounts = mounts::parse(&table);
        Cgroups {
            v1: mounts.clone().any(|mount| mount.kind == "cgroup"),
            v2_mount: mounts.find(|mount| mount.kind == "cgroup2").map(|mount| mount.point),
            v2_group: groups.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned),
        }
    }

    /// In words: `v1`, `v2`, `v1 and v2` or `none`.
    pub fn generations(&self) -> &'static str {
        match (self.v1, self.v2_mount.is_some()) {
            (false, false) => "none",
            (false, true) => "v2",
            (true, false) => "v1",
            (true, true) => "v1 and v2",
        }
    }
}

/// Whether the kernel tells how long work waited for CPU, memory and disks (/proc/pressure).
///
/// The file is read and not just looked for: with `psi=0` it exists and answers EOPNOTSUPP.
pub(crate) fn pressure(root: &Path) -> Answer {
    let remedy = "boot with psi=1, on a kernel with CONFIG_PSI";
    match std::fs::read(root.join("proc/pressure/cpu")) {
        Ok(_) => Answer::Yes,
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => {
                Answer::refused(Errno::NOENT, "this kernel has no pressure information", remedy)
            }
            Some(Errno::OPNOTSUPP) => {
                Answer::refused(Errno::OPNOTSUPP, "pressure information is switched off", remedy)
            }
            Some(errno) => Answer::refused(
                errno,
                "/proc/pressure/cpu cannot be read",
                "look at who mounted /proc, and with which options",
            ),
            None => Answer::without_effect(format!("/proc/pressure/cpu: {error}"), remedy),
        },
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(mountinfo: &str, cgroup: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        fs::create_dir_all(root.path().join("proc/self")).expect("a folder for the tables");
        fs::write(root.path().join("proc/self/mountinfo"), mountinfo).expect("the mounts");
        fs::write(root.path().join("proc/self/cgroup"), cgroup).expect("the groups");
        root
    }

    #[test]
    fn both_generations_are_found_where_both_are_mounted() {
        let root = tree(
            "30 1 0:26 / /sys/fs/cgroup/unified rw - cgroup2 cgroup rw\n\
             31 1 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
            "4:memory:/a\n0::/b\n",
        );
        let cgroups = Cgroups::read(root.path());
        assert_eq!(cgroups.generations(), "v1 and v2");
        assert_eq!(cgroups.v2_mount, Some(PathBuf::from("/sys/fs/cgroup/unified")));
        assert_eq!(cgroups.v2_group.as_deref(), Some("/b"));
    }

    #[test]
    fn an_empty_tree_has_neither_cgroups_nor_pressure() {
        let root = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(Cgroups::read(root.path()).generations(), "none");
        assert!(matches!(pressure(root.path()), Answer::No { errno: Some(Errno::NOENT), .. }));
    }
}
