//! The file system of a place, how it is mounted, and the device below.

use bytepath::machine::{FileSystem, file_system};
use bytepath::shell::quoted;

use super::{Examined, Here};

/// File systems whose every access goes through another program or machine, or waits for its word.
const DISTANT: [&str; 25] = [
    "nfs", "nfs4", "cifs", "smb2", "smb3", "9p", "fuse", "fuseblk", "ceph", "virtiofs", "lustre",
    "afs", "coda", "beegfs", "gpfs", "pvfs2", "panfs", "wekafs", "gfs2", "ocfs2", "vboxsf",
    "vmhgfs", "prl_fs", "ncpfs", "smbfs",
];

/// File systems that are the kernel's own, on a disk or in the memory of this machine.
const OWN: [&str; 29] = [
    "ext2",
    "ext3",
    "ext4",
    "xfs",
    "btrfs",
    "f2fs",
    "bcachefs",
    "tmpfs",
    "ramfs",
    "rootfs",
    "devtmpfs",
    "hugetlbfs",
    "vfat",
    "msdos",
    "exfat",
    "ntfs",
    "ntfs3",
    "jfs",
    "nilfs2",
    "reiserfs",
    "hfs",
    "hfsplus",
    "udf",
    "iso9660",
    "squashfs",
    "erofs",
    "ubifs",
    "jffs2",
    "zonefs",
];

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    let found = file_system(here.place);
    match &found {
        Err(error) => vec![Examined::unknown("file-system", error.to_string())],
        Ok(system) => vec![kind(here, system), options(here, system), device(here, system)],
    }
}

fn kind(here: &Here<'_>, system: &FileSystem) -> Examined {
    let name = "file-system";
    let place = here.place.display();
    let found = format!("{} at {place}", system.name);
    let (kind, _) = system.name.split_once('.').unwrap_or((&system.name, ""));
    if DISTANT.contains(&kind) {
        let why = "each access goes to another program or machine; chunks of 1 MiB and more, and many \
                   files at once, hide it";
        return Examined::poor(name, found, why)
            .by("a directory on a disk of this machine: --dir DIR");
    }
    if system.name == "overlay" {
        let why = "a file of a lower layer that is written for the first time is copied whole, unless \
                   the file system below can share its blocks";
        return Examined::poor(name, found, why).by("a volume, or a bind mount, for the data");
    }
    if OWN.contains(&kind) {
        return Examined::good(name, found, "it is the kernel's own, on this machine");
    }
    let why = "bytepath does not know where its accesses go";
    Examined::new(name, bytepath_report::Health::Unknown, found, why)
}

fn options(here: &Here<'_>, system: &FileSystem) -> Examined {
    let name = "mount-options";
    let at = system.mount_point.as_ref().map(|at| at.display().to_string());
    let Some(at) = at else {
        return Examined::unknown(name, "the table of mounts cannot be read, or does not have it");
    };
    let has = |option: &str| system.options.iter().any(|found| found == option);
    let found = format!("{at}: {}", system.options.join(","));
    let slow = SLOW_OPTIONS.iter().find(|(option, ..)| match *option {
        "strictatime" => is_strictatime(system),
        option => has(option),
    });
    let Some((option, why, better)) = slow else {
        return Examined::good(name, found, "none that costs");
    };
    let at = quoted(&at);
    let setting = match *better {
        // The kernel refuses to change them while it is mounted.
        None => format!("unmount {at} and mount it without {option} (see /etc/fstab)"),
        // sd_booted(3): where systemd runs, it has this folder.
        Some("nodiscard") if here.root.join("run/systemd/system").is_dir() => {
            format!("systemctl enable --now fstrim.timer && mount -o remount,nodiscard {at}")
        }
        Some("nodiscard") => {
            format!("mount -o remount,nodiscard {at}, and fstrim {at} once a week")
        }
        Some(better) => format!("mount -o remount,{better} {at}"),
    };
    Examined::poor(name, found, format!("{option}: {why}")).by(setting)
}

/// Options that cost, and what a mounted file system takes in their place.
const SLOW_OPTIONS: [(&str, &str, Option<&str>); 6] = [
    ("sync", "each write waits for the device", Some("async")),
    ("dirsync", "each change of a directory waits for the device", None),
    ("strictatime", "each read is a write of the time of access", Some("relatime")),
    ("data=journal", "file contents are written twice", None),
    (
        "discard",
        "the device is told of freed blocks while it also reads and writes",
        Some("nodiscard"),
    ),
    ("nobarrier", "fast, and a power cut may lose what was said to be safe", Some("barrier")),
];

/// The table of mounts has no word for it: it is where neither of the others is. It costs where there
/// is a device, and times are not kept in memory for a day.
fn is_strictatime(system: &FileSystem) -> bool {
    let on_device = system.source.as_deref().is_some_and(|source| source.starts_with("/dev/"));
    let without = ["relatime", "noatime", "lazytime", "ro"];
    on_device && !system.options.iter().any(|option| without.contains(&option.as_str()))
}

/// Whether requests can be waited for by polling (IORING_SETUP_IOPOLL).
fn device(here: &Here<'_>, system: &FileSystem) -> Examined {
    let name = "iopoll";
    let source = system.source.as_deref().and_then(|source| source.strip_prefix("/dev/"));
    let Some(device) = source.and_then(|source| whole(here, source)) else {
        let why = "the file system lies on no block device that /sys tells of";
        return Examined::unknown(name, why);
    };
    let poll = here.text(&format!("sys/block/{device}/queue/io_poll"));
    match poll.as_deref() {
        Some("1") => Examined::good(
            name,
            format!("{device} has poll queues"),
            "IOPOLL saves an interrupt a request",
        ),
        Some(_) if device.starts_with("nvme") => Examined::poor(
            name,
            format!("{device} has no poll queues"),
            "each request ends with an interrupt; polling for it takes a few us less",
        )
        .by("boot option nvme.poll_queues=2, or options nvme poll_queues=2 in /etc/modprobe.d"),
        Some(_) => Examined::new(
            name,
            bytepath_report::Health::Unknown,
            format!("{device} has no poll queues"),
            "its driver may have none: only NVMe and a few others do",
        ),
        None => Examined::unknown(name, format!("/sys/block/{device}/queue cannot be read")),
    }
}

/// The device that a partition, or a name for one, is on.
fn whole(here: &Here<'_>, source: &str) -> Option<String> {
    // Names such as mapper/root are links.
    let at = std::fs::canonicalize(here.root.join("dev").join(source)).ok()?;
    let name = at.file_name()?.to_string_lossy().into_owned();
    let blocks = here.names("sys/block");
    let found = blocks.iter().filter(|block| name.starts_with(block.as_str()));
    found.max_by_key(|block| block.len()).cloned()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn what_goes_to_another_program_or_machine_is_told_from_the_kernels_own() {
        use bytepath_report::Health;
        let machine = bytepath::machine::Machine::from_facts(bytepath::machine::Facts::ordinary());
        let root = Path::new("/");
        let here = Here { root, machine: &machine, profile: None, place: root };
        let verdict = |name: &str| kind(&here, &of_kind(name, "rw")).finding.verdict;
        for (name, wanted) in [
            ("ext4", Health::Good),
            ("xfs", Health::Good),
            ("tmpfs", Health::Good),
            ("fuseblk", Health::Poor),
            ("fuse.sshfs", Health::Poor),
            ("fuseblk.ntfs-3g", Health::Poor),
            // What is told where the table of mounts does not have it.
            ("nfs", Health::Poor),
            ("9p", Health::Poor),
            ("ceph", Health::Poor),
            ("afs", Health::Poor),
            ("fuse", Health::Poor),
            ("smb2", Health::Poor),
            ("cifs", Health::Poor),
            ("smb3", Health::Poor),
            ("lustre", Health::Poor),
            ("ocfs2", Health::Poor),
            ("zfs", Health::Unknown),
            ("0x1234", Health::Unknown),
        ] {
            assert_eq!(verdict(name), wanted, "{name}");
        }
    }

    fn of_kind(name: &str, options: &str) -> FileSystem {
        FileSystem {
            name: name.to_owned(),
            magic: 0xef53,
            mount_point: Some("/mnt/my disk".into()),
            source: Some("/dev/sda1".to_owned()),
            options: options.split(',').map(str::to_owned).collect(),
        }
    }

    #[test]
    fn what_no_remount_changes_is_mounted_anew_and_a_path_is_one_word() {
        let (plain, systemd) = (tempfile::tempdir(), tempfile::tempdir());
        let (plain, systemd) = (plain.expect("a folder"), systemd.expect("a folder"));
        std::fs::create_dir_all(systemd.path().join("run/systemd/system")).expect("folders");
        let machine = bytepath::machine::Machine::from_facts(bytepath::machine::Facts::ordinary());
        let setting_at = |root: &Path, text: &str| {
            let here = Here { root, machine: &machine, profile: None, place: root };
            options(&here, &of_kind("ext4", text)).finding.setting
        };
        // Nothing is left out where the timer cannot be had.
        assert_eq!(
            setting_at(systemd.path(), "rw,relatime,discard").as_deref(),
            Some(
                "systemctl enable --now fstrim.timer && mount -o remount,nodiscard '/mnt/my disk'"
            )
        );
        let setting = |text: &str| setting_at(plain.path(), text);
        for (options, wanted) in [
            ("rw,relatime,sync", Some("mount -o remount,async '/mnt/my disk'")),
            (
                "rw,relatime,dirsync",
                Some("unmount '/mnt/my disk' and mount it without dirsync (see /etc/fstab)"),
            ),
            (
                "rw,relatime,data=journal",
                Some("unmount '/mnt/my disk' and mount it without data=journal (see /etc/fstab)"),
            ),
            (
                "rw,relatime,discard",
                Some(
                    "mount -o remount,nodiscard '/mnt/my disk', and fstrim '/mnt/my disk' once a \
                     week",
                ),
            ),
            ("rw", Some("mount -o remount,relatime '/mnt/my disk'")),
            ("rw,noatime", None),
            ("ro", None),
        ] {
            assert_eq!(setting(options).as_deref(), wanted, "{options}");
        }
    }
}
