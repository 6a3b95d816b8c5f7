//! Takes samples while some work runs: a thread of its own empties the rings, several dozen times a
//! second, and keeps count.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use bytepath::machine::Machine;
use perf_event::Sampler as Ring;
use rustix::thread::gettid;

use crate::collect::Collected;
use crate::helper::{Helper, Pause};
use crate::missing::{Missing, at_most, rate_max_hz};
use crate::open::{self, Opened, Source, View, Wanted};
use crate::record::{self, Record};
use crate::world::{World, threads_of, with_descendants};
use crate::{Settings, Whom};

/// How often rings are emptied. The smallest hold as many samples as come in five times that.
const EVERY: Duration = Duration::from_millis(20);

/// Samples are being taken.
pub(crate) struct Sampling {
    thread: Helper<Collected>,
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
    /// Those that the work may run on, which are sampled whole where that can be seen.
    pub(crate) allowed: &'a [u32],
    /// Others that it, or what it starts, may yet go to: there it alone is sampled.
    pub(crate) elsewhere: &'a [u32],
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
        let (name, named) = channel();
        let thread = Helper::start("sampler", move |pause| emptying(&name, &take, pause));
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
            let (stacks, online, threads) = (settings.stacks, &online, &threads);
            open::open(&Wanted { stacks, hz, cpus, online, threads })
        };
        let ((mut opened, refused), hz, fewer) =
            at_most(settings.hz, rate_max_hz, open).map_err(|error| Missing::no_samples(&error))?;
        missing.extend(fewer.map(|fewer| fewer.0));
        missing.extend(opened.elsewhere.as_ref().err().map(|error| Missing::elsewhere(error).0));
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
        Ok(Sampling { thread, began: Instant::now(), view, source, hz })
    }

    /// No more samples; those that were taken.
    pub(crate) fn stop(self) -> Sampled {
        let seconds = self.began.elapsed().as_secs_f64();
        let collected = self.thread.finish();
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
fn emptying(name: &Sender<u32>, take: &Receiver<Start>, pause: &Pause) -> Collected {
    let _ = name.send(gettid().as_raw_nonzero().get().unsigned_abs());
    let Ok(Start { mut opened, mut collected }) = take.recv() else {
        return Collected::new(World::new(&[], []), []);
    };
    let mut waiting: Vec<Record> = Vec::new();
    loop {
        let last = pause.is_last(EVERY);
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

/// The clock of the records, and by which programs for BPF count (bpf_ktime_get_ns).
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;
    use crate::record::Kind;

    #[test]
    fn nobody_but_the_work_is_sampled_on_a_cpu_on_which_it_is_not_to_run() {
        let mine = sched_getaffinity(None).expect("fewer CPUs than a set has");
        let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| mine.is_set(*cpu));
        let Some((here, there)) = cpus.next().zip(cpus.next()) else {
            return println!("skipped: there is one CPU");
        };
        // Affinity is that thread's alone, and what it starts has it.
        std::thread::spawn(move || only_the_work(here as u32, there as u32))
            .join()
            .expect("it holds");
    }

    fn only_the_work(here: u32, there: u32) {
        let mut on_there = CpuSet::new();
        on_there.set(there as usize);
        sched_setaffinity(None, &on_there).expect("it may run there");
        let shell =
            |line: &str| Command::new("sh").args(["-c", line]).spawn().expect("sh is there");
        let mut other = shell("while :; do :; done");
        let opened = open::open(&Wanted {
            stacks: crate::Stacks::FramePointers,
            hz: 999,
            cpus: Cpus { allowed: &[here], elsewhere: &[there] },
            online: &[here, there],
            threads: &[],
        });
        let whole = opened.ok().filter(|(opened, _)| opened.view == View::Cpus);
        let mut records = Vec::new();
        let work = whole.map(|(mut opened, _)| {
            enable(&mut opened).expect("they are open");
            let mut work = shell("i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done");
            work.wait().expect("it ends");
            disable(&mut opened).expect("they are open");
            empty(&mut opened.rings[1], opened.registers, &mut records);
            work.id()
        });
        other.kill().expect("it runs");
        other.wait().expect("it was killed");
        let Some(work) = work else { return println!("skipped: whole CPUs are not to be seen") };
        let of = |pid: u32| {
            let is_of =
                |record: &&Record| matches!(&record.kind, Kind::Sample(of) if of.pid == pid);
            records.iter().filter(is_of).count()
        };
        assert!(of(work) > 0, "the work is not seen there");
        assert_eq!([of(other.id()), of(0)], [0, 0], "another program, or nobody, is sampled there");
    }
}
