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
    /// Bytes that could be swapped beside these, by what is free of the machine's swap and by the limits of
    /// its cgroups.
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
    /// The files with a limit of memory, and with how much is used.
    memory: [&'static str; 2],
    /// Likewise of swap, or of both together.
    swap: Swap,
    /// Lines of memory.stat, of a group and all below it: the cache of files.
    cache: [&'static str; 2],
}

#[derive(Clone, Copy)]
enum Swap {
    WithMemory([&'static str; 2]),
    Alone([&'static str; 2]),
}

const V1: Names = Names {
    memory: ["memory.limit_in_bytes", "memory.usage_in_bytes"],
    swap: Swap::WithMemory(["memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"]),
    cache: ["total_inactive_file", "total_active_file"],
};
const V2: Names = Names {
    memory: ["memory.max", "memory.current"],
    swap: Swap::Alone(["memory.swap.max", "memory.swap.current"]),
    cache: ["inactive_file", "active_file"],
};

/// How much memory this process could still have. What cannot be read sets no limit.
pub fn memory_room() -> MemoryRoom {
    room_below(Path::new("/"))
}

fn room_below(root: &Path) -> MemoryRoom {
    let told = files::text(root, "proc/meminfo").unwrap_or_default();
    let bytes = |name| numbered(&told, name).map(|kib| kib << 10);
    let mut swap_bytes = bytes("SwapFree:").unwrap_or(0);
    let mut least = (bytes("MemAvailable:").unwrap_or(u64::MAX), None);
    let mut both_bytes = u64::MAX;
    for (group, names) in own_groups(root) {
        let stat = files::text(&group, "memory.stat").unwrap_or_default();
        let cache = names.cache.iter().filter_map(|name| numbered(&stat, name)).sum();
        let mut narrow = |files: [&str; 2]| {
            let left = left_in(&group, files, cache);
            if left < least.0 {
                least = (left, Some(group.join(files[0])));
            }
            left
        };
        narrow(names.memory);
        match names.swap {
            Swap::WithMemory(files) => both_bytes = both_bytes.min(narrow(files)),
            Swap::Alone(files) => swap_bytes = swap_bytes.min(left_in(&group, files, 0)),
        }
    }
    let (bytes, limit) = least;
    let limit = limit.map(|limit| Path::new("/").join(limit.strip_prefix(root).unwrap_or(&limit)));
    MemoryRoom { bytes, swap_bytes: swap_bytes.min(both_bytes - bytes), limit }
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

/// What a limit leaves, where so much of what is used is cache; everything where there is none.
fn left_in(group: &Path, [limit, usage]: [&str; 2], cache: u64) -> u64 {
    let (limit, usage) = (files::number(group, limit), files::number::<u64>(group, usage));
    let left = |(limit, usage): (u64, u64)| limit.saturating_sub(usage.saturating_sub(cache));
    limit.zip(usage).map_or(u64::MAX, left)
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

    const SWAP: (&str, &str) =
        ("proc/meminfo", "MemAvailable: 2000 kB\nSwapFree: 9000 kB\nSwapTotal: 9000 kB\n");

    #[test]
    fn of_the_second_generation_each_group_bounds_the_swap_too() {
        let mount = "30 1 0:26 /docker /sys/fs/cgroup rw - cgroup2 cgroup rw\n";
        let room = |swap_max| {
            let root = tree(&[
                SWAP,
                GROUPS,
                ("proc/self/mountinfo", mount),
                ("sys/fs/cgroup/a/b/memory.max", "1000000\n"),
                ("sys/fs/cgroup/a/b/memory.current", "400000\n"),
                ("sys/fs/cgroup/a/b/memory.swap.max", "max\n"),
                ("sys/fs/cgroup/a/b/memory.swap.current", "3000\n"),
                ("sys/fs/cgroup/a/memory.swap.max", swap_max),
                ("sys/fs/cgroup/a/memory.swap.current", "3000\n"),
                ("sys/fs/cgroup/a/memory.stat", "inactive_file 90000\n"),
            ]);
            let room = room_below(root.path());
            (room.bytes, room.swap_bytes)
        };
        assert_eq!(room("max\n"), (600_000, 9000 << 10));
        assert_eq!(room("10000\n"), (600_000, 7000));
        assert_eq!(room("0\n"), (600_000, 0));
    }

    #[test]
    fn of_the_first_generation_a_group_bounds_memory_and_swap_together() {
        let mount = "32 1 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n";
        let own = "sys/fs/cgroup/memory/docker/a/b";
        let room = |both_max, both| {
            let root = tree(&[
                SWAP,
                GROUPS,
                ("proc/self/mountinfo", mount),
                (&format!("{own}/memory.limit_in_bytes"), "500000\n"),
                (&format!("{own}/memory.usage_in_bytes"), "410000\n"),
                (&format!("{own}/memory.memsw.limit_in_bytes"), both_max),
                (&format!("{own}/memory.memsw.usage_in_bytes"), both),
                (&format!("{own}/memory.stat"), "total_inactive_file 10000\n"),
            ]);
            let room = room_below(root.path());
            let limit = room.limit.expect("a group's");
            let limit = limit.strip_prefix(Path::new("/").join(own)).expect("of this group");
            (room.bytes, room.swap_bytes, limit.to_str().map(str::to_owned))
        };
        let of = |bytes, swap_bytes, limit: &str| (bytes, swap_bytes, Some(limit.to_owned()));
        let unlimited = "9223372036854771712\n";
        assert_eq!(room(unlimited, "410000\n"), of(100_000, 9000 << 10, "memory.limit_in_bytes"));
        assert_eq!(room("500000\n", "410000\n"), of(100_000, 0, "memory.limit_in_bytes"));
        assert_eq!(room("900000\n", "430000\n"), of(100_000, 380_000, "memory.limit_in_bytes"));
        // Much is swapped already.
        assert_eq!(room("500000\n", "480000\n"), of(30_000, 0, "memory.memsw.limit_in_bytes"));
    }
}
