//! A process and all that descends from it, ended together. At a terminal they stay in the process group of
//! this one, as it stops and interrupts them: a group of their own would be in its background.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, kill_process};

/// Each look finds a generation more at least; a program that starts others faster is not ended by this.
const LOOKS_MAX: usize = 1000;

/// Where there is no terminal, has a program begin a process group, so that what it sends to its own
/// (`kill 0`) does not come to this process.
pub fn in_group_of_its_own(command: &mut Command) {
    // A process that has no terminal is told so here.
    let terminal = File::open("/dev/tty").map_err(|error| error.raw_os_error());
    if terminal.is_err_and(|errno| errno == Some(Errno::NXIO.raw_os_error())) {
        command.process_group(0);
    }
}

/// Ends a process of this one, if it runs, and all that it started, also indirectly. What lost its parent
/// before, and went to another, is not found.
pub(crate) fn end_with_all(child: &mut Option<Child>) {
    let Some(mut child) = child.take() else { return };
    // One that has ended has left what runs on to others.
    if child.try_wait().is_ok_and(|ended| ended.is_none()) {
        let root = Pid::from_child(&child);
        let _ = kill_process(root, Signal::STOP);
        end_below(root);
        // Another user's (sudo) goes on, for as long as it likes.
        if child.kill().is_ok() {
            let _ = child.wait();
        }
    }
}

/// Ends all that this process started, also indirectly; what lost its parent only where it came to this one
/// (PR_SET_CHILD_SUBREAPER).
pub fn end_all() {
    end_below(getpid());
}

/// All are stopped first: who is ended leaves its children to others, and new ones come meanwhile.
fn end_below(root: Pid) {
    let mut found = BTreeSet::new();
    for _ in 0..LOOKS_MAX {
        let new: Vec<_> = below(root).into_iter().filter(|pid| found.insert(*pid)).collect();
        if new.is_empty() {
            break;
        }
        new.into_iter().for_each(|pid| signalled(pid, Signal::STOP));
    }
    found.into_iter().for_each(|pid| signalled(pid, Signal::KILL));
}

/// Another user's (sudo) is none that can be ended.
fn signalled(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = kill_process(pid, signal);
    }
}

/// The processes that descend from one now.
pub fn below(root: Pid) -> BTreeSet<i32> {
    let all = parents();
    let mut below = BTreeSet::from([root.as_raw_nonzero().get()]);
    let mut count = 0;
    while count < below.len() {
        count = below.len();
        let children = all.iter().filter(|(_, parent)| below.contains(parent));
        let children: Vec<_> = children.map(|(pid, _)| *pid).collect();
        below.extend(children);
    }
    below.remove(&root.as_raw_nonzero().get());
    below
}

/// Every process, and its parent.
fn parents() -> Vec<(i32, i32)> {
    let Ok(folder) = std::fs::read_dir("/proc") else { return Vec::new() };
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        let pid = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        // After the name, which may hold anything: the state, the parent.
        let after = stat.iter().rposition(|byte| *byte == b')')? + 1;
        let parent = std::str::from_utf8(&stat[after..]).ok()?.split_whitespace().nth(1)?;
        Some((pid, parent.parse().ok()?))
    };
    folder.filter_map(of).collect()
}
