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
    sums: Vec<Sum>,
    whom: Whom,
    /// What the kernel had counted before, where it has to do.
    before: Option<BTreeMap<&'static str, f64>>,
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
        let mut sums = Vec::new();
        let software = [
            (name::SWITCHES, Software::CONTEXT_SWITCHES),
            (name::MIGRATIONS, Software::CPU_MIGRATIONS),
            (name::FAULTS_MINOR, Software::PAGE_FAULTS_MIN),
            (name::FAULTS_MAJOR, Software::PAGE_FAULTS_MAJ),
        ];
        let mut refused: Option<io::Error> = None;
        for (name, event) in software {
            match counted.each_thread(&mut Builder::new(event)) {
                Ok(events) => sums.push(Sum { name, events, takes_turns: false }),
                Err(error) => refused = Some(error),
            }
        }
        let before = refused.map(|error| {
            let what = "migrations, and what is not over by the end";
            missing.push(Missing::no_tracepoints(what, &why(&error)).0);
            so_far(counted.whom)
        });
        sums.extend(hardware(counted));
        let mut counting = Counting { sums, whom: counted.whom, before };
        if let Some(tracepoints) = counted.tracepoints
            && let Err(error) = traced(counted, tracepoints, &mut counting.sums)
        {
            missing.push(Missing::no_tracepoints(counting.traced(), &why(&error)).0);
        }
        counting
    }

    /// What is not counted without tracepoints: which switches were voluntary the kernel tells too, where
    /// it counts for everybody.
    pub(crate) fn traced(&self) -> &'static str {
        match self.before {
            Some(_) => "wake-ups",
            None => "wake-ups, and which switches were voluntary",
        }
    }

    /// The numbers.
    pub(crate) fn stop(self) -> BTreeMap<String, f64> {
        let mut numbers = BTreeMap::new();
        for Sum { name, events, takes_turns } in self.sums {
            let mut sum = 0.0;
            for mut event in events {
                let Ok(read) = event.read_count_and_time() else { continue };
                let ran = match takes_turns && read.time_running > 0 {
                    true => read.time_running as f64 / read.time_enabled as f64,
                    false => 1.0,
                };
                sum += read.count as f64 / ran;
            }
            *numbers.entry(name.to_owned()).or_insert(0.0) += sum;
        }
        if let Some(before) = self.before {
            for (name, now) in so_far(self.whom) {
                let then = before.get(name).copied().unwrap_or(0.0);
                numbers.insert(name.to_owned(), (now - then).max(0.0));
            }
            return numbers;
        }
        // What is counted by elimination.
        if let (Some(all), Some(involuntary)) =
            (numbers.get(name::SWITCHES), numbers.get(name::SWITCHES_INVOLUNTARY))
        {
            let voluntary = (all - involuntary).max(0.0);
            numbers.insert(name::SWITCHES_VOLUNTARY.to_owned(), voluntary);
        }
        numbers.retain(|_, number| number.is_finite());
        numbers
    }
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

fn traced(counted: &Counted<'_>, from: &Tracepoints, sums: &mut Vec<Sum>) -> io::Result<()> {
    let of = |name, events| Sum { name, events, takes_turns: false };
    if let Some(id) = from.id("sched/sched_switch") {
        // A thread that leaves its CPU while it could run (TASK_RUNNING is 0) was made to; one that
        // is preempted has a bit of its own set in newer kernels.
        let events = counted.filtered(id, Some(PREEMPTED))?;
        sums.push(of(name::SWITCHES_INVOLUNTARY, events));
    }
    if let Some(id) = from.id("sched/sched_waking") {
        sums.push(of(name::WAKEUPS, counted.filtered(id, Some(BY_A_THREAD))?));
        for cpus in counted.online.chunks(FILTER_CPUS) {
            let across = |cpu: &u32| format!("(CPU == {cpu} && target_cpu != {cpu})");
            let across = cpus.iter().map(across).collect::<Vec<_>>().join(" || ");
            let filter = format!("{BY_A_THREAD} && ({across})");
            sums.push(of(name::WAKEUPS_ACROSS, counted.filtered(id, Some(&filter))?));
        }
    }
    if counted.syscalls
        && let Some(id) = from.id("raw_syscalls/sys_enter")
    {
        sums.push(of(name::SYSCALLS, counted.filtered(id, None)?));
    }
    Ok(())
}

/// TRACE_FLAG_HARDIRQ of the kernel is not set: whoever had the CPU when an interrupt came woke nobody.
const BY_A_THREAD: &str = "!(common_flags & 8)";

/// As many CPUs fit into a filter, which is a page at most.
const FILTER_CPUS: usize = 64;

/// TASK_REPORT_MAX of the kernel: 0x100 marks a preempted thread, 0 one that could run.
const PREEMPTED: &str = "prev_state == 0 || prev_state == 256";

fn hardware(counted: &Counted<'_>) -> Vec<Sum> {
    let events = [
        ("cycles", Hardware::CPU_CYCLES),
        ("instructions", Hardware::INSTRUCTIONS),
        ("cache-references", Hardware::CACHE_REFERENCES),
        ("cache-misses", Hardware::CACHE_MISSES),
        ("branch-misses", Hardware::BRANCH_MISSES),
    ];
    let open = |(name, event): (&'static str, Hardware)| {
        let events = counted.each_thread(&mut Builder::new(event)).ok()?;
        Some(Sum { name, events, takes_turns: true })
    };
    events.into_iter().filter_map(open).collect()
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
        let counting = |before| Counting { sums: Vec::new(), whom: Whom::Started, before };
        assert!(counting(None).traced().contains("which switches were voluntary"));
        let told = counting(Some(so_far(Whom::Started)));
        assert_eq!(told.traced(), "wake-ups");
        assert!(told.stop().contains_key(name::SWITCHES_VOLUNTARY));
    }
}
