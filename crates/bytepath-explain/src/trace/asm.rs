//! A small assembler for BPF (Documentation/bpf/standardization/instruction-set.rst): registers,
//! sizes, conditions and helpers are types, jumps go to labels.
//!
//! Programs are made when they are needed, with the offsets of the kernel that runs. So no compiler,
//! no object file and no relocation is needed anywhere.

use crate::sys::bpf::Map;

/// A register. R1 to R5 carry arguments and are lost in a call, R0 has its result, R6 to R9 stay,
/// R10 is the end of 512 bytes of stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Reg {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// How many bytes of memory an instruction moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Size {
    B4 = 0x00,
    B2 = 0x08,
    B1 = 0x10,
    B8 = 0x18,
}

impl Size {
    /// The size that moves this many bytes.
    pub(super) fn of(bytes: usize) -> Option<Size> {
        match bytes {
            1 => Some(Size::B1),
            2 => Some(Size::B2),
            4 => Some(Size::B4),
            8 => Some(Size::B8),
            _ => None,
        }
    }
}

/// What two registers, or a register and a number, are put together by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Alu {
    Add = 0x00,
    Subtract = 0x10,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    Move = 0xb0,
}

/// Whether a jump is taken: the register on the left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum If {
    Equal = 0x10,
    Above = 0x20,
    AtLeast = 0x30,
    Below = 0xa0,
    Different = 0x50,
    SignedBelow = 0xc0,
}

/// A register or a number.
#[derive(Debug, Clone, Copy)]
pub(super) enum Operand {
    Register(Reg),
    Number(i32),
}

impl From<Reg> for Operand {
    fn from(register: Reg) -> Operand {
        Operand::Register(register)
    }
}

impl From<i32> for Operand {
    fn from(number: i32) -> Operand {
        Operand::Number(number)
    }
}

/// The kernel's helpers that are used, by number (bpf-helpers(7)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    Now = 5,
    Cpu = 8,
    PidTgid = 14,
    Comm = 16,
    StackId = 27,
    Task = 35,
    Stack = 67,
    ReadUser = 112,
    ReadKernel = 113,
    ReadKernelString = 115,
    RingReserve = 131,
    RingSubmit = 132,
}

/// A place that jumps go to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Label(usize);

/// A program in the making.
#[derive(Debug, Default)]
pub(super) struct Asm {
    code: Vec<u64>,
    labels: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

const LDX: u8 = 0x01 | 0x60;
const ST: u8 = 0x02 | 0x60;
const STX: u8 = 0x03 | 0x60;
const ATOMIC: u8 = 0x03 | 0xc0;
const JMP: u8 = 0x05;
const ALU64: u8 = 0x07;
const LD_IMM64: u8 = 0x18;
const FROM_REGISTER: u8 = 0x08;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The source register of a 64-bit number that is a map's descriptor.
const PSEUDO_MAP_FD: u8 = 1;

impl Asm {
    pub(super) fn new() -> Asm {
        Asm::default()
    }

    fn push(&mut self, code: u8, to: Reg, from: u8, offset: i16, number: i32) {
        let registers = u64::from(to as u8 | from << 4);
        let offset = u64::from(offset as u16);
        let number = u64::from(number as u32);
        self.code.push(u64::from(code) | registers << 8 | offset << 16 | number << 32);
    }

    /// `to = to OP operand`.
    pub(super) fn alu(&mut self, op: Alu, to: Reg, operand: impl Into<Operand>) {
        match operand.into() {
            Operand::Register(from) => {
                self.push(ALU64 | FROM_REGISTER | op as u8, to, from as u8, 0, 0);
            }
            Operand::Number(number) => self.push(ALU64 | op as u8, to, 0, 0, number),
        }
    }

    pub(super) fn mov(&mut self, to: Reg, operand: impl Into<Operand>) {
        self.alu(Alu::Move, to, operand);
    }

    pub(super) fn add(&mut self, to: Reg, operand: impl Into<Operand>) {
        self.alu(Alu::Add, to, operand);
    }

    /// `to = base + offset`, an address.
    pub(super) fn address(&mut self, to: Reg, base: Reg, offset: i32) {
        self.mov(to, base);
        self.add(to, offset);
    }

    /// `to = *(base + offset)`, without a sign.
    pub(super) fn load(&mut self, size: Size, to: Reg, base: Reg, offset: i16) {
        self.push(LDX | size as u8, to, base as u8, offset, 0);
    }

    /// `*(base + offset) = value`.
    pub(super) fn store(&mut self, size: Size, base: Reg, offset: i16, value: impl Into<Operand>) {
        match value.into() {
            Operand::Register(from) => self.push(STX | size as u8, base, from as u8, offset, 0),
            Operand::Number(number) => self.push(ST | size as u8, base, 0, offset, number),
        }
    }

    /// `*(base + offset) += value` in one step, for values that CPUs share.
    pub(super) fn atomic_add(&mut self, base: Reg, offset: i16, value: Reg) {
        self.push(ATOMIC | Size::B8 as u8, base, value as u8, offset, 0);
    }

    /// `to = map`, as helpers take one.
    pub(super) fn map(&mut self, to: Reg, map: &Map) {
        self.push(LD_IMM64, to, PSEUDO_MAP_FD, 0, map.number());
        self.code.push(0);
    }

    /// `to = number`, of any width.
    pub(super) fn number(&mut self, to: Reg, number: u64) {
        self.push(LD_IMM64, to, 0, 0, number as i32);
        self.code.push(number >> 32 << 32);
    }

    /// R0 = what the helper says of R1 to R5.
    pub(super) fn call(&mut self, helper: Helper) {
        self.push(CALL, Reg::R0, 0, 0, helper as i32);
    }

    pub(super) fn exit(&mut self) {
        self.push(EXIT, Reg::R0, 0, 0, 0);
    }

    /// A label, to be placed once.
    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    pub(super) fn place(&mut self, label: Label) {
        assert!(self.labels[label.0].is_none(), "a label is placed once");
        self.labels[label.0] = Some(self.code.len());
    }

    pub(super) fn jump(&mut self, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.push(JMP, Reg::R0, 0, 0, 0);
    }

    pub(super) fn jump_if(&mut self, left: Reg, is: If, right: impl Into<Operand>, label: Label) {
        self.jumps.push((self.code.len(), label));
        match right.into() {
            Operand::Register(right) => {
                self.push(JMP | FROM_REGISTER | is as u8, left, right as u8, 0, 0);
            }
            Operand::Number(number) => self.push(JMP | is as u8, left, 0, 0, number),
        }
    }

    /// The instructions, each jump with its distance.
    pub(super) fn finish(mut self) -> Vec<u64> {
        for (at, label) in &self.jumps {
            let to = self.labels[label.0].expect("a label that is jumped to is placed");
            let distance = i16::try_from(to as i64 - *at as i64 - 1).expect("a short program");
            self.code[*at] |= u64::from(distance as u16) << 16;
        }
        self.code
    }
}

/// What programs do again and again.
impl Asm {
    /// R0 = the value of the key at this place of the stack; jumps to `missing` where there is none.
    pub(super) fn lookup(&mut self, map: &Map, key: i16, missing: Label) {
        self.map(Reg::R1, map);
        self.address(Reg::R2, Reg::R10, key.into());
        self.call(Helper::MapLookup);
        self.jump_if(Reg::R0, If::Equal, 0, missing);
    }

    /// R0 = 0, or less where the map is full: sets the key and the value at these places of the stack.
    pub(super) fn update(&mut self, map: &Map, key: i16, value: i16) {
        self.update_as(map, key, value, 0);
    }

    /// The same, but leaves a value that is there as it is.
    pub(super) fn add_new(&mut self, map: &Map, key: i16, value: i16) {
        /// BPF_NOEXIST
        const NO_EXIST: i32 = 1;
        self.update_as(map, key, value, NO_EXIST);
    }

    fn update_as(&mut self, map: &Map, key: i16, value: i16, flags: i32) {
        self.map(Reg::R1, map);
        self.address(Reg::R2, Reg::R10, key.into());
        self.address(Reg::R3, Reg::R10, value.into());
        self.mov(Reg::R4, flags);
        self.call(Helper::MapUpdate);
    }

    /// Zeroes these bytes of the stack, a multiple of 8: helpers take no memory that was never
    /// written.
    pub(super) fn zero(&mut self, from: i16, bytes: i16) {
        for offset in (from..from + bytes).step_by(8) {
            self.store(Size::B8, Reg::R10, offset, 0);
        }
    }

    /// Ends with 0 at `label`.
    pub(super) fn end(&mut self, label: Label) {
        self.place(label);
        self.mov(Reg::R0, 0);
        self.exit();
    }

    /// `bucket = floor(log2(value))`, at most `most`, and 0 of 0, in six steps, each of which halves
    /// what is left. Changes R0 and `value`.
    pub(super) fn log2(&mut self, bucket: Reg, value: Reg, most: i32) {
        self.mov(bucket, 0);
        for bits in [32, 16, 8, 4, 2, 1] {
            let small = self.label();
            self.mov(Reg::R0, value);
            self.alu(Alu::ShiftRight, Reg::R0, bits);
            self.jump_if(Reg::R0, If::Equal, 0, small);
            self.mov(value, Reg::R0);
            self.add(bucket, bits);
            self.place(small);
        }
        let fits = self.label();
        self.mov(Reg::R0, most);
        self.jump_if(Reg::R0, If::AtLeast, bucket, fits);
        self.mov(bucket, most);
        self.place(fits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_lie_as_the_kernel_reads_them() {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.load(Size::B4, Reg::R3, Reg::R1, -8);
        asm.jump_if(Reg::R3, If::Different, 7, end);
        asm.mov(Reg::R0, Reg::R6);
        asm.end(end);
        let bytes: Vec<[u8; 8]> = asm.finish().into_iter().map(u64::to_le_bytes).collect();
        assert_eq!(bytes[0], [0x61, 0x13, 0xf8, 0xff, 0, 0, 0, 0]);
        assert_eq!(bytes[1], [0x55, 0x03, 0x01, 0x00, 7, 0, 0, 0]);
        assert_eq!(bytes[2], [0xbf, 0x60, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[3], [0xb7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[4], [0x95, 0, 0, 0, 0, 0, 0, 0]);
    }
}
