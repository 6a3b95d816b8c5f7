//! Runs a command once and tells how long it took and what it used: the inside of `bytepath clock`,
//! the process of the arms of `bench cmd`.
//!
//! It is a process of its own for the sake of the command's peak of memory. The kernel tells the
//! largest of all processes that were ever waited for, and counts in what the process held that
//! became the command; so each command is started by a process that is small and starts nothing else.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use crate::descendants::end_all;
use crate::ends::Usage;
use crate::interrupt;

/// What one run of a command was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clocked {
    /// When it was started: nanoseconds of CLOCK_MONOTONIC, which is one for all processes.
    pub began_ns: u64,
    /// From just before its start to its end.
    pub seconds: f64,
    /// What it and all that it waited for used.
    pub usage: Usage,
    /// The most memory that one of them held, in bytes; none where this process held more.
    pub peak_bytes: Option<u64>,
    /// The most that this process held.
    pub own_bytes: Option<u64>,
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The kernel's number where it could not be started at all.
    pub errno: Option<i32>,
}

/// Runs the command to its end, or ends it with all that it started once that is wished.
///
/// # Errors
/// It was started, and ended so, or its end cannot be waited for. One that cannot be started is no error, but is
/// told by [`Clocked::errno`].
pub fn run(command: &mut Command) -> io::Result<Clocked> {
    let before = Usage::of_children();
    let (began_ns, began) = (monotonic_ns(), Instant::now());
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            return Ok(Clocked { errno: error.raw_os_error().or(Some(0)), ..Clocked::default() });
        }
    };
    if interrupt::wished_before_end(&child) {
        end_all();
        return Err(io::Error::other("interrupted"));
    }
    let status: ExitStatus = child.wait()?;
    let seconds = began.elapsed().as_secs_f64();
    let own_bytes = own_peak();
    Ok(Clocked {
        began_ns,
        seconds,
        usage: Usage::of_children().since(before),
        peak_bytes: peak_of_children().filter(|peak| own_bytes.is_some_and(|own| *peak > own)),
        own_bytes,
        code: status.code(),
        signal: status.signal(),
        errno: None,
    })
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub(crate) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    // It began near zero, when the machine did.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The most memory that one of the children held at once, in bytes.
fn peak_of_children() -> Option<u64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    // The kernel tells it in KiB.
    u64::try_from(usage.max_rss()).ok().map(|kib| kib << 10)
}

/// The same of this process. getrusage(2) counts in what the process held that became this one.
fn own_peak() -> Option<u64> {
    let status = std::fs::read("/proc/self/status").ok()?;
    let status = String::from_utf8_lossy(&status);
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?.trim();
    kib.strip_suffix("kB")?.trim_end().parse::<u64>().ok().map(|kib| kib << 10)
}
