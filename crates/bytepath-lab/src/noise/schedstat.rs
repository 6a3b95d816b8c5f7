//! The scheduler's own counts in nanoseconds, where the kernel was built to show them.

use std::collections::BTreeMap;
use std::time::Duration;
use std::{fs, io};

/// Which word of a `cpuN` line holds the busy time, the line's name not counted.
const BUSY_NS_WORD: usize = 6;

/// The versions of `/proc/schedstat` whose CPU lines count nanoseconds. Version 14 and older
/// counted ticks.
const VERSIONS: std::ops::RangeInclusive<u32> = 15..=17;

/// How long each CPU ran tasks since boot, in nanoseconds, from the text of `/proc/schedstat`
/// (Documentation/scheduler/sched-stats.rst, the 7th field of a CPU). Empty for a version not
/// known.
pub fn parse_busy_ns(text: &str) -> BTreeMap<usize, u64> {
    let version = text.lines().next().and_then(|line| line.strip_prefix("version ")?.parse().ok());
    if !version.is_some_and(|version| VERSIONS.contains(&version)) {
        return BTreeMap::new();
    }
    text.lines().filter_map(parse_cpu).collect()
}

fn parse_cpu(line: &str) -> Option<(usize, u64)> {
    let mut words = line.strip_prefix("cpu")?.split(' ');
    let cpu = words.next()?.parse().ok()?;
    Some((cpu, words.nth(BUSY_NS_WORD)?.parse().ok()?))
}

/// What the scheduler knows of a task or of all tasks of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TaskTimes {
    /// How long it ran. A task that runs just now lags by up to a tick.
    pub ran: Duration,
    /// How long it was runnable and waited for a CPU.
    pub waited: Duration,
}

/// The times in the text of one task's `schedstat` file.
pub fn parse_task(text: &str) -> Option<TaskTimes> {
    let mut words = text.split_whitespace().map(|word| word.parse().map(Duration::from_nanos));
    Some(TaskTimes { ran: words.next()?.ok()?, waited: words.next()?.ok()? })
}

/// The times of all threads that the process `pid` has now, which may be a zombie. Threads that
/// have ended are gone from the sum. An error where the kernel has no such files (it was built
/// without `CONFIG_SCHED_INFO`) or the process is gone.
pub fn process_times(pid: u32) -> io::Result<TaskTimes> {
    let mut sum = TaskTimes::default();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        let task = task?.path();
        let times = match fs::read_to_string(task.join("schedstat")) {
            Ok(text) => parse_task(&text).ok_or(io::ErrorKind::InvalidData)?,
            // The thread ended between the listing and the reading.
            Err(_) if !task.exists() => continue,
            Err(error) => return Err(error),
        };
        sum.ran += times.ran;
        sum.waited += times.waited;
    }
    Ok(sum)
}
