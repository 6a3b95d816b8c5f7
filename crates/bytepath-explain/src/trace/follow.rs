//! Processes that run already are followed from now on; and records of a ring are taken while they
//! come.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::time::Duration;

use rustix::io::Errno;

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
    pub(super) rings: bool,
}

/// What they were in.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// How many were in a system call.
    pub(super) calls: u64,
    /// The functions of the kernel that they slept in, the outermost first, by thread; for root alone.
    pub(super) stacks: HashMap<u32, Vec<String>>,
    /// Whether one had a ring (io_uring), which the kernel may work on without a call.
    pub(super) ring: bool,
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
        let table = ask.calls.then(|| u64::from(if is_for_32_bits(process) { CALLS } else { 0 }));
        before.ring |= ask.rings && has_ring(process);
        for tid in crate::world::threads_of(process) {
            if tasks.follows(tid) {
                continue;
            }
            let Some(then) = there(process, tid, table) else { continue };
            if ask.stacks && then.off.is_some() {
                before.stacks.insert(tid, kernel_stack(process, tid));
            }
            let now = add(tasks, &then, now_ns, table).map_err(|errno| {
                TraceError(format!(
                    "cannot trace thread {tid}: {errno}; no more than {} are traced at once",
                    super::tasks::TASKS_MAX
                ))
            })?;
            let Some(now) = now else { continue };
            before.calls += u64::from(now.call.is_some() && now.call == then.call);
            // Behind it: programs count what it begins from now on.
            before.added.push((crate::sampler::now_ns(), process));
            added += 1;
        }
    }
    Ok(added)
}

/// A thread as it is now; none where it has ended. Calls are asked for where there is a `table`, whose
/// rows begin there.
fn there(tgid: u32, tid: u32, table: Option<u64>) -> Option<There> {
    // As the kernel has it (include/linux/sched.h), unless it runs or is about to.
    let off = match Stat::of(&format!("{tgid}/task/{tid}")).state()? {
        'S' => Some(1),
        'D' | 'I' => Some(2),
        'T' => Some(4),
        't' => Some(8),
        'Z' | 'X' => return None,
        _ => None,
    };
    let call = table.and_then(|table| Some(syscalls::told(tgid, tid)??.saturating_add(table)));
    let name = text(&format!("/proc/{tgid}/task/{tid}/comm")).trim_end().to_owned();
    Some(There { tid, tgid, name, off, call })
}

/// Traces a thread; how it is by then. What it was in may have been over before it was traced, and so may
/// it itself: programs have seen nothing of that.
fn add(
    tasks: &Tasks,
    then: &There,
    now_ns: u64,
    table: Option<u64>,
) -> Result<Option<There>, Errno> {
    tasks.add(then, now_ns)?;
    let now = there(then.tgid, then.tid, table);
    match &now {
        None => tasks.remove(then.tid)?,
        Some(now) if (now.off, now.call) != (then.off, then.call) => {
            tasks.left(then.tid, now_ns)?
        }
        Some(_) => {}
    }
    Ok(now)
}

/// Whether a process runs a program for 32 bits, as the head of its file tells.
fn is_for_32_bits(pid: u32) -> bool {
    const CLASS_32: u8 = 1;
    let mut head = [0; 5];
    let exe = fs::File::open(format!("/proc/{pid}/exe"));
    exe.and_then(|mut exe| exe.read_exact(&mut head)).is_ok() && head[4] == CLASS_32
}

/// Whether a process has a ring of io_uring open.
fn has_ring(pid: u32) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let mut files = files.filter_map(|file| fs::read_link(file.path()).ok());
    files.any(|file| file.as_os_str() == "anon_inode:[io_uring]")
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
    use std::process::{Command, Stdio};

    use super::super::tasks::{BYSTANDER, TRACED, number, put, task, wide};
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
        if let Err(error) =
            follow(&tasks, pid, 1, Ask { calls: false, stacks: false, rings: false })
        {
            return assert!(!in_first_pid_namespace(), "{error}");
        }
        let record = tasks.tasks.get(&pid.to_ne_bytes()).expect("it can be read").expect("kept");
        assert_eq!(number(&record, task::STATE as usize), TRACED as u32);
        assert!(tasks.follows(pid));
    }

    #[test]
    fn what_was_over_before_it_was_traced_does_not_go_on() {
        let tasks = match Tasks::new() {
            Ok(tasks) => tasks,
            Err(errno) => return println!("skipped: no maps: {errno}"),
        };
        let record = |pid: u32| tasks.tasks.get(&pid.to_ne_bytes()).expect("it can be read");
        let mut cat = Command::new("cat").stdin(Stdio::piped()).spawn().expect("cat is everywhere");
        let pid = cat.id();
        let sleeps = loop {
            let there = there(pid, pid, Some(0)).expect("it lives");
            if there.name == "cat" && there.off == Some(1) {
                break there;
            }
            std::thread::yield_now();
        };
        let since = |at: i16| wide(&record(pid).expect("kept"), at as usize);
        add(&tasks, &sleeps, 7, Some(0)).expect("there is room");
        assert_eq!(since(task::OFF_NS), 7);
        assert_eq!(since(task::ENTER_NS), sleeps.call.map_or(0, |_| 7));
        // It was in another call, and another sleep.
        let other = There { call: Some(CALLS.into()), off: Some(2), ..sleeps };
        add(&tasks, &other, 7, Some(0)).expect("there is room");
        assert_eq!((since(task::ENTER_NS), since(task::OFF_NS)), (0, 0));

        cat.kill().expect("it is there");
        while there(pid, pid, None).is_some() {
            std::thread::yield_now();
        }
        let now = add(&tasks, &other, 7, Some(0)).expect("there is room");
        assert!(now.is_none() && record(pid).is_none(), "of who has ended: {now:?}");
        cat.wait().expect("it ends");
    }
}
