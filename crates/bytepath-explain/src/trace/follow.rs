//! Processes that run already are followed from now on; and records of a ring are taken while they
//! come.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use super::files::Story;
use super::tasks::{Tasks, in_first_pid_namespace};
use super::{Mode, TraceError, tcp};
use crate::sys::bpf_ring::Ring;

/// How often a process's threads are looked at anew, until nobody new is there.
const LOOKS_MAX: usize = 10;

/// Traces a process, and all that come from it, from now on.
pub(super) fn follow(tasks: &Tasks, pid: u32, now_ns: u64) -> Result<(), TraceError> {
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
    // A thread that is started while we look comes from one that we have or have not seen yet: the
    // programs follow the former, the next look finds the latter.
    for _ in 0..LOOKS_MAX {
        let new = look(tasks, pid, now_ns)?;
        added += new;
        if new == 0 {
            break;
        }
    }
    if added == 0 {
        return Err(TraceError(format!("cannot trace process {pid}: it has just ended")));
    }
    Ok(())
}

/// Adds all threads that are not traced yet; how many.
fn look(tasks: &Tasks, pid: u32, now_ns: u64) -> Result<usize, TraceError> {
    let mut added = 0;
    for process in crate::world::with_descendants(pid) {
        for tid in crate::world::threads_of(process) {
            if tasks.remembers(tid) {
                continue;
            }
            let name = fs::read_to_string(format!("/proc/{process}/task/{tid}/comm"));
            let Ok(name) = name else { continue };
            tasks.add(tid, process, name.trim_end(), now_ns).map_err(|errno| {
                TraceError(format!(
                    "cannot trace thread {tid}: {errno}; no more than {} are traced at once",
                    super::tasks::TASKS_MAX
                ))
            })?;
            added += 1;
        }
    }
    Ok(added)
}

/// What records tell.
#[derive(Debug)]
pub(super) enum Told {
    Files(Story),
    Connections {
        rows: Vec<tcp::Row>,
        /// Those beyond what is kept.
        beyond: u64,
    },
}

/// Takes records out of a ring in a thread of its own.
#[derive(Debug)]
pub(super) struct Collector {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<Told>,
}

/// How long records lie in the ring. Programs wake nobody: that would be seen in what is traced.
const PAUSE: Duration = Duration::from_millis(20);

impl Collector {
    pub(super) fn start(mode: Mode, mut ring: Ring) -> std::io::Result<Collector> {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let mut told = match mode {
            Mode::Tcp => Told::Connections { rows: Vec::new(), beyond: 0 },
            _ => Told::Files(Story::default()),
        };
        let body = move || {
            loop {
                // Looked at before the last records are taken.
                let last = seen.load(Ordering::Acquire);
                ring.take(|record| told.record(record));
                if last {
                    return told;
                }
                std::thread::park_timeout(PAUSE);
            }
        };
        let thread = crate::helper::start("bytepath trace", body)?;
        Ok(Collector { ended, thread })
    }

    /// Takes what is left. Nobody may leave records any more.
    pub(super) fn finish(self) -> Told {
        self.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        match self.thread.join() {
            Ok(told) => told,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Connections that are kept one by one; further ones are counted.
const CONNECTIONS_MAX: usize = 200_000;

impl Told {
    fn record(&mut self, record: &[u8]) {
        match self {
            Told::Files(story) => story.record(record),
            Told::Connections { rows, .. } if rows.len() < CONNECTIONS_MAX => {
                rows.extend(tcp::row(record))
            }
            Told::Connections { beyond, .. } => *beyond += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_beyond_those_that_are_kept_are_counted() {
        let mut told = Told::Connections { rows: Vec::new(), beyond: 0 };
        let record = [0; 4096];
        (0..CONNECTIONS_MAX + 3).for_each(|_| told.record(&record));
        let Told::Connections { rows, beyond } = told else { panic!("it is of connections") };
        assert_eq!((rows.len(), beyond), (CONNECTIONS_MAX, 3));
    }
}
