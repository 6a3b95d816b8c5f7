//! Time in soft interrupts, by vector: all of the machine, and what of it was on top of a traced
//! thread, whose time it took.

use rustix::io::Errno;

use super::TraceError;
use super::asm::{Alu, Asm, Helper, If, Reg, Size};
use super::attach::Attached;
use super::hook::{Event, Hook, SCRATCH, Unknown, Value};
use super::tasks::{Tasks, wide};
use super::wakeups::{buckets, count};
use crate::sys::bpf::{Map, MapKind};

const ENTRY: Event = Event { group: "irq", name: "softirq_entry" };
const EXIT: Event = Event { group: "irq", name: "softirq_exit" };
const VECTOR: Value = Value { argument: ("vec_nr", 0), member: None, field: "vec" };

/// More than the kernel has (include/linux/interrupt.h).
const VECTORS: u32 = 16;
/// The kernel's names, which have not changed since 2010.
const NAMES: [&str; 10] = [
    "high-tasklet",
    "timer",
    "net-tx",
    "net-rx",
    "block",
    "irq-poll",
    "tasklet",
    "sched",
    "hrtimer",
    "rcu",
];
pub(super) const BUCKETS: usize = 32;
/// Times, nanoseconds, the longest; times and nanoseconds on top of traced threads; the buckets.
const VALUE_BYTES: usize = 40 + 8 * BUCKETS;

/// The maps of this mode.
#[derive(Debug)]
pub(super) struct SoftInterrupts {
    /// When the one that a CPU is in began.
    begun: Map,
    rows: Map,
}

/// One vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) vector: String,
    pub(super) times: u64,
    pub(super) total_ns: u64,
    pub(super) longest_ns: u64,
    pub(super) traced_times: u64,
    pub(super) traced_ns: u64,
    pub(super) buckets: Vec<u64>,
}

impl SoftInterrupts {
    pub(super) fn new() -> Result<SoftInterrupts, Errno> {
        Ok(SoftInterrupts {
            begun: Map::new(MapKind::PercpuArray, "bp_begun", 4, 8, 1)?,
            rows: Map::new(MapKind::PercpuArray, "bp_softirqs", 4, VALUE_BYTES, VECTORS)?,
        })
    }

    pub(super) fn attach(
        &self,
        tasks: &Tasks,
        attached: &mut Attached<'_>,
    ) -> Result<(), TraceError> {
        attached.on(ENTRY, |hook| Ok(self.on_entry(hook)))?;
        attached.on(EXIT, |hook| self.on_exit(hook, tasks))
    }

    fn on_entry(&self, hook: &Hook<'_>) -> Asm {
        let mut asm = hook.begin();
        let end = asm.label();
        asm.store(Size::B4, Reg::R10, SCRATCH, 0);
        asm.lookup(&self.begun, SCRATCH, end);
        asm.mov(Reg::R7, Reg::R0);
        asm.call(Helper::Now);
        asm.store(Size::B8, Reg::R7, 0, Reg::R0);
        asm.end(end);
        asm
    }

    fn on_exit(&self, hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let (end, stranger, shorter) = (asm.label(), asm.label(), asm.label());
        asm.store(Size::B4, Reg::R10, SCRATCH, 0);
        asm.lookup(&self.begun, SCRATCH, end);
        asm.load(Size::B8, Reg::R9, Reg::R0, 0);
        asm.jump_if(Reg::R9, If::Equal, 0, end);
        asm.store(Size::B8, Reg::R0, 0, 0);
        asm.call(Helper::Now);
        asm.alu(Alu::Subtract, Reg::R0, Reg::R9);
        asm.mov(Reg::R9, Reg::R0);
        hook.value(&mut asm, Reg::R8, &VECTOR)?;
        asm.store(Size::B4, Reg::R10, SCRATCH, Reg::R8);
        asm.lookup(&self.rows, SCRATCH, end);
        asm.mov(Reg::R8, Reg::R0);
        asm.mov(Reg::R2, 1);
        for (at, what) in [(0, Reg::R2), (8, Reg::R9)] {
            asm.atomic_add(Reg::R8, at, what);
        }
        asm.load(Size::B8, Reg::R1, Reg::R8, 16);
        asm.jump_if(Reg::R1, If::AtLeast, Reg::R9, shorter);
        asm.store(Size::B8, Reg::R8, 16, Reg::R9);
        asm.place(shorter);
        tasks.running(&mut asm, stranger);
        asm.mov(Reg::R2, 1);
        for (at, what) in [(24, Reg::R2), (32, Reg::R9)] {
            asm.atomic_add(Reg::R8, at, what);
        }
        asm.place(stranger);
        asm.mov(Reg::R7, Reg::R8);
        count(&mut asm, Reg::R7, 40, BUCKETS);
        asm.end(end);
        Ok(asm)
    }

    pub(super) fn rows(&self) -> Result<Vec<Row>, Errno> {
        let mut rows = Vec::new();
        for vector in 0..VECTORS {
            if let Some(value) = self.rows.get(&vector.to_ne_bytes())? {
                rows.push(row(vector, &value, self.rows.value_bytes()));
            }
        }
        rows.retain(|row| row.times > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns));
        Ok(rows)
    }
}

fn row(vector: u32, value: &[u8], bytes: usize) -> Row {
    let name = NAMES.get(vector as usize);
    let mut row = Row {
        vector: name.map_or_else(|| vector.to_string(), |name| (*name).to_owned()),
        times: 0,
        total_ns: 0,
        longest_ns: 0,
        traced_times: 0,
        traced_ns: 0,
        buckets: vec![0; BUCKETS],
    };
    for cpu in value.chunks_exact(bytes) {
        row.times += wide(cpu, 0);
        row.total_ns += wide(cpu, 8);
        row.longest_ns = row.longest_ns.max(wide(cpu, 16));
        row.traced_times += wide(cpu, 24);
        row.traced_ns += wide(cpu, 32);
        let counts = buckets(cpu, 40, BUCKETS);
        row.buckets.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    row
}
