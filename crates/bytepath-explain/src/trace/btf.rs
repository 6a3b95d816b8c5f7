//! Reads the kernel's own description of its types (BTF, /sys/kernel/btf/vmlinux): where members lie in
//! structures, and which arguments functions take. Read-only, no type graph: what is asked for is
//! found by its name.
//!
//! The format is in Documentation/bpf/btf.rst. The crates that read it are under the LGPL (btf-rs) or
//! keep the members to themselves (aya-obj).

use std::collections::HashMap;
use std::path::Path;

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;

/// Kinds of types that are looked at.
const PTR: u32 = 2;
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const TYPE_TAG: u32 = 18;

/// How deep structures without a name, and names for names, are followed.
const DEPTH_MAX: usize = 16;

/// The description of a kernel's types.
#[derive(Debug)]
pub(crate) struct Btf {
    data: Vec<u8>,
    strings: usize,
    strings_end: usize,
    /// Where each type begins; number 0 is void.
    types: Vec<usize>,
    /// Structures and functions by name.
    names: HashMap<(bool, Vec<u8>), u32>,
}

/// Why there is no description.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BtfError {
    /// There is no file, or it cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// It is none.
    #[error("its byte {0} is not what the format has there")]
    Damaged(usize),
}

/// Where a member lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    /// From the start of the structure.
    pub(crate) offset: usize,
    /// How long it is; `None` where that is no number of whole bytes that a register has.
    pub(crate) bytes: Option<usize>,
}

impl Btf {
    /// Reads the running kernel's.
    pub(crate) fn of_kernel() -> Result<Btf, BtfError> {
        Btf::read(Path::new("/sys/kernel/btf/vmlinux"))
    }

    pub(crate) fn read(path: &Path) -> Result<Btf, BtfError> {
        let data = std::fs::read(path).map_err(|error| BtfError::Unreadable(error.to_string()))?;
        Btf::parse(data)
    }

    pub(crate) fn parse(data: Vec<u8>) -> Result<Btf, BtfError> {
        let half = |at: usize| data.get(at..at + 2).map(|two| u16::from_le_bytes([two[0], two[1]]));
        if half(0) != Some(MAGIC) {
            return Err(BtfError::Damaged(0));
        }
        let field = |at| word(&data, at).map(|word| word as usize).ok_or(BtfError::Damaged(at));
        let header = field(4)?.max(HEADER_BYTES);
        let section = |from, len| -> Result<(usize, usize), BtfError> {
            let start = header.checked_add(field(from)?).ok_or(BtfError::Damaged(from))?;
            let end = start.checked_add(field(len)?).filter(|end| *end <= data.len());
            Ok((start, end.ok_or(BtfError::Damaged(len))?))
        };
        let (types_start, types_end) = section(8, 12)?;
        let (strings, strings_end) = section(16, 20)?;
        let mut btf =
            Btf { data, strings, strings_end, types: vec![usize::MAX], names: HashMap::new() };
        let mut at = types_start;
        while at < types_end {
            let end = btf.end_of(at).filter(|end| *end <= types_end);
            btf.types.push(at);
            at = end.ok_or(BtfError::Damaged(at))?;
        }
        btf.name_all();
        Ok(btf)
    }

    /// The number of a function, by which programs are attached to it.
    pub(crate) fn function(&self, name: &str) -> Option<u32> {
        self.names.get(&(true, name.as_bytes().to_vec())).copied()
    }

    /// The number of a type's name (typedef).
    pub(crate) fn type_name(&self, name: &str) -> Option<u32> {
        let is = |number: &u32| {
            self.kind(*number) == Some(TYPEDEF)
                && self.name(*number).is_some_and(|found| found == name.as_bytes())
        };
        (1..self.types.len() as u32).find(is)
    }

    /// Which argument of a function has this name, from 0.
    pub(crate) fn argument(&self, function: &str, name: &str) -> Option<usize> {
        let prototype = self.target(self.function(function)?)?;
        if self.kind(prototype)? != FUNC_PROTO {
            return None;
        }
        let at = self.at(prototype)?;
        let matches = |index: &usize| {
            word(&self.data, at + 12 + index * 8)
                .and_then(|offset| self.string(offset))
                .is_some_and(|found| found == name.as_bytes())
        };
        (0..self.count(prototype)?).find(matches)
    }

    /// Where a structure's member lies, also inside members without a name.
    pub(crate) fn member(&self, structure: &str, member: &str) -> Option<Member> {
        let number = self.names.get(&(false, structure.as_bytes().to_vec()))?;
        self.member_of(*number, member.as_bytes(), 0)
    }

    fn member_of(&self, structure: u32, name: &[u8], depth: usize) -> Option<Member> {
        if depth > DEPTH_MAX || !matches!(self.kind(structure)?, STRUCT | UNION) {
            return None;
        }
        let at = self.at(structure)?;
        // With this flag, an offset's upper byte is a width in bits.
        let has_bits = word(&self.data, at + 4)? >> 31 == 1;
        for index in 0..self.count(structure)? {
            let at = at + 12 + index * 12;
            let (found, kind) = (self.string(word(&self.data, at)?)?, word(&self.data, at + 4)?);
            let offset = word(&self.data, at + 8)?;
            let (bits, offset) =
                if has_bits { (offset >> 24, offset & 0x00ff_ffff) } else { (0, offset) };
            let offset = offset as usize / 8;
            if found == name {
                let bytes = if bits == 0 { self.bytes_of(kind) } else { None };
                return Some(Member { offset, bytes });
            }
            if found.is_empty()
                && let Some(inside) = self.member_of(self.plain(kind)?, name, depth + 1)
            {
                return Some(Member { offset: offset + inside.offset, ..inside });
            }
        }
        None
    }

    /// How long a value of this type is.
    fn bytes_of(&self, number: u32) -> Option<usize> {
        let plain = self.plain(number)?;
        match self.kind(plain)? {
            PTR => Some(8),
            // Integers, structures, unions and enumerations tell it.
            1 | STRUCT | UNION | 6 | 19 => {
                word(&self.data, self.at(plain)? + 8).map(|bytes| bytes as usize)
            }
            _ => None,
        }
    }

    /// The type behind other names and qualifiers.
    fn plain(&self, mut number: u32) -> Option<u32> {
        for _ in 0..DEPTH_MAX {
            match self.kind(number)? {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => number = self.target(number)?,
                _ => return Some(number),
            }
        }
        None
    }

    /// What a type refers to, where its record holds that in place of a size.
    fn target(&self, number: u32) -> Option<u32> {
        word(&self.data, self.at(number)? + 8)
    }

    fn at(&self, number: u32) -> Option<usize> {
        self.types.get(number as usize).copied().filter(|at| *at != usize::MAX)
    }

    fn kind(&self, number: u32) -> Option<u32> {
        Some(word(&self.data, self.at(number)? + 4)? >> 24 & 0x1f)
    }

    /// How many members or arguments follow a type's record.
    fn count(&self, number: u32) -> Option<usize> {
        Some(word(&self.data, self.at(number)? + 4)? as usize & 0xffff)
    }

    fn name(&self, number: u32) -> Option<&[u8]> {
        self.string(word(&self.data, self.at(number)?)?)
    }

    fn string(&self, offset: u32) -> Option<&[u8]> {
        let start = self.strings.checked_add(offset as usize)?;
        let rest = self.data.get(start..self.strings_end)?;
        rest.split(|byte| *byte == 0).next()
    }

    /// Where the type that begins here ends.
    fn end_of(&self, at: usize) -> Option<usize> {
        let info = word(&self.data, at + 4)?;
        let count = info as usize & 0xffff;
        let more = match info >> 24 & 0x1f {
            1 | 14 | 17 => 4,
            3 => 12,
            STRUCT | UNION | 15 | 19 => count * 12,
            6 | FUNC_PROTO => count * 8,
            PTR | 7..=FUNC | 16 | TYPE_TAG => 0,
            _ => return None,
        };
        Some(at + 12 + more)
    }

    fn name_all(&mut self) {
        for number in 1..self.types.len() as u32 {
            let is_function = match self.kind(number) {
                Some(FUNC) => true,
                Some(STRUCT) => false,
                _ => continue,
            };
            if let Some(name) = self.name(number).filter(|name| !name.is_empty()) {
                let key = (is_function, name.to_vec());
                self.names.entry(key).or_insert(number);
            }
        }
    }
}

fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A description of `struct outer { int a; union { int b; struct inner { char *c; } d; }; }` and of
    /// `void f(void *p, int n)`.
    fn sample() -> Vec<u8> {
        let mut strings = vec![0u8];
        let mut string = |text: &str| {
            let at = strings.len() as u32;
            strings.extend(text.bytes().chain([0]));
            at
        };
        let [int, outer, a, b, inner, c, d, f, p, n] =
            ["int", "outer", "a", "b", "inner", "c", "d", "f", "p", "n"].map(&mut string);
        let info = |kind: u32, count: u32| kind << 24 | count;
        let words = [
            vec![int, info(1, 0), 4, 32],
            vec![0, info(PTR, 0), 0],
            vec![inner, info(STRUCT, 1), 8, c, 2, 0],
            vec![0, info(UNION, 2), 8, b, 1, 0, d, 3, 0],
            vec![outer, info(STRUCT, 2), 16, a, 1, 0, 0, 4, 64],
            vec![0, info(FUNC_PROTO, 2), 0, p, 2, n, 1],
            vec![f, info(FUNC, 0), 6],
        ]
        .concat();
        let types: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        let (len, strings_len) = (types.len() as u32, strings.len() as u32);
        let mut data = vec![0x9f, 0xeb, 1, 0];
        data.extend([24, 0, len, len, strings_len].into_iter().flat_map(u32::to_le_bytes));
        [data, types, strings].concat()
    }

    #[test]
    fn members_are_found_inside_members_without_a_name() {
        let btf = Btf::parse(sample()).expect("a sound description");
        assert_eq!(btf.member("outer", "b"), Some(Member { offset: 8, bytes: Some(4) }));
        assert_eq!(btf.member("inner", "c"), Some(Member { offset: 0, bytes: Some(8) }));
        assert_eq!(btf.member("outer", "c"), None, "that is one of a member with a name");
        assert_eq!(btf.argument("f", "n"), Some(1));
        assert_eq!(btf.argument("f", "m"), None);
        assert_eq!(btf.function("g"), None);
    }

    #[test]
    fn a_damaged_description_is_refused_and_never_panics() {
        let sound = sample();
        for end in 0..sound.len() {
            let _ = Btf::parse(sound[..end].to_vec());
        }
        for at in 0..sound.len() {
            for wrong in [0, 0x7f, 0xff] {
                let mut damaged = sound.clone();
                damaged[at] = wrong;
                if let Ok(btf) = Btf::parse(damaged) {
                    let _ = (btf.member("outer", "c"), btf.argument("f", "n"));
                }
            }
        }
        assert_eq!(Btf::parse(Vec::new()).err(), Some(BtfError::Damaged(0)));
    }

    #[test]
    fn this_kernels_description_has_tasks_in_it() {
        match Btf::of_kernel() {
            Ok(btf) => {
                let pid = btf.member("task_struct", "pid").expect("a task's number");
                assert_eq!(pid.bytes, Some(4));
                let comm = btf.member("task_struct", "comm").expect("a task's name");
                assert!(comm.offset > 0);
            }
            Err(error) => println!("skipped: no /sys/kernel/btf/vmlinux: {error}"),
        }
    }
}
