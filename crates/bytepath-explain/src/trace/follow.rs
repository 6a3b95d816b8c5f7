//! Processes that run already are followed from now on; and records of a ring are taken while they
//! come.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::time::Duration;

use super::calls::CALLS;
use super::code::Followed;
use super::files::Story;
use super::largest::Largest;
use super::tasks::{Tasks, There, in_first_pid_namespace};
use super::{Mode, TraceError, tcp};
use crate::helper::Helper;
use crate::sys::bpf_ring::Ring;
use crate::syscalls;
use crate::world::{Stat, text};

/// How often a process's threads are looked at anew, until nobody new is there.
const LOOKS_MAX: usize = 10;

/// What a mode wants to know of threads that are there already.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) calls: bool,
    pub(super) stacks: bool,
}

/// What they were in.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// How many were in a system call.
    pub(super) calls: u64,
    /// The functions of the kernel that they slept in, the outermost first, by thread; for root alone.
    pub(super) stacks: HashMap<u32, Vec<String>>,
    /// Processes, and when a thread of them was added: the number of its program is 0 from then on.
    pub(super) added: Followed,
}

/// Traces a process, and all that come from it, from now on; what its threads are in is the result.
pub(super) fn follow(tasks: &Tasks, pid: u32, now_ns: u64, ask: Ask) -> Result<Before, TraceError> {
    if !in_first_pid_namespace() {
        return Err(TraceError(format!(
            "cannot trace process {pid}: numbers in this PID namespace (a container's) are not those \
             that BPF sees; run bytepath outside, or let it start the command: explain --trace … -- \
             COMMAND"
        )));
    }
    if !fs::exists(format!("/proc/{pid}")).unwrap_or(false) {
        return Err(TraceError(format!(
            "cannot trace process {pid}: there is none of this number"
        )));
    }
    let mut added = 0;
    let mut before = Before::default();
    // A thread that is started while we look comes from one that we have or have not seen yet: the
    // programs follow the former, the next look finds the latter.
    for _ in 0..LOOKS_MAX {
        let new = look(tasks, pid, now_ns, ask, &mut before)?;
        added += new;
        if new == 0 {
            break;
        }
    }
    if added == 0 {
        return Err(TraceError(format!("cannot trace process {pid}: it has just ended")));
    }
    Ok(before)
}

/// Adds all threads that are not traced yet; how many.
fn look(
    tasks: &Tasks,
    pid: u32,
    now_ns: u64,
    ask: Ask,
    before: &mut Before,
) -> Result<usize, TraceError> {
    let mut added = 0;
    for process in crate::world::with_descendants(pid) {
        // /proc tells the call's number alone; the table for 32 bits has rows of its own.
        let table = u64::from(if ask.calls && is_for_32_bits(process) { CALLS } else { 0 });
        for tid in crate::world::threads_of(process) {
            if tasks.follows(tid) {
                continue;
            }
            let name = text(&format!("/proc/{process}/task/{tid}/comm"));
            if name.is_empty() {
                continue;
            }
            let call = ask.calls.then(|| syscalls::told(process, tid)).flatten().flatten();
            let call = call.map(|call| call.saturating_add(table));
            let off = sleeps_as(process, tid);
            let name = name.trim_end();
            let there = There { tid, tgid: process, name, off, call };
            if ask.stacks && off.is_some() {
                before.stacks.insert(tid, kernel_stack(process, tid));
            }
            before.calls += u64::from(call.is_some());
            tasks.add(&there, now_ns).map_err(|errno| {
                TraceError(format!(
                    "cannot trace thread {tid}: {errno}; no more than {} are traced at once",
                    super::tasks::TASKS_MAX
                ))
            })?;
            // Behind it: programs count what it begins from now on.
            before.added.push((crate::sampler::now_ns(), process));
            added += 1;
        }
    }
    Ok(added)
}

/// Whether a process runs a program for 32 bits, as the head of its file tells.
fn is_for_32_bits(pid: u32) -> bool {
    const CLASS_32: u8 = 1;
    let mut head = [0; 5];
    let exe = fs::File::open(format!("/proc/{pid}/exe"));
    exe.and_then(|mut exe| exe.read_exact(&mut head)).is_ok() && head[4] == CLASS_32
}

/// The kernel's state of a thread that is off its CPU (include/linux/sched.h); none where it runs or is
/// about to, or has ended.
fn sleeps_as(pid: u32, tid: u32) -> Option<u32> {
    match Stat::of(&format!("{pid}/task/{tid}")).state()? {
        'S' => Some(1),
        'D' | 'I' => Some(2),
        'T' => Some(4),
        't' => Some(8),
        _ => None,
    }
}

/// The functions of the kernel that a thread sleeps in, the outermost first; none where it may not be asked.
fn kernel_stack(pid: u32, tid: u32) -> Vec<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/stack")).unwrap_or_default();
    // `[<0>] pipe_read+0x2b4/0x480`, innermost first.
    let function = |line: &str| Some(line.split_once(' ')?.1.split('+').next()?.to_owned());
    text.lines().rev().filter_map(function).collect()
}

/// What records tell.
#[derive(Debug)]
pub(super) enum Told {
    Files(Story),
    Connections(Largest<tcp::Row>),
}

/// Takes records out of a ring in a thread of its own.
#[derive(Debug)]
pub(super) struct Collector(Helper<Told>);

/// How long records lie in the ring. Programs wake nobody: that would be seen in what is traced.
const PAUSE: Duration = Duration::from_millis(20);

impl Collector {
    pub(super) fn start(mode: Mode, mut ring: Ring) -> std::io::Result<Collector> {
        let mut told = match mode {
            Mode::Tcp => Told::Connections(Largest::default()),
            _ => Told::Files(Story::default()),
        };
        let thread = Helper::start("bytepath trace", move |pause| {
            loop {
                // Known before the last records are taken.
                let last = pause.is_last(PAUSE);
                ring.take(|record| told.record(record));
                if last {
                    return told;
                }
            }
        });
        thread.map(Collector)
    }

    /// Takes what is left. Nobody may leave records any more.
    pub(super) fn finish(self) -> Told {
        self.0.finish()
    }
}

impl Told {
    fn record(&mut self, record: &[u8]) {
        match self {
            Told::Files(story) => story.record(record),
            Told::Connections(rows) => {
                tcp::row(record).into_iter().for_each(|row| rows.push(row));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tasks::{BYSTANDER, TRACED, number, put, task};
    use super::*;

    #[test]
    fn who_was_only_woken_by_what_is_traced_is_followed_like_any_other() {
        let tasks = match Tasks::new() {
            Ok(tasks) => tasks,
            Err(errno) => return println!("skipped: no maps: {errno}"),
        };
        let pid = std::process::id();
        let mut woken = [0; task::BYTES as usize];
        put(&mut woken, task::STATE, &BYSTANDER.to_ne_bytes());
        tasks.tasks.set(&pid.to_ne_bytes(), &woken).expect("there is room");
        if let Err(error) = follow(&tasks, pid, 1, Ask { calls: false, stacks: false }) {
            return assert!(!in_first_pid_namespace(), "{error}");
        }
        let record = tasks.tasks.get(&pid.to_ne_bytes()).expect("it can be read").expect("kept");
        assert_eq!(number(&record, task::STATE as usize), TRACED as u32);
        assert!(tasks.follows(pid));
    }
}
