//! Processes.
use std::fs;
pub(crate) fn threads_of(pid: u32) -> Vec<u32> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.map(|all| all.flatten().filter_map(number).collect()).unwrap_or_default()
}
pub(crate) fn with_descendants(pid: u32) -> Vec<u32> {
    vec![pid]
}
