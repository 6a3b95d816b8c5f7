//! Puts the calling thread on one CPU and gives it its CPUs back.

use std::marker::PhantomData;

use rustix::io::Errno;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use super::PlacementError;
use crate::machine::{CpuList, Machine};

/// While this lives, the thread that made it runs on one CPU; dropped, the thread may run where it
/// might before.
///
/// It cannot leave its thread. Where pins are nested, drop the inner one first, as scopes do.
#[derive(Debug)]
#[must_use = "the thread is given its CPUs back as soon as this is dropped"]
pub struct Pinned {
    before: CpuSet,
    /// Affinity belongs to a thread, so this must be neither sent nor shared.
    of_this_thread: PhantomData<*const ()>,
}

/// Puts the calling thread on `cpu`. Threads and processes that it starts from now on inherit this.
///
/// # Errors
///
/// When the CPU is not there or not allowed (the error lists those that are), or the kernel refuses
/// otherwise.
pub fn pin_this_thread(cpu: usize) -> Result<Pinned, PlacementError> {
    // Asked first, since it remembers the set from before any pin.
    let allowed = Machine::this().allowed_cpus();
    let before = sched_getaffinity(None)
        .map_err(|errno| PlacementError::Affinity { what: "read", errno })?;
    // The kernel takes any of the cpuset, also one that the set from before leaves out. This thread may
    // have been given another meanwhile.
    if cpu >= CpuSet::MAX_CPU || !(allowed.contains(cpu) || before.is_set(cpu)) {
        return Err(not_allowed(cpu, allowed));
    }
    let mut wanted = CpuSet::new();
    wanted.set(cpu);
    match sched_setaffinity(None, &wanted) {
        Ok(()) => Ok(Pinned { before, of_this_thread: PhantomData }),
        // The kernel's word for a set in which no CPU is switched on and in this process's cpuset.
        Err(Errno::INVAL) => Err(not_allowed(cpu, allowed)),
        Err(errno) => Err(PlacementError::Refused { cpu, errno }),
    }
}

fn not_allowed(cpu: usize, allowed: &CpuList) -> PlacementError {
    PlacementError::CpuNotAllowed { cpu, allowed: allowed.clone() }
}

impl Pinned {
    /// Gives the thread its CPUs back now, and says whether that worked.
    ///
    /// # Errors
    ///
    /// When all of the CPUs from before were switched off meanwhile.
    pub fn unpin(self) -> Result<(), PlacementError> {
        let before = self.before;
        std::mem::forget(self);
        sched_setaffinity(None, &before)
            .map_err(|errno| PlacementError::Affinity { what: "restore", errno })
    }

    /// Leaves the thread where it is for the rest of its life, as in a process made for one
    /// measurement.
    pub fn keep(self) {
        std::mem::forget(self);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // The CPUs from before may have been switched off: then the kernel has already moved the
        // thread elsewhere, and nobody is left to tell.
        let _ = sched_setaffinity(None, &self.before);
    }
}

/// Moves this thread off a CPU, if it is there and may be elsewhere, and lets it be anywhere again: the
/// kernel may begin a thread beside the one that made it, and leaves them there for milliseconds while
/// another CPU has nothing to do.
pub fn leave_cpu(cpu: usize) {
    if rustix::thread::sched_getcpu() != cpu {
        return;
    }
    // Refused where there are more CPUs than a set has room for.
    let Ok(all) = sched_getaffinity(None) else { return };
    let mut others = all;
    others.unset(cpu);
    if others.count() > 0 && sched_setaffinity(None, &others).is_ok() {
        let _ = sched_setaffinity(None, &all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_on_its_cpu_and_gets_its_cpus_back() {
        let before = CpuList::of_this_thread().expect("the CPUs of this thread");
        for cpu in before.iter() {
            let pinned = pin_this_thread(cpu).expect("an allowed CPU");
            assert_eq!(rustix::thread::sched_getcpu(), cpu);
            assert_eq!(CpuList::of_this_thread(), Ok(CpuList::from_iter([cpu])));
            pinned.unpin().expect("the CPUs from before");
            assert_eq!(CpuList::of_this_thread(), Ok(before.clone()));
        }
    }

    #[test]
    fn a_dropped_pin_gives_the_cpus_back_and_a_kept_one_does_not() {
        let thread = std::thread::spawn(|| {
            let before = CpuList::of_this_thread().expect("the CPUs of this thread");
            let cpu = before.first().expect("a CPU");
            drop(pin_this_thread(cpu).expect("an allowed CPU"));
            assert_eq!(CpuList::of_this_thread(), Ok(before));
            pin_this_thread(cpu).expect("an allowed CPU").keep();
            assert_eq!(CpuList::of_this_thread(), Ok(CpuList::from_iter([cpu])));
        });
        thread.join().expect("the thread's own checks");
    }

    #[test]
    fn a_cpu_that_does_not_exist_is_refused_with_those_that_do() {
        let allowed = Machine::this().allowed_cpus();
        for cpu in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
            if Machine::this().cpus().cpu(cpu).is_some() {
                println!("skipped: this machine has a CPU {cpu}");
                continue;
            }
            let error = pin_this_thread(cpu).expect_err("there is no such CPU");
            assert_eq!(error, PlacementError::CpuNotAllowed { cpu, allowed: allowed.clone() });
            assert!(error.to_string().contains(&format!("may use CPUs {allowed};")), "{error}");
        }
    }
}
