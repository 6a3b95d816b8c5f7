//! What code lies where in each traced process, told by perf's records while it comes and goes, so that
//! stacks have names when the process has none any more.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use perf_event::events::Software;
use perf_event::{Builder, Clock, Sampler as Ring};

use crate::record::{self, FIELDS, Record};
use crate::sampler::{now_ns, online};
use crate::world::World;

/// A ring for each CPU; mappings are few.
const RING_BYTES: usize = 512 << 10;
const EVERY: Duration = Duration::from_millis(50);

/// Looking at mappings.
#[derive(Debug)]
pub(super) struct Code {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<World>,
}

impl Code {
    /// Looks at the processes `roots`, and what they start.
    ///
    /// # Errors
    /// The kernel's word where perf_event_open(2) is not for this user.
    pub(super) fn of(roots: &[u32]) -> io::Result<Code> {
        let mut rings: Vec<Ring> = online().into_iter().map(ring).collect::<io::Result<_>>()?;
        let mut world = World::new(roots, []);
        world.remember();
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let body = move || looked(&mut rings, world, &seen);
        let thread = crate::helper::start("bytepath code", body)?;
        Ok(Code { ended, thread })
    }

    /// No more of it; what is where.
    pub(super) fn finish(self) -> World {
        self.ended.store(true, Ordering::Release);
        self.thread.thread().unpark();
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn ring(cpu: u32) -> io::Result<Ring> {
    let mut builder = Builder::new(Software::DUMMY);
    builder.any_pid().one_cpu(cpu as usize).exclude_kernel(false).exclude_hv(true).sample(FIELDS);
    builder.sample_id_all(true).clockid(Clock::MONOTONIC);
    builder.mmap(true).mmap2(true).comm(true).comm_exec(true).task(true);
    let mut ring = builder.build()?.sampled(RING_BYTES)?;
    ring.as_counter_mut().enable()?;
    Ok(ring)
}

fn looked(rings: &mut [Ring], mut world: World, ended: &AtomicBool) -> World {
    let mut waiting: Vec<Record> = Vec::new();
    loop {
        let last = ended.load(Ordering::Acquire);
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
        waiting.drain(..settled).for_each(|record| world.learn(record.kind));
        if last {
            return world;
        }
        std::thread::park_timeout(EVERY);
    }
}
