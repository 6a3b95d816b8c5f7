//! Takes samples while some work runs: a thread of its own empties the rings, several dozen times a
//! second, and keeps count.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytepath::machine::Machine;
use perf_event::Sampler as Ring;
use rustix::thread::gettid;

use crate::collect::Collected;
use crate::missing::{Missing, at_most, rate_max_hz};
use crate::open::{self, Opened, Source, View, Wanted};
use crate::record::{self, Record};
use crate::world::{World, threads_of, with_descendants};
use crate::{Settings, Whom};

/// How often rings are emptied. The smallest hold as many samples as come in five times that.
const EVERY: Duration = Duration::from_millis(20);

/// Samples are being taken.
pub(crate) struct Sampling {
    thread: JoinHandle<Collected>,
    stop: Sender<()>,
    began: Instant,
    pub(crate) view: View,
    source: Source,
    hz: u32,
}

/// What samples were taken, and of what.
pub(crate) struct Sampled {
    pub(crate) collected: Collected,
    pub(crate) view: View,
    pub(crate) source: Source,
    /// So many samples a second were taken.
    pub(crate) hz: u32,
    pub(crate) seconds: f64,
}

/// What the thread is given: it is started first, so that no event is inherited by it.
struct Start {
    opened: Opened,
    collected: Collected,
}

/// The CPUs that are looked at.
#[derive(Clone, Copy)]
pub(crate) struct Cpus<'a> {
    /// Those that are sampled, where whole CPUs can be seen.
    pub(crate) sampled: &'a [u32],
    /// Those that the work may run on.
    pub(crate) allowed: &'a [u32],
}

impl Sampling {
    /// Begins to take samples of `whom`. Threads of `own` look on, and are none of the work's.
    ///
    /// # Errors
    /// Why no samples can be taken at all, and what would allow it.
    pub(crate) fn start(
        whom: Whom,
        cpus: Cpus<'_>,
        settings: &Settings,
        own: &[u32],
        missing: &mut Vec<String>,
    ) -> Result<Sampling, Missing> {
        let (give, take) = channel::<Start>();
        let (stop, stopped) = channel();
        let (name, named) = channel();
        let body = move || emptying(&name, &take, &stopped);
        let thread = crate::helper::start("sampler", body);
        let thread = thread.map_err(|error| Missing::no_sampler(&error))?;
        let sampler: u32 = named.recv().unwrap_or_default();
        let roots = match whom {
            Whom::Started => vec![std::process::id()],
            Whom::Process(pid) => with_descendants(pid),
        };
        let threads: Vec<u32> = match whom {
            Whom::Started => Vec::new(),
            Whom::Process(_) => roots.iter().flat_map(|pid| threads_of(*pid)).collect(),
        };
        let online = online();
        let open = |hz| {
            let (stacks, cpus) = (settings.stacks, cpus.sampled);
            open::open(&Wanted { stacks, hz, cpus, online: &online, threads: &threads })
        };
        let ((mut opened, refused), hz, fewer) =
            at_most(settings.hz, rate_max_hz, open).map_err(|error| Missing::no_samples(&error))?;
        missing.extend(fewer.map(|fewer| fewer.0));
        missing.extend(refused.iter().map(|(view, error)| Missing::of_view(*view, error).0));
        if opened.source == Source::CpuClock {
            missing.push(Missing::no_cycles().0);
        }
        let mut world = World::new(&roots, own.iter().copied().chain([sampler]));
        let this = std::process::id();
        if whom != Whom::Process(this) {
            // Whoever starts the work, and waits for it or only looks at it, is not of it.
            world.leave_out(this);
        }
        world.leave_aside(&settings.beside);
        enable(&mut opened).map_err(|error| Missing::no_samples(&error))?;
        let (view, source) = (opened.view, opened.source);
        // It waits for this, and goes on until it is told to stop.
        let collected = Collected::new(world, cpus.allowed.iter().copied());
        let _ = give.send(Start { opened, collected });
        Ok(Sampling { thread, stop, began: Instant::now(), view, source, hz })
    }

    /// No more samples; those that were taken.
    pub(crate) fn stop(self) -> Sampled {
        let seconds = self.began.elapsed().as_secs_f64();
        let _ = self.stop.send(());
        let collected = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Sampled { collected, view: self.view, source: self.source, hz: self.hz, seconds }
    }
}

fn enable(opened: &mut Opened) -> io::Result<()> {
    for ring in &mut opened.rings {
        ring.as_counter_mut().enable()?;
    }
    opened.others.iter_mut().try_for_each(|event| event.enable())
}

/// The CPUs that are there.
pub(crate) fn online() -> Vec<u32> {
    let all = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let all = bytepath::machine::CpuList::parse(&all);
    let all = if all.is_empty() { Machine::this().allowed_cpus().clone() } else { all };
    all.iter().filter_map(|cpu| u32::try_from(cpu).ok()).collect()
}

/// The thread: empties the rings until it is told to stop, and once more.
fn emptying(name: &Sender<u32>, take: &Receiver<Start>, stopped: &Receiver<()>) -> Collected {
    let _ = name.send(gettid().as_raw_nonzero().get().unsigned_abs());
    let Ok(Start { mut opened, mut collected }) = take.recv() else {
        return Collected::new(World::new(&[], []), []);
    };
    let mut waiting: Vec<Record> = Vec::new();
    loop {
        let last = !matches!(stopped.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout));
        if last {
            let _ = disable(&mut opened);
        }
        // What a ring did not have by now may be older than what another has.
        let settled_ns = if last { u64::MAX } else { now_ns() };
        for ring in &mut opened.rings {
            empty(ring, opened.registers, &mut waiting);
        }
        waiting.sort_by_key(|record| record.time_ns);
        let settled = waiting.partition_point(|record| record.time_ns < settled_ns);
        waiting.drain(..settled).for_each(|record| collected.take(record));
        if last {
            collected.end();
            return collected;
        }
    }
}

fn disable(opened: &mut Opened) -> io::Result<()> {
    opened.others.iter_mut().try_for_each(|event| event.disable())?;
    opened.rings.iter_mut().try_for_each(|ring| ring.as_counter_mut().disable())
}

fn empty(ring: &mut Ring, registers: Option<u32>, into: &mut Vec<Record>) {
    while let Some(record) = ring.next_record() {
        into.extend(record::read(record.ty(), record.misc(), &record.to_contiguous(), registers));
    }
}

/// The clock of the records.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
