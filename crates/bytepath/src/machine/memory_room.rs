//! How much memory this process could still have: by the machine, and by the limits of its cgroups.

use std::fmt;
use std::path::{Path, PathBuf};

use super::{files, mounts};
use crate::size::shown;

/// How much memory this process could still have, and what sets that. Others take of it at any time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRoom {
    /// Bytes that are free, or that the kernel could free (its cache of files).
    pub bytes: u64,
    /// Bytes that could be swapped beside these.
    pub swap_bytes: u64,
    /// The file with the limit of the cgroup that leaves no more; none where it is the machine.
    pub limit: Option<PathBuf>,
}

impl fmt::Display for MemoryRoom {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = shown(self.bytes);
        match &self.limit {
            Some(limit) => write!(out, "the limit in {} leaves {bytes}", limit.display()),
            None => write!(out, "{bytes} are available here"),
        }
    }
}

/// What each generation of cgroups calls what is asked of it.
#[derive(Clone, Copy)]
struct Names {
    limit: &'static str,
    usage: &'static str,
    /// Lines of memory.stat, of a group and all below it: the cache of files.
    cache: [&'static str; 2],
}

const V1: Names = Names {
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
};
const V2: Names =
    Names { limit: "memory.max", usage: "memory.current", cache: ["inactive_file", "active_file"] };

/// How much memory this process could still have. What cannot be read sets no limit.
pub fn memory_room() -> MemoryRoom {
    room_below(Path::new("/"))
}

fn room_below(root: &Path) -> MemoryRoom {
    let told = files::text(root, "proc/meminfo").unwrap_or_default();
    let bytes = |name| numbered(&told, name).map(|kib| kib << 10);
    let swap_bytes = bytes("SwapFree:").unwrap_or(0);
    let machine = bytes("MemAvailable:").unwrap_or(u64::MAX);
    let machine = MemoryRoom { bytes: machine, swap_bytes, limit: None };
    let of_groups = own_groups(root).into_iter().filter_map(|(group, names)| {
        let bytes = left_in(&group, &names)?;
        let limit = Path::new("/").join(group.strip_prefix(root).ok()?).join(names.limit);
        Some(MemoryRoom { bytes, swap_bytes, limit: Some(limit) })
    });
    of_groups.fold(machine, |least, room| if room.bytes < least.bytes { room } else { least })
}

/// The groups that account for this process's memory: its own, and those above it as far as they show.
fn own_groups(root: &Path) -> Vec<(PathBuf, Names)> {
    let table = files::text(root, "proc/self/mountinfo").unwrap_or_default();
    let own = files::text(root, "proc/self/cgroup").unwrap_or_default();
    let mut groups = Vec::new();
    for mount in mounts::parse(&table) {
        let (names, controller) = match mount.kind.as_str() {
            "cgroup" if mount.options.iter().any(|option| option == "memory") => (V1, "memory"),
            "cgroup2" => (V2, ""),
            _ => continue,
        };
        let Some(group) = group_of(&own, controller) else { continue };
        let point = root.join(mount.point.strip_prefix("/").unwrap_or(&mount.point));
        let below = Path::new(group).strip_prefix(&mount.root).unwrap_or(Path::new(""));
        let to_the_point = |group: &&Path| group.starts_with(&point);
        let own = point.join(below);
        groups.extend(own.ancestors().take_while(to_the_point).map(|it| (it.to_owned(), names)));
    }
    groups
}

/// The group of the hierarchy with this controller, or without any name, from /proc/self/cgroup.
fn group_of<'a>(text: &'a str, controller: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|has| has == controller).then_some(group)
    })
}

/// Nothing where it has no limit.
fn left_in(group: &Path, names: &Names) -> Option<u64> {
    let limit: u64 = files::number(group, names.limit)?;
    let usage: u64 = files::number(group, names.usage)?;
    let stat = files::text(group, "memory.stat").unwrap_or_default();
    let cache = names.cache.iter().filter_map(|name| numbered(&stat, name)).sum();
    Some(limit.saturating_sub(usage.saturating_sub(cache)))
}

/// The number behind a word at the start of a line.
fn numbered(text: &str, word: &str) -> Option<u64> {
    let mut lines = text.lines().map(str::split_whitespace);
    lines.find_map(|mut words| (words.next()? == word).then(|| words.next()?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a temporary folder");
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder for it");
            fs::write(path, text).expect("a file");
        }
        root
    }

    const MEMINFO: (&str, &str) =
        ("proc/meminfo", "MemTotal: 4000 kB\nMemAvailable: 2000 kB\nSwapFree: 0 kB\n");
    const GROUPS: (&str, &str) =
        ("proc/self/cgroup", "5:cpuset:/\n4:memory:/docker/a/b\n0::/docker/a/b\n");

    #[test]
    fn without_groups_it_is_what_the_machine_has() {
        let root = tree(&[MEMINFO]);
        let room = room_below(root.path());
        assert_eq!(room, MemoryRoom { bytes: 2000 << 10, swap_bytes: 0, limit: None });
        assert_eq!(room_below(tree(&[]).path()).bytes, u64::MAX);
    }

    #[test]
    fn the_narrowest_group_of_the_second_generation_counts_and_its_cache_does_not() {
        let mount = "30 1 0:26 /docker /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let root = tree(&[
            MEMINFO,
            GROUPS,
            ("proc/self/mountinfo", mount),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "4096\n"),
            ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ("sys/fs/cgroup/a/memory.current", "700000\n"),
            ("sys/fs/cgroup/a/memory.stat", "anon 9\ninactive_file 90000\nactive_file 10000\n"),
        ]);
        let room = room_below(root.path());
        assert_eq!(room.bytes, 400_000);
        assert_eq!(room.limit.as_deref(), Some(Path::new("/sys/fs/cgroup/a/memory.max")));
    }

    #[test]
    fn of_the_first_generation_it_is_the_memory_controller() {
        let mounts = "31 1 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
                      32 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "sys/fs/cgroup/memory/docker/a/b";
        let root = tree(&[
            ("proc/meminfo", "MemAvailable: 2000 kB\nSwapFree: 100 kB\n"),
            GROUPS,
            ("proc/self/mountinfo", mounts),
            (&format!("{own}/memory.limit_in_bytes"), "500000\n"),
            (&format!("{own}/memory.usage_in_bytes"), "510000\n"),
            (&format!("{own}/memory.stat"), "inactive_file 9\ntotal_inactive_file 20000\n"),
        ]);
        let room = room_below(root.path());
        assert_eq!(room.swap_bytes, 100 << 10);
        let said = "the limit in /sys/fs/cgroup/memory/docker/a/b/memory.limit_in_bytes leaves 10000 bytes";
        assert_eq!(room.to_string(), said);
    }
}
