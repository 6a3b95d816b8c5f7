//! What the kernel's own threads used: for work that they do for a sample, such as swapping its
//! pages out or its packets through, they are no strangers.

use std::fs;
use std::time::Duration;

use super::parse_task;

/// `PF_KTHREAD` of linux/sched.h, in the flags of `/proc/PID/stat`.
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The CPU time of all threads of the kernel that there are now. Zero where it cannot be told.
pub fn cpu_time() -> Duration {
    let tick = Duration::from_secs(1) / rustix::param::clock_ticks_per_second().max(1) as u32;
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbered =
        all.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit));
    let time = |entry: fs::DirEntry| {
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let ticks = kernel_ticks(&stat)?;
        // In nanoseconds where the kernel counts them.
        let exact = fs::read_to_string(entry.path().join("schedstat")).ok();
        Some(exact.and_then(|text| parse_task(&text)).map_or(tick * ticks, |times| times.ran))
    };
    numbered.filter_map(time).sum()
}

/// The user and system time of a thread of the kernel, from the text of its `/proc/PID/stat`; `None`
/// for any other process.
fn kernel_ticks(stat: &str) -> Option<u32> {
    // Its name may have blanks and brackets.
    let (_, rest) = stat.rsplit_once(") ")?;
    let words: Vec<&str> = rest.split(' ').collect();
    let number = |index: usize| words.get(index)?.parse::<u64>().ok();
    // The flags are the 9th word of the line, the times the 14th and 15th.
    let is_kernel = number(6)? & KERNEL_THREAD != 0;
    let ticks = number(11)? + number(12)?;
    is_kernel.then(|| u32::try_from(ticks).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_told_from_processes() {
        let kernel = "61 (kswapd0) S 2 0 0 0 -1 10619968 0 0 0 0 5 37 0 0 20 0 1 0 70 0 0";
        let other = "9 (a) b) S 1 9 9 0 -1 4194560 100 0 0 0 5 37 0 0 20 0 1 0 70 1 1";
        assert_eq!(kernel_ticks(kernel), Some(42));
        assert_eq!(kernel_ticks(other), None);
        assert_eq!(kernel_ticks(""), None);
    }
}
