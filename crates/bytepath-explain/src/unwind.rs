//! Stacks of user space, unwound from a piece of the stack by the tables that compilers leave
//! (.eh_frame), and by frame pointers where there are none.

use framehop::{FrameAddress, Module, Unwinder};

use crate::files::{Bytes, CodeFile};
use crate::record::ToUnwind;

/// Deeper stacks are cut: those of endless recursion have no end.
const FRAMES_MAX: usize = 192;

#[cfg(target_arch = "x86_64")]
mod machine {
    pub(super) type Native<D> = framehop::x86_64::UnwinderX86_64<D>;
    pub(super) type Cache = framehop::x86_64::CacheX86_64;
    pub(super) type Registers = framehop::x86_64::UnwindRegsX86_64;

    /// BP, SP and IP (asm/perf_regs.h).
    pub(crate) const REGISTERS: u64 = 1 << 6 | 1 << 7 | 1 << 8;

    /// The instruction, and what unwinding begins with.
    pub(super) fn start(registers: &[u64]) -> Option<(u64, u64, Registers)> {
        let [bp, sp, ip] = *registers else { return None };
        Some((ip, sp, Registers::new(ip, sp, bp)))
    }
}

#[cfg(target_arch = "aarch64")]
mod machine {
    pub(super) type Native<D> = framehop::aarch64::UnwinderAarch64<D>;
    pub(super) type Cache = framehop::aarch64::CacheAarch64;
    pub(super) type Registers = framehop::aarch64::UnwindRegsAarch64;

    /// X29 (the frame pointer), LR, SP and PC (asm/perf_regs.h).
    pub(crate) const REGISTERS: u64 = 1 << 29 | 1 << 30 | 1 << 31 | 1 << 32;

    /// The instruction, and what unwinding begins with. Addresses have at most 48 bits; what is
    /// above them may be a signature (pointer authentication).
    pub(super) fn start(registers: &[u64]) -> Option<(u64, u64, Registers)> {
        const ADDRESS: u64 = (1 << 48) - 1;
        let [fp, lr, sp, pc] = *registers else { return None };
        let mask = framehop::aarch64::PtrAuthMask(ADDRESS);
        Some((pc, sp, Registers::new_with_ptr_auth_mask(mask, lr, sp, fp)))
    }
}

pub(crate) use machine::REGISTERS;

/// Unwinds the stacks of one process; a clone is one for a process that was forked.
#[derive(Clone)]
pub(crate) struct Unwinding(machine::Native<Bytes>);

/// What was found out about single addresses, for all processes.
#[derive(Default)]
pub(crate) struct Cache(machine::Cache);

impl Unwinding {
    pub(crate) fn new() -> Unwinding {
        Unwinding(machine::Native::default())
    }

    /// From now on this file's code lies at `range`, from `offset` in it on.
    pub(crate) fn add(&mut self, file: &CodeFile, range: std::ops::Range<u64>, offset: u64) {
        let base = file.base_of(&range, offset);
        let (Some(base), Some(sections)) = (base, file.sections()) else { return };
        self.0.add_module(Module::new(file.name.clone(), range, base, sections));
    }

    pub(crate) fn remove(&mut self, start: u64) {
        self.0.remove_module(start);
    }

    /// Addresses of the frames, leaf first; callers by the byte before the one they return to.
    pub(crate) fn frames(&self, from: &ToUnwind, cache: &mut Cache) -> Vec<u64> {
        let Some((ip, sp, registers)) = machine::start(&from.registers) else { return Vec::new() };
        let mut read = |address: u64| {
            let start = usize::try_from(address.checked_sub(sp).ok_or(())?).map_err(drop)?;
            let bytes = from.stack.get(start..start.checked_add(8).ok_or(())?).ok_or(())?;
            Ok(u64::from_ne_bytes(bytes.try_into().map_err(drop)?))
        };
        let mut frames = self.0.iter_frames(ip, registers, &mut cache.0, &mut read);
        let mut addresses = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            addresses.push(match frame {
                FrameAddress::InstructionPointer(address) => address,
                FrameAddress::ReturnAddress(address) => address.get() - 1,
            });
            if addresses.len() == FRAMES_MAX {
                break;
            }
        }
        addresses
    }
}
