//! What single operations cost here: a system call, a wake-up, memory, a page fault.
//!
//! Measured in this process, by threads pinned where the figure says, each figure a median of
//! several rounds.

use std::hint::black_box;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use bytepath::machine::{Machine, memory_room};
use bytepath::pages::{Memory, PageSize, Pages};
use bytepath::placement::{NamedPlacement, Placement, pin_this_thread};
use bytepath::profile::Cost;
use rustix::event::EventfdFlags;
use rustix::pipe::PipeFlags;
use rustix::thread::futex;

use super::{Effort, handing, kept};
use crate::ends::GIB;
use crate::stats::median;

const ROUNDS: usize = 7;

/// Where a round takes long, fewer have to do: a wake-up takes 1 us here and 300 there.
const ROUNDS_MIN: usize = 3;
const ROUNDS_TIME_MAX: Duration = Duration::from_millis(300);

/// System calls of one round.
const CALLS: u32 = 20_000;

/// Times there and back of one round.
const BOUNCES: u32 = 500;

/// More than the caches of two CPUs of today hold for one of them.
const MEMORY_BYTES: usize = 64 << 20;

/// Two areas of it, and what the kernel keeps for them.
const MEMORY_ROOM_BYTES: u64 = (2 * MEMORY_BYTES + MEMORY_BYTES / 8) as u64;

/// Spinning longer than this would not be waiting but working.
const SPIN_MAX: Duration = Duration::from_micros(200);

/// Everything, in reading order; what cannot be measured here is left out.
pub(super) fn measure(machine: &Machine, program: &Path, effort: Effort) -> Vec<Cost> {
    let mut costs = vec![cost("system call", "ns", rounds(system_call_ns))];
    for placement in Placement::distinct(machine.cpus(), machine.allowed_cpus()) {
        for (name, bounce) in BOUNCERS {
            let figure = rounds(|| wake_up_ns(&placement, *bounce));
            costs.push(cost(&wake_up(name, placement.name), "ns", figure));
        }
    }
    for (name, size) in [("4 KiB", PageSize::Base), ("2 MiB", PageSize::Huge)] {
        let Some((copy, read, fault)) = memory(size) else { continue };
        costs.push(cost(&format!("memory copy, pages of {name}"), "GiB/s", copy));
        costs.push(cost(&format!("memory read, pages of {name}"), "GiB/s", read));
        costs.push(cost(&format!("page fault, pages of {name}"), "ns", fault));
    }
    for placement in Placement::distinct(machine.cpus(), machine.allowed_cpus()) {
        for (name, size) in [("4 KiB", PageSize::Base), ("2 MiB", PageSize::Huge)] {
            let figure = handing::gib_per_s(program, &placement, size, effort).unwrap_or(f64::NAN);
            let name = format!("memory between processes, {}, pages of {name}", placement.name);
            costs.push(cost(&name, "GiB/s", figure));
        }
    }
    costs.retain(|cost| cost.value.is_finite() && cost.value > 0.0);
    if let Some(budget) = spin_budget(&costs) {
        costs.push(cost(SPIN_BUDGET, "ns", budget.as_nanos() as f64));
    }
    costs
}

/// The name of what spinning before sleeping is worth.
const SPIN_BUDGET: &str = "spinning worth while before a sleep";

/// How long an end should spin before it sleeps: as long as a wake-up on another CPU takes, so that
/// spinning in vain costs at most as much again. `None` where every end shares one CPU.
pub fn spin_budget(costs: &[Cost]) -> Option<Duration> {
    let across = costs
        .iter()
        .find(|cost| cost.name.starts_with("wake-up by pipe") && !cost.name.ends_with("same-cpu"));
    let ns = across?.value;
    (ns > 0.0).then(|| Duration::from_nanos(ns as u64).clamp(Duration::from_micros(2), SPIN_MAX))
}

fn wake_up(by: &str, placement: &str) -> String {
    format!("wake-up by {by}, {placement}")
}

fn cost(name: &str, unit: &str, value: f64) -> Cost {
    Cost { name: name.into(), unit: unit.into(), value: kept(value) }
}

fn rounds(mut round: impl FnMut() -> f64) -> f64 {
    let began = Instant::now();
    let values: Vec<f64> = (0..ROUNDS)
        .take_while(|done| *done < ROUNDS_MIN || began.elapsed() < ROUNDS_TIME_MAX)
        .map(|_| round())
        .filter(|v| v.is_finite())
        .collect();
    median(&values).unwrap_or(f64::NAN)
}

fn system_call_ns() -> f64 {
    let began = Instant::now();
    for _ in 0..CALLS {
        black_box(rustix::process::getppid());
    }
    per(began.elapsed(), CALLS)
}

fn per(time: Duration, count: u32) -> f64 {
    time.as_secs_f64() * 1e9 / f64::from(count)
}

/// Something that one thread wakes another by.
trait Bouncer: Send + Sync {
    /// Wakes whoever waits on this side.
    fn wake(&self, side: usize);
    /// Waits to be woken on this side.
    fn wait(&self, side: usize);
}

/// Makes a bouncer, if the kernel does.
type Make = fn() -> Option<Arc<dyn Bouncer>>;

/// The ways to wake, by their names.
const BOUNCERS: &[(&str, Make)] = &[("pipe", pipes), ("eventfd", eventfds), ("futex", futexes)];

/// The time of one wake-up and the switch to who is woken, half of there and back.
fn wake_up_ns(placement: &NamedPlacement, make: Make) -> f64 {
    let (Some(bouncer), Some([near_cpu, far_cpu])) = (make(), placement.cpus) else {
        return f64::NAN;
    };
    let far = Arc::clone(&bouncer);
    let echo = std::thread::Builder::new().spawn(move || {
        let pinned = pin_this_thread(far_cpu);
        for _ in 0..=BOUNCES {
            far.wait(1);
            far.wake(0);
        }
        pinned.is_ok()
    });
    let Ok(echo) = echo else { return f64::NAN };
    let pinned = pin_this_thread(near_cpu);
    // The first takes the other thread's start with it.
    bouncer.wake(1);
    bouncer.wait(0);
    let began = Instant::now();
    for _ in 0..BOUNCES {
        bouncer.wake(1);
        bouncer.wait(0);
    }
    let took = began.elapsed();
    let pinned = pinned.is_ok();
    match echo.join() {
        Ok(true) if pinned => per(took, 2 * BOUNCES),
        _ => f64::NAN,
    }
}

struct Pipes([(OwnedFd, OwnedFd); 2]);

fn pipes() -> Option<Arc<dyn Bouncer>> {
    let one = || rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok();
    Some(Arc::new(Pipes([one()?, one()?])))
}

impl Bouncer for Pipes {
    fn wake(&self, side: usize) {
        let _ = rustix::io::write(&self.0[side].1, b"x");
    }

    fn wait(&self, side: usize) {
        let _ = rustix::io::read(&self.0[side].0, &mut [0; 1]);
    }
}

struct Eventfds([OwnedFd; 2]);

fn eventfds() -> Option<Arc<dyn Bouncer>> {
    let one = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC).ok();
    Some(Arc::new(Eventfds([one()?, one()?])))
}

impl Bouncer for Eventfds {
    fn wake(&self, side: usize) {
        let _ = rustix::io::write(self.0[side].as_fd(), &1u64.to_ne_bytes());
    }

    fn wait(&self, side: usize) {
        let _ = rustix::io::read(self.0[side].as_fd(), &mut [0; 8]);
    }
}

#[derive(Default)]
struct Futexes([AtomicU32; 2]);

fn futexes() -> Option<Arc<dyn Bouncer>> {
    Some(Arc::new(Futexes::default()))
}

impl Bouncer for Futexes {
    fn wake(&self, side: usize) {
        self.0[side].store(1, Ordering::Release);
        let _ = futex::wake(&self.0[side], futex::Flags::PRIVATE, 1);
    }

    fn wait(&self, side: usize) {
        while self.0[side].swap(0, Ordering::Acquire) == 0 {
            let _ = futex::wait(&self.0[side], futex::Flags::PRIVATE, 0, None);
        }
    }
}

/// The speeds of copying and of reading memory, and the time of a fault, with pages of this size.
fn memory(size: PageSize) -> Option<(f64, f64, f64)> {
    let pages = Pages { size, locked: false };
    let page = bytepath::pages::page_bytes(size);
    let (mut faults, mut copies, mut reads) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..3 {
        // The kernel would end this process as the pages come.
        if memory_room().bytes < MEMORY_ROOM_BYTES {
            return None;
        }
        let mut from = Memory::allocate(MEMORY_BYTES, &pages).ok()?;
        let began = Instant::now();
        for at in (0..MEMORY_BYTES).step_by(page) {
            from.as_mut_slice()[at] = 1;
        }
        let touched = u32::try_from(MEMORY_BYTES / page).ok()?;
        faults.push(per(began.elapsed(), touched));
        let mut to = Memory::allocate(MEMORY_BYTES, &pages).ok()?;
        to.as_mut_slice().fill(2);
        // Pages that were asked for need not have come, and others may have come unasked.
        for memory in [&from, &to] {
            crate::memory::in_wanted_pages(memory.as_slice(), size).ok()?;
        }
        let began = Instant::now();
        to.as_mut_slice().copy_from_slice(black_box(from.as_slice()));
        copies.push(speed(began.elapsed()));
        let began = Instant::now();
        black_box(crate::memory::summed(black_box(to.as_slice())));
        reads.push(speed(began.elapsed()));
    }
    Some((median(&copies)?, median(&reads)?, median(&faults)?))
}

fn speed(time: Duration) -> f64 {
    MEMORY_BYTES as f64 / GIB / time.as_secs_f64().max(1e-9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wake_up_is_told_where_both_ends_have_their_cpus_alone() {
        let here = Machine::this().allowed_cpus().iter().next().expect("a CPU");
        let nowhere = 1 << 20;
        let figure = |near: usize, far: usize| {
            let cpus = Some([near, far]);
            let placement = Placement::SameCpu;
            wake_up_ns(&NamedPlacement { name: "same-cpu", placement, cpus }, futexes)
        };
        assert!(figure(here, here).is_finite());
        assert!(figure(nowhere, here).is_nan());
        assert!(figure(here, nowhere).is_nan());
    }
}
