//! What a movement goes between, for people who asked for several.

use std::os::fd::{AsFd, AsRawFd};

use bytepath::{Endpoint, Job};

use crate::quote::always_quoted;

/// Both ends of a job: files by their names, others by what they are.
pub(super) fn between(job: &Job<'_>) -> String {
    format!("{} to {}", called(job.source), called(job.sink))
}

fn called(end: &Endpoint<'_>) -> String {
    let link = format!("/proc/thread-self/fd/{}", end.as_fd().as_raw_fd());
    match std::fs::read_link(link) {
        Ok(path) if path.is_absolute() => always_quoted(path.as_os_str()),
        _ => format!("a {}", end.kind()),
    }
}
