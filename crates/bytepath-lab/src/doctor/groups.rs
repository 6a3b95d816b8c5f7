//! Limits of the groups (cgroups, both generations) that this process is in, and pressure.

use std::path::{Path, PathBuf};

use bytepath::machine::Cgroups;

use super::change::command;
use super::{Examined, Here, bytes};
use crate::cgroups::numbered;

/// Less than this of the machine's memory is a limit that copies feel: dirty pages count.
const MEMORY_SHARE_MIN: f64 = 0.5;
/// The kernel writes "no limit" of the first generation as about this many pages.
const UNLIMITED: u64 = 1 << 62;
/// Percent of the last ten seconds in which something waited.
const PRESSURE_MAX: f64 = 10.0;

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    vec![cpu(here), memory(here), files_rate(here), pressure(here)]
}

/// The folders of this process's group of a controller, from its own up to the top.
fn folders(root: &Path, cgroups: &Cgroups, controller: &str) -> Vec<PathBuf> {
    let groups = text(&root.join("proc/self/cgroup")).unwrap_or_default();
    let mut found = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(names), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mounted: Vec<PathBuf> = match names {
            "" => cgroups.v2_mount.iter().map(|at| below(root, at)).collect(),
            names if names.split(',').any(|name| name == controller) => {
                vec![root.join("sys/fs/cgroup").join(controller)]
            }
            _ => continue,
        };
        for top in mounted {
            let own = top.join(path.trim_start_matches('/'));
            found.extend(own.ancestors().take_while(|at| at.starts_with(&top)).map(Path::to_owned));
        }
    }
    found
}

fn below(root: &Path, at: &Path) -> PathBuf {
    root.join(at.strip_prefix("/").unwrap_or(at))
}

fn text(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

/// Whether anything tells of groups at all.
fn blind(here: &Here<'_>, name: &str) -> Option<Examined> {
    let told = here.text("proc/self/cgroup").is_some();
    (!told).then(|| Examined::unknown(name, "/proc/self/cgroup cannot be read"))
}

/// A quota of CPU, and what it did so far.
#[derive(Debug, Clone, PartialEq)]
pub struct CpuQuota {
    /// The folder of its group.
    pub folder: PathBuf,
    /// How many CPUs it is.
    pub cpus: f64,
    /// How many times it stopped the group.
    pub stopped_times: u64,
    /// For how long, of all CPUs together.
    pub stopped_s: f64,
}

/// The quotas of this process's group and of its ancestors, of both generations.
pub fn cpu_quotas(root: &Path, cgroups: &Cgroups) -> Vec<CpuQuota> {
    let found = folders(root, cgroups, "cpu").into_iter();
    found.filter_map(cpu_quota).collect()
}

fn cpu_quota(folder: PathBuf) -> Option<CpuQuota> {
    let v2 = text(&folder.join("cpu.max")).and_then(|text| {
        let (quota, period) = text.split_once(' ')?;
        Some((quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?))
    });
    let v1 = || {
        let number = |file: &str| text(&folder.join(file))?.parse::<f64>().ok();
        Some((number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?))
    };
    let (quota, period) = v2.or_else(v1).filter(|(quota, period)| *quota > 0.0 && *period > 0.0)?;
    let stat = text(&folder.join("cpu.stat")).unwrap_or_default();
    let counted = |word| numbered(&stat, word);
    // The first generation counts in nanoseconds.
    let stopped_s = counted("throttled_usec")
        .map(|us| us as f64 / 1e6)
        .or_else(|| counted("throttled_time").map(|ns| ns as f64 / 1e9));
    Some(CpuQuota {
        cpus: quota / period,
        stopped_times: counted("nr_throttled").unwrap_or(0),
        stopped_s: stopped_s.unwrap_or(0.0),
        folder,
    })
}

/// The tightest of a group's quotas and its ancestors', in CPUs.
fn cpu(here: &Here<'_>) -> Examined {
    let name = "cgroup-cpu";
    if let Some(unknown) = blind(here, name) {
        return unknown;
    }
    let tightest = cpu_quotas(here.root, here.machine.cgroups())
        .into_iter()
        .min_by(|one, other| one.cpus.total_cmp(&other.cpus));
    let Some(CpuQuota { cpus, folder, stopped_times, .. }) = tightest else {
        return Examined::good(name, "no quota", "the CPUs are used as far as they are free");
    };
    let found = format!("{cpus:.2} CPUs, stopped {stopped_times} times");
    let allowed = here.machine.allowed_cpus().len() as f64;
    if cpus >= allowed && stopped_times == 0 {
        return Examined::good(name, found, "the quota is as much as there are CPUs");
    }
    let v2 = folder.join("cpu.max");
    let setting = match v2.exists() {
        true => command(&v2, "max"),
        false => command(&folder.join("cpu.cfs_quota_us"), "-1"),
    };
    Examined::poor(name, found, "both ends of a pipe stand still together when the quota is spent")
        .by(format!("{setting}, or --cpus of the container"))
}

fn memory(here: &Here<'_>) -> Examined {
    let name = "cgroup-memory";
    if let Some(unknown) = blind(here, name) {
        return unknown;
    }
    let limit = |folder: &PathBuf| -> Option<(u64, PathBuf)> {
        let files = ["memory.max", "memory.high", "memory.limit_in_bytes"];
        let limits = files.iter().filter_map(|file| {
            let file = folder.join(file);
            Some((text(&file)?.parse::<u64>().ok()?, file))
        });
        limits.filter(|(limit, _)| *limit < UNLIMITED).min()
    };
    let Some((limit, file)) =
        folders(here.root, here.machine.cgroups(), "memory").iter().filter_map(limit).min()
    else {
        return Examined::good(
            name,
            "no limit",
            "the page cache may be as large as there is memory",
        );
    };
    let found = bytes(limit);
    let total = here.machine.memory().total_bytes;
    if limit as f64 >= total as f64 * MEMORY_SHARE_MIN {
        return Examined::good(
            name,
            found,
            "the page cache of what is copied counts, and has room",
        );
    }
    Examined::poor(
        name,
        format!("{found} of {}", bytes(total)),
        "the page cache of what is read and written counts: writers wait for the device sooner",
    )
    .by(format!("{}, or --memory of the container; cp --uncached needs less", lifted(&file)))
}

/// The command that lifts a limit of memory.
fn lifted(file: &Path) -> String {
    if !file.ends_with("memory.limit_in_bytes") {
        return command(file, "max");
    }
    // Of the first generation, memory may have no more than memory and swap together.
    let with_swap = file.with_file_name("memory.memsw.limit_in_bytes");
    let both = text(&with_swap).and_then(|limit| limit.parse::<u64>().ok());
    let first = both.filter(|limit| *limit < UNLIMITED).map(|_| command(&with_swap, "-1"));
    let commands: Vec<String> = first.into_iter().chain([command(file, "-1")]).collect();
    commands.join(" && ")
}

/// Limits of reading and writing.
fn files_rate(here: &Here<'_>) -> Examined {
    let name = "cgroup-io";
    if let Some(unknown) = blind(here, name) {
        return unknown;
    }
    let limit = |folder: &PathBuf| -> Option<(String, PathBuf)> {
        let files = [
            "io.max",
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_iops_device",
        ];
        let mut files = files.iter().map(|file| folder.join(file));
        files.find_map(|file| Some((text(&file).filter(|text| !text.is_empty())?, file)))
    };
    let controllers = ["io", "blkio"];
    let found = controllers
        .iter()
        .flat_map(|name| folders(here.root, here.machine.cgroups(), name))
        .find_map(|at| limit(&at));
    match found {
        None => Examined::good(name, "no limit", "devices are used as far as they are free"),
        Some((limit, file)) => Examined::poor(
            name,
            limit.replace('\n', "; "),
            "reading or writing is slowed down on purpose",
        )
        .by(unlimited_rates(&limit, &file)),
    }
}

/// The commands that lift the limits of each device, which a line begins with.
fn unlimited_rates(limit: &str, file: &Path) -> String {
    let none = if file.ends_with("io.max") { "rbps=max wbps=max riops=max wiops=max" } else { "0" };
    let devices = limit.lines().filter_map(|line| line.split_whitespace().next());
    let commands: Vec<String> =
        devices.map(|device| command(file, &format!("{device} {none}"))).collect();
    commands.join(" && ")
}

fn pressure(here: &Here<'_>) -> Examined {
    let name = "psi";
    let kinds = ["cpu", "memory", "io"];
    let read = |kind| Some((kind, here.text(&format!("proc/pressure/{kind}"))?));
    let told: Vec<(&str, String)> = kinds.into_iter().filter_map(read).collect();
    if told.is_empty() {
        if here.text("proc/stat").is_none() {
            return Examined::unknown(name, "/proc cannot be read");
        }
        return Examined::poor(
            name,
            "not told",
            "nobody says how long work waits for CPU, memory and disks",
        )
        .by("boot option psi=1, on a kernel with CONFIG_PSI");
    }
    let average = |text: &str| {
        let some = text.lines().find(|line| line.starts_with("some "))?;
        let word = some.split_whitespace().find_map(|word| word.strip_prefix("avg10="))?;
        word.parse::<f64>().ok()
    };
    let waits: Vec<(&str, f64)> =
        told.iter().filter_map(|(kind, text)| Some((*kind, average(text)?))).collect();
    let found: Vec<String> =
        waits.iter().map(|(kind, part)| format!("{kind} {part:.0}%")).collect();
    match waits.iter().all(|(_, part)| *part <= PRESSURE_MAX) {
        true => Examined::good(name, found.join(", "), "hardly anything waits"),
        false => Examined::poor(name, found.join(", "), "work waits: others use this machine now")
            .by("see who: top, by CPU (P) or memory (M)"),
    }
}
