//! What a block device is used for, so that it is left alone.

use std::path::{Path, PathBuf};

use rustix::fs::{Dev, FileType, major, minor};

use super::{files, mounts, root};

/// What a block device, or a partition of it, is used for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceUse {
    /// A file system on it is mounted here.
    Mounted(PathBuf),
    /// It is swap.
    Swap,
    /// Device mapper, RAID and their like made this device of it.
    PartOf(String),
}

impl std::fmt::Display for DeviceUse {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DeviceUse::Mounted(point) => write!(out, "mounted on {}", point.display()),
            DeviceUse::Swap => write!(out, "used as swap"),
            DeviceUse::PartOf(device) => write!(out, "part of {device}"),
        }
    }
}

/// What the block device of this name is used for. `None` where it is no block device, or the system
/// tells of no use: the kernel may still know of one, and refuse (EBUSY) who wants it alone.
pub fn device_use(path: &Path) -> Option<DeviceUse> {
    let parts = with_partitions(&number_of(path)?);
    let is_one = |number: &str| parts.iter().any(|part| part == number);
    mounted(is_one).or_else(|| swapped(is_one)).or_else(|| parts.iter().find_map(|part| held(part)))
}

/// The number of the block device of this name, as the kernel writes it: `8:1`.
fn number_of(path: &Path) -> Option<String> {
    let stat = rustix::fs::stat(path).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice;
    let number = |device: Dev| format!("{}:{}", major(device), minor(device));
    is_device.then(|| number(stat.st_rdev))
}

/// A device and its partitions, whose folders are in its own.
fn with_partitions(whole: &str) -> Vec<String> {
    let folder = format!("sys/dev/block/{whole}");
    let partition = |name: &String| {
        let _: u32 = files::number(root(), &format!("{folder}/{name}/partition"))?;
        files::text(root(), &format!("{folder}/{name}/dev"))
    };
    let names = files::names(root(), &folder);
    names.iter().filter_map(partition).chain([whole.to_owned()]).collect()
}

fn mounted(is_one: impl Fn(&str) -> bool) -> Option<DeviceUse> {
    let table = files::text(root(), "proc/self/mountinfo")?;
    // A file system of several devices (btrfs) has a number of its own, and names one of them.
    let is_named =
        |source: &str| number_of(Path::new(source)).is_some_and(|number| is_one(&number));
    let mut mounts = mounts::parse(&table);
    let mount = mounts.find(|mount| is_one(&mount.device) || is_named(&mount.source))?;
    Some(DeviceUse::Mounted(mount.point))
}

fn swapped(is_one: impl Fn(&str) -> bool) -> Option<DeviceUse> {
    let table = files::text(root(), "proc/swaps")?;
    let mut names = table.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    let number = |name: &str| number_of(&mounts::unescaped(name.as_bytes()));
    let is_swap = names.any(|name| number(name).is_some_and(|number| is_one(&number)));
    is_swap.then_some(DeviceUse::Swap)
}

fn held(part: &str) -> Option<DeviceUse> {
    let holders = files::names(root(), &format!("sys/dev/block/{part}/holders"));
    holders.first().map(|name| DeviceUse::PartOf(format!("/dev/{name}")))
}
