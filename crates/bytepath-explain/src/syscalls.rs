//! System calls by name, how often each was made and how long it took: from the tracepoints at a
//! call's beginning and end.
//!
//! Where calls are few, all are traced. Where they come in their tens of thousands a second, tracing each
//! would make them slower: then a tenth of the time is traced, and the numbers of that time are what the
//! tenth gives, ten times. Samples that were taken meanwhile are left out of the shares.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use bytepath_report::SyscallCount;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use rustix::thread::gettid;

use crate::Whom;
use crate::sampler::now_ns;
use crate::sys::event::set_output;
use crate::tracefs::Tracepoints;

/// The ring of a CPU.
const RING_BYTES: usize = 4 << 20;

/// Rings are emptied after this time.
const ON: Duration = Duration::from_millis(10);
/// Where calls are many, nothing is traced for this time in between.
const OFF: Duration = Duration::from_millis(90);
/// More records than these in a turn, on average over some turns, are many: some 15,000 calls a
/// second.
const MANY: usize = 300;
/// So many turns it takes to tell.
const TURNS: usize = 10;

/// Where, behind what all tracepoints have in common, the number of the call is.
const NUMBER_AT: usize = 8;

/// Calls are being traced.
pub(crate) struct Tracing {
    thread: JoinHandle<Traced>,
    stop: Sender<()>,
    pub(crate) tid: u32,
}

/// What was traced.
#[derive(Default)]
pub(crate) struct Traced {
    threads: HashMap<u32, Caller>,
    /// The times in which calls were traced, and others not.
    pub(crate) windows: Vec<(u64, u64)>,
    /// Where calls were many: how long was traced, and how long not.
    on_ns: u64,
    off_ns: u64,
    pub(crate) lost: u64,
}

/// The calls of a thread.
#[derive(Default)]
struct Caller {
    pid: u32,
    /// The call that it is in, and since when it was seen to be.
    within: Option<(u64, u64)>,
    /// How many and how long, by number: of the time in which all were traced, and of that in which a
    /// part was.
    calls: [HashMap<u64, (u64, u64)>; 2],
}

struct Events {
    rings: Vec<Sampler>,
    others: Vec<Counter>,
    enter_ids: HashSet<u64>,
}

impl Tracing {
    /// Begins to trace the calls of what the calling thread starts, or of these threads and what
    /// comes from them.
    ///
    /// # Errors
    /// EACCES: tracepoints are for root, or CAP_PERFMON.
    pub(crate) fn start(
        from: &Tracepoints,
        whom: Whom,
        threads: &[u32],
        online: &[u32],
    ) -> io::Result<Tracing> {
        let ids = (from.id("raw_syscalls/sys_enter"), from.id("raw_syscalls/sys_exit"));
        let (Some(enter), Some(exit)) = ids else {
            return Err(io::Error::from_raw_os_error(libc::ENODEV));
        };
        // The thread is there first, so that it does not trace itself.
        let (give, take) = channel::<Events>();
        let (stop, stopped) = channel();
        let (name, named) = channel();
        let body = move || {
            let _ = name.send(gettid().as_raw_nonzero().get().unsigned_abs());
            take.recv().map(|events| tracing(events, &stopped)).unwrap_or_default()
        };
        let thread = std::thread::Builder::new().name("tracer".into()).spawn(body)?;
        let mut events = Events::open([enter, exit], whom, threads, online)?;
        events.switch(true);
        let _ = give.send(events);
        Ok(Tracing { thread, stop, tid: named.recv().unwrap_or_default() })
    }

    /// No more tracing; what was seen.
    pub(crate) fn stop(self) -> Traced {
        let _ = self.stop.send(());
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Events {
    fn open(
        [enter, exit]: [u64; 2],
        whom: Whom,
        threads: &[u32],
        online: &[u32],
    ) -> io::Result<Events> {
        let mut events =
            Events { rings: Vec::new(), others: Vec::new(), enter_ids: HashSet::new() };
        for cpu in online {
            let mut ring: Option<Sampler> = None;
            for id in [enter, exit] {
                let mut builder = Builder::new(Tracepoint::with_id(id));
                builder
                    .one_cpu(*cpu as usize)
                    .inherit(true)
                    .exclude_kernel(false)
                    .sample(FIELDS)
                    .sample_period(1)
                    .clockid(Clock::MONOTONIC);
                for event in of_each(&mut builder, whom, threads)? {
                    if id == enter {
                        events.enter_ids.insert(event.id());
                    }
                    match &ring {
                        Some(ring) => {
                            set_output(&event, ring)?;
                            events.others.push(event);
                        }
                        None => ring = Some(event.sampled(RING_BYTES)?),
                    }
                }
            }
            events.rings.extend(ring);
        }
        Ok(events)
    }

    fn switch(&mut self, on: bool) {
        // An event that is open can be switched; if not, its numbers are what they are.
        for ring in &mut self.rings {
            let event = ring.as_counter_mut();
            let _ = if on { event.enable() } else { event.disable() };
        }
        for event in &mut self.others {
            let _ = if on { event.enable() } else { event.disable() };
        }
    }

    /// What the rings hold, in the order of its times.
    fn emptied(&mut self, lost: &mut u64) -> Vec<Call> {
        const LOST: u32 = 2;
        let mut calls = Vec::new();
        for ring in &mut self.rings {
            while let Some(record) = ring.next_record() {
                let bytes = record.to_contiguous();
                match (record.ty(), call(&bytes, &self.enter_ids)) {
                    (LOST, _) => *lost += number(&bytes, 8).unwrap_or(0),
                    (_, Some(call)) => calls.push(call),
                    _ => {}
                }
            }
        }
        calls.sort_by_key(|call| call.time_ns);
        calls
    }
}

/// An event for the calling thread, or for each of some threads that have not ended meanwhile.
fn of_each(builder: &mut Builder<'_>, whom: Whom, threads: &[u32]) -> io::Result<Vec<Counter>> {
    if whom == Whom::Started {
        return Ok(vec![builder.observe_self().build()?]);
    }
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

/// The fields of a record: process and thread, time, event, and what the tracepoint tells.
const FIELDS: SampleFlag =
    SampleFlag::TID.union(SampleFlag::TIME).union(SampleFlag::ID).union(SampleFlag::RAW);

/// The beginning or the end of a call.
struct Call {
    pid: u32,
    tid: u32,
    time_ns: u64,
    number: u64,
    begins: bool,
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn call(bytes: &[u8], enter_ids: &HashSet<u64>) -> Option<Call> {
    let half = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let raw_at = 24 + 4;
    Some(Call {
        pid: half(0)?,
        tid: half(4)?,
        time_ns: number(bytes, 8)?,
        begins: enter_ids.contains(&number(bytes, 16)?),
        number: number(bytes, raw_at + NUMBER_AT)?,
    })
}

fn tracing(mut events: Events, stopped: &Receiver<()>) -> Traced {
    let mut traced = Traced::default();
    let mut many = false;
    let mut recent = VecDeque::new();
    let mut from = now_ns();
    loop {
        events.switch(true);
        let last = !matches!(stopped.recv_timeout(ON), Err(RecvTimeoutError::Timeout));
        if many || last {
            events.switch(false);
        }
        let to = now_ns();
        let calls = events.emptied(&mut traced.lost);
        let were_many = many;
        recent.push_back(calls.len());
        if recent.len() > TURNS {
            recent.pop_front();
        }
        many = match were_many {
            true => calls.len() > MANY,
            // What is over before that many turns is traced whole.
            false => recent.len() == TURNS && recent.iter().sum::<usize>() > MANY * TURNS,
        };
        calls.iter().for_each(|call| traced.take(call, were_many));
        if were_many {
            traced.windows.push((from, to));
            traced.on_ns += to - from;
        }
        if were_many || many || last {
            traced.stretch_of_time_ends(to, were_many);
        }
        from = to;
        if last {
            return traced;
        }
        if many {
            events.switch(false);
            let last = !matches!(stopped.recv_timeout(OFF), Err(RecvTimeoutError::Timeout));
            let now = now_ns();
            traced.off_ns += now - to;
            if last {
                return traced;
            }
            // Those that sleep in a call go on doing so; others are seen when they make the next.
            traced.stretch_of_time_begins(now);
            from = now;
        }
    }
}

impl Traced {
    fn take(&mut self, call: &Call, in_part: bool) {
        let caller = self.threads.entry(call.tid).or_default();
        caller.pid = call.pid;
        let calls = &mut caller.calls[usize::from(in_part)];
        if call.begins {
            caller.within = Some((call.number, call.time_ns));
            calls.entry(call.number).or_default().0 += 1;
        } else if let Some((number, since)) = caller.within.take() {
            let (_, spent) = calls.entry(number).or_default();
            *spent += call.time_ns.saturating_sub(since);
        }
    }

    /// Those that are in a call have been so until now.
    fn stretch_of_time_ends(&mut self, now: u64, in_part: bool) {
        for caller in self.threads.values_mut() {
            if let Some((number, since)) = &mut caller.within {
                let calls = &mut caller.calls[usize::from(in_part)];
                calls.entry(*number).or_default().1 += now.saturating_sub(*since);
                *since = now;
            }
        }
    }

    fn stretch_of_time_begins(&mut self, now: u64) {
        for caller in self.threads.values_mut() {
            if let Some((_, since)) = &mut caller.within {
                *since = now;
            }
        }
    }

    /// The calls of these processes, but not those of some threads; what took longest first.
    pub(crate) fn counts(&self, pids: &HashSet<u32>, without: &[u32]) -> Vec<SyscallCount> {
        let scales = [1.0, (self.on_ns + self.off_ns) as f64 / self.on_ns.max(1) as f64];
        let mut sums: HashMap<u64, (f64, f64)> = HashMap::new();
        for (tid, caller) in &self.threads {
            if !pids.contains(&caller.pid) || without.contains(tid) {
                continue;
            }
            for (calls, scale) in caller.calls.iter().zip(scales) {
                for (number, (count, spent)) in calls {
                    let sum = sums.entry(*number).or_default();
                    sum.0 += *count as f64 * scale;
                    sum.1 += *spent as f64 * scale;
                }
            }
        }
        let mut counts: Vec<SyscallCount> = sums
            .into_iter()
            .map(|(number, (count, spent))| SyscallCount {
                name: name_of(number),
                count: count.round() as u64,
                seconds: Some(spent / 1e9),
            })
            .collect();
        counts
            .sort_by(|a, b| b.seconds.partial_cmp(&a.seconds).unwrap_or(std::cmp::Ordering::Equal));
        counts
    }
}

/// The name of a system call of this machine.
pub(crate) fn name_of(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(syscalls::Sysno::new);
    known.map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}
