//! The file system of a place, how it is mounted, and the device below.

use bytepath::machine::{FileSystem, file_system};

use super::{Examined, Here};

/// File systems whose every access goes through another program or machine.
const DISTANT: [&str; 8] = ["nfs", "nfs4", "cifs", "smb2", "9p", "fuse", "ceph", "virtiofs"];

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
    let distant =
        DISTANT.iter().any(|kind| system.name == *kind) || system.name.starts_with("fuse.");
    if distant {
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
    Examined::good(name, found, "it is the kernel's own, on this machine")
}

fn options(_: &Here<'_>, system: &FileSystem) -> Examined {
    let name = "mount-options";
    let at = system.mount_point.as_ref().map(|at| at.display().to_string());
    let Some(at) = at else {
        return Examined::unknown(name, "the table of mounts cannot be read, or does not have it");
    };
    let slow = [
        ("sync", "each write waits for the device"),
        ("dirsync", "each change of a directory waits for the device"),
        ("strictatime", "each read is a write of the time of access"),
        ("data=journal", "file contents are written twice"),
        ("discard", "freed blocks are told to the device at once, and removing waits for that"),
        ("nobarrier", "fast, and a power cut may lose what was said to be safe"),
    ];
    let has = |option: &str| system.options.iter().any(|found| found == option);
    let shown = system.options.join(",");
    match slow.iter().find(|(option, _)| has(option)) {
        None => Examined::good(name, format!("{at}: {shown}"), "none that costs"),
        Some((option, why)) => {
            let better = match *option {
                "sync" => "async",
                "dirsync" => "nodirsync",
                "strictatime" => "relatime",
                "discard" => "nodiscard",
                "nobarrier" => "barrier",
                _ => "data=ordered (in /etc/fstab, and mount anew)",
            };
            let after =
                if *option == "discard" { ", and systemctl enable --now fstrim.timer" } else { "" };
            Examined::poor(name, format!("{at}: {shown}"), format!("{option}: {why}"))
                .by(format!("mount -o remount,{better} {at}{after}"))
        }
    }
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
        .by("boot option nvme.poll_queues=2, or modprobe nvme poll_queues=2"),
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
