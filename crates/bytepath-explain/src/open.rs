//! Opens the events that samples come from: as many as this user may, in steps.
//!
//! Best is to see whole CPUs, which shows idle time and the kernel's own threads. Next is to see
//! the work's threads alone, in the kernel and in user space; then in user space only. Which of them
//! is permitted is found by trying; what it would take to see more is said.

use std::io;

use bytepath::machine::survived;
use perf_event::events::{Hardware, Software};
use perf_event::{Builder, Clock, Counter, Sampler};
use rustix::process::{Resource, getrlimit};

use crate::Stacks;
use crate::record::{FIELDS, FIELDS_TO_UNWIND};
use crate::sampler::Cpus;
use crate::sys::event::set_output;
use crate::unwind::REGISTERS;

/// Of a stack, so much is taken along with each sample: enough for some dozens of frames.
const STACK_BYTES: u32 = 8 << 10;
/// Of a stack, where rings have to be small.
const STACK_BYTES_SMALL: u32 = 4 << 10;
/// The ring of a CPU, for those whose locked memory is not limited.
const RING_BYTES: usize = 4 << 20;
/// What everybody may have for each CPU (kernel.perf_event_mlock_kb is 516, a page is the head's).
const RING_BYTES_SMALL: usize = 512 << 10;

/// What can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// Whole CPUs.
    Cpus,
    /// The work's threads.
    Threads,
    /// The work's threads, while they are in user space.
    UserSpace,
}

/// The steps, best first.
const VIEWS: [View; 3] = [View::Cpus, View::Threads, View::UserSpace];

/// What gives the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A hardware counter. It stands still while a CPU is halted.
    Cycles,
    /// A timer of the kernel.
    CpuClock,
}

impl Source {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Source::Cycles => "cycles",
            Source::CpuClock => "cpu-clock",
        }
    }
}

/// Events that are open, and disabled.
pub(crate) struct Opened {
    pub(crate) view: View,
    pub(crate) source: Source,
    /// A ring for each CPU.
    pub(crate) rings: Vec<Sampler>,
    /// Events whose records go to one of the rings.
    pub(crate) others: Vec<Counter>,
    /// Why the work is not seen on CPUs that it may not run on, where it is not.
    pub(crate) elsewhere: io::Result<()>,
    /// How many registers a sample has, where stacks are to be unwound.
    pub(crate) registers: Option<u32>,
}

/// What is to be seen.
pub(crate) struct Wanted<'a> {
    pub(crate) stacks: Stacks,
    /// So many samples a second.
    pub(crate) hz: u32,
    pub(crate) cpus: Cpus<'a>,
    /// All CPUs, on any of which a process may begin.
    pub(crate) online: &'a [u32],
    /// The threads of the work; none where it is what the calling thread starts.
    pub(crate) threads: &'a [u32],
}

/// Opens what is permitted, and says why it is no more.
///
/// # Errors
/// Why nothing is permitted at all.
pub(crate) fn open(wanted: &Wanted<'_>) -> Result<(Opened, Vec<(View, io::Error)>), io::Error> {
    survived(libc::SYS_perf_event_open)?;
    let mut refused: Vec<(View, io::Error)> = Vec::new();
    for view in VIEWS {
        let opened = try_to(view, Source::Cycles, wanted)
            .or_else(|_| try_to(view, Source::CpuClock, wanted));
        match opened {
            Ok(opened) => return Ok((opened, refused)),
            Err(error) => refused.push((view, error)),
        }
    }
    Err(refused.pop().map_or_else(|| io::ErrorKind::Unsupported.into(), |(_, error)| error))
}

fn try_to(view: View, source: Source, wanted: &Wanted<'_>) -> io::Result<Opened> {
    let unwind = wanted.stacks == Stacks::Tables;
    let mut opened = Opened {
        view,
        source,
        rings: Vec::new(),
        others: Vec::new(),
        elsewhere: Ok(()),
        registers: unwind.then_some(REGISTERS.count_ones()),
    };
    match view {
        View::Cpus => {
            whole_cpus(&mut opened, wanted)?;
            match elsewhere(&opened, wanted) {
                Ok(events) => opened.others.extend(events),
                Err(error) => opened.elsewhere = Err(error),
            }
        }
        View::Threads | View::UserSpace => threads(&mut opened, wanted)?,
    }
    Ok(opened)
}

fn whole_cpus(opened: &mut Opened, wanted: &Wanted<'_>) -> io::Result<()> {
    for cpu in wanted.online {
        let mut told = builder(opened, wanted);
        told.event(Software::DUMMY).any_pid().one_cpu(*cpu as usize);
        tells_of_processes(&mut told);
        let ring = told.build()?.sampled(RING_BYTES)?;
        if wanted.cpus.allowed.contains(cpu) {
            let mut sampled = builder(opened, wanted);
            sampling(&mut sampled, opened.source, wanted.hz);
            let sampled = sampled.any_pid().one_cpu(*cpu as usize).build()?;
            set_output(&sampled, &ring)?;
            opened.others.push(sampled);
        }
        opened.rings.push(ring);
    }
    Ok(())
}

/// Where the work is not to run, it is sampled should it go there, and nothing else is: others have those CPUs,
/// or nobody is to be disturbed there.
///
/// # Errors
/// EMFILE where it would take more than half of the descriptors that this process may have.
fn elsewhere(opened: &Opened, wanted: &Wanted<'_>) -> io::Result<Vec<Counter>> {
    let events = wanted.cpus.elsewhere.len() * wanted.threads.len().max(1);
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if events as u64 > most / 2 {
        return Err(io::Error::from_raw_os_error(libc::EMFILE));
    }
    let mut all = Vec::new();
    for (cpu, ring) in wanted.online.iter().zip(&opened.rings) {
        if wanted.cpus.elsewhere.contains(cpu) {
            let events = of_work(&mut builder(opened, wanted), *cpu, opened.source, wanted)?;
            events.iter().try_for_each(|event| set_output(event, ring))?;
            all.extend(events);
        }
    }
    Ok(all)
}

fn threads(opened: &mut Opened, wanted: &Wanted<'_>) -> io::Result<()> {
    for cpu in wanted.online {
        let mut builder = builder(opened, wanted);
        tells_of_processes(&mut builder);
        let mut events = of_work(&mut builder, *cpu, opened.source, wanted)?.into_iter();
        let Some(first) = events.next() else { continue };
        let ring = first.sampled(RING_BYTES_SMALL)?;
        for event in events {
            set_output(&event, &ring)?;
            opened.others.push(event);
        }
        opened.rings.push(ring);
    }
    match opened.rings.is_empty() {
        true => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        false => Ok(()),
    }
}

/// Events that sample the work's threads, and what comes from them, on one CPU.
fn of_work(
    builder: &mut Builder<'_>,
    cpu: u32,
    source: Source,
    wanted: &Wanted<'_>,
) -> io::Result<Vec<Counter>> {
    sampling(builder, source, wanted.hz);
    builder.one_cpu(cpu as usize).inherit(true);
    match wanted.threads {
        [] => Ok(vec![builder.observe_self().build()?]),
        threads => of_each(builder, threads),
    }
}

/// An event for each of these threads that has not ended meanwhile.
pub(crate) fn of_each(builder: &mut Builder<'_>, threads: &[u32]) -> io::Result<Vec<Counter>> {
    let mut events = Vec::new();
    for thread in threads {
        match builder.observe_pid(i32::try_from(*thread).map_err(io::Error::other)?).build() {
            Ok(event) => events.push(event),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(events)
}

/// What all events have in common: the fields of their records.
fn builder<'a>(opened: &Opened, wanted: &Wanted<'_>) -> Builder<'a> {
    let mut builder = Builder::new(Software::DUMMY);
    builder
        .exclude_kernel(opened.view == View::UserSpace)
        .exclude_hv(true)
        .sample(FIELDS)
        .sample_id_all(true)
        .clockid(Clock::MONOTONIC);
    if wanted.stacks == Stacks::Tables {
        let bytes = if opened.view == View::Cpus { STACK_BYTES } else { STACK_BYTES_SMALL };
        builder
            .sample(FIELDS_TO_UNWIND)
            .sample_regs_user(REGISTERS)
            .sample_stack_user(bytes)
            .exclude_callchain_user(true);
    }
    builder
}

fn sampling(builder: &mut Builder<'_>, source: Source, hz: u32) {
    match source {
        Source::Cycles => builder.event(Hardware::CPU_CYCLES),
        Source::CpuClock => builder.event(Software::CPU_CLOCK),
    };
    builder.sample_frequency(u64::from(hz));
}

fn tells_of_processes(builder: &mut Builder<'_>) {
    builder.mmap(true).mmap2(true).comm(true).comm_exec(true).task(true);
}
