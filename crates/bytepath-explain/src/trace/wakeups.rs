//! Who woke whom, from which CPU to which, and how long it took from there until the woken thread ran.
//! The stack in which it was woken tells whether that was an interrupt, which is nobody's doing.
//!
//! A wake-up costs the addresses of a stack and a search in them for the entry of an interrupt,
//! where the kernel tells where those are; only a new way from there is kept as a stack.

use std::fs;
use std::ops::Range;

use rustix::io::Errno;

use super::asm::{Alu, Asm, Helper, If, Label, Reg, Size};
use super::attach::Attached;
use super::hook::{CONTEXT, Event, Hook, SCRATCH, Unknown, Value};
use super::off_cpu::tally;
use super::tasks::{BYSTANDER, KEY, NO_STACK, TRACED, Tasks, WHO, number, task, wide};
use super::{TraceError, stacks};
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
/// waker, wakee, the waker's CPU, the wakee's, the waker's stack.
const ROW_BYTES: i16 = 24;
const ROW: i16 = -152;
/// A way of an interrupt, and its stack.
const WAY: i16 = ROW - 16;
/// Powers of two of nanoseconds, up to more than a second.
pub(super) const BUCKETS: usize = 32;
/// Nanoseconds in all, times, the longest, then the buckets.
const VALUE_BYTES: i16 = 24 + 8 * BUCKETS as i16;
const VALUE: i16 = ROW - VALUE_BYTES;

/// An interrupt, of which no more is known: its stack was not kept.
pub(super) const INTERRUPT: i32 = -3;
/// So deep an interrupt's entry is looked for.
const FRAMES: i16 = 80;
/// Ways of interrupts to a wake-up.
const INTERRUPTS_MAX: u32 = 1024;

/// The maps of this mode.
#[derive(Debug)]
pub(super) struct Wakeups {
    pub(super) stacks: Map,
    rows: Map,
    /// The stack here, for as long as a program looks at it.
    frames: Map,
    /// For each way from an interrupt's entry to a wake-up one stack, whatever was interrupted.
    interrupts: Map,
    /// Where interrupts enter the kernel, if it tells.
    entries: Option<Range<u64>>,
}

/// How one thread woke another from one CPU to one CPU, in one place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) waker: u32,
    pub(super) wakee: u32,
    pub(super) waker_cpu: u32,
    pub(super) cpu: u32,
    pub(super) waker_stack: i32,
    pub(super) total_ns: u64,
    pub(super) times: u64,
    pub(super) longest_ns: u64,
    pub(super) buckets: Vec<u64>,
}

impl Wakeups {
    pub(super) fn new() -> Result<Wakeups, Errno> {
        let (key, value) = (ROW_BYTES as usize, VALUE_BYTES as usize);
        let rows = Map::new(MapKind::Hash, "bp_wakeups", key, value, ROWS_MAX)?;
        let frames = Map::new(MapKind::PercpuArray, "bp_frames", 4, 8 * FRAMES as usize, 1)?;
        let interrupts = Map::new(MapKind::LruHash, "bp_interrupts", 8, 4, INTERRUPTS_MAX)?;
        let names = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let entries = entries(&names).filter(|_| !has_fred());
        Ok(Wakeups { stacks: stacks::map()?, rows, frames, interrupts, entries })
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
        asm.store(Size::B8, Reg::R0, task::WOKEN_NS, 0);
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
        let (end, stranger, new, woken) = (asm.label(), asm.label(), asm.label(), asm.label());
        // R9: the state of who wakes.
        asm.mov(Reg::R9, 0);
        asm.call(Helper::PidTgid);
        asm.store(Size::B4, Reg::R10, KEY, Reg::R0);
        asm.lookup(&tasks.tasks, KEY, stranger);
        asm.load(Size::B4, Reg::R9, Reg::R0, task::STATE);
        asm.place(stranger);
        hook.value(&mut asm, Reg::R8, &WAKEE_TID)?;
        asm.store(Size::B4, Reg::R10, KEY, Reg::R8);
        asm.lookup(&tasks.tasks, KEY, new);
        asm.mov(Reg::R7, Reg::R0);
        asm.load(Size::B4, Reg::R1, Reg::R7, task::STATE);
        asm.jump_if(Reg::R1, If::Equal, TRACED, woken);
        asm.jump_if(Reg::R9, If::Different, TRACED, end);
        asm.jump_if(Reg::R1, If::Equal, BYSTANDER, woken);
        asm.jump(end);

        asm.place(new);
        asm.jump_if(Reg::R9, If::Different, TRACED, end);
        asm.store(Size::B4, Reg::R10, WHO, Reg::R8);
        asm.mov(Reg::R7, BYSTANDER);
        asm.mov(Reg::R9, 0);
        tasks.insert(&mut asm, Reg::R7, Reg::R9);
        asm.lookup(&tasks.tasks, KEY, end);
        asm.mov(Reg::R7, Reg::R0);

        asm.place(woken);
        // A second waker of the same sleep woke nobody.
        asm.load(Size::B8, Reg::R1, Reg::R7, task::WOKEN_NS);
        asm.jump_if(Reg::R1, If::Different, 0, end);
        asm.call(Helper::Now);
        asm.store(Size::B8, Reg::R7, task::WOKEN_NS, Reg::R0);
        asm.call(Helper::Cpu);
        asm.store(Size::B4, Reg::R7, task::WAKER_CPU, Reg::R0);
        let thread = asm.label();
        match &self.entries {
            Some(entries) => {
                self.interrupt(&mut asm, tasks, entries, thread, end);
                asm.place(thread);
                asm.store(Size::B4, Reg::R7, task::WAKER_STACK, NO_STACK);
            }
            None => {
                tasks.stack(&mut asm, &self.stacks, 0);
                asm.store(Size::B4, Reg::R7, task::WAKER_STACK, Reg::R0);
            }
        }
        tasks.introduce(&mut asm);
        asm.load(Size::B4, Reg::R1, Reg::R10, WHO);
        asm.store(Size::B4, Reg::R7, task::WAKER_TID, Reg::R1);
        asm.end(end);
        Ok(asm)
    }

    /// Where an interrupt wakes the thread whose record is in R7: notes one stack for each way from
    /// the interrupt's entry, since what it interrupted lies below and differs each time; goes to
    /// `end`. Else goes to `thread`. Changes [`SCRATCH`], R8 and R9.
    fn interrupt(
        &self,
        asm: &mut Asm,
        tasks: &Tasks,
        entries: &Range<u64>,
        thread: Label,
        end: Label,
    ) {
        let (found, new, unkept, noted) = (asm.label(), asm.label(), asm.label(), asm.label());
        asm.store(Size::B8, Reg::R10, SCRATCH, 0);
        asm.lookup(&self.frames, SCRATCH, thread);
        asm.mov(Reg::R8, Reg::R0);
        asm.mov(Reg::R1, CONTEXT);
        asm.mov(Reg::R2, Reg::R8);
        asm.mov(Reg::R3, 8 * i32::from(FRAMES));
        asm.mov(Reg::R4, 0);
        asm.call(Helper::Stack);
        // R0: a sum of the addresses so far, by which ways are told apart.
        let (sum, first, bytes) = (Reg::R0, Reg::R2, Reg::R3);
        asm.mov(sum, 0);
        asm.number(first, entries.start);
        asm.number(bytes, entries.end - entries.start);
        for frame in 0..FRAMES {
            asm.load(Size::B8, Reg::R1, Reg::R8, 8 * frame);
            asm.jump_if(Reg::R1, If::Equal, 0, thread);
            asm.mov(Reg::R9, sum);
            asm.alu(Alu::ShiftLeft, Reg::R9, 5);
            asm.add(sum, Reg::R9);
            asm.add(sum, Reg::R1);
            asm.alu(Alu::Subtract, Reg::R1, first);
            asm.jump_if(bytes, If::Above, Reg::R1, found);
        }
        asm.jump(thread);
        asm.place(found);
        asm.zero(WAY, 16);
        asm.store(Size::B8, Reg::R10, WAY, Reg::R0);
        asm.store(Size::B4, Reg::R7, task::WAKER_TID, 0);
        asm.lookup(&self.interrupts, WAY, new);
        asm.load(Size::B4, Reg::R0, Reg::R0, 0);
        asm.jump(noted);
        asm.place(new);
        tasks.stack(asm, &self.stacks, 0);
        asm.mov(Reg::R8, Reg::R0);
        asm.store(Size::B4, Reg::R10, WAY + 8, Reg::R8);
        // Without its sign, a refusal is more than any stack's number.
        asm.load(Size::B4, Reg::R1, Reg::R10, WAY + 8);
        asm.jump_if(Reg::R1, If::AtLeast, stacks::STACKS_MAX as i32, unkept);
        asm.update(&self.interrupts, WAY, WAY + 8);
        asm.mov(Reg::R0, Reg::R8);
        asm.jump(noted);
        asm.place(unkept);
        asm.mov(Reg::R0, INTERRUPT);
        asm.place(noted);
        asm.store(Size::B4, Reg::R7, task::WAKER_STACK, Reg::R0);
        asm.jump(end);
    }

    pub(super) fn rows(&self) -> Result<Vec<Row>, Errno> {
        let mut rows: Vec<Row> =
            self.rows.entries()?.iter().map(|(key, value)| row(key, value)).collect();
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
        Ok(rows)
    }
}

/// Whether interrupts enter by the one way that faults have too (x86's FRED, Linux 6.9).
fn has_fred() -> bool {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = told.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "fred"))
}

/// Where interrupts enter the kernel, of which /proc/kallsyms tells; none where addresses are
/// hidden, other ways in lie between, or another processor has other ways.
fn entries(names: &str) -> Option<Range<u64>> {
    let symbol = |line: &str| {
        let mut words = line.split(' ');
        let at = u64::from_str_radix(words.next()?, 16).ok().filter(|at| *at > 0)?;
        Some((at, words.nth(1)?.to_owned()))
    };
    let mut symbols: Vec<(u64, String)> = names.lines().filter_map(symbol).collect();
    symbols.sort();
    let is_entry = |name: &str| name.starts_with("asm_sysvec_") || name == "asm_common_interrupt";
    let first = symbols.iter().position(|(_, name)| is_entry(name))?;
    let last = symbols.iter().rposition(|(_, name)| is_entry(name))?;
    let other = |(_, name): &(u64, String)| name.starts_with("asm_exc_");
    let has_common = symbols[first..=last].iter().any(|(_, name)| name == "asm_common_interrupt");
    let end = symbols.get(last + 1)?.0;
    (has_common && !symbols[first..=last].iter().any(other)).then_some(symbols[first].0..end)
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
    use super::super::{Maps, Mode, Tracing};
    use super::*;

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
        if maps.entries.is_none() {
            return println!("skipped: the kernel does not tell where interrupts enter it");
        }
        let rows = maps.rows().expect("they can be read");
        let by_way: Vec<_> = rows.iter().filter(|row| row.waker_stack != NO_STACK).collect();
        assert!(!by_way.is_empty(), "{rows:?}");
        assert!(by_way.iter().all(|row| row.waker == 0), "{by_way:?}");
        let stacks: std::collections::HashSet<_> =
            by_way.iter().map(|row| row.waker_stack).filter(|stack| *stack != INTERRUPT).collect();
        let ways = maps.interrupts.entries().expect("they can be read").len();
        assert!(stacks.len() <= ways, "{} stacks of {ways} ways", stacks.len());
    }

    #[test]
    fn entries_of_interrupts_are_a_range_without_other_entries_or_nothing() {
        let common = "f0 T asm_common_interrupt\n";
        let timer = "f8 T asm_sysvec_apic_timer_interrupt\nff T behind\n";
        let fault = "f4 T asm_exc_page_fault\n";
        assert_eq!(entries(&format!("e0 T asm_exc_nmi\n{common}{timer}")), Some(0xf0..0xff));
        assert_eq!(entries(&format!("{common}{fault}{timer}")), None);
        assert_eq!(entries("00 T asm_common_interrupt\n00 T behind\n"), None);
    }
}
