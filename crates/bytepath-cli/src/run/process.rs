//! What /proc tells of a process, at one moment. Costs about five small files.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use rustix::process::{Pid, getpid};
use signal_hook::consts::SIGKILL;

use crate::stat::Stat;

/// Which process it is, also when another has its number. In the order in which they began.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    /// In the kernel's ticks since that did.
    pub(super) began: u64,
    pub(super) number: i32,
}

impl Id {
    pub(super) fn new(pid: Pid, began: u64) -> Id {
        Id { began, number: pid.as_raw_nonzero().get() }
    }

    /// Who has this number now.
    pub(super) fn of(pid: Pid) -> Option<Id> {
        Some(Id::new(pid, stat(pid)?.began))
    }
}

/// A process as it is now.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Reading {
    /// The first letters of its program's name.
    pub(super) name: String,
    /// As the kernel names it: R runs or waits for a CPU, S sleeps, D waits for a disk, Z has ended.
    pub(super) state: char,
    pub(super) threads: u32,
    /// The CPU that it ran on last.
    pub(super) cpu: usize,
    pub(super) parent: Option<Pid>,
    pub(super) user_s: f64,
    pub(super) system_s: f64,
    /// The kernel's flags (PF_…).
    pub(super) flags: u64,
    /// When it began, in the kernel's ticks since that did.
    pub(super) began: u64,
    /// Where its stack begins, which every exec(2) draws anew: 0 where that is kept from us.
    pub(super) stack: u64,
    /// How long it is there.
    pub(super) age: Duration,
    /// Time on a CPU, and time waiting for one.
    pub(super) run_ns: u64,
    pub(super) wait_ns: u64,
    /// Whether these are the scheduler's, and not ticks.
    pub(super) are_exact: bool,
    /// Whether it has waited for children that ended: what those moved is counted as its own.
    pub(super) has_waited: bool,
    /// What it asked read(2) and write(2) and their like to move; splice(2) is not counted there.
    pub(super) moved: Option<Moved>,
}

/// Bytes by read and write calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

impl Moved {
    /// What it wrote (0), or read (1).
    pub(super) fn of_end(self, end: usize) -> u64 {
        [self.written_bytes, self.read_bytes][end]
    }

    pub(super) fn sum(self) -> u64 {
        self.read_bytes + self.written_bytes
    }
}

impl Reading {
    /// `None` where the process is gone, or is not ours to look at.
    pub(super) fn of(pid: Pid) -> Option<Reading> {
        let mut reading = stat(pid)?;
        let scheduled = scheduled(pid, reading.threads);
        reading.are_exact = scheduled.is_some();
        (reading.run_ns, reading.wait_ns) =
            scheduled.unwrap_or(((1e9 * (reading.user_s + reading.system_s)) as u64, 0));
        reading.moved = moved(pid);
        let ticks = rustix::param::clock_ticks_per_second() as f64;
        let began = Duration::from_secs_f64(reading.began as f64 / ticks);
        reading.age = since_boot().saturating_sub(began);
        Some(reading)
    }

    fn of_stat(line: &str) -> Option<Reading> {
        let stat = Stat::of(line)?;
        let number = |field: usize| stat.field::<u64>(field);
        let seconds =
            |field| Some(number(field)? as f64 / rustix::param::clock_ticks_per_second() as f64);
        Some(Reading {
            name: stat.name.to_owned(),
            state: stat.field(3)?,
            user_s: seconds(14)?,
            system_s: seconds(15)?,
            parent: stat.field(4).and_then(Pid::from_raw),
            threads: u32::try_from(number(20)?).unwrap_or(u32::MAX),
            cpu: usize::try_from(number(39)?).unwrap_or(0),
            flags: number(9)?,
            // No process ends without a page fault.
            has_waited: number(11)? > 0,
            began: number(22)?,
            stack: number(28)?,
            ..Reading::default()
        })
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    pub(super) fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Whether it has not run at all since an earlier reading: what only it can change, as its open
    /// files, is as it was.
    pub(super) fn has_rested_since(&self, before: &Reading) -> bool {
        // Of one that runs, or would, the kernel tells the time as of its last switch or tick.
        let is_told = self.state != 'R' && self.is_exact() && before.is_exact();
        is_told && self.run_ns == before.run_ns
    }

    /// Whether the times that it ran and waited for a CPU are the scheduler's, and of one thread.
    pub(super) fn is_exact(&self) -> bool {
        self.are_exact && self.threads <= 1
    }

    pub(super) fn cpu_s(&self) -> f64 {
        self.user_s + self.system_s
    }

    /// Likewise, by the finer clock, which does not count threads that are gone.
    pub(super) fn used_s(&self) -> f64 {
        self.cpu_s().max(self.run_ns as f64 / 1e9)
    }
}

/// Nanoseconds on a CPU and waiting for one, of all threads.
fn scheduled(pid: Pid, threads: u32) -> Option<(u64, u64)> {
    if threads <= 1 {
        return schedstat(&path(pid, "schedstat"));
    }
    let sums = tasks(pid).into_iter().filter_map(|task| {
        schedstat(&format!("{}/{}/schedstat", path(pid, "task"), task.as_raw_nonzero()))
    });
    sums.reduce(|sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn schedstat(path: &str) -> Option<(u64, u64)> {
    let text = text(path)?;
    let mut numbers = text.split_whitespace().map_while(|word| word.parse().ok());
    Some((numbers.next()?, numbers.next()?))
}

fn moved(pid: Pid) -> Option<Moved> {
    moved_of(&text(&path(pid, "io"))?)
}

/// Waits for a process that has ended, and tells what it moved, with all that it had waited for:
/// the kernel then counts that as this process's too. Ordinary users are not shown it otherwise.
pub(super) fn moved_by_ended<T>(wait: impl FnOnce() -> T) -> (T, Option<Moved>) {
    let counts = || text("/proc/self/io");
    let before = counts();
    let waited = wait();
    let moved = before.zip(counts()).and_then(|(before, after)| {
        let (ours, all) = (moved_of(&before)?, moved_of(&after)?);
        // The first reading was counted by the second.
        let read_bytes = all.read_bytes.checked_sub(ours.read_bytes + before.len() as u64)?;
        let written_bytes = all.written_bytes.checked_sub(ours.written_bytes)?;
        Some(Moved { read_bytes, written_bytes })
    });
    (waited, moved)
}

fn moved_of(text: &str) -> Option<Moved> {
    let of =
        |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
    Some(Moved { read_bytes: of("rchar:")?, written_bytes: of("wchar:")? })
}

/// The threads of a process.
pub(super) fn tasks(pid: Pid) -> Vec<Pid> {
    let names = fs::read_dir(path(pid, "task")).into_iter().flatten().flatten();
    names.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?)).collect()
}

/// Its children. `None` where the kernel does not tell them.
pub(super) fn children(pid: Pid) -> Option<Vec<Pid>> {
    let mut all = Vec::new();
    for task in tasks(pid) {
        let list = format!("{}/{}/children", path(pid, "task"), task.as_raw_nonzero());
        let list = text(&list)?;
        all.extend(list.split_whitespace().filter_map(|word| Pid::from_raw(word.parse().ok()?)));
    }
    Some(all)
}

/// Its parent.
pub(super) fn parent(pid: Pid) -> Option<Pid> {
    stat(pid)?.parent
}

/// The process group that it, or this process, is in: 0 where that is of a namespace above this one.
pub(super) fn group(pid: Option<Pid>) -> Option<i32> {
    let pid = pid.map(|pid| nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get()));
    nix::unistd::getpgid(pid).ok().map(nix::unistd::Pid::as_raw)
}

/// What it would tell of one that begins now.
pub(super) fn begins_now() -> u64 {
    (since_boot().as_secs_f64() * rustix::param::clock_ticks_per_second() as f64) as u64
}

fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::try_from(now).unwrap_or_default()
}

/// What one file tells of it.
fn stat(pid: Pid) -> Option<Reading> {
    Reading::of_stat(&text(&path(pid, "stat"))?)
}

/// Whether /proc tells anything here. In a new namespace of processes it may still be that of
/// another, where the same numbers stand for other processes.
pub(super) fn can_be_seen() -> bool {
    let itself = fs::read_link("/proc/self").ok();
    let itself = itself.and_then(|number| number.to_str()?.parse().ok());
    itself == Some(getpid().as_raw_nonzero().get()) && stat(getpid()).is_some()
}

/// What a signal did to a process that was there when it was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Got {
    /// It ends, by this signal or otherwise.
    Ends,
    /// It would have ended, and does not.
    Not,
    /// It has an answer of its own, came later, or is gone.
    Unknown,
}

/// Whether it got a signal that was sent at a time, in the kernel's ticks.
pub(super) fn got(pid: Pid, signal: i32, sent: u64) -> Got {
    const PF_EXITING: u64 = 4;
    let status = text(&path(pid, "status")).unwrap_or_default();
    let set = |name: &str| {
        let set = status.lines().find_map(|line| line.strip_prefix(name));
        set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
    };
    let has = |name, signal: i32| set(name) & (1 << (signal - 1)) != 0;
    let answers = ["SigBlk:", "SigIgn:", "SigCgt:"].iter().any(|name| has(name, signal));
    match stat(pid) {
        Some(now) if answers || now.has_ended() || now.began >= sent => Got::Unknown,
        // Whatever ends a process, it is this that the kernel sends to its threads.
        Some(now) if now.flags & PF_EXITING != 0 || has("SigPnd:", SIGKILL) => Got::Ends,
        Some(_) => Got::Not,
        None => Got::Unknown,
    }
}

/// The program that it runs, as what tells one from another.
pub(super) fn program(pid: Pid) -> Option<(u64, u64)> {
    let found = fs::metadata(path(pid, "exe")).ok()?;
    Some((found.dev(), found.ino()))
}

/// Its words, as people would write them.
pub(super) fn words(pid: Pid) -> Option<String> {
    Some(text(&path(pid, "cmdline"))?.strip_suffix('\0')?.replace('\0', " "))
}

/// The place in the kernel where it sleeps, where that is told.
pub(super) fn sleeps_in(pid: Pid) -> Option<String> {
    let place = text(&path(pid, "wchan"))?;
    (!place.is_empty() && place != "0").then_some(place)
}

/// The pipes that it has open, and whether it has a file, device or socket open that it can write to, but for
/// messages.
pub(super) fn open(pid: Pid) -> (Vec<OpenPipe>, bool) {
    /// Programs have their pipes among their first descriptors, and some have thousands.
    const LOOKED_AT_MAX: usize = 64;
    const TERMINALS: [&str; 3] = ["/dev/tty", "/dev/pts/", "/dev/console"];
    let folder = path(pid, "fd");
    let open = fs::read_dir(&folder).into_iter().flatten().flatten().take(LOOKED_AT_MAX);
    let mut writes_file = false;
    let pipe = |entry: fs::DirEntry| {
        let target = fs::read_link(entry.path()).ok()?;
        // The link's own permissions tell how it was opened.
        let may = |mode| entry.metadata().is_ok_and(|link| link.mode() & mode != 0);
        let fd = entry.file_name().to_str()?.parse().ok()?;
        let name = target.to_string_lossy();
        let begins = |before: &&str| name.starts_with(before);
        let keeps = name != "/dev/null" && !TERMINALS.iter().any(begins);
        let is_other = (target.is_absolute() && keeps) || name.starts_with("socket:[");
        // A socket as input may always be written to.
        writes_file |= is_other && ![0, 2].contains(&fd) && may(0o200);
        let number = name.strip_prefix("pipe:[")?.strip_suffix(']')?.parse().ok()?;
        Some(OpenPipe { fd, number, is_read: may(0o400) })
    };
    let pipes = open.filter_map(pipe).collect();
    (pipes, writes_file)
}

/// Whether its words name so many files of more than so many bytes.
pub(super) fn names_files(pid: Pid, count: usize, bytes: u64) -> bool {
    /// Some programs have thousands, and a look is to be short.
    const LOOKED_AT_MAX: usize = 64;
    let words = fs::read(path(pid, "cmdline")).unwrap_or_default();
    let folder = path(pid, "cwd");
    let is_file = |word: &&[u8]| {
        let found = fs::metadata(Path::new(&folder).join(OsStr::from_bytes(word)));
        found.is_ok_and(|found| found.is_file() && found.len() > bytes)
    };
    let words = words.split(|byte| *byte == 0).skip(1).take(LOOKED_AT_MAX);
    words.filter(is_file).take(count).count() == count
}

/// How far it is in the largest file that it reads: bytes, and bytes in all.
pub(super) fn reads_file(pid: Pid) -> Option<(u64, u64)> {
    const LOOKED_AT_MAX: usize = 16;
    let open = fs::read_dir(path(pid, "fd")).ok()?.flatten().take(LOOKED_AT_MAX);
    let file = |entry: fs::DirEntry| {
        let found = fs::metadata(entry.path()).ok().filter(fs::Metadata::is_file)?;
        let reads = entry.metadata().ok()?.mode() & 0o600 == 0o400;
        let about = text(&(path(pid, "fdinfo") + "/" + entry.file_name().to_str()?))?;
        let at = about.lines().find_map(|line| line.strip_prefix("pos:")?.trim().parse().ok())?;
        (reads && at <= found.len()).then_some((at, found.len()))
    };
    open.filter_map(file).max_by_key(|(_, bytes)| *bytes)
}

/// An end of a pipe in the hands of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenPipe {
    pub(super) fd: u32,
    pub(super) number: u64,
    pub(super) is_read: bool,
}

/// A whole file of /proc. These tell no size and most are small, so it is not asked for: three calls
/// less for each of a look.
fn text(path: &str) -> Option<String> {
    const USUAL_BYTES: usize = 512;
    let mut bytes = Vec::with_capacity(USUAL_BYTES);
    File::open(path).ok()?.take(u64::MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A file of a process.
pub(super) fn path(pid: Pid, name: &str) -> String {
    format!("/proc/{}/{name}", pid.as_raw_nonzero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_anything_in_it() {
        let stat = "7 (a) S (b) R 1 7 7 0 -1 0 1 2 3 4 250 50 0 0 20 0 3 0 99 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 5 0 0 0 0 0";
        let reading = Reading::of_stat(stat).expect("it is whole");
        assert_eq!((reading.name.as_str(), reading.state, reading.threads), ("a) S (b", 'R', 3));
        assert_eq!(reading.cpu, 5);
        assert_eq!(Reading::of_stat("7 (a"), None);
    }

    #[test]
    fn this_process_tells_of_itself() {
        let us = rustix::process::getpid();
        let reading = Reading::of(us).expect("it lives");
        assert!(!reading.has_ended() && reading.threads >= 1 && reading.run_ns > 0, "{reading:?}");
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        use std::os::fd::AsRawFd;
        let of = |fd: i32| open(us).0.into_iter().find(|pipe| i64::from(pipe.fd) == i64::from(fd));
        let (read, write) = (of(read.as_raw_fd()), of(write.as_raw_fd()));
        let (read, write) = (read.expect("it is open"), write.expect("it is open"));
        assert!(read.is_read && !write.is_read && read.number == write.number);
    }

    #[test]
    fn what_is_written_elsewhere_goes_to_files_and_sockets_but_not_to_nothing_and_people() {
        let writes = |to: File| {
            let mut command = std::process::Command::new("sleep");
            command.arg("60").stdin(std::process::Stdio::null()).stdout(to);
            let mut child = command.spawn().expect("sleep");
            let writes = open(Pid::from_child(&child)).1;
            child.kill().expect("it lives");
            child.wait().expect("it is ours");
            writes
        };
        let socket = std::os::unix::net::UnixStream::pair().expect("a pair").0;
        let named = |name: &Path| File::options().write(true).open(name).expect("it is there");
        let kept = tempfile::NamedTempFile::new_in("/dev/shm").expect("a file");
        assert!(!writes(named(Path::new("/dev/null"))));
        assert!(writes(File::from(std::os::fd::OwnedFd::from(socket))));
        assert!(writes(named(kept.path())));
    }
}
