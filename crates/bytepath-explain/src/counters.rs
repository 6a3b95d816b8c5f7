//! What is counted beside the samples: context switches, migrations, faults, wake-ups across CPUs,
//! and hardware counters where they exist.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;

use bytepath::machine::survived;
use perf_event::events::{Hardware, Software, Tracepoint};
use perf_event::{Builder, Counter};

use crate::Whom;
use crate::missing::{Missing, REFUSED, binding};
use crate::open::of_each;
use crate::sys::event::set_filter;
use crate::tracefs::Tracepoints;
use crate::usage::so_far;

/// The names of counters, as the record has them.
pub mod name {
    /// Times that a thread of the work left its CPU.
    pub const SWITCHES: &str = "context-switches";
    /// Of those, the ones in which it had nothing to do.
    pub const SWITCHES_VOLUNTARY: &str = "context-switches-voluntary";
    /// Of those, the ones in which it would have gone on.
    pub const SWITCHES_INVOLUNTARY: &str = "context-switches-involuntary";
    /// Times that a thread went on on another CPU.
    pub const MIGRATIONS: &str = "migrations";
    /// Page faults that needed no device.
    pub const FAULTS_MINOR: &str = "page-faults-minor";
    /// Page faults that waited for one.
    pub const FAULTS_MAJOR: &str = "page-faults-major";
    /// Times that a thread woke another that had slept on another CPU; interrupts as in [`WAKEUPS`].
    pub const WAKEUPS_ACROSS: &str = "wakeups-across-cpus";
    /// Times that a thread woke another. Interrupts that came to it are none of its doing; what soft
    /// interrupts woke is in it, since a thread that sends to this machine runs them itself.
    pub const WAKEUPS: &str = "wakeups";
    /// System calls.
    pub const SYSCALLS: &str = "system-calls";
}

/// Something that is counted: one number from many events.
struct Sum {
    name: &'static str,
    events: Vec<Counter>,
    /// Whether events take turns, as those of hardware do where it has too few counters.
    takes_turns: bool,
}

/// Counters that run.
pub(crate) struct Counting {
    tried: Tried,
    whom: Whom,
    /// What the kernel had counted before, where it has to do.
    before: Option<Told>,
}

/// What the kernel tells everybody, by the names of counters.
type Told = BTreeMap<&'static str, f64>;

/// What is counted, and what is not, each with the reason.
#[derive(Default)]
struct Tried {
    sums: Vec<Sum>,
    refused: Vec<(&'static str, String)>,
}

/// What to count, and whose.
pub(crate) struct Counted<'a> {
    pub(crate) whom: Whom,
    /// The threads there are, where it is a process that runs.
    pub(crate) threads: &'a [u32],
    pub(crate) online: &'a [u32],
    pub(crate) tracepoints: Option<&'a Tracepoints>,
    /// Whether system calls are counted too, which makes each slower.
    pub(crate) syscalls: bool,
}

impl Counting {
    /// Begins to count what can be counted; what cannot is said.
    pub(crate) fn start(counted: &Counted<'_>, missing: &mut Vec<String>) -> Counting {
        let mut tried = Tried::default();
        let software = [
            (name::SWITCHES, Software::CONTEXT_SWITCHES),
            (name::MIGRATIONS, Software::CPU_MIGRATIONS),
            (name::FAULTS_MINOR, Software::PAGE_FAULTS_MIN),
            (name::FAULTS_MAJOR, Software::PAGE_FAULTS_MAJ),
        ];
        for (name, event) in software {
            tried.add(name, counted.each_thread(&mut Builder::new(event)));
        }
        let before = (!tried.refused.is_empty()).then(|| so_far(counted.whom));
        hardware(counted, &mut tried);
        if let Some(tracepoints) = counted.tracepoints {
            traced(counted, tracepoints, &mut tried);
        }
        missing.extend(not_counted(&tried.refused, before.as_ref(), counted.whom));
        Counting { tried, whom: counted.whom, before }
    }

    /// What is not counted without tracepoints: which switches were voluntary the kernel tells too, where
    /// it counts for everybody.
    pub(crate) fn traced(&self) -> &'static str {
        match self.before {
            Some(_) => "wake-ups",
            None => "wake-ups, and which switches were voluntary",
        }
    }

    /// The numbers; what could not be counted after all is said.
    pub(crate) fn stop(self, missing: &mut Vec<String>) -> BTreeMap<String, f64> {
        let mut numbers = BTreeMap::new();
        let mut refused = Vec::new();
        for sum in self.tried.sums {
            match sum.number() {
                Ok((name, number)) => drop(numbers.insert(name.to_owned(), number)),
                Err(why) => refused.push(why),
            }
        }
        missing.extend(not_counted(&refused, self.before.as_ref(), self.whom));
        // What is counted by elimination.
        if let (Some(all), Some(involuntary)) =
            (numbers.get(name::SWITCHES), numbers.get(name::SWITCHES_INVOLUNTARY))
        {
            let voluntary = (all - involuntary).max(0.0);
            numbers.insert(name::SWITCHES_VOLUNTARY.to_owned(), voluntary);
        }
        if let Some(before) = self.before {
            for (name, now) in so_far(self.whom) {
                let then = before.get(name).copied().unwrap_or(0.0);
                numbers.entry(name.to_owned()).or_insert((now - then).max(0.0));
            }
        }
        numbers.retain(|_, number| number.is_finite());
        numbers
    }
}

impl Tried {
    /// Counts it, unless any of its events was refused.
    fn add(&mut self, name: &'static str, events: io::Result<Vec<Counter>>) {
        match events {
            Ok(events) => self.sums.push(Sum { name, events, takes_turns: false }),
            Err(error) => self.refused.push((name, why(&error))),
        }
    }
}

impl Sum {
    /// The number; where a part of it is not known, why.
    fn number(self) -> Result<(&'static str, f64), (&'static str, String)> {
        let (mut count, mut enabled_ns, mut running_ns) = (0, 0, 0);
        for mut event in self.events {
            let read = event.read_count_and_time().map_err(|error| (self.name, why(&error)))?;
            count += read.count;
            enabled_ns += read.time_enabled;
            running_ns += read.time_running;
        }
        // All together, as the kernel adds up those that are inherited: a thread that was too short on its CPU
        // for a turn says nothing of the others.
        let whole = match self.takes_turns {
            true => of_all_time(count, enabled_ns, running_ns),
            false => Some(count as f64),
        };
        let number = whole.ok_or_else(|| (self.name, NO_TURN.to_owned()))?;
        Ok((self.name, number))
    }
}

/// What events that took turns would have counted in all of their time; none where they had no turn.
fn of_all_time(count: u64, enabled_ns: u64, running_ns: u64) -> Option<f64> {
    match (enabled_ns, running_ns) {
        (0, _) => Some(0.0),
        (_, 0) => None,
        _ => Some(count as f64 * enabled_ns as f64 / running_ns as f64),
    }
}

/// Why nothing is known of an event that was there all the time.
const NO_TURN: &str = "no hardware counter was free for it; who else uses them (perf, or the NMI \
    watchdog, which kernel.nmi_watchdog=0 ends) leaves one when it stops";

/// What is not counted, a sentence for each reason. What everybody is `told` is counted in part.
fn not_counted(refused: &[(&'static str, String)], told: Option<&Told>, whom: Whom) -> Vec<String> {
    let mut by_reason: Vec<(&str, [Vec<&str>; 2])> = Vec::new();
    for (name, why) in refused {
        let at = by_reason.iter().position(|(reason, _)| reason == why);
        let at = at.unwrap_or_else(|| {
            by_reason.push((why, Default::default()));
            by_reason.len() - 1
        });
        let in_part = told.is_some_and(|told| told.contains_key(name));
        by_reason[at].1[usize::from(in_part)].push(name);
    }
    let sentence = |(why, [not, in_part]): (&str, [Vec<&str>; 2])| {
        let and = if not.is_empty() || in_part.is_empty() { "" } else { ", and " };
        let rest = match whom {
            _ if in_part.is_empty() => String::new(),
            Whom::Started => format!("what is not over by the end ({})", in_part.join(", ")),
            Whom::Process(_) => format!("what ends meanwhile ({})", in_part.join(", ")),
        };
        Missing::no_tracepoints(&format!("{}{and}{rest}", not.join(", ")), why).0
    };
    by_reason.into_iter().map(sentence).collect()
}

impl Counted<'_> {
    /// An event for each thread that is there, which those that come from it inherit. What this one starts
    /// is counted from its exec(2) on: until then it is a copy of this program, which searches PATH.
    fn each_thread(&self, builder: &mut Builder<'_>) -> io::Result<Vec<Counter>> {
        survived(libc::SYS_perf_event_open)?;
        builder.exclude_kernel(false).exclude_hv(true).inherit(true);
        if self.whom == Whom::Started {
            return Ok(vec![builder.enabled(false).enable_on_exec(true).observe_self().build()?]);
        }
        of_each(builder.enabled(true), self.threads)
    }

    /// The same, for a tracepoint that passes a filter.
    ///
    /// The events are of no CPU: the kernel tells those of one CPU of a wake-up twice, by the thread that
    /// wakes and by the one that is woken (`__perf_task`, perf_tp_event_target_task in kernel/events/core.c).
    fn filtered(&self, id: u64, filter: Option<&str>) -> io::Result<Vec<Counter>> {
        let events = self.each_thread(&mut Builder::new(Tracepoint::with_id(id)))?;
        if let Some(filter) = filter {
            let filter = CString::new(filter).map_err(io::Error::other)?;
            events.iter().try_for_each(|event| set_filter(event, &filter))?;
        }
        Ok(events)
    }
}

fn traced(counted: &Counted<'_>, from: &Tracepoints, tried: &mut Tried) {
    if let Some(id) = from.id("sched/sched_switch") {
        // A thread that leaves its CPU while it could run (TASK_RUNNING is 0) was made to; one that
        // is preempted has a bit of its own set in newer kernels.
        tried.add(name::SWITCHES_INVOLUNTARY, counted.filtered(id, Some(PREEMPTED)));
    }
    if let Some(id) = from.id("sched/sched_waking") {
        tried.add(name::WAKEUPS, counted.filtered(id, Some(BY_A_THREAD)));
        let across = |cpus: &[u32]| {
            let across = |cpu: &u32| format!("(CPU == {cpu} && target_cpu != {cpu})");
            let across = cpus.iter().map(across).collect::<Vec<_>>().join(" || ");
            counted.filtered(id, Some(&format!("{BY_A_THREAD} && ({across})")))
        };
        let parts: io::Result<Vec<_>> = counted.online.chunks(FILTER_CPUS).map(across).collect();
        tried.add(name::WAKEUPS_ACROSS, parts.map(|parts| parts.into_iter().flatten().collect()));
    }
    if counted.syscalls
        && let Some(id) = from.id("raw_syscalls/sys_enter")
    {
        tried.add(name::SYSCALLS, counted.filtered(id, None));
    }
}

/// TRACE_FLAG_HARDIRQ of the kernel is not set: whoever had the CPU when an interrupt came woke nobody.
const BY_A_THREAD: &str = "!(common_flags & 8)";

/// As many CPUs fit into a filter, which is a page at most.
const FILTER_CPUS: usize = 64;

/// TASK_REPORT_MAX of the kernel: 0x100 marks a preempted thread, 0 one that could run.
const PREEMPTED: &str = "prev_state == 0 || prev_state == 256";

/// That a machine has no such counter is no refusal; and who may have none is told so of all events.
fn hardware(counted: &Counted<'_>, tried: &mut Tried) {
    let events = [
        ("cycles", Hardware::CPU_CYCLES),
        ("instructions", Hardware::INSTRUCTIONS),
        ("cache-references", Hardware::CACHE_REFERENCES),
        ("cache-misses", Hardware::CACHE_MISSES),
        ("branch-misses", Hardware::BRANCH_MISSES),
    ];
    for (name, event) in events {
        match counted.each_thread(&mut Builder::new(event)) {
            Ok(events) => tried.sums.push(Sum { name, events, takes_turns: true }),
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
                tried.refused.push((name, why(&error)));
            }
            Err(_) => {}
        }
    }
}

/// Why something cannot be counted, and what would allow it.
pub(crate) fn why(error: &io::Error) -> String {
    match (error.raw_os_error(), binding()) {
        (Some(libc::EACCES | libc::EPERM), Some(level)) => format!(
            "kernel.perf_event_paranoid is {level}; root or CAP_PERFMON, or \
             kernel.perf_event_paranoid=-1 with a tracefs that all may read, allows it"
        ),
        (Some(libc::EACCES | libc::EPERM), None) => REFUSED.to_owned(),
        (Some(libc::EMFILE), _) => "too few open files are allowed; raise ulimit -n".to_owned(),
        _ => format!("perf_event_open: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switches_that_the_kernel_tells_everybody_are_not_said_to_be_missing() {
        let tried = Tried::default;
        let counting = |before| Counting { tried: tried(), whom: Whom::Started, before };
        assert!(counting(None).traced().contains("which switches were voluntary"));
        let told = counting(Some(so_far(Whom::Started)));
        assert_eq!(told.traced(), "wake-ups");
        assert!(told.stop(&mut Vec::new()).contains_key(name::SWITCHES_VOLUNTARY));
    }

    #[test]
    fn what_is_not_counted_is_named_once_with_its_reason() {
        let few = "too few".to_owned();
        let refused = [
            (name::MIGRATIONS, few.clone()),
            (name::FAULTS_MINOR, few.clone()),
            (name::WAKEUPS, "not for you".to_owned()),
            (name::WAKEUPS_ACROSS, few),
        ];
        let said = |told, whom| not_counted(&refused, told, whom);
        assert_eq!(
            said(None, Whom::Started),
            [
                "not counted: migrations, page-faults-minor, wakeups-across-cpus: too few",
                "not counted: wakeups: not for you",
            ]
        );
        let told = BTreeMap::from([(name::FAULTS_MINOR, 1.0), (name::FAULTS_MAJOR, 1.0)]);
        assert_eq!(
            said(Some(&told), Whom::Started)[0],
            "not counted: migrations, wakeups-across-cpus, and what is not over by the end \
             (page-faults-minor): too few"
        );
        assert_eq!(
            not_counted(&refused[1..2], Some(&told), Whom::Process(1)),
            ["not counted: what ends meanwhile (page-faults-minor): too few"]
        );
        assert!(not_counted(&[], Some(&told), Whom::Started).is_empty());
    }

    #[test]
    fn an_event_that_had_no_turn_has_counted_nothing_that_could_be_told() {
        assert_eq!(of_all_time(5, 300, 100), Some(15.0));
        assert_eq!(of_all_time(0, 0, 0), Some(0.0), "its thread never ran");
        assert_eq!(of_all_time(0, 300, 0), None);
    }

    /// An event that never had a turn, as it is for a CPU on which its thread was not, and one that always had.
    fn without_a_turn_and_with() -> Option<[Counter; 2]> {
        let before = rustix::thread::sched_getaffinity(None).expect("it has some");
        let mut cpus = (0..rustix::thread::CpuSet::MAX_CPU).filter(|cpu| before.is_set(*cpu));
        let (here, there) = cpus.next().zip(cpus.next())?;
        let mut only = rustix::thread::CpuSet::new();
        only.set(here);
        rustix::thread::sched_setaffinity(None, &only).expect("it is one of them");
        let on = |cpu| {
            let mut builder = Builder::new(Software::PAGE_FAULTS_MIN);
            builder.observe_self().one_cpu(cpu).enabled(true).build().ok()
        };
        let (mut without, mut with) = on(there).zip(on(here))?;
        let mut has_time = || {
            let times = [&mut without, &mut with].map(|event| {
                let read = event.read_count_and_time().expect("it is there");
                (read.time_enabled > 0, read.time_running > 0)
            });
            times == [(true, false), (true, true)]
        };
        let until = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while !has_time() {
            assert!(std::time::Instant::now() < until, "{without:?}, {with:?}");
        }
        rustix::thread::sched_setaffinity(None, &before).expect("it had these");
        Some([without, with])
    }

    fn taking_turns(events: Vec<Counter>) -> Sum {
        Sum { name: name::FAULTS_MINOR, events, takes_turns: true }
    }

    #[test]
    fn a_thread_without_a_turn_takes_nothing_from_what_the_others_counted() {
        let Some([without, mut with]) = without_a_turn_and_with() else {
            return println!("skipped: no events, or a single CPU");
        };
        with.disable().expect("it is there");
        let count = with.read().expect("it is there");
        let (_, number) = taking_turns(vec![without, with]).number().expect("one had its turns");
        assert!(number >= count as f64, "{number} of {count}");
    }

    #[test]
    fn what_is_told_everybody_is_counted_in_part_where_its_event_told_nothing() {
        let Some([without, _]) = without_a_turn_and_with() else {
            return println!("skipped: no events, or a single CPU");
        };
        let tried = Tried { sums: vec![taking_turns(vec![without])], refused: Vec::new() };
        let before = Some(so_far(Whom::Started));
        let mut missing = Vec::new();
        let numbers = Counting { tried, whom: Whom::Started, before }.stop(&mut missing);
        assert!(numbers.contains_key(name::FAULTS_MINOR), "{numbers:?}");
        let said = "not counted: what is not over by the end (page-faults-minor): ";
        assert_eq!(missing, [format!("{said}{NO_TURN}")]);
    }

    #[test]
    fn a_counter_of_which_one_event_is_refused_is_not_counted() {
        let mut tried = Tried::default();
        let event = || Builder::new(Software::PAGE_FAULTS_MIN).observe_self().build();
        let Ok(one) = event() else { return println!("skipped: no events") };
        let refused = || io::Error::from_raw_os_error(libc::EMFILE);
        tried.add(name::FAULTS_MINOR, [Ok(one), Err(refused())].into_iter().collect());
        assert!(tried.sums.is_empty());
        assert_eq!(tried.refused, [(name::FAULTS_MINOR, why(&refused()))]);
    }
}
