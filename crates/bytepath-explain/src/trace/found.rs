//! What was gathered, in the words of the report: threads with names, stacks with functions, seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use bytepath_report::{
    TraceConnection, TraceFile, TraceFound, TraceLost, TraceOffCpu, TraceSoftirq, TraceSyscall,
    TraceThread, TraceUntold, TraceWakeup, Traced, TracedSchema, numbers,
};
use rustix::io::Errno;

use super::code::Looked;
use super::descriptors::{Kinds, Unseen};
use super::follow::Told;
use super::names::Places;
use super::{
    Maps, Tracing, calls, files, off_cpu, soft_interrupts, stacks, tasks, tcp, wakers, wakeups,
};
use crate::world::{World, text};

/// What is told, what is only added up, and notes.
pub(super) type Found = (TraceFound, Vec<TraceUntold>, Vec<String>);

/// What threads of ours gathered meanwhile.
pub(super) struct Gathered {
    pub(super) told: Option<Told>,
    pub(super) code: Option<Looked>,
}

pub(super) fn of(tracing: &Tracing, gathered: Gathered, ended_ns: u64) -> Result<Found, Errno> {
    let (mut notes, mut untold) = (Vec::new(), Vec::new());
    let tasks = &tracing.tasks;
    let found = match (&tracing.maps, gathered.told) {
        (Maps::OffCpu(maps), _) => {
            let rows = maps.rows(tasks, ended_ns)?;
            let code = gathered.code;
            let code = code.unwrap_or_else(|| Looked { world: World::new(&[], []), lost: 0 });
            notes.extend(unmapped_note(code.lost));
            TraceFound::OffCpu(off_cpu(tracing, maps, &rows, code.world, &mut notes))
        }
        (Maps::Wakeups(maps), _) => {
            TraceFound::Wakeups(wakeups(tasks, maps, &maps.rows()?, &mut notes))
        }
        (Maps::Syscalls(maps), _) => {
            let rows = maps.rows(tasks, ended_ns)?;
            notes.extend(before_note(tracing.before.calls));
            TraceFound::Syscalls(rows.into_iter().map(syscall).collect())
        }
        (Maps::Softirq(maps), _) => {
            TraceFound::Softirq(maps.rows()?.into_iter().map(softirq).collect())
        }
        (Maps::FileLife(maps), Some(Told::Files(story))) => {
            let told = story.told(maps, tasks)?;
            notes.extend(unseen_notes(&maps.kinds, tracing.before.ring));
            notes.extend(untold_note(&told.untold, ["file", "read", "written"]));
            untold = told.untold;
            let file = |row| file(tasks, row, told.first_ns);
            TraceFound::FileLife(told.rows.into_iter().map(file).collect())
        }
        (Maps::Tcp(maps), Some(Told::Connections(mut rows))) => {
            maps.left(&mut rows)?;
            let told = rows.told();
            notes.extend(unseen_notes(&maps.kinds, tracing.before.ring));
            notes.extend(untold_note(&told.untold, ["connection", "received", "sent"]));
            untold = told.untold;
            TraceFound::Tcp(told.rows.into_iter().map(|row| connection(tasks, row)).collect())
        }
        (Maps::FileLife(_) | Maps::Tcp(_), _) => unreachable!("their records were collected"),
    };
    Ok((found, untold, notes))
}

/// What was traced, with all that is to be said about it.
pub(super) fn traced(
    tracing: Tracing,
    (found, untold, notes): Found,
    what: &str,
    ended: Duration,
) -> Traced {
    let lost = tracing.tasks.lost().into_iter();
    let mut missing = tracing.missing;
    missing.extend(notes);
    Traced {
        schema: TracedSchema::V1,
        bytepath: env!("CARGO_PKG_VERSION").to_owned(),
        what: what.to_owned(),
        seconds: ended.saturating_sub(Duration::from_nanos(tracing.begun_ns)).as_secs_f64(),
        attached: tracing.told,
        lost: lost.map(|(lost, times)| TraceLost { what: lost.what().to_owned(), times }).collect(),
        untold,
        missing,
        found,
    }
}

fn untold_note(untold: &[TraceUntold], [what, read, written]: [&str; 3]) -> Option<String> {
    let sum = |of: fn(&TraceUntold) -> u64| untold.iter().map(of).sum::<u64>();
    let rows = sum(|untold| untold.rows);
    (rows > 0).then(|| {
        format!(
            "not told one by one: {} with no more bytes than any that is; together {} {read}, {} \
             {written}",
            numbers::counted(rows, &format!("more {what}")),
            numbers::bytes(sum(|untold| untold.read_bytes)),
            numbers::bytes(sum(|untold| untold.written_bytes)),
        )
    })
}

fn unseen_notes(kinds: &Kinds, ring_before: bool) -> impl Iterator<Item = String> {
    let rings = ring_note(kinds.unseen(Unseen::OfRings), ring_before);
    rings.into_iter().chain(other_table_note(kinds.unseen(Unseen::Of32Bits)))
}

fn ring_note(calls: u64, before: bool) -> Option<String> {
    let calls = (calls > 0).then(|| {
        let calls = numbers::counted(calls, "call");
        format!("{calls} of io_uring_setup, io_uring_enter or io_submit")
    });
    let before = before.then(|| "a ring that was there before".to_owned());
    let why: Vec<String> = calls.into_iter().chain(before).collect();
    (!why.is_empty()).then(|| {
        format!(
            "rings were used or may have been ({}): what they move is not seen in system calls, and is \
             not in these figures",
            why.join(", ")
        )
    })
}

fn other_table_note(calls: u64) -> Option<String> {
    (calls > 0).then(|| {
        format!(
            "{} of the table for 32 bits are not looked at: what they moved is not in these figures",
            numbers::counted(calls, "call")
        )
    })
}

fn before_note(calls: u64) -> Option<String> {
    (calls > 0).then(|| {
        let calls = numbers::counted(calls, "call");
        format!("{calls} had begun before anybody looked: time counts from then on")
    })
}

fn unmapped_note(lost: u64) -> Option<String> {
    (lost > 0).then(|| {
        format!(
            "functions of programs may have no names, or those of other code: {} of what was mapped where \
             came faster than anybody took them",
            numbers::counted(lost, "record")
        )
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn thread(tasks: &tasks::Tasks, who: u32) -> TraceThread {
    let tid = tasks::tid(who);
    if tid == 0 {
        return TraceThread { pid: 0, tid, name: "(idle CPU)".to_owned() };
    }
    match tasks.person(who) {
        Some(person) => TraceThread { pid: person.tgid, tid, name: person.name },
        None => living(tid).unwrap_or(TraceThread { pid: 0, tid, name: format!("thread {tid}") }),
    }
}

/// A thread that never ran where it would have been seen: as the kernel tells now, if it lives.
fn living(tid: u32) -> Option<TraceThread> {
    if !tasks::in_first_pid_namespace() {
        return None;
    }
    let name = text(&format!("/proc/{tid}/comm")).trim_end().to_owned();
    let status = text(&format!("/proc/{tid}/status"));
    let pid = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok())?;
    Some(TraceThread { pid, tid, name })
}

/// The numbers of a row's stacks: of the kernel, of the program, of the waker.
type Numbered = [Vec<usize>; 3];

fn off_cpu(
    tracing: &Tracing,
    maps: &off_cpu::OffCpu,
    rows: &[off_cpu::Row],
    world: World,
    notes: &mut Vec<String>,
) -> Vec<TraceOffCpu> {
    let tasks = &tracing.tasks;
    let mut places = Places::default();
    let numbered: Vec<(TraceThread, Numbered)> = rows
        .iter()
        .map(|row| {
            let who = thread(tasks, row.who);
            let taken = |number| stacks::addresses(&maps.wakers.stacks, number);
            let kernel = places.of_kernel(&taken(row.kernel_stack));
            let user =
                places.of_user(&world, (who.pid, tasks::programs(row.who)), &taken(row.user_stack));
            let waker = places.of_kernel(&taken(row.waker_stack));
            (who, [kernel, user, waker])
        })
        .collect();
    notes.extend(by_now_note(&world, rows.iter().zip(&numbered)));
    let names = places.named(&world, notes);
    let mut merged: BTreeMap<_, TraceOffCpu> = BTreeMap::new();
    for (row, (who, [kernel, user, waker])) in rows.iter().zip(numbered) {
        let mut waker_stack = names.stack(&waker);
        let kind = woken_by(row.waker_stack, &waker_stack);
        if kind.is_some() {
            waker_stack.drain(..entry(&waker_stack).unwrap_or(0));
        }
        let kernel_stack = match row.kernel_stack {
            tasks::BEFORE => tracing.before.stacks.get(&who.tid).cloned().unwrap_or_default(),
            _ => names.stack(&kernel),
        };
        let slept = (row.who, state(row.state), row.still, row.kernel_stack, row.user_stack);
        let by_thread = kind.is_none().then_some((row.waker, row.waker_stack));
        let told = TraceOffCpu {
            thread: who,
            state: slept.1.to_owned(),
            seconds: seconds(row.total_ns),
            times: row.times,
            longest_seconds: seconds(row.longest_ns),
            still: row.still,
            user_stack: names.stack(&user),
            kernel_stack,
            waker: row.waker.filter(|_| kind.is_none()).map(|tid| thread(tasks, tid)),
            interrupt: kind.map(str::to_owned),
            waker_stack,
        };
        let sum = merged.entry((slept, kind, by_thread));
        sum.and_modify(|sum| {
            sum.times += told.times;
            sum.seconds += told.seconds;
            sum.longest_seconds = sum.longest_seconds.max(told.longest_seconds);
        })
        .or_insert(told);
    }
    let mut merged: Vec<TraceOffCpu> = merged.into_values().collect();
    merged.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    merged
}

/// Where a program is not known that stacks were taken in.
fn by_now_note<'r>(
    world: &World,
    rows: impl Iterator<Item = (&'r off_cpu::Row, &'r (TraceThread, Numbered))>,
) -> Option<String> {
    let by_now = rows.filter(|(row, (who, [_, user, _]))| {
        !user.is_empty() && world.is_told_by_now(who.pid, tasks::programs(row.who))
    });
    let mut names: Vec<String> = by_now.map(|(_, (who, _))| who.name.clone()).collect();
    names.sort();
    names.dedup();
    (!names.is_empty()).then(|| {
        format!(
            "user stacks of {} may have the names of another program's functions: what was mapped \
             then is not known, likely since it began another program (exec) just when it was followed; \
             trace it again",
            names.join(", ")
        )
    })
}

/// The kernel's states of threads (include/linux/sched.h).
fn state(bits: u32) -> &'static str {
    match bits {
        0 => "runnable",
        // Most that are being woken did.
        bits if bits & (1 | off_cpu::WAKING_STATE) != 0 => "sleeping",
        bits if bits & (2 | off_cpu::LOCK_STATE | off_cpu::FROZEN_STATE) != 0 => "uninterruptible",
        bits if bits & 4 != 0 => "stopped",
        bits if bits & 8 != 0 => "traced",
        _ => "ended",
    }
}

/// What an interrupt does before it wakes, by which its kind is known. These functions are named alike on
/// all processors and in all kernels since 5.10, but for the last.
const INTERRUPTS: [(&str, &str); 8] = [
    ("hrtimer_interrupt", "timer"),
    ("tick_", "timer"),
    ("run_timer_softirq", "timer"),
    ("net_rx_action", "network"),
    ("blk_done_softirq", "block device"),
    ("blk_complete_reqs", "block device"),
    ("rcu_core", "RCU"),
    ("sysvec_reschedule_ipi", "reschedule"),
];

/// Where interrupts come into the kernel, on x86 and on Arm, or are left to a thread of its own.
const ENTRIES: [&str; 10] = [
    "sysvec_",
    "common_interrupt",
    "evtchn_do_upcall",
    "el0_interrupt",
    "el1_interrupt",
    "el0_irq",
    "el1_irq",
    "_64_irq",
    "_32_irq",
    wakers::KSOFTIRQD,
];

/// Where in a stack the innermost interrupt came to a thread, or to another interrupt, or what interrupts
/// leave to the kernel was done, by its own thread for that or in whatever came by. None where it was
/// not, as in what the thread called for: who sends to this machine runs the soft interrupt that
/// receives.
fn entry(stack: &[String]) -> Option<usize> {
    let enters = |function: &&String| ENTRIES.iter().any(|name| function.contains(name));
    let mut receives = false;
    let innermost = stack.iter().rposition(|function| {
        receives |= function.contains(wakers::RECEIVES);
        let is_soft = wakers::SOFT.iter().any(|name| function.contains(name));
        enters(&function) || is_soft && !receives
    })?;
    // One comes in through several functions.
    Some(innermost - stack[..innermost].iter().rev().take_while(enters).count())
}

/// The interrupt that woke a thread, by the stack that it did it in and its number, if one did. What it
/// interrupted says nothing of it.
fn woken_by(number: i32, stack: &[String]) -> Option<&'static str> {
    if number == wakers::INTERRUPT {
        return Some("unknown");
    }
    let stack = &stack[entry(stack)?..];
    let has = |start: &str| stack.iter().any(|function| function.contains(start));
    let known = INTERRUPTS.iter().find(|(function, _)| has(function));
    Some(known.map_or("device", |(_, name)| name))
}

/// Who woke whom: all that interrupts woke in one row for each kind of them and each thread, whoever they
/// came to.
fn wakeups(
    tasks: &tasks::Tasks,
    maps: &wakeups::Wakeups,
    rows: &[wakeups::Row],
    notes: &mut Vec<String>,
) -> Vec<TraceWakeup> {
    let mut places = Places::default();
    let numbered = rows
        .iter()
        .map(|row| places.of_kernel(&stacks::addresses(&maps.wakers.stacks, row.waker_stack)));
    let numbered: Vec<Vec<usize>> = numbered.collect();
    let names = places.named(&World::new(&[], []), notes);
    let mut merged: BTreeMap<_, TraceWakeup> = BTreeMap::new();
    for (row, stack) in rows.iter().zip(&numbered) {
        let stack = names.stack(stack);
        let kind = woken_by(row.waker_stack, &stack);
        // Programs know interrupts only where the kernel tells where those enter it.
        if kind.is_some() && !row.traced {
            continue;
        }
        let by = kind.map_or(row.waker, |_| 0);
        let key = (by, kind, row.wakee, row.waker_cpu, row.cpu);
        let wakeup = wakeup(tasks, row, kind);
        merged.entry(key).and_modify(|sum| add(sum, &wakeup)).or_insert(wakeup);
    }
    let mut merged: Vec<TraceWakeup> = merged.into_values().collect();
    merged.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    merged
}

fn add(sum: &mut TraceWakeup, more: &TraceWakeup) {
    sum.times += more.times;
    sum.seconds += more.seconds;
    sum.longest_seconds = sum.longest_seconds.max(more.longest_seconds);
    sum.log2_ns.iter_mut().zip(&more.log2_ns).for_each(|(sum, more)| *sum += more);
}

fn wakeup(tasks: &tasks::Tasks, row: &wakeups::Row, interrupt: Option<&str>) -> TraceWakeup {
    TraceWakeup {
        waker: interrupt.is_none().then(|| thread(tasks, row.waker)),
        interrupt: interrupt.map(str::to_owned),
        wakee: thread(tasks, row.wakee),
        from_cpu: row.waker_cpu,
        to_cpu: row.cpu,
        times: row.times,
        seconds: seconds(row.total_ns),
        longest_seconds: seconds(row.longest_ns),
        log2_ns: row.buckets.clone(),
    }
}

fn syscall(row: calls::Row) -> TraceSyscall {
    TraceSyscall {
        name: calls::name(row.number),
        calls: row.calls,
        errors: row.errors,
        seconds: seconds(row.total_ns),
        longest_seconds: seconds(row.longest_ns),
        log2_ns: row.buckets,
        unfinished: row.unfinished,
        unfinished_seconds: seconds(row.unfinished_ns),
    }
}

fn softirq(row: soft_interrupts::Row) -> TraceSoftirq {
    TraceSoftirq {
        vector: row.vector,
        times: row.times,
        seconds: seconds(row.total_ns),
        longest_seconds: seconds(row.longest_ns),
        on_traced_times: row.traced_times,
        on_traced_seconds: seconds(row.traced_ns),
        log2_ns: row.buckets,
    }
}

fn file(tasks: &tasks::Tasks, row: files::Row, first_ns: u64) -> TraceFile {
    let kind = match row.mode & libc::S_IFMT {
        libc::S_IFREG => "file",
        libc::S_IFDIR => "directory",
        libc::S_IFCHR => "character-device",
        libc::S_IFBLK => "block-device",
        libc::S_IFIFO => "fifo",
        _ => "other",
    };
    let since = row.opened_ns.unwrap_or(row.first_ns);
    TraceFile {
        path: row.path,
        file_system: row.kind,
        kind: kind.to_owned(),
        thread: thread(tasks, row.who),
        opened_at: row.opened_ns.map(|opened| seconds(opened.saturating_sub(first_ns))),
        lifetime_seconds: row.closed_ns.map(|closed| seconds(closed.saturating_sub(since))),
        reads: row.reads,
        read_bytes: row.read_bytes,
        writes: row.writes,
        written_bytes: row.written_bytes,
    }
}

fn connection(tasks: &tasks::Tasks, row: tcp::Row) -> TraceConnection {
    let end = |(address, port)| std::net::SocketAddr::new(address, port).to_string();
    TraceConnection {
        local: end(row.local),
        remote: end(row.remote),
        subnet: tcp::subnet(row.remote.0),
        thread: thread(tasks, row.who),
        sends: row.sends,
        sent_bytes: row.sent_bytes,
        receives: row.receives,
        received_bytes: row.received_bytes,
        lifetime_seconds: row.closed_ns.map(|at| seconds(at.saturating_sub(row.first_ns))),
        retransmitted: row.retransmitted,
        round_trip_seconds: row.round_trip_us.map(|us| f64::from(us) / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_thread_calls_for_is_no_interrupt_that_came_to_it() {
        let left =
            ["ret_from_fork", "kthread", "run_ksoftirqd", "handle_softirqs", "net_rx_action"];
        assert_eq!(woken_by(0, &stack(&left)), Some("network"));
        assert_eq!(entry(&stack(&left)), Some(2), "whose thread it is says nothing");
        let sends = ["tcp_sendmsg", "__local_bh_enable_ip", "do_softirq", "net_rx_action"];
        assert_eq!(woken_by(0, &stack(&sends)), None);
        let passes = ["ext4_file_write_iter", "do_softirq", "handle_softirqs", "blk_complete_reqs"];
        assert_eq!(woken_by(0, &stack(&passes)), Some("block device"));
        assert_eq!(entry(&stack(&passes)), Some(2), "whose thread it is says nothing");
    }

    #[test]
    fn who_is_being_woken_or_waits_for_a_lock_or_is_frozen_has_not_been_running() {
        let states = [0, 0x200, 1, 0x2001, 2, 0x402, 0x1000, 0x8000, 4, 8, 0x80].map(state);
        let (sleeping, uninterruptible) = (["sleeping"; 3], ["uninterruptible"; 4]);
        assert_eq!(states[0], "runnable");
        assert_eq!(states[1..4], sleeping);
        assert_eq!(states[4..8], uninterruptible);
        assert_eq!(states[8..], ["stopped", "traced", "ended"]);
    }

    #[test]
    fn an_interrupt_is_known_by_what_it_does_and_not_by_what_it_interrupted() {
        let timer = ["asm_sysvec_apic_timer_interrupt", "sysvec_apic_timer_interrupt"];
        let device = ["asm_common_interrupt", "common_interrupt", "handle_irq_event"];
        let arm = ["el1h_64_irq", "el1h_64_irq_handler", "el1_interrupt", "gic_handle_irq"];
        let idle = ["do_idle", "tick_nohz_idle_stop_tick"];
        let sends = ["tcp_sendmsg", "do_softirq", "handle_softirqs", "net_rx_action"];
        let soft = ["irq_exit_rcu", "handle_softirqs", "rcu_core"];
        let nested: [(&[&[&str]], &str, usize); 8] = [
            (&[&timer, &["hrtimer_interrupt"]], "timer", 0),
            (&[&idle, &device, &["vring_interrupt"]], "device", 2),
            (&[&idle, &arm, &["handle_irq_event", "vring_interrupt"]], "device", 2),
            (&[&sends, &timer, &["hrtimer_interrupt"]], "timer", 4),
            (&[&sends, &device, &["vring_interrupt"]], "device", 4),
            (&[&timer, &["irq_exit_rcu", "handle_softirqs", "run_timer_softirq"]], "timer", 3),
            (&[&timer, &soft, &device, &["vring_interrupt"]], "device", 5),
            (&[&timer, &["irq_exit_rcu", "handle_softirqs", "net_rx_action"]], "network", 0),
        ];
        for (parts, kind, begins) in nested {
            let stack = stack(&parts.concat());
            assert_eq!(
                (woken_by(0, &stack), entry(&stack)),
                (Some(kind), Some(begins)),
                "{stack:?}"
            );
        }
    }

    fn stack(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn what_is_not_told_one_by_one_is_told_together() {
        let untold = |rows| TraceUntold { rows, read_bytes: 10, written_bytes: 5, subnet: None };
        assert_eq!(untold_note(&[], ["file", "read", "written"]), None);
        let note = untold_note(&[untold(2), untold(3)], ["connection", "received", "sent"]);
        let wanted = "not told one by one: 5 more connections with no more bytes than any that is; \
                      together 20 B received, 10 B sent";
        assert_eq!(note.as_deref(), Some(wanted));
    }

    #[test]
    fn one_call_is_no_calls() {
        assert_eq!(before_note(0), None);
        assert!(before_note(1).is_some_and(|note| note.starts_with("1 call had begun")));
        assert!(before_note(2).is_some_and(|note| note.starts_with("2 calls had begun")));
        assert!(
            ring_note(1, false).is_some_and(|note| note.contains("(1 call of io_uring_setup, "))
        );
        assert!(ring_note(0, true).is_some_and(|note| note.contains("(a ring that was")));
        assert_eq!(ring_note(0, false), None);
        assert!(other_table_note(1).is_some_and(|note| note.starts_with("1 call of the table")));
    }
}
