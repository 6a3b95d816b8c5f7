//! Who woke whom, from which CPU to which, and how long it took from there until the woken thread ran.

use rustix::io::Errno;

use super::TraceError;
use super::asm::{Alu, Asm, Helper, If, Reg, Size};
use super::attach::Attached;
use super::hook::{Event, Hook, Unknown, Value};
use super::off_cpu::{left_as, tally};
use super::tasks::{BYSTANDER, KEY, TRACED, Tasks, WHO, number, task, wide};
use super::wakers::{Threads, Wakers};
use crate::sys::bpf::{Map, MapKind};

pub(super) const WAKING: Event = Event { group: "sched", name: "sched_waking" };
pub(super) const SWITCH: Event = Event { group: "sched", name: "sched_switch" };

pub(super) const WAKEE_TID: Value =
    Value { argument: ("p", 0), member: Some(("task_struct", &["pid"])), field: "pid" };
pub(super) const PREVIOUS_TID: Value =
    Value { argument: ("prev", 1), member: Some(("task_struct", &["pid"])), field: "prev_pid" };
pub(super) const NEXT_TID: Value =
    Value { argument: ("next", 2), member: Some(("task_struct", &["pid"])), field: "next_pid" };

const ROWS_MAX: u32 = 16_384;
/// waker, wakee, the waker's CPU, the wakee's, the waker's stack, whether the wakee is traced.
const ROW_BYTES: i16 = 24;
const ROW: i16 = -152;
/// Powers of two of nanoseconds, up to more than a second.
pub(super) const BUCKETS: usize = 32;
/// Nanoseconds in all, times, the longest, then the buckets.
const VALUE_BYTES: i16 = 24 + 8 * BUCKETS as i16;
const VALUE: i16 = ROW - VALUE_BYTES;

/// The maps of this mode.
#[derive(Debug)]
pub(super) struct Wakeups {
    pub(super) wakers: Wakers,
    rows: Map,
}

/// How one thread woke another from one CPU to one CPU, in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) waker: u32,
    pub(super) wakee: u32,
    pub(super) waker_cpu: u32,
    pub(super) cpu: u32,
    pub(super) waker_stack: i32,
    /// The wakee is traced, and not only woken by what is.
    pub(super) traced: bool,
    pub(super) total_ns: u64,
    pub(super) times: u64,
    pub(super) longest_ns: u64,
    pub(super) buckets: Vec<u64>,
}

impl Wakeups {
    pub(super) fn new() -> Result<Wakeups, Errno> {
        let (key, value) = (ROW_BYTES as usize, VALUE_BYTES as usize);
        let rows = Map::new(MapKind::Hash, "bp_wakeups", key, value, ROWS_MAX)?;
        Ok(Wakeups { wakers: Wakers::new(Threads::WithoutStacks)?, rows })
    }

    pub(super) fn attach(
        &self,
        tasks: &Tasks,
        attached: &mut Attached<'_>,
    ) -> Result<(), TraceError> {
        attached.on(WAKING, |hook| self.on_waking(hook, tasks))?;
        attached.on(SWITCH, |hook| self.on_switch(hook, tasks))
    }

    fn on_switch(&self, hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let (next, end) = (asm.label(), asm.label());
        // Who was woken before it slept has lost no time by it.
        hook.value(&mut asm, Reg::R8, &PREVIOUS_TID)?;
        asm.store(Size::B4, Reg::R10, KEY, Reg::R8);
        asm.lookup(&tasks.tasks, KEY, next);
        asm.mov(Reg::R7, Reg::R0);
        // Whoever sleeps may be woken while it still is on its way.
        left_as(hook, &mut asm)?;
        asm.jump_if(Reg::R8, If::Different, 0, next);
        asm.store(Size::B8, Reg::R7, task::WOKEN_NS, 0);
        asm.place(next);
        hook.value(&mut asm, Reg::R8, &NEXT_TID)?;
        asm.store(Size::B4, Reg::R10, KEY, Reg::R8);
        asm.lookup(&tasks.tasks, KEY, end);
        asm.mov(Reg::R7, Reg::R0);
        asm.load(Size::B8, Reg::R9, Reg::R7, task::WOKEN_NS);
        asm.jump_if(Reg::R9, If::Equal, 0, end);
        asm.store(Size::B8, Reg::R7, task::WOKEN_NS, 0);
        asm.zero(ROW, ROW_BYTES);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::WAKER_TID);
        asm.store(Size::B4, Reg::R10, ROW, Reg::R1);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::WHO);
        asm.store(Size::B4, Reg::R10, ROW + 4, Reg::R1);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::WAKER_CPU);
        asm.store(Size::B4, Reg::R10, ROW + 8, Reg::R1);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::WAKER_STACK);
        asm.store(Size::B4, Reg::R10, ROW + 16, Reg::R1);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::STATE);
        asm.store(Size::B4, Reg::R10, ROW + 20, Reg::R1);
        asm.call(Helper::Cpu);
        asm.store(Size::B4, Reg::R10, ROW + 12, Reg::R0);
        asm.call(Helper::Now);
        asm.alu(Alu::Subtract, Reg::R0, Reg::R9);
        asm.mov(Reg::R9, Reg::R0);
        tasks.row(&mut asm, &self.rows, ROW, (VALUE, VALUE_BYTES), end);
        asm.mov(Reg::R7, Reg::R0);
        tally(&mut asm, Reg::R9);
        count(&mut asm, Reg::R7, 24, BUCKETS);
        asm.end(end);
        Ok(asm)
    }

    fn on_waking(&self, hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let (end, stranger, untraced) = (asm.label(), asm.label(), asm.label());
        let (traced, new, there) = (asm.label(), asm.label(), asm.label());
        // R9: the state of who wakes.
        asm.mov(Reg::R9, 0);
        asm.call(Helper::PidTgid);
        asm.store(Size::B4, Reg::R10, KEY, Reg::R0);
        asm.lookup(&tasks.tasks, KEY, stranger);
        asm.load(Size::B4, Reg::R9, Reg::R0, task::STATE);
        asm.place(stranger);
        hook.value(&mut asm, Reg::R8, &WAKEE_TID)?;
        asm.store(Size::B4, Reg::R10, KEY, Reg::R8);
        asm.lookup(&tasks.tasks, KEY, untraced);
        asm.mov(Reg::R7, Reg::R0);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::STATE);
        asm.jump_if(Reg::R1, If::Equal, TRACED, traced);
        asm.jump_if(Reg::R1, If::Different, BYSTANDER, end);
        // What woke it before has not ended this sleep.
        asm.store(Size::B8, Reg::R7, task::WOKEN_NS, 0);

        asm.place(untraced);
        asm.jump_if(Reg::R9, If::Different, TRACED, end);
        // What an interrupt wakes is nobody's doing, and so nothing to do with what is traced.
        self.wakers.interrupt(&mut asm, end);
        asm.lookup(&tasks.tasks, KEY, new);
        asm.jump(there);
        asm.place(new);
        asm.load(Size::B4, Reg::R8, Reg::R10, KEY);
        asm.store(Size::B4, Reg::R10, WHO, Reg::R8);
        asm.mov(Reg::R7, BYSTANDER);
        asm.mov(Reg::R9, 0);
        tasks.insert(&mut asm, Reg::R7, Reg::R9);
        asm.lookup(&tasks.tasks, KEY, end);
        asm.place(there);
        asm.mov(Reg::R7, Reg::R0);
        self.wakers.note_thread(&mut asm, tasks);
        asm.jump(end);

        asm.place(traced);
        self.wakers.note(&mut asm, tasks);
        asm.end(end);
        Ok(asm)
    }

    pub(super) fn rows(&self) -> Result<Vec<Row>, Errno> {
        let mut rows: Vec<Row> =
            self.rows.entries()?.iter().map(|(key, value)| row(key, value)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
        Ok(rows)
    }
}

/// Counts the time in R9 in the bucket of its power of two, of those at `first` behind `base`. Changes
/// R8 and R9.
pub(super) fn count(asm: &mut Asm, base: Reg, first: i16, buckets: usize) {
    asm.log2(Reg::R8, Reg::R9, buckets as i32 - 1);
    asm.alu(Alu::ShiftLeft, Reg::R8, 3);
    asm.mov(Reg::R2, base);
    asm.add(Reg::R2, Reg::R8);
    asm.mov(Reg::R1, 1);
    asm.atomic_add(Reg::R2, first, Reg::R1);
}

fn row(key: &[u8], value: &[u8]) -> Row {
    Row {
        waker: number(key, 0),
        wakee: number(key, 4),
        waker_cpu: number(key, 8),
        cpu: number(key, 12),
        waker_stack: number(key, 16) as i32,
        traced: number(key, 20) == TRACED as u32,
        total_ns: wide(value, 0),
        times: wide(value, 8),
        longest_ns: wide(value, 16),
        buckets: buckets(value, 24, BUCKETS),
    }
}

/// The counts of a histogram in what a map holds.
pub(super) fn buckets(value: &[u8], first: usize, buckets: usize) -> Vec<u64> {
    (0..buckets).map(|bucket| wide(value, first + 8 * bucket)).collect()
}

const _: () = assert!(ROW + ROW_BYTES <= KEY - task::BYTES - 24 && VALUE >= -512);

#[cfg(test)]
mod tests {
    use super::super::tasks::NO_STACK;
    use super::super::wakers::INTERRUPT;
    use super::super::{Maps, Mode, Tracing};

    #[test]
    fn what_an_interrupt_woke_is_kept_by_its_way_and_not_by_what_it_interrupted() {
        let mut tracing = match Tracing::start(Mode::Wakeups) {
            Ok(tracing) => tracing,
            Err(error) => return println!("skipped: {error}"),
        };
        tracing.arm().expect("this process is known");
        let line = "sleep 0.05 & i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; wait";
        let ended = std::process::Command::new("sh").args(["-c", line]).status();
        assert!(ended.is_ok_and(|status| status.success()));
        tracing.disarm();
        let Maps::Wakeups(maps) = &tracing.maps else { panic!("{tracing:?}") };
        if maps.wakers.entries.is_none() {
            return println!("skipped: the kernel does not tell where interrupts enter it");
        }
        let rows = maps.rows().expect("they can be read");
        let by_way: Vec<_> = rows.iter().filter(|row| row.waker_stack != NO_STACK).collect();
        assert!(!by_way.is_empty(), "{rows:?}");
        assert!(by_way.iter().all(|row| row.waker == 0), "{by_way:?}");
        let stacks: std::collections::HashSet<_> =
            by_way.iter().map(|row| row.waker_stack).filter(|stack| *stack != INTERRUPT).collect();
        let ways = maps.wakers.interrupts.entries().expect("they can be read").len();
        assert!(stacks.len() <= ways, "{} stacks of {ways} ways", stacks.len());
    }
}
