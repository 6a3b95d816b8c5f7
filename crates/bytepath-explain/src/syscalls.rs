//! System calls by name, how often each was made and how long it took: from the tracepoints at a
//! call's beginning and end.
//!
//! Where calls are few, all are traced. Where they come in their tens of thousands a second, tracing each
//! would make them slower: then a tenth of the time is traced, which stands for all of it, as far as all
//! calls were counted. Samples that were taken meanwhile are left out of the shares.

mod traced;

use std::collections::HashSet;
use std::fs;
use std::io;
use std::sync::mpsc::channel;
use std::time::Duration;

use bytepath::machine::survived;
use perf_event::events::Tracepoint;
use perf_event::{Builder, Clock, Counter, SampleFlag, Sampler};
use rustix::thread::gettid;
use syscalls::Sysno;

use traced::{Pace, Turn};
pub(crate) use traced::{Traced, name_of, told};

use crate::Whom;
use crate::helper::{Helper, Pause};
use crate::open::of_each;
use crate::sampler::now_ns;
use crate::sys::event::set_output;
use crate::tracefs::Tracepoints;
use crate::world::threads_of;

/// The ring of a CPU.
const RING_BYTES: usize = 4 << 20;

/// Rings are emptied after this time.
const ON: Duration = Duration::from_millis(10);
/// Where calls are many, nothing is traced for this time in between.
const OFF: Duration = Duration::from_millis(90);
/// Where, behind what all tracepoints have in common, the number of the call is.
const NUMBER_AT: usize = 8;
/// Where its result is, at its end.
const RESULT_AT: usize = 16;

/// Calls that start threads.
const STARTS: &[u64] = &[
    Sysno::clone as u64,
    Sysno::clone3 as u64,
    #[cfg(target_arch = "x86_64")]
    (Sysno::fork as u64),
    #[cfg(target_arch = "x86_64")]
    (Sysno::vfork as u64),
];

/// So many threads of the work, and so many that were in a call, are asked at a window's beginning what
/// they are in.
const ASKED_MAX: usize = 256;

/// Calls are being traced.
pub(crate) struct Tracing {
    thread: Helper<Traced>,
    pub(crate) tid: u32,
}

struct Events {
    rings: Vec<Sampler>,
    others: Vec<Counter>,
    enter_ids: HashSet<u64>,
}

impl Tracing {
    /// Begins to trace the calls of what the calling thread starts, from its exec(2) on, or of these
    /// threads and what comes from them.
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
        let (name, named) = channel();
        let body = move |pause: &Pause| {
            let _ = name.send(gettid().as_raw_nonzero().get().unsigned_abs());
            take.recv().map(|events| tracing(events, whom, pause)).unwrap_or_default()
        };
        let thread = Helper::start("tracer", body)?;
        let mut events = Events::open([enter, exit], whom, threads, online)?;
        if whom != Whom::Started {
            events.switch(true);
        }
        let _ = give.send(events);
        Ok(Tracing { thread, tid: named.recv().unwrap_or_default() })
    }

    /// No more tracing; what was seen.
    pub(crate) fn stop(self) -> Traced {
        self.thread.finish()
    }
}

impl Events {
    fn open(
        [enter, exit]: [u64; 2],
        whom: Whom,
        threads: &[u32],
        online: &[u32],
    ) -> io::Result<Events> {
        survived(libc::SYS_perf_event_open)?;
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
                let opened = match whom {
                    Whom::Started => vec![builder.enable_on_exec(true).observe_self().build()?],
                    Whom::Process(_) => of_each(&mut builder, threads)?,
                };
                for event in opened {
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
    fn emptied(&mut self) -> Emptied {
        const LOST: u32 = 2;
        let mut all = Emptied { calls: Vec::new(), full_ns: None };
        for ring in &mut self.rings {
            let (mut held_bytes, mut last_ns, mut full_ns) = (0, None, None);
            while let Some(record) = ring.next_record() {
                let bytes = record.to_contiguous();
                held_bytes += bytes.len() + HEADER_BYTES;
                if record.ty() == LOST {
                    // There has been room again since it is being emptied. Where this comes first, it
                    // was full before, which was seen then.
                    full_ns = full_ns.or(last_ns);
                } else if let Some(call) = call(&bytes, &self.enter_ids) {
                    last_ns = Some(call.time_ns);
                    all.calls.push(call);
                }
            }
            if held_bytes + ROOM_BYTES > RING_BYTES {
                full_ns = full_ns.or(last_ns);
            }
            all.full_ns = [all.full_ns, full_ns].into_iter().flatten().min();
        }
        all.in_order()
    }
}

/// Of each record, before what it says.
const HEADER_BYTES: usize = 8;
/// A ring that has no more room than this was full.
const ROOM_BYTES: usize = 4096;

/// What rings held.
struct Emptied {
    calls: Vec<Call>,
    /// When a ring was full, if one was: nothing is known of what came behind that.
    full_ns: Option<u64>,
}

impl Emptied {
    fn in_order(mut self) -> Emptied {
        if let Some(full_ns) = self.full_ns {
            self.calls.retain(|call| call.time_ns <= full_ns);
        }
        self.calls.sort_by_key(|call| call.time_ns);
        self
    }
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
    let call = Call {
        pid: half(0)?,
        tid: half(4)?,
        time_ns: number(bytes, 8)?,
        begins: enter_ids.contains(&number(bytes, 16)?),
        number: number(bytes, raw_at + NUMBER_AT)?,
    };
    // A new thread comes out of the call that made it, in which it has never been.
    let is_new = !call.begins
        && STARTS.contains(&call.number)
        && number(bytes, raw_at + RESULT_AT) == Some(0);
    (!is_new).then_some(call)
}

/// The threads of the work that there are, each with its process, as far as kernels list children
/// (CONFIG_PROC_CHILDREN).
fn threads(whom: Whom) -> Vec<(u32, u32)> {
    let this = std::process::id();
    let mut processes = match whom {
        Whom::Started => vec![this],
        Whom::Process(pid) => vec![pid],
    };
    let mut threads = Vec::new();
    let mut next = 0;
    while let Some(pid) = processes.get(next).copied()
        && threads.len() < ASKED_MAX
    {
        next += 1;
        for tid in threads_of(pid) {
            let children = fs::read_to_string(format!("/proc/{pid}/task/{tid}/children"));
            let children = children.unwrap_or_default();
            let children =
                children.split_whitespace().filter_map(|child| child.parse::<u32>().ok());
            processes.extend(children.filter(|child| *child != this));
            if pid != this {
                threads.push((pid, tid));
            }
        }
    }
    threads.truncate(ASKED_MAX);
    threads
}

fn tracing(mut events: Events, whom: Whom, pause: &Pause) -> Traced {
    let mut traced = Traced::default();
    let mut pace = Pace::default();
    let mut many = false;
    let mut from = now_ns();
    if let Whom::Process(_) = whom {
        traced.begun_before(from, &threads(whom));
    }
    let mut off = false;
    loop {
        if off {
            events.switch(true);
            let now = now_ns();
            if many {
                traced.off_ns += now - from;
            }
            from = now;
            // Asked now, so that what begins or ends from here on is seen.
            traced.window_begins(from, &threads(whom));
        }
        let last = pause.is_last(ON);
        // Switching takes long where others have the CPU: for a while some are on and others off.
        let to = now_ns();
        off = many || last;
        if off {
            events.switch(false);
        }
        let turn = Turn { from, to, in_part: many };
        let seen = events.emptied();
        many = pace.are_many(turn.from, &seen);
        if many && !turn.in_part {
            // Tracing has made what was sampled meanwhile slower.
            traced.windows.push((pace.since(), turn.to));
        }
        traced.turn(&turn, &seen, many || last);
        from = turn.to;
        if last {
            return traced;
        }
        if many {
            events.switch(false);
            off = true;
            if !turn.in_part {
                // What came while the rings were emptied; of one that was full, nobody knows what.
                let now = now_ns();
                let came = events.emptied();
                match seen.full_ns {
                    None => traced.turn(&Turn { from, to: now, in_part: false }, &came, true),
                    Some(_) => traced.not_known(from, now),
                }
                from = now;
            }
            let last = pause.is_last(OFF);
            let now = now_ns();
            traced.off_ns += now - from;
            if last {
                return traced;
            }
            from = now;
        }
    }
}
