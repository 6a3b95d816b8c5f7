//! Threads that work beside the one that starts them, from the first moment on.
//!
//! A new thread often begins on its parent's CPU though another one is idle, and has to wait until the parent
//! has used up its time: 1 to 4 ms, in which a file of 8 MiB is copied. So it is moved.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::unix::thread::JoinHandleExt as _;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{Builder, JoinHandle};

use super::this_cpu::this_cpu;
use crate::wait::awake_until;

/// Does the work numbered 0 in this thread, and those from 1 on in one each beside it; returns when all are
/// done. Without memory for a thread, those that there are do its work.
///
/// # Panics
/// Where work does.
pub(crate) fn beside(threads: usize, work: impl Fn(usize) + Sync) {
    let (done, work) = (AtomicUsize::new(0), &work);
    let mut others = Others(Vec::new());
    let cpus = Cpus::of_this_thread();
    for number in 1..threads {
        let done = &done;
        let begin = move || {
            work(number);
            done.fetch_add(1, Relaxed);
        };
        // SAFETY: `others` waits for the thread's end before `work` and `done` are gone, panic or not.
        if let Ok(thread) = unsafe { Builder::new().spawn_unchecked(begin) } {
            if let Some(cpus) = &cpus {
                cpus.move_from_here(&thread);
            }
            others.0.push(thread);
        }
    }
    work(0);
    awake_until(|| (done.load(Relaxed) == others.0.len()).then_some(()));
    while let Some(thread) = others.0.pop() {
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// Threads that are waited for.
struct Others(Vec<JoinHandle<()>>);

impl Drop for Others {
    fn drop(&mut self) {
        for thread in self.0.drain(..) {
            let _ = thread.join();
        }
    }
}

/// The CPUs that this thread may run on, and those among them that it does not.
struct Cpus {
    all: libc::cpu_set_t,
    others: libc::cpu_set_t,
}

impl Cpus {
    /// Nothing where there is but one, or more than the set has room for.
    fn of_this_thread() -> Option<Cpus> {
        // SAFETY: zeros are a set.
        let mut all: libc::cpu_set_t = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the set is as large as is said.
        let answer = unsafe { libc::sched_getaffinity(0, size_of_val(&all), &raw mut all) };
        let here = this_cpu().filter(|cpu| *cpu < libc::CPU_SETSIZE as u32)?;
        let mut others = all;
        // SAFETY: the set has this CPU.
        unsafe { libc::CPU_CLR(here as usize, &mut others) };
        // SAFETY: it only counts.
        let any = unsafe { libc::CPU_COUNT(&others) } > 0;
        (answer == 0 && any).then_some(Cpus { all, others })
    }

    /// Has the thread begin on another CPU. Afterwards it runs where the kernel likes; a refusal changes nothing.
    fn move_from_here(&self, thread: &JoinHandle<()>) {
        for cpus in [&self.others, &self.all] {
            // SAFETY: the thread was not joined yet, so its name is good; the set is as large as is said.
            unsafe {
                libc::pthread_setaffinity_np(thread.as_pthread_t() as _, size_of_val(cpus), cpus)
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::machine::CpuList;

    #[test]
    fn all_work_is_done_by_a_thread_each_that_may_run_everywhere() {
        let cpus = CpuList::of_this_thread().expect("CPUs");
        let seen = std::sync::Mutex::new(Vec::new());
        beside(4, |number| {
            // It is given all of them back while it begins.
            let patience = Instant::now() + Duration::from_secs(20);
            while CpuList::of_this_thread() != Ok(cpus.clone()) {
                assert!(Instant::now() < patience, "some are kept from it");
                std::thread::yield_now();
            }
            seen.lock().expect("no panic").push((number, std::thread::current().id()));
        });
        let mut seen = seen.into_inner().expect("no panic");
        seen.sort_by_key(|&(number, _)| number);
        assert_eq!(seen.iter().map(|&(number, _)| number).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(seen[0].1, std::thread::current().id());
        seen.dedup_by_key(|&mut (_, thread)| thread);
        assert_eq!(seen.len(), 4);
    }

    #[test]
    fn a_panic_beside_is_told_of_when_all_are_done() {
        let done = AtomicUsize::new(0);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            beside(3, |number| {
                assert!(number != 2, "as wished");
                done.fetch_add(1, Relaxed);
            });
        }));
        assert!(panicked.is_err());
        assert_eq!(done.load(Relaxed), 2);
    }
}
