//! Where threads were while they had no CPU: their stacks when they left it, for how long, and who
//! woke them, with that one's stack. From then on they wait for a CPU, which is told apart.
//!
//! Costs four look-ups in a map and two stacks for each switch of a traced thread, and what
//! `wakers` takes for each wake-up.

use rustix::io::Errno;

use super::TraceError;
use super::asm::{Alu, Asm, Helper, If, Reg, Size};
use super::attach::Attached;
use super::hook::{Hook, Unknown, Value};
use super::tasks::{KEY, NO_STACK, Tasks, number, task, wide};
use super::wakers::{Threads, Wakers};
use super::wakeups::{NEXT_TID, PREVIOUS_TID, SWITCH, WAKEE_TID, WAKING};
use crate::sys::bpf::{Map, MapKind};

const PREEMPTED: Value = Value { argument: ("preempt", 0), member: None, field: "" };
/// Since Linux 5.18: as it was when the kernel took its CPU away.
const LEFT_STATE: Value = Value { argument: ("prev_state", 3), member: None, field: "prev_state" };
/// Before, as it is by now: whoever wakes it from another CPU may have changed it. Kernels before 5.14
/// had the shorter name.
const PREVIOUS_STATE: Value = Value {
    argument: ("prev", 1),
    member: Some(("task_struct", &["__state", "state"])),
    ..LEFT_STATE
};

/// Rows: different sleeps of different threads.
const ROWS_MAX: u32 = 16_384;
const ROW: i16 = -152;
const ROW_BYTES: i16 = 24;
const VALUE: i16 = ROW - VALUE_BYTES;
/// Nanoseconds in all, times, the longest.
const VALUE_BYTES: i16 = 24;

/// BPF_F_USER_STACK
const OF_USER: i32 = 1 << 8;

/// The thread is being woken; what it slept as is not told any more.
pub(super) const WAKING_STATE: u32 = 0x200;
/// It waits for a lock of a real-time kernel.
pub(super) const LOCK_STATE: u32 = 0x1000;
pub(super) const FROZEN_STATE: u32 = 0x8000;
/// The bits of a state that say that a thread does not run; others tell of preemption, in perf's
/// record, and how it may be woken, in the task.
const STATES: i32 = 0xff | (WAKING_STATE | LOCK_STATE | FROZEN_STATE) as i32;

/// The maps of this mode.
#[derive(Debug)]
pub(super) struct OffCpu {
    pub(super) wakers: Wakers,
    rows: Map,
}

/// One sleep, as often as it was slept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    /// The thread, as its name is kept.
    pub(super) who: u32,
    /// TASK_INTERRUPTIBLE 1, TASK_UNINTERRUPTIBLE 2, …, and 0 for who could have run.
    pub(super) state: u32,
    pub(super) kernel_stack: i32,
    pub(super) user_stack: i32,
    /// 0 for an interrupt.
    pub(super) waker: Option<u32>,
    pub(super) waker_stack: i32,
    pub(super) total_ns: u64,
    pub(super) times: u64,
    pub(super) longest_ns: u64,
    /// It has not ended.
    pub(super) still: bool,
}

impl OffCpu {
    pub(super) fn new() -> Result<OffCpu, Errno> {
        Ok(OffCpu {
            wakers: Wakers::new(Threads::WithStacks)?,
            rows: Map::new(
                MapKind::Hash,
                "bp_offcpu",
                ROW_BYTES as usize,
                VALUE_BYTES as usize,
                ROWS_MAX,
            )?,
        })
    }

    pub(super) fn attach(
        &self,
        tasks: &Tasks,
        attached: &mut Attached<'_>,
    ) -> Result<(), TraceError> {
        attached.on(WAKING, |hook| self.on_waking(hook, tasks))?;
        attached.on(SWITCH, |hook| self.on_switch(hook, tasks))
    }

    fn on_waking(&self, hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let end = asm.label();
        hook.value(&mut asm, Reg::R8, &WAKEE_TID)?;
        tasks.of(&mut asm, Reg::R8, end);
        self.wakers.note(&mut asm, tasks);
        asm.end(end);
        Ok(asm)
    }

    fn on_switch(&self, hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let (next, end) = (asm.label(), asm.label());
        self.leaves(hook, tasks, &mut asm, next)?;
        asm.place(next);
        hook.value(&mut asm, Reg::R8, &NEXT_TID)?;
        tasks.of(&mut asm, Reg::R8, end);
        self.comes(tasks, &mut asm, end);
        asm.end(end);
        Ok(asm)
    }

    /// A traced thread leaves its CPU.
    fn leaves(
        &self,
        hook: &Hook<'_>,
        tasks: &Tasks,
        asm: &mut Asm,
        next: super::asm::Label,
    ) -> Result<(), Unknown> {
        hook.value(asm, Reg::R8, &PREVIOUS_TID)?;
        tasks.of(asm, Reg::R8, next);
        left_as(hook, asm)?;
        asm.store(Size::B4, Reg::R7, task::OFF_STATE, Reg::R8);
        tasks.stack(asm, &self.wakers.stacks, 0);
        asm.store(Size::B4, Reg::R7, task::OFF_KERNEL_STACK, Reg::R0);
        tasks.stack(asm, &self.wakers.stacks, OF_USER);
        asm.store(Size::B4, Reg::R7, task::OFF_USER_STACK, Reg::R0);
        asm.call(Helper::Now);
        asm.store(Size::B8, Reg::R7, task::OFF_NS, Reg::R0);
        Ok(())
    }

    /// A traced thread, whose record is in R7, gets a CPU.
    fn comes(&self, tasks: &Tasks, asm: &mut Asm, end: super::asm::Label) {
        // When it left its CPU, or when it was woken, and how long that took.
        let (since, woken) = (Reg::R9, Reg::R8);
        asm.load(Size::B8, since, Reg::R7, task::OFF_NS);
        asm.jump_if(since, If::Equal, 0, end);
        asm.store(Size::B8, Reg::R7, task::OFF_NS, 0);
        asm.zero(ROW, ROW_BYTES);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::WHO);
        asm.store(Size::B4, Reg::R10, ROW, Reg::R1);
        let fields =
            [(task::OFF_STATE, 4), (task::OFF_KERNEL_STACK, 8), (task::OFF_USER_STACK, 12)];
        for (from, to) in fields {
            asm.load(Size::B4, Reg::R1, Reg::R7, from);
            asm.store(Size::B4, Reg::R10, ROW + to, Reg::R1);
        }
        // Who never slept was not woken.
        let (in_order, slept, one) = (asm.label(), asm.label(), asm.label());
        asm.load(Size::B8, woken, Reg::R7, task::WOKEN_NS);
        asm.store(Size::B8, Reg::R7, task::WOKEN_NS, 0);
        asm.jump_if(woken, If::Equal, 0, one);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::OFF_STATE);
        asm.jump_if(Reg::R1, If::Equal, 0, one);
        for (from, to) in [(task::WAKER_TID, 16), (task::WAKER_STACK, 20)] {
            asm.load(Size::B4, Reg::R1, Reg::R7, from);
            asm.store(Size::B4, Reg::R10, ROW + to, Reg::R1);
        }
        // It may be woken while it is on its way.
        asm.jump_if(woken, If::AtLeast, since, in_order);
        asm.mov(woken, since);
        asm.place(in_order);
        self.tally_until(tasks, asm, (since, woken), slept);
        asm.place(slept);
        // From then on it waited for a CPU.
        asm.mov(since, woken);
        asm.store(Size::B4, Reg::R10, ROW + 4, 0);
        asm.place(one);
        asm.store(Size::B4, Reg::R10, ROW + 16, NOBODY as i32);
        asm.store(Size::B4, Reg::R10, ROW + 20, NO_STACK);
        asm.call(Helper::Now);
        asm.mov(woken, Reg::R0);
        self.tally_until(tasks, asm, (since, woken), end);
    }

    /// Adds the time between two moments to the row whose key is at [`ROW`]. Changes `from`.
    fn tally_until(
        &self,
        tasks: &Tasks,
        asm: &mut Asm,
        (from, until): (Reg, Reg),
        full: super::asm::Label,
    ) {
        asm.mov(Reg::R0, until);
        asm.alu(Alu::Subtract, Reg::R0, from);
        asm.mov(from, Reg::R0);
        tasks.row(asm, &self.rows, ROW, (VALUE, VALUE_BYTES), full);
        tally(asm, from);
    }

    /// What was slept, the longest first, with what has not ended at `now_ns`.
    pub(super) fn rows(&self, tasks: &Tasks, now_ns: u64) -> Result<Vec<Row>, Errno> {
        let ended = self.rows.entries()?;
        let mut rows: Vec<Row> = ended.iter().map(|(key, value)| row(key, value)).collect();
        for (_, record) in tasks.tasks.entries()? {
            let off_ns = wide(&record, task::OFF_NS as usize);
            let traced = number(&record, task::STATE as usize) == super::tasks::TRACED as u32;
            if off_ns > 0 && traced {
                let stack = |at: i16| number(&record, at as usize) as i32;
                let lasts = |state, from_ns, until_ns: u64, still| Row {
                    who: number(&record, task::WHO as usize),
                    state,
                    kernel_stack: stack(task::OFF_KERNEL_STACK),
                    user_stack: stack(task::OFF_USER_STACK),
                    waker: None,
                    waker_stack: NO_STACK,
                    total_ns: until_ns.saturating_sub(from_ns),
                    times: 1,
                    longest_ns: until_ns.saturating_sub(from_ns),
                    still,
                };
                let state = number(&record, task::OFF_STATE as usize);
                let woken_ns = wide(&record, task::WOKEN_NS as usize);
                // A wake-up before it left may have found it running still.
                if state == 0 || woken_ns < off_ns {
                    rows.push(lasts(state, off_ns, now_ns, true));
                } else {
                    let (waker, waker_stack) =
                        (Some(number(&record, task::WAKER_TID as usize)), stack(task::WAKER_STACK));
                    let slept = lasts(state, off_ns, woken_ns, false);
                    rows.push(Row { waker, waker_stack, ..slept });
                    rows.push(lasts(0, woken_ns, now_ns, true));
                }
            }
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
        Ok(rows)
    }
}

/// R8 = the state in which a thread leaves its CPU, 0 where it could have run on. Changes all but R6 and
/// R7.
pub(super) fn left_as(hook: &Hook<'_>, asm: &mut Asm) -> Result<(), Unknown> {
    let (goes, sleeps) = (asm.label(), asm.label());
    let by_then = hook.names(LEFT_STATE.argument.0);
    hook.value(asm, Reg::R8, if by_then { &LEFT_STATE } else { &PREVIOUS_STATE })?;
    asm.alu(Alu::And, Reg::R8, STATES);
    if by_then {
        // Until about Linux 6.14 it is as the kernel read it before it saw that a signal has the thread run on,
        // and set it so. Whoever else wakes it before it has left leaves WAKING there, or has it run on as well.
        hook.value(asm, Reg::R9, &PREVIOUS_STATE)?;
        asm.jump_if(Reg::R9, If::Different, 0, goes);
        asm.mov(Reg::R8, 0);
        asm.place(goes);
    }
    if hook.tells(&PREEMPTED) {
        hook.value(asm, Reg::R9, &PREEMPTED)?;
        asm.alu(Alu::And, Reg::R9, 1);
        asm.jump_if(Reg::R9, If::Equal, 0, sleeps);
        asm.mov(Reg::R8, 0);
    }
    asm.place(sleeps);
    Ok(())
}

/// No thread has this number.
const NOBODY: u32 = u32::MAX;

/// Adds a time in `delta` to the value that R0 points to: nanoseconds in all, times, and the longest,
/// which may be missed where two CPUs have one at the same moment.
pub(super) fn tally(asm: &mut Asm, delta: Reg) {
    let shorter = asm.label();
    asm.atomic_add(Reg::R0, 0, delta);
    asm.mov(Reg::R1, 1);
    asm.atomic_add(Reg::R0, 8, Reg::R1);
    asm.load(Size::B8, Reg::R1, Reg::R0, 16);
    asm.jump_if(Reg::R1, If::AtLeast, delta, shorter);
    asm.store(Size::B8, Reg::R0, 16, delta);
    asm.place(shorter);
}

fn row(key: &[u8], value: &[u8]) -> Row {
    Row {
        who: number(key, 0),
        state: number(key, 4),
        kernel_stack: number(key, 8) as i32,
        user_stack: number(key, 12) as i32,
        waker: Some(number(key, 16)).filter(|waker| *waker != NOBODY),
        waker_stack: number(key, 20) as i32,
        total_ns: wide(value, 0),
        times: wide(value, 8),
        longest_ns: wide(value, 16),
        still: false,
    }
}

// Rows lie below what `tasks` uses of the stack.
const _: () = assert!(ROW + ROW_BYTES <= KEY - task::BYTES - 24);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{Read as _, Write as _};
    use std::process::{Command, Stdio};

    use super::super::tasks::Lost;
    use super::super::{Maps, Mode, Tracing};
    use super::{ROW_BYTES, ROWS_MAX, VALUE_BYTES};

    #[test]
    fn where_no_row_is_left_the_wait_for_a_cpu_is_counted_as_lost_beside_the_sleep() {
        let mut tracing = match Tracing::start(Mode::OffCpu) {
            Ok(tracing) => tracing,
            Err(error) => return println!("skipped: {error}"),
        };
        let Maps::OffCpu(maps) = &tracing.maps else { panic!("{tracing:?}") };
        for number in 1..=ROWS_MAX {
            let mut key = [0xff; ROW_BYTES as usize];
            key[..4].copy_from_slice(&number.to_ne_bytes());
            maps.rows.set(&key, &[0; VALUE_BYTES as usize]).expect("there is room");
        }
        let mut cat = Command::new("cat");
        let cat = cat.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut cat = cat.expect("it is started");
        let (mut to, mut from) =
            (cat.stdin.take().expect("piped"), cat.stdout.take().expect("piped"));
        let mut pass = || {
            to.write_all(b"a").expect("it reads");
            from.read_exact(&mut [0]).expect("it writes");
        };
        pass();
        let pid = cat.id();
        let sleeps = || {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            line.expect("it is told").trim().parse::<u64>().expect("a number")
        };
        let followed = tracing.follow(pid);
        let before = sleeps();
        (0..100).for_each(|_| pass());
        let slept = sleeps() - before;
        drop(to);
        cat.wait().expect("it ends with its input");
        if let Err(error) = followed {
            return println!("skipped: {error}");
        }
        let lost = tracing.tasks.lost().into_iter().find(|(what, _)| *what == Lost::Keys);
        let lost = lost.map_or(0, |(_, count)| count);
        // Two for each, but one where the kernel does not tell who woke it, as it may once in a thousand.
        assert!(lost + 1 >= 2 * slept, "{lost} lost of {slept} sleeps");
    }
}
