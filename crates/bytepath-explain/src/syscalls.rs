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
use syscalls::Sysno;

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

/// Calls that do not return.
const NO_RETURN: [u64; 2] = [Sysno::exit as u64, EXIT_GROUP];
const EXIT_GROUP: u64 = Sysno::exit_group as u64;

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
    fn emptied(&mut self) -> Emptied {
        const LOST: u32 = 2;
        let mut all = Emptied { calls: Vec::new(), full_ns: None };
        for ring in &mut self.rings {
            let (mut held_bytes, mut last_ns) = (0, None);
            while let Some(record) = ring.next_record() {
                let bytes = record.to_contiguous();
                held_bytes += bytes.len() + HEADER_BYTES;
                if let Some(call) = (record.ty() != LOST).then(|| call(&bytes, &self.enter_ids)) {
                    last_ns = call.as_ref().map(|call| call.time_ns).or(last_ns);
                    all.calls.extend(call);
                }
            }
            if held_bytes + ROOM_BYTES > RING_BYTES {
                all.full_ns = [all.full_ns, last_ns].into_iter().flatten().min();
            }
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
    let mut pace = Pace::default();
    let mut many = false;
    let mut from = now_ns();
    loop {
        events.switch(true);
        let last = !matches!(stopped.recv_timeout(ON), Err(RecvTimeoutError::Timeout));
        if many || last {
            events.switch(false);
        }
        let turn = Turn { from, to: now_ns(), in_part: many };
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
            if !turn.in_part {
                // What came while the rings were emptied.
                let now = now_ns();
                traced.turn(&Turn { from, to: now, in_part: false }, &events.emptied(), true);
                from = now;
            }
            let last = !matches!(stopped.recv_timeout(OFF), Err(RecvTimeoutError::Timeout));
            let now = now_ns();
            traced.off_ns += now - from;
            if last {
                return traced;
            }
            // Those that sleep in a call go on doing so; others are seen when they make the next.
            traced.stretch_of_time_begins(now);
            from = now;
        }
    }
}

/// A stretch of time in which calls were traced.
struct Turn {
    from: u64,
    to: u64,
    /// Whether it stands for time beside it in which they were not.
    in_part: bool,
}

/// When the last turns began, and how many records each brought.
#[derive(Default)]
struct Pace(VecDeque<(u64, usize)>);

impl Pace {
    /// Whether calls are many, with those of one more turn. The turns before count as much as this
    /// one: a turn in which others had the CPU says nothing. What is over before there are so many
    /// turns is traced whole, unless there are more calls than can be.
    fn are_many(&mut self, from: u64, seen: &Emptied) -> bool {
        self.0.push_back((from, seen.calls.len()));
        if self.0.len() > TURNS {
            self.0.pop_front();
        }
        let records = self.0.iter().map(|(_, records)| records).sum::<usize>();
        seen.full_ns.is_some() || (self.0.len() == TURNS && records > MANY * TURNS)
    }

    /// When the first of the turns began that it goes by.
    fn since(&self) -> u64 {
        self.0.front().map_or(0, |(from, _)| *from)
    }
}

impl Traced {
    /// Takes what a turn has brought. Where calls were many behind it, all that is known of those that
    /// somebody is in ends with it.
    fn turn(&mut self, turn: &Turn, seen: &Emptied, ends: bool) {
        // Where a ring was full, the time until then stands for the rest.
        let in_part = turn.in_part || seen.full_ns.is_some();
        let to = seen.full_ns.map_or(turn.to, |full| full.clamp(turn.from, turn.to));
        seen.calls.iter().for_each(|call| self.take(call, in_part));
        if in_part {
            self.windows.push((turn.from, turn.to));
            self.on_ns += to - turn.from;
            self.off_ns += turn.to - to;
        }
        if in_part || ends {
            self.stretch_of_time_ends(to, in_part);
        }
        if to < turn.to {
            self.stretch_of_time_begins(turn.to);
        }
    }

    fn take(&mut self, call: &Call, in_part: bool) {
        let caller = self.threads.entry(call.tid).or_default();
        caller.pid = call.pid;
        let part = usize::from(in_part);
        let calls = &mut caller.calls[part];
        if call.begins {
            calls.entry(call.number).or_default().0 += 1;
            // What does not come back is no waiting.
            let ends = NO_RETURN.contains(&call.number);
            caller.within = (!ends).then_some((call.number, call.time_ns));
            if call.number == EXIT_GROUP {
                self.end_process(call, part);
            }
        } else if let Some((number, since)) = caller.within.take() {
            let (_, spent) = calls.entry(number).or_default();
            *spent += call.time_ns.saturating_sub(since);
        }
    }

    /// The other threads of a process that ends leave their calls.
    fn end_process(&mut self, at: &Call, part: usize) {
        for caller in self.threads.values_mut().filter(|caller| caller.pid == at.pid) {
            if let Some((number, since)) = caller.within.take() {
                let (_, spent) = caller.calls[part].entry(number).or_default();
                *spent += at.time_ns.saturating_sub(since);
            }
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
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: u64 = Sysno::ppoll as u64;

    fn call(tid: u32, time_ns: u64, number: u64, begins: bool) -> Call {
        Call { pid: 1, tid, time_ns, number, begins }
    }

    #[test]
    fn a_call_that_does_not_return_takes_no_time_and_ends_what_others_wait_in() {
        let mut traced = Traced::default();
        traced.take(&call(1, 100, WAIT, true), false);
        traced.take(&call(2, 150, EXIT_GROUP, true), false);
        traced.stretch_of_time_ends(1_000_000, false);
        let counts = traced.counts(&HashSet::from([1]), &[]);
        let seconds = |name: &str| {
            let call = counts.iter().find(|call| call.name == name).expect("it was made");
            (call.count, call.seconds.map(|seconds| (seconds * 1e9).round() as u64))
        };
        assert_eq!(seconds("exit_group"), (1, Some(0)));
        assert_eq!(seconds("ppoll"), (1, Some(50)));
    }

    #[test]
    fn a_turn_in_which_others_had_the_cpu_does_not_make_calls_few() {
        let mut pace = Pace::default();
        let mut are_many = |records: usize| {
            let calls = (0..records).map(|_| call(1, 1, WAIT, true)).collect();
            pace.are_many(7, &Emptied { calls, full_ns: None })
        };
        assert!((1..TURNS).all(|_| !are_many(10 * MANY)), "what is short is traced whole");
        assert!(are_many(10 * MANY));
        assert!(are_many(0), "one turn says nothing");
        assert!((0..TURNS).any(|_| !are_many(0)), "calls have become few");
    }

    #[test]
    fn what_did_not_fit_into_a_ring_is_made_up_for() {
        // A call a microsecond, and a ring that is full after a quarter of the turn.
        let calls = (0..2000).map(|at| call(1, at * 500, WAIT, at % 2 == 0)).collect();
        let seen = Emptied { calls, full_ns: Some(250_000) }.in_order();
        assert!(Pace::default().are_many(0, &seen), "more than can be traced are many");
        let mut traced = Traced::default();
        traced.turn(&Turn { from: 0, to: 1_000_000, in_part: false }, &seen, true);
        let counts = traced.counts(&HashSet::from([1]), &[]);
        assert!(counts[0].count.abs_diff(1000) < 10, "{counts:?}");
        let seconds = counts[0].seconds.expect("it took some");
        assert!((seconds - 0.0005).abs() < 0.00001, "{counts:?}");
        assert_eq!(traced.windows, [(0, 1_000_000)], "samples of the turn are left out");
    }
}
