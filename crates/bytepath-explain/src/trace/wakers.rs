//! Who wakes a thread: a thread, or an interrupt, which is nobody's doing. The stack in which it is
//! woken tells.
//!
//! A wake-up costs the addresses of a stack and a search in them for the entry of an interrupt,
//! where the kernel tells where those are; of interrupts only a new way from there is kept as a
//! stack.

use std::fs;
use std::ops::Range;

use rustix::io::Errno;

use super::asm::{Alu, Asm, Helper, If, Label, Reg, Size};
use super::hook::{CONTEXT, SCRATCH};
use super::stacks;
use super::tasks::{KEY, NO_STACK, Tasks, WHO, task};
use crate::sys::bpf::{Map, MapKind};

/// A way of an interrupt, and its stack.
const WAY: i16 = -168;

/// An interrupt, of which no more is known: its stack was not kept.
pub(super) const INTERRUPT: i32 = -3;
/// Where the kernel's threads ksoftirqd/N do what interrupts leave to them.
pub(super) const KSOFTIRQD: &str = "run_ksoftirqd";
/// Where the kernel does that, in whatever thread comes by; since 6.10, and before.
pub(super) const SOFT: [&str; 2] = ["handle_softirqs", "__do_softirq"];
/// Of soft interrupts the one that threads ask for themselves: who sends to this machine receives in it.
pub(super) const RECEIVES: &str = "net_rx_action";
/// So deep an interrupt's entry is looked for.
const FRAMES: i16 = 80;
/// Ways of interrupts to a wake-up.
const INTERRUPTS_MAX: u32 = 1024;

/// Whether stacks of threads that wake are kept too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Threads {
    WithStacks,
    /// Unless the kernel does not tell where interrupts enter it: then a stack alone says who woke.
    WithoutStacks,
}

/// What tells who wakes.
#[derive(Debug)]
pub(super) struct Wakers {
    pub(super) stacks: Map,
    threads: Threads,
    /// The stack here, for as long as a program looks at it.
    frames: Map,
    /// For each way from an interrupt's entry to a wake-up one stack, whatever was interrupted.
    pub(super) interrupts: Map,
    /// Where interrupts enter the kernel, if it tells.
    pub(super) entries: Option<Entries>,
}

/// Where the kernel begins to do what interrupts ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entries {
    /// On top of whatever ran.
    interrupts: Range<u64>,
    /// In a thread of its own; nowhere where that is not told, as of those that follow.
    ksoftirqd: Range<u64>,
    /// Of soft interrupts, and which of them is a thread's own doing.
    soft: Range<u64>,
    receives: Range<u64>,
}

impl Wakers {
    pub(super) fn new(threads: Threads) -> Result<Wakers, Errno> {
        let frames = Map::new(MapKind::PercpuArray, "bp_frames", 4, 8 * FRAMES as usize, 1)?;
        let interrupts = Map::new(MapKind::LruHash, "bp_interrupts", 8, 4, INTERRUPTS_MAX)?;
        let names = fs::read_to_string("/proc/kallsyms").unwrap_or_default();
        let entries = entries(&names).filter(|_| !has_fred());
        Ok(Wakers { stacks: stacks::map()?, threads, frames, interrupts, entries })
    }

    /// Notes when, on which CPU and by whom the thread is woken whose record is in R7: the number
    /// of a thread and a stack, of an interrupt 0 and the stack of its way. Changes all but R6 and R7.
    ///
    /// The kernel wakes nobody twice in one sleep, but a thread that has not slept yet, as one that
    /// looks once more at what it would wait for: the last is the one that counts.
    pub(super) fn note(&self, asm: &mut Asm, tasks: &Tasks) {
        // The verifier takes nothing that is never reached.
        let Some(entries) = &self.entries else { return self.note_thread(asm, tasks) };
        let (found, end) = (asm.label(), asm.label());
        self.search(asm, entries, found);
        self.note_thread(asm, tasks);
        asm.jump(end);
        asm.place(found);
        self.note_interrupt(asm, tasks);
        asm.place(end);
    }

    /// Goes to `found` where it is an interrupt that wakes, if the kernel tells where those enter it.
    /// Changes all but R6 and R7.
    pub(super) fn interrupt(&self, asm: &mut Asm, found: Label) {
        if let Some(entries) = &self.entries {
            self.search(asm, entries, found);
        }
    }

    /// Notes the same where it is a thread that wakes.
    pub(super) fn note_thread(&self, asm: &mut Asm, tasks: &Tasks) {
        note_moment(asm);
        if self.entries.is_some() && self.threads == Threads::WithoutStacks {
            asm.store(Size::B4, Reg::R7, task::WAKER_STACK, NO_STACK);
        } else {
            tasks.stack(asm, &self.stacks, 0);
            asm.store(Size::B4, Reg::R7, task::WAKER_STACK, Reg::R0);
        }
        tasks.introduce(asm);
        asm.load(Size::B4, Reg::R1, Reg::R10, WHO);
        asm.store(Size::B4, Reg::R7, task::WAKER_TID, Reg::R1);
    }

    /// Goes to `found` where an interrupt's entry is in the stack here, with a sum at [`WAY`] by which
    /// ways from there are told apart. Changes [`SCRATCH`] and all but R6 and R7.
    fn search(
        &self,
        asm: &mut Asm,
        Entries { interrupts, ksoftirqd, soft, receives }: &Entries,
        found: Label,
    ) {
        let (thread, here) = (asm.label(), asm.label());
        asm.store(Size::B8, Reg::R10, SCRATCH, 0);
        asm.lookup(&self.frames, SCRATCH, thread);
        asm.mov(Reg::R8, Reg::R0);
        asm.mov(Reg::R1, CONTEXT);
        asm.mov(Reg::R2, Reg::R8);
        asm.mov(Reg::R3, 8 * i32::from(FRAMES));
        asm.mov(Reg::R4, 0);
        asm.call(Helper::Stack);
        // R0: of the addresses so far.
        let (sum, first, received) = (Reg::R0, Reg::R2, Reg::R3);
        asm.mov(sum, 0);
        asm.number(first, interrupts.start);
        asm.mov(received, 0);
        for frame in 0..FRAMES {
            asm.load(Size::B8, Reg::R1, Reg::R8, 8 * frame);
            asm.jump_if(Reg::R1, If::Equal, 0, thread);
            asm.mov(Reg::R9, sum);
            asm.alu(Alu::ShiftLeft, Reg::R9, 5);
            asm.add(sum, Reg::R9);
            asm.add(sum, Reg::R1);
            asm.alu(Alu::Subtract, Reg::R1, first);
            asm.jump_if(Reg::R1, If::Below, bytes(interrupts), here);
            let mut from = interrupts.start;
            for range in [ksoftirqd, receives, soft].into_iter().filter(|range| !range.is_empty()) {
                let other = asm.label();
                asm.add(Reg::R1, from.wrapping_sub(range.start) as i32);
                from = range.start;
                asm.jump_if(Reg::R1, If::AtLeast, bytes(range), other);
                if range == receives {
                    asm.mov(received, 1);
                } else if range == soft {
                    asm.jump_if(received, If::Equal, 0, here);
                } else {
                    asm.jump(here);
                }
                asm.place(other);
            }
        }
        asm.jump(thread);
        asm.place(here);
        asm.store(Size::B8, Reg::R10, WAY, Reg::R0);
        asm.jump(found);
        asm.place(thread);
    }

    /// Notes the stack of the way at [`WAY`], one for each: what was interrupted lies below and differs
    /// each time.
    fn note_interrupt(&self, asm: &mut Asm, tasks: &Tasks) {
        let (new, unkept, noted) = (asm.label(), asm.label(), asm.label());
        note_moment(asm);
        asm.store(Size::B8, Reg::R10, WAY + 8, 0);
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
    }
}

/// Puts when and on which CPU a thread is woken into its record, which is in R7.
fn note_moment(asm: &mut Asm) {
    asm.call(Helper::Now);
    asm.store(Size::B8, Reg::R7, task::WOKEN_NS, Reg::R0);
    asm.call(Helper::Cpu);
    asm.store(Size::B4, Reg::R7, task::WAKER_CPU, Reg::R0);
}

/// Whether interrupts enter by the one way that faults have too (x86's FRED, Linux 6.9).
fn has_fred() -> bool {
    let told = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let flags = told.lines().find(|line| line.starts_with("flags"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "fred"))
}

/// Where interrupts enter the kernel, of which /proc/kallsyms tells; none where addresses are
/// hidden, other ways in lie between, or another processor has other ways.
fn entries(names: &str) -> Option<Entries> {
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
    // Several symbols may name one address, as those of where a section begins do.
    let behind = |at: u64| symbols.iter().map(|symbol| symbol.0).find(|next| *next > at);
    let function = |name: &str| {
        let at = symbols.iter().find(|symbol| symbol.1 == name)?.0;
        Some(at..behind(at)?)
    };
    let interrupts = symbols[first].0..behind(symbols[last].0)?;
    let clear = has_common && !symbols[first..=last].iter().any(other);
    clear.then(|| Entries {
        interrupts,
        ksoftirqd: function(KSOFTIRQD).unwrap_or_default(),
        soft: SOFT.into_iter().find_map(function).unwrap_or_default(),
        receives: function(RECEIVES).unwrap_or_default(),
    })
}

/// How long a function is.
fn bytes(range: &Range<u64>) -> i32 {
    i32::try_from(range.end - range.start).unwrap_or(0)
}

// What interrupts need lies below what `tasks` uses of the stack.
const _: () = assert!(WAY + 16 <= KEY - task::BYTES - 24);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_of_interrupts_are_a_range_without_other_entries_or_nothing() {
        let common = "f0 T asm_common_interrupt\n";
        let timer = "f8 T asm_sysvec_apic_timer_interrupt\nff T behind\n";
        let fault = "f4 T asm_exc_page_fault\n";
        let own = "100 t run_ksoftirqd\n140 T net_rx_action\n150 T next\n";
        let soft = "160 t handle_softirqs\n170 T __do_softirq\n180 T next\n";
        let found = |ksoftirqd, receives, soft| {
            Some(Entries { interrupts: 0xf0..0xff, ksoftirqd, receives, soft })
        };
        let plain = entries(&format!("e0 T asm_exc_nmi\n{common}{timer}"));
        assert_eq!(plain, found(0..0, 0..0, 0..0));
        let all = entries(&format!("{own}{common}{timer}{soft}"));
        assert_eq!(all, found(0x100..0x140, 0x140..0x150, 0x160..0x170));
        // As before 6.10.
        let same = "160 T __do_softirq\n160 T __kprobes_text_end\n160 T __kprobes_text_start\n\
                    160 T __softirqentry_text_start\n180 T next\n";
        let shared = entries(&format!("{common}{timer}f8 T other_name\n{same}"));
        assert_eq!(shared, found(0..0, 0..0, 0x160..0x180));
        assert_eq!(entries(&format!("{common}{fault}{timer}")), None);
        assert_eq!(entries("00 T asm_common_interrupt\n00 T behind\n"), None);
    }
}
