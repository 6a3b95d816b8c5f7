//! The life of open files: when each was opened, what was read and written, when it was closed for the
//! last time, by whoever it was handed to. An open file is what open(2) makes, so that copies of its
//! descriptor, in this process or in children, are the same one.

use std::collections::HashMap;

use rustix::io::Errno;

use super::TraceError;
use super::asm::{Alu, Asm, Helper, If, Label, Reg, Size};
use super::attach::Attached;
use super::calls::{ENTER, EXIT, RESULT};
use super::descriptors::{self, BELOW, Does, Kind, Kinds, MOVED};
use super::hook::{Hook, Kernel, Unknown, chase};
use super::largest::{Largest, Moved, Told};
use super::path::{self, PATH_BYTES};
use super::tasks::{Lost, Tasks, WHO, number, task, wide};
use crate::sys::bpf::{Map, MapKind};
use crate::sys::bpf_ring::Ring;

/// Files that are open at once; those beyond are counted as lost.
const FILES_MAX: u32 = 16_384;
/// Room for records that nobody has taken yet: 3,800 paths.
const RING_BYTES: usize = 4 << 20;

/// What a file's record has where.
mod file {
    pub(super) const FIRST_NS: i16 = 0;
    pub(super) const OPENED_NS: i16 = 8;
    pub(super) const READS: i16 = 16;
    pub(super) const READ_BYTES: i16 = 24;
    pub(super) const WRITES: i16 = 32;
    pub(super) const WRITTEN_BYTES: i16 = 40;
    pub(super) const CLOSED_NS: i16 = 48;
    pub(super) const WHO: i16 = 56;
    /// Where its end is known from close(2) and dup2(2) alone: the process that had it first, until
    /// it closes a copy.
    pub(super) const FIRST: i16 = 60;
    /// The number of its node.
    pub(super) const NODE: i16 = 64;
    /// The process that did something to it last.
    pub(super) const LAST: i16 = 72;
    pub(super) const BYTES: i16 = 80;
}

/// What a record of a new file has where.
mod seen {
    pub(super) const WHO: i16 = 4;
    pub(super) const FILE: i16 = 8;
    pub(super) const FIRST_NS: i16 = 16;
    pub(super) const MODE: i16 = 24;
    pub(super) const PATH_LEN: i16 = 28;
    pub(super) const KIND: i16 = 32;
    pub(super) const NUMBER: i16 = 48;
    pub(super) const PATH: i16 = 56;
    pub(super) const BYTES: i16 = PATH + super::PATH_BYTES;
}

/// What a record of a file that is gone has where.
mod gone {
    pub(super) const FILE: i16 = 8;
    pub(super) const NOW: i16 = 16;
    pub(super) const VALUE: i16 = 24;
    pub(super) const BYTES: i16 = VALUE + super::file::BYTES;
}

const SEEN: i32 = 1;
const GONE: i32 = 2;

/// The address of the open file, a key of the map.
const FILE: i16 = BELOW - 8;
const VALUE: i16 = FILE - file::BYTES;
const RECORD: i16 = VALUE - 8;
const LEN: i16 = RECORD - 8;
const MODE: i16 = LEN - 8;

/// What was done to a file, and how its end is seen.
#[derive(Clone, Copy)]
struct Touched {
    does: Does,
    /// Its end is known from close(2) and dup2(2) alone.
    by_close: bool,
}

/// The maps of this mode.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) kinds: Kinds,
    files: Map,
}

impl Files {
    pub(super) fn new() -> Result<Files, Errno> {
        let files = Map::new(MapKind::Hash, "bp_files", 8, file::BYTES as usize, FILES_MAX)?;
        Ok(Files { kinds: Kinds::new()?, files })
    }

    pub(super) fn ring() -> Result<Ring, Errno> {
        Ring::new("bp_records", RING_BYTES)
    }

    /// Attaches the programs; what is said of files that are given up otherwise than seen is the
    /// result.
    pub(super) fn attach(
        &self,
        tasks: &Tasks,
        ring: &Map,
        attached: &mut Attached<'_>,
    ) -> Result<Option<String>, TraceError> {
        // First, so that no file is closed unseen.
        let released = attached
            .on_entry(&["__fput", "security_file_free"], || Ok(self.on_release(tasks, ring)))
            .err();
        let by_close = released.is_some();
        attached.on(EXIT, |hook| self.on_exit(hook, tasks, ring, by_close))?;
        attached.on(ENTER, |hook| self.on_enter(hook, tasks, by_close))?;
        Ok(released.map(|why| {
            format!(
                "files end with the last close(2), dup2(2) or dup3(2) that was seen, or with the \
                 process that had them, not when the kernel lets go of them, because the entry of \
                 __fput cannot be traced: {why}"
            )
        }))
    }

    fn on_enter(&self, hook: &Hook<'_>, tasks: &Tasks, by_close: bool) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let end = asm.label();
        self.kinds.entered(hook, tasks, &mut asm, end)?;
        if by_close {
            let closes = asm.label();
            asm.jump_if(Reg::R9, If::Equal, Kind::Close as i32, closes);
            asm.jump_if(Reg::R9, If::Different, Kind::Replace as i32, end);
            asm.place(closes);
            asm.load(Size::B4, Reg::R9, Reg::R7, task::READS);
            // What stands for itself already is not replaced.
            asm.load(Size::B4, Reg::R8, Reg::R7, task::WRITES);
            asm.jump_if(Reg::R8, If::Equal, Reg::R9, end);
            descriptors::file(hook, &mut asm, Reg::R8, Reg::R9, end)?;
            asm.store(Size::B8, Reg::R10, FILE, Reg::R8);
            asm.lookup(&self.files, FILE, end);
            asm.mov(Reg::R7, Reg::R0);
            unless_last(hook.kernel, &mut asm, end);
            asm.call(Helper::Now);
            asm.store(Size::B8, Reg::R7, file::CLOSED_NS, Reg::R0);
        }
        asm.end(end);
        Ok(asm)
    }

    fn on_exit(
        &self,
        hook: &Hook<'_>,
        tasks: &Tasks,
        ring: &Map,
        by_close: bool,
    ) -> Result<Asm, Unknown> {
        let mut asm = hook.begin();
        let end = asm.label();
        if by_close {
            let other = asm.label();
            tasks.running(&mut asm, end);
            asm.load(Size::B4, Reg::R1, Reg::R7, task::CALL);
            asm.jump_if(Reg::R1, If::Different, Kind::Replace as i32, other);
            self.take_back(hook, &mut asm, end)?;
            asm.place(other);
        }
        let each = |asm: &mut Asm, does, next| {
            let touched = Touched { does, by_close };
            self.touch(hook, tasks, ring, asm, touched, next)
        };
        descriptors::returned(hook, tasks, &mut asm, &[Kind::Open, Kind::Pair], each, end)?;
        asm.end(end);
        Ok(asm)
    }

    /// A call returns, of the thread whose record is in R7, that was to replace an open file: where
    /// it failed, that is still there. Goes to `end`.
    fn take_back(&self, hook: &Hook<'_>, asm: &mut Asm, end: Label) -> Result<(), Unknown> {
        let failed = asm.label();
        hook.value(asm, Reg::R8, &RESULT)?;
        asm.jump_if(Reg::R8, If::SignedBelow, 0, failed);
        asm.jump(end);
        asm.place(failed);
        asm.load(Size::B4, Reg::R9, Reg::R7, task::READS);
        descriptors::file(hook, asm, Reg::R8, Reg::R9, end)?;
        asm.store(Size::B8, Reg::R10, FILE, Reg::R8);
        asm.lookup(&self.files, FILE, end);
        asm.mov(Reg::R7, Reg::R0);
        process(asm);
        asm.store(Size::B8, Reg::R7, file::CLOSED_NS, 0);
        asm.store(Size::B4, Reg::R7, file::LAST, Reg::R0);
        asm.jump(end);
        Ok(())
    }

    /// Something was done to the descriptor in R9.
    fn touch(
        &self,
        hook: &Hook<'_>,
        tasks: &Tasks,
        ring: &Map,
        asm: &mut Asm,
        Touched { does, by_close }: Touched,
        next: Label,
    ) -> Result<(), Unknown> {
        let (new, known) = (asm.label(), asm.label());
        let kernel = hook.kernel;
        descriptors::file(hook, asm, Reg::R8, Reg::R9, next)?;
        asm.store(Size::B8, Reg::R10, FILE, Reg::R8);
        asm.lookup(&self.files, FILE, new);
        asm.mov(Reg::R7, Reg::R0);
        if does == Does::Open {
            // Another file had this address and nobody saw it go.
            self.emit_gone(tasks, ring, asm);
            self.forget(asm);
        } else if by_close {
            // The file that was here may have gone by something else than close(2), and others come
            // by calls that are not looked at: the node tells whether it still is the same.
            let node = kernel.offset("inode", "i_ino")?;
            asm.mov(Reg::R9, Reg::R8);
            chase(asm, Reg::R9, kernel.offset("file", "f_inode")?, Size::B8);
            chase(asm, Reg::R9, node, Size::B8);
            asm.load(Size::B8, Reg::R1, Reg::R7, file::NODE);
            asm.jump_if(Reg::R1, If::Equal, Reg::R9, known);
            self.emit_gone(tasks, ring, asm);
            self.forget(asm);
        } else {
            asm.jump(known);
        }
        asm.place(new);
        asm.mov(Reg::R9, Reg::R8);
        chase(asm, Reg::R9, kernel.offset("file", "f_inode")?, Size::B8);
        asm.mov(Reg::R7, Reg::R9);
        let mode = kernel.member("inode", &["i_mode"])?;
        chase(asm, Reg::R7, mode.offset as i32, Size::B2);
        asm.store(Size::B8, Reg::R10, MODE, Reg::R7);
        asm.alu(Alu::And, Reg::R7, libc::S_IFMT as i32);
        // Sockets are no files; what goes through them is told by `tcp`.
        asm.jump_if(Reg::R7, If::Equal, libc::S_IFSOCK as i32, next);
        asm.zero(VALUE, file::BYTES);
        asm.call(Helper::Now);
        asm.store(Size::B8, Reg::R10, VALUE + file::FIRST_NS, Reg::R0);
        if does == Does::Open {
            asm.store(Size::B8, Reg::R10, VALUE + file::OPENED_NS, Reg::R0);
        }
        asm.mov(Reg::R7, Reg::R9);
        chase(asm, Reg::R7, kernel.offset("inode", "i_ino")?, Size::B8);
        asm.store(Size::B8, Reg::R10, VALUE + file::NODE, Reg::R7);
        tasks.who(asm);
        asm.load(Size::B4, Reg::R1, Reg::R10, WHO);
        asm.store(Size::B4, Reg::R10, VALUE + file::WHO, Reg::R1);
        if by_close {
            process(asm);
            asm.store(Size::B4, Reg::R10, VALUE + file::FIRST, Reg::R0);
            asm.store(Size::B4, Reg::R10, VALUE + file::LAST, Reg::R0);
        }
        asm.add_new(&self.files, FILE, VALUE);
        let (kept, full) = (asm.label(), asm.label());
        asm.jump_if(Reg::R0, If::Equal, 0, kept);
        asm.jump_if(Reg::R0, If::Different, -libc::EEXIST, full);
        // Another thread was faster.
        asm.jump(known);
        asm.place(full);
        tasks.lose(asm, Lost::Keys);
        asm.jump(next);
        asm.place(kept);
        self.emit_seen(hook, tasks, ring, asm)?;
        asm.place(known);
        if does == Does::Open {
            return Ok(());
        }
        if by_close {
            process(asm);
            asm.mov(Reg::R9, Reg::R0);
        }
        asm.lookup(&self.files, FILE, next);
        if by_close {
            // Whoever closed it, it was not its last descriptor.
            asm.store(Size::B8, Reg::R0, file::CLOSED_NS, 0);
            asm.store(Size::B4, Reg::R0, file::LAST, Reg::R9);
        }
        let (times, bytes) = match does {
            Does::Read => (file::READS, file::READ_BYTES),
            _ => (file::WRITES, file::WRITTEN_BYTES),
        };
        asm.mov(Reg::R1, 1);
        asm.atomic_add(Reg::R0, times, Reg::R1);
        asm.load(Size::B8, Reg::R1, Reg::R10, MOVED);
        asm.atomic_add(Reg::R0, bytes, Reg::R1);
        Ok(())
    }

    /// Tells of the new file in R8, whose node is in R9.
    fn emit_seen(
        &self,
        hook: &Hook<'_>,
        tasks: &Tasks,
        ring: &Map,
        asm: &mut Asm,
    ) -> Result<(), Unknown> {
        let kernel = hook.kernel;
        let (full, end) = (asm.label(), asm.label());
        reserve(asm, ring, seen::BYTES.into(), full);
        asm.store(Size::B8, Reg::R10, RECORD, Reg::R0);
        asm.mov(Reg::R7, Reg::R0);
        asm.store(Size::B4, Reg::R7, 0, SEEN);
        asm.load(Size::B4, Reg::R1, Reg::R10, VALUE + file::WHO);
        asm.store(Size::B4, Reg::R7, seen::WHO, Reg::R1);
        asm.store(Size::B8, Reg::R7, seen::FILE, Reg::R8);
        asm.load(Size::B8, Reg::R1, Reg::R10, VALUE + file::FIRST_NS);
        asm.store(Size::B8, Reg::R7, seen::FIRST_NS, Reg::R1);
        asm.load(Size::B8, Reg::R1, Reg::R10, MODE);
        asm.store(Size::B4, Reg::R7, seen::MODE, Reg::R1);
        // Its number, and the kind of its file system.
        asm.address(Reg::R1, Reg::R7, seen::NUMBER.into());
        asm.mov(Reg::R2, 8);
        asm.mov(Reg::R3, Reg::R9);
        asm.add(Reg::R3, kernel.offset("inode", "i_ino")?);
        asm.call(Helper::ReadKernel);
        chase(asm, Reg::R9, kernel.offset("inode", "i_sb")?, Size::B8);
        chase(asm, Reg::R9, kernel.offset("super_block", "s_type")?, Size::B8);
        chase(asm, Reg::R9, kernel.offset("file_system_type", "name")?, Size::B8);
        asm.address(Reg::R1, Reg::R7, seen::KIND.into());
        asm.mov(Reg::R2, 16);
        asm.mov(Reg::R3, Reg::R9);
        asm.call(Helper::ReadKernelString);
        path::walk(hook, asm, &path::Places { record: RECORD, path: seen::PATH, len: LEN })?;
        asm.load(Size::B8, Reg::R7, Reg::R10, RECORD);
        asm.load(Size::B8, Reg::R1, Reg::R10, LEN);
        asm.store(Size::B4, Reg::R7, seen::PATH_LEN, Reg::R1);
        submit(asm, Reg::R7);
        asm.jump(end);
        asm.place(full);
        tasks.lose(asm, Lost::Records);
        asm.place(end);
        Ok(())
    }

    /// Tells of a file that is gone, whose record is in R7 and whose address is at [`FILE`].
    fn emit_gone(&self, tasks: &Tasks, ring: &Map, asm: &mut Asm) {
        let (full, end) = (asm.label(), asm.label());
        reserve(asm, ring, gone::BYTES.into(), full);
        asm.mov(Reg::R9, Reg::R0);
        asm.store(Size::B4, Reg::R9, 0, GONE);
        asm.load(Size::B8, Reg::R1, Reg::R10, FILE);
        asm.store(Size::B8, Reg::R9, gone::FILE, Reg::R1);
        for at in (0..file::BYTES).step_by(8) {
            asm.load(Size::B8, Reg::R1, Reg::R7, at);
            asm.store(Size::B8, Reg::R9, gone::VALUE + at, Reg::R1);
        }
        asm.call(Helper::Now);
        asm.store(Size::B8, Reg::R9, gone::NOW, Reg::R0);
        submit(asm, Reg::R9);
        asm.jump(end);
        asm.place(full);
        tasks.lose(asm, Lost::Records);
        asm.place(end);
    }

    fn forget(&self, asm: &mut Asm) {
        asm.map(Reg::R1, &self.files);
        asm.address(Reg::R2, Reg::R10, FILE.into());
        asm.call(Helper::MapDelete);
    }

    /// The kernel lets go of an open file, whoever's it is.
    fn on_release(&self, tasks: &Tasks, ring: &Map) -> Asm {
        let mut asm = Asm::new();
        let end = asm.label();
        asm.load(Size::B8, Reg::R8, Reg::R1, 0);
        asm.store(Size::B8, Reg::R10, FILE, Reg::R8);
        asm.lookup(&self.files, FILE, end);
        asm.mov(Reg::R7, Reg::R0);
        self.emit_gone(tasks, ring, &mut asm);
        self.forget(&mut asm);
        asm.end(end);
        asm
    }
}

/// R0 = the number of the process that runs.
fn process(asm: &mut Asm) {
    asm.call(Helper::PidTgid);
    asm.alu(Alu::ShiftRight, Reg::R0, 32);
}

/// Goes to `end` where others have the open file in R8, whose record is in R7, when a descriptor of it is
/// closed: a shell closes the one that it has made a copy of. Whoever maps the file, as is done with
/// libraries, has it too; then nobody knows. Changes R9.
fn unless_last(kernel: &Kernel, asm: &mut Asm, end: Label) {
    // Since 6.13 what counts is 0 for one.
    let count = kernel.offset("file", "f_ref").map(|at| (at, 0));
    let count = count.or_else(|_| kernel.offset("file", "f_count").map(|at| (at, 1)));
    let mapped = kernel
        .offset("file", "f_mapping")
        .and_then(|mapping| kernel.offset("address_space", "i_mmap").map(|tree| (mapping, tree)));
    let (Ok((count, one)), Ok((mapping, tree))) = (count, mapped) else { return };
    let last = asm.label();
    asm.mov(Reg::R9, Reg::R8);
    chase(asm, Reg::R9, mapping, Size::B8);
    chase(asm, Reg::R9, tree, Size::B8);
    asm.jump_if(Reg::R9, If::Different, 0, last);
    asm.mov(Reg::R9, Reg::R8);
    chase(asm, Reg::R9, count, Size::B8);
    asm.jump_if(Reg::R9, If::Equal, one, last);
    process(asm);
    asm.load(Size::B4, Reg::R1, Reg::R7, file::FIRST);
    asm.jump_if(Reg::R1, If::Different, Reg::R0, end);
    asm.store(Size::B4, Reg::R7, file::FIRST, 0);
    asm.jump(end);
    asm.place(last);
}

/// R0 = room for a record in the ring; goes to `full` where there is none.
pub(super) fn reserve(asm: &mut Asm, ring: &Map, bytes: i32, full: Label) {
    asm.map(Reg::R1, ring);
    asm.mov(Reg::R2, bytes);
    asm.mov(Reg::R3, 0);
    asm.call(Helper::RingReserve);
    asm.jump_if(Reg::R0, If::Equal, 0, full);
}

pub(super) fn submit(asm: &mut Asm, record: Reg) {
    /// BPF_RB_NO_WAKEUP
    const NO_WAKEUP: i32 = 1;
    asm.mov(Reg::R1, record);
    asm.mov(Reg::R2, NO_WAKEUP);
    asm.call(Helper::RingSubmit);
}

/// One open file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) path: String,
    pub(super) kind: String,
    pub(super) mode: u32,
    /// Who opened it or touched it first, as its name is kept.
    pub(super) who: u32,
    pub(super) first_ns: u64,
    /// None where it was open before anybody looked.
    pub(super) opened_ns: Option<u64>,
    /// None where it still was open in the end.
    pub(super) closed_ns: Option<u64>,
    /// Where it was not seen to be closed: the processes that had it, as far as was seen.
    had_by: Vec<u32>,
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) written_bytes: u64,
}

/// Puts records together.
#[derive(Debug, Default)]
pub(super) struct Story {
    /// What is known of files by address and first moment.
    seen: HashMap<(u64, u64), Seen>,
    rows: Largest<Row>,
}

#[derive(Debug)]
struct Seen {
    path: String,
    kind: String,
    mode: u32,
}

impl Story {
    pub(super) fn record(&mut self, record: &[u8]) {
        match record.get(..4).map(|kind| number(kind, 0) as i32) {
            Some(SEEN) if record.len() >= seen::BYTES as usize => self.begins(record),
            Some(GONE) if record.len() >= gone::BYTES as usize => {
                let now = wide(record, gone::NOW as usize);
                let file = wide(record, gone::FILE as usize);
                self.row(file, &record[gone::VALUE as usize..], Some(now));
            }
            _ => {}
        }
    }

    fn begins(&mut self, record: &[u8]) {
        let names = &record[seen::PATH as usize..];
        let (path, _) = path::told(names, number(record, seen::PATH_LEN as usize));
        let kind = &record[seen::KIND as usize..seen::NUMBER as usize];
        let kind = kind.split(|byte| *byte == 0).next().unwrap_or_default();
        let kind = String::from_utf8_lossy(kind).into_owned();
        let mode = number(record, seen::MODE as usize);
        let inode = wide(record, seen::NUMBER as usize);
        let path = match kind.as_str() {
            "pipefs" => format!("pipe:[{inode}]"),
            "anon_inodefs" => format!("anon_inode:[{}]", path.trim_matches(['/', '[', ']'])),
            _ => path,
        };
        let key = (wide(record, seen::FILE as usize), wide(record, seen::FIRST_NS as usize));
        self.seen.insert(key, Seen { path, kind, mode });
    }

    fn row(&mut self, file: u64, value: &[u8], closed_ns: Option<u64>) {
        let at = |at: i16| wide(value, at as usize);
        let first_ns = at(file::FIRST_NS);
        let seen = self.seen.remove(&(file, first_ns));
        let (path, kind, mode) = match seen {
            Some(seen) => (seen.path, seen.kind, seen.mode),
            None => ("(its record was lost)".to_owned(), String::new(), 0),
        };
        // By close(2), it was before its address came again.
        let by_close = Some(at(file::CLOSED_NS)).filter(|closed| *closed > 0);
        let had_by = [file::FIRST, file::LAST].map(|at| number(value, at as usize));
        let had_by = had_by.into_iter().filter(|pid| by_close.is_none() && *pid > 0).collect();
        self.rows.push(Row {
            path,
            kind,
            mode,
            who: number(value, file::WHO as usize),
            first_ns,
            opened_ns: Some(at(file::OPENED_NS)).filter(|opened| *opened > 0),
            closed_ns: by_close.or(closed_ns),
            had_by,
            reads: at(file::READS),
            read_bytes: at(file::READ_BYTES),
            writes: at(file::WRITES),
            written_bytes: at(file::WRITTEN_BYTES),
        });
    }

    /// All of it, with the files that nobody saw go. What was not closed by hand was closed when the last
    /// process ended that had it.
    pub(super) fn told(mut self, files: &Files, tasks: &Tasks) -> Result<Told<Row>, Errno> {
        for (key, value) in files.files.entries()? {
            self.row(wide(&key, 0), &value, None);
        }
        let ended = tasks.ended()?;
        let mut told = self.rows.told();
        for row in &mut told.rows {
            let ends: Option<Vec<u64>> =
                row.had_by.iter().map(|pid| ended.get(pid).copied()).collect();
            let end = ends.and_then(|ends| ends.into_iter().max());
            row.closed_ns = match (row.closed_ns, end) {
                (Some(closed), Some(end)) => Some(closed.min(end)),
                (closed, end) => closed.or(end),
            };
        }
        Ok(told)
    }
}

impl Moved for Row {
    fn first_ns(&self) -> u64 {
        self.first_ns
    }

    fn bytes(&self) -> [u64; 2] {
        [self.read_bytes, self.written_bytes]
    }

    fn subnet(&self) -> Option<String> {
        None
    }
}

const _: () = assert!(MODE >= -512);
