//! What code lies where in each traced process, told by perf's records while it comes and goes, so that
//! stacks have names when the process has none any more.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytepath::machine::survived;
use perf_event::events::Software;
use perf_event::{Builder, Clock, Sampler as Ring};

use crate::helper::{Helper, Pause};
use crate::record::{self, FIELDS, Kind, Record};
use crate::sampler::{now_ns, online};
use crate::world::World;

/// A ring for each CPU; mappings are few.
const RING_BYTES: usize = 512 << 10;
const EVERY: Duration = Duration::from_millis(50);

/// Looking at mappings.
#[derive(Debug)]
pub(super) struct Code {
    followed: Arc<Mutex<Followed>>,
    thread: Helper<Looked>,
}

/// What is where, and how many records of it the kernel had no room for.
pub(super) struct Looked {
    pub(super) world: World,
    pub(super) lost: u64,
}

/// Processes that were there before, and when they were followed: their programs are counted from
/// then on. The earliest first.
pub(super) type Followed = Vec<(u64, u32)>;

impl Code {
    /// Looks at the processes `roots`, and what they start.
    ///
    /// # Errors
    /// The kernel's word where perf_event_open(2) is not for this user.
    pub(super) fn of(roots: &[u32]) -> io::Result<Code> {
        let mut rings: Vec<Ring> = online().into_iter().map(ring).collect::<io::Result<_>>()?;
        let mut world = World::new(roots, []);
        world.remember();
        let followed = Arc::default();
        let told = Arc::clone(&followed);
        let body = move |pause: &Pause| looked(&mut rings, world, pause, &told);
        let thread = Helper::start("bytepath code", body)?;
        Ok(Code { followed, thread })
    }

    /// For whoever follows processes: nothing is learned until this is given back.
    pub(super) fn followed(&self) -> MutexGuard<'_, Followed> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No more of it.
    pub(super) fn finish(self) -> Looked {
        self.thread.finish()
    }
}

fn ring(cpu: u32) -> io::Result<Ring> {
    survived(libc::SYS_perf_event_open)?;
    let mut builder = Builder::new(Software::DUMMY);
    builder.any_pid().one_cpu(cpu as usize).exclude_kernel(false).exclude_hv(true).sample(FIELDS);
    builder.sample_id_all(true).clockid(Clock::MONOTONIC);
    builder.mmap(true).mmap2(true).comm(true).comm_exec(true).task(true);
    let mut ring = builder.build()?.sampled(RING_BYTES)?;
    ring.as_counter_mut().enable()?;
    Ok(ring)
}

fn looked(
    rings: &mut [Ring],
    mut world: World,
    pause: &Pause,
    followed: &Mutex<Followed>,
) -> Looked {
    let mut waiting: Vec<Record> = Vec::new();
    let mut lost = 0;
    loop {
        let last = pause.is_last(EVERY);
        // What a ring did not have by now may be older than what another has.
        let settled_ns = if last { u64::MAX } else { now_ns() };
        for ring in rings.iter_mut() {
            while let Some(record) = ring.next_record() {
                let (kind, misc) = (record.ty(), record.misc());
                waiting.extend(record::read(kind, misc, &record.to_contiguous(), None));
            }
        }
        waiting.sort_by_key(|record| record.time_ns);
        let settled = waiting.partition_point(|record| record.time_ns < settled_ns);
        let mut followed = followed.lock().unwrap_or_else(PoisonError::into_inner);
        for record in waiting.drain(..settled) {
            count_anew(&mut world, &mut followed, record.time_ns);
            match record.kind {
                Kind::Lost(count) => lost += count,
                other => world.learn(other),
            }
        }
        if last {
            count_anew(&mut world, &mut followed, u64::MAX);
            return Looked { world, lost };
        }
    }
}

/// Counts the programs of those anew that were followed by this time.
fn count_anew(world: &mut World, followed: &mut Followed, until_ns: u64) {
    let due = followed.partition_point(|(at, _)| *at <= until_ns);
    followed.drain(..due).for_each(|(_, pid)| world.count_from_here(pid));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Map;
    use crate::world::Place;

    #[test]
    fn programs_are_counted_from_when_a_process_was_followed() {
        // A number above any that the kernel gives (PID_MAX_LIMIT is 2^22).
        let pid = 1 << 24;
        let mut world = World::new(&[pid], []);
        world.remember();
        let exec = || Kind::Comm { pid, tid: pid, name: "new".to_owned(), exec: true };
        let map = |name: &str| {
            let name = name.to_owned();
            Kind::Map(Map { pid, start: 0x1000, bytes: 0x1000, name, ..Map::default() })
        };
        let mut followed = Followed::from([(15, pid)]);
        let records = [
            (5, map("[vdso]")),
            (10, exec()),
            (11, map("//anon")),
            (20, exec()),
            (21, map("[vsyscall]")),
        ];
        for (at, kind) in records {
            count_anew(&mut world, &mut followed, at);
            world.learn(kind);
        }
        let at = |programs| world.places_then(pid, programs, &[0x1800]);
        assert_eq!((at(0), at(1)), (vec![Place::Within(1)], vec![Place::Within(2)]));
    }
}
