//! How long each system call took: a histogram by powers of two for each, kept for each CPU apart, so
//! that nobody waits for anybody.

use rustix::io::Errno;

use super::TraceError;
use super::asm::{Alu, Asm, Helper, If, Reg, Size};
use super::attach::Attached;
use super::hook::{Event, Hook, Kernel, SCRATCH, Unknown, Value, chase};
use super::tasks::{TRACED, Tasks, number, task, wide};
use super::wakeups::{buckets, count};
use crate::sys::bpf::{Map, MapKind};

pub(super) const ENTER: Event = Event { group: "raw_syscalls", name: "sys_enter" };
pub(super) const EXIT: Event = Event { group: "raw_syscalls", name: "sys_exit" };

const NUMBER: Value = Value { argument: ("id", 1), member: None, field: "id" };
pub(super) const RESULT: Value = Value { argument: ("ret", 1), member: None, field: "ret" };

/// System calls have numbers below this on every machine that we run on; the last place is for
/// whatever else there is.
pub(super) const CALLS: u32 = 512;
/// Behind them are those of programs for 32 bits, which have a table of their own.
const ROWS: u32 = 2 * CALLS;
/// Up to 9 minutes.
pub(super) const BUCKETS: usize = 40;
/// Calls, errors, nanoseconds in all, the longest, then the buckets.
const VALUE_BYTES: usize = 32 + 8 * BUCKETS;

/// The map of this mode.
#[derive(Debug)]
pub(super) struct Calls {
    rows: Map,
}

/// One system call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) number: u32,
    pub(super) calls: u64,
    pub(super) errors: u64,
    pub(super) total_ns: u64,
    pub(super) longest_ns: u64,
    pub(super) buckets: Vec<u64>,
    /// Calls that had not returned when tracing ended, and for how long the longest of them had
    /// lasted.
    pub(super) unfinished: u64,
    pub(super) unfinished_ns: u64,
}

impl Calls {
    pub(super) fn new() -> Result<Calls, Errno> {
        let rows = Map::new(MapKind::PercpuArray, "bp_calls", 4, VALUE_BYTES, ROWS)?;
        Ok(Calls { rows })
    }

    pub(super) fn attach(
        &self,
        tasks: &Tasks,
        attached: &mut Attached<'_>,
    ) -> Result<(), TraceError> {
        attached.on(ENTER, |hook| on_enter(hook, tasks))?;
        attached.on(EXIT, |hook| self.on_exit(hook, tasks))
    }

    fn on_exit(&self, hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let (end, good, shorter) = (asm.label(), asm.label(), asm.label());
        tasks.running(&mut asm, end);
        asm.load(Size::B8, Reg::R9, Reg::R7, task::ENTER_NS);
        asm.jump_if(Reg::R9, If::Equal, 0, end);
        asm.call(Helper::Now);
        asm.alu(Alu::Subtract, Reg::R0, Reg::R9);
        asm.mov(Reg::R9, Reg::R0);
        asm.store(Size::B8, Reg::R7, task::ENTER_NS, 0);
        asm.load(Size::B8, Reg::R8, Reg::R7, task::CALL);
        asm.store(Size::B4, Reg::R10, SCRATCH, Reg::R8);
        asm.lookup(&self.rows, SCRATCH, end);
        asm.mov(Reg::R7, Reg::R0);
        add(&mut asm, 0, 1.into());
        hook.value(&mut asm, Reg::R8, &RESULT)?;
        // The kernel's refusals are -4095 to -1; addresses may look negative too.
        asm.alu(Alu::Add, Reg::R8, 4095);
        asm.mov(Reg::R1, 4094);
        asm.jump_if(Reg::R8, If::Above, Reg::R1, good);
        add(&mut asm, 8, 1.into());
        asm.place(good);
        add(&mut asm, 16, Reg::R9.into());
        asm.load(Size::B8, Reg::R1, Reg::R7, 24);
        asm.jump_if(Reg::R1, If::AtLeast, Reg::R9, shorter);
        asm.store(Size::B8, Reg::R7, 24, Reg::R9);
        asm.place(shorter);
        count(&mut asm, Reg::R7, 32, BUCKETS);
        asm.end(end);
        Ok(asm)
    }

    /// The calls that were made, those that took longest in all first.
    pub(super) fn rows(&self, tasks: &Tasks, now_ns: u64) -> Result<Vec<Row>, Errno> {
        let mut rows = Vec::new();
        for number in 0..ROWS {
            if let Some(value) = self.rows.get(&number.to_ne_bytes())? {
                let row = row(number, &value, self.rows.value_bytes());
                rows.push(row);
            }
        }
        for (_, record) in tasks.tasks.entries()? {
            let since = wide(&record, task::ENTER_NS as usize);
            let traced = number(&record, task::STATE as usize) == TRACED as u32;
            let call = wide(&record, task::CALL as usize).min(u64::from(ROWS) - 1);
            if since > 0 && traced {
                let row = &mut rows[call as usize];
                row.unfinished += 1;
                row.unfinished_ns = row.unfinished_ns.max(now_ns.saturating_sub(since));
            }
        }
        rows.retain(|row| row.calls > 0 || row.unfinished > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
        Ok(rows)
    }
}

/// The name of the call of a row.
pub(super) fn name(row: u32) -> String {
    match row.checked_sub(CALLS) {
        Some(number) => format!("32-bit call {number}"),
        None => crate::syscalls::name_of(row.into()),
    }
}

/// Where the kernel does not tell which calls are of the table for 32 bits.
pub(super) fn unnamed_note(kernel: &Kernel) -> Option<String> {
    let why = kernel.of_32_bits().err()?;
    Some(format!(
        "calls of programs for 32 bits have the names of other calls, because their table is not \
         told: {why}"
    ))
}

/// `to` = the row of the call that begins. Changes `other`; neither is of R0 to R5.
pub(super) fn row_of(hook: &Hook<'_>, asm: &mut Asm, to: Reg, other: Reg) -> Result<(), Unknown> {
    let (known, native) = (asm.label(), asm.label());
    hook.value(asm, to, &NUMBER)?;
    asm.mov(other, CALLS as i32 - 1);
    asm.jump_if(other, If::AtLeast, to, known);
    asm.mov(to, other);
    asm.place(known);
    // Where the kernel does not tell, all are taken for its own.
    if let Ok((at, bit)) = hook.kernel.of_32_bits() {
        asm.call(Helper::Task);
        asm.mov(other, Reg::R0);
        chase(asm, other, at, Size::B4);
        asm.alu(Alu::And, other, bit);
        asm.jump_if(other, If::Equal, 0, native);
        asm.add(to, CALLS as i32);
    }
    asm.place(native);
    Ok(())
}

/// Remembers when a traced thread called, and what.
fn on_enter(hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
    let mut asm = hook.begin();
    let end = asm.label();
    tasks.running(&mut asm, end);
    row_of(hook, &mut asm, Reg::R8, Reg::R9)?;
    asm.store(Size::B8, Reg::R7, task::CALL, Reg::R8);
    asm.call(Helper::Now);
    asm.store(Size::B8, Reg::R7, task::ENTER_NS, Reg::R0);
    asm.end(end);
    Ok(asm)
}

/// Adds to a count of this CPU's own, behind R7.
fn add(asm: &mut Asm, at: i16, what: super::asm::Operand) {
    asm.load(Size::B8, Reg::R1, Reg::R7, at);
    asm.add(Reg::R1, what);
    asm.store(Size::B8, Reg::R7, at, Reg::R1);
}

/// The sum of what each CPU counted.
fn row(number: u32, value: &[u8], bytes: usize) -> Row {
    let mut row = Row {
        number,
        calls: 0,
        errors: 0,
        total_ns: 0,
        longest_ns: 0,
        buckets: vec![0; BUCKETS],
        unfinished: 0,
        unfinished_ns: 0,
    };
    for cpu in value.chunks_exact(bytes) {
        row.calls += wide(cpu, 0);
        row.errors += wide(cpu, 8);
        row.total_ns += wide(cpu, 16);
        row.longest_ns = row.longest_ns.max(wide(cpu, 24));
        let counts = buckets(cpu, 32, BUCKETS);
        row.buckets.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    row
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::super::btf::BtfError;
    use super::*;

    #[test]
    fn calls_that_may_have_the_names_of_others_are_told() {
        let none = io::Error::from(io::ErrorKind::NotFound);
        let kernel = Kernel { btf: Err(BtfError::Damaged(0)), tracefs: Err(none) };
        let note = unnamed_note(&kernel).expect("nothing is told of tables");
        assert!(note.starts_with("calls of programs for 32 bits have"), "{note}");
    }
}
