//! From a descriptor's number to the open file behind it, in programs; and which system calls move
//! bytes, open or close.
//!
//! Bytes are counted where system calls return, since that is where every kernel tells them. What a
//! ring (io_uring, and that of io_submit) or a mapping moves is not seen there; that a ring was used, or
//! may be by the kernel alone, is noted. Calls of programs for 32 bits have other numbers: they are
//! counted, and that is all.

use rustix::io::Errno;

use super::asm::{Alu, Asm, Helper, If, Label, Reg, Size};
use super::calls::{self, CALLS, RESULT};
use super::hook::{Hook, SCRATCH, Unknown, chase};
use super::tasks::{Tasks, task};
use crate::sys::bpf::{Map, MapKind};

/// What a system call does to descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(super) enum Kind {
    /// Its result is a count of bytes read from its first argument.
    Read = 1,
    /// The same, written.
    Write,
    /// Bytes from the first argument to the third.
    Copy,
    /// Bytes from the second argument to the first.
    Send,
    /// Bytes to the second argument, which stay where they are.
    Duplicate,
    /// Reads, unless its fourth argument says that the bytes stay.
    Receive,
    /// Reads, unless its third argument says so.
    ReceiveMessage,
    /// Its result is a count of messages, and the length of each stands in memory.
    ReceiveMessages,
    /// The same, written.
    SendMessages,
    /// Its result is a new open file.
    Open,
    /// It puts two new open files in memory.
    Pair,
    /// Its first argument is given up.
    Close,
    /// Its second argument is given up, and stands for the open file of the first then.
    Replace,
    /// Its result is a new connection.
    Accept,
    /// Its first argument is a new connection.
    Connect,
    /// Makes a ring, or works on one.
    Ring,
    /// Its result is a new open file, unless its first argument is one, which it changes.
    OpenOrChange,
}

/// Which system calls do. vmsplice counts as writing, which it is on one end of a pipe.
const KINDS: &[(libc::c_long, Kind)] = &[
    (libc::SYS_read, Kind::Read),
    (libc::SYS_pread64, Kind::Read),
    (libc::SYS_readv, Kind::Read),
    (libc::SYS_preadv, Kind::Read),
    (libc::SYS_preadv2, Kind::Read),
    (libc::SYS_recvfrom, Kind::Receive),
    (libc::SYS_recvmsg, Kind::ReceiveMessage),
    (libc::SYS_recvmmsg, Kind::ReceiveMessages),
    (libc::SYS_write, Kind::Write),
    (libc::SYS_pwrite64, Kind::Write),
    (libc::SYS_writev, Kind::Write),
    (libc::SYS_pwritev, Kind::Write),
    (libc::SYS_pwritev2, Kind::Write),
    (libc::SYS_sendto, Kind::Write),
    (libc::SYS_sendmsg, Kind::Write),
    (libc::SYS_sendmmsg, Kind::SendMessages),
    (libc::SYS_vmsplice, Kind::Write),
    (libc::SYS_tee, Kind::Duplicate),
    (libc::SYS_splice, Kind::Copy),
    (libc::SYS_copy_file_range, Kind::Copy),
    (libc::SYS_sendfile, Kind::Send),
    (libc::SYS_openat, Kind::Open),
    (libc::SYS_openat2, Kind::Open),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, Kind::Open),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, Kind::Open),
    (libc::SYS_memfd_create, Kind::Open),
    (libc::SYS_eventfd2, Kind::Open),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_eventfd, Kind::Open),
    (libc::SYS_epoll_create1, Kind::Open),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_epoll_create, Kind::Open),
    (libc::SYS_timerfd_create, Kind::Open),
    (libc::SYS_inotify_init1, Kind::Open),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_inotify_init, Kind::Open),
    (libc::SYS_fanotify_init, Kind::Open),
    (libc::SYS_open_by_handle_at, Kind::Open),
    (libc::SYS_userfaultfd, Kind::Open),
    (libc::SYS_signalfd4, Kind::OpenOrChange),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_signalfd, Kind::OpenOrChange),
    (libc::SYS_perf_event_open, Kind::Open),
    (libc::SYS_pidfd_open, Kind::Open),
    (libc::SYS_pipe2, Kind::Pair),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_pipe, Kind::Pair),
    (libc::SYS_close, Kind::Close),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_dup2, Kind::Replace),
    (libc::SYS_dup3, Kind::Replace),
    (libc::SYS_accept, Kind::Accept),
    (libc::SYS_accept4, Kind::Accept),
    (libc::SYS_connect, Kind::Connect),
    (libc::SYS_io_uring_setup, Kind::Ring),
    (libc::SYS_io_uring_enter, Kind::Ring),
    (libc::SYS_io_submit, Kind::Ring),
];

/// The kinds as programs look them up: by a system call's number.
#[derive(Debug)]
pub(super) struct Kinds {
    pub(super) kinds: Map,
    unseen: Map,
}

/// Calls of which no more is known than how many there were, by the place of their count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Unseen {
    /// A ring was made or worked on.
    OfRings,
    /// They are of the table for 32 bits.
    Of32Bits,
}

impl Kinds {
    pub(super) fn new() -> Result<Kinds, Errno> {
        let kinds = Map::new(MapKind::Array, "bp_kinds", 4, 4, CALLS)?;
        for (number, kind) in KINDS {
            let number = u32::try_from(*number).map_err(|_| Errno::RANGE)?;
            kinds.set(&number.to_ne_bytes(), &(*kind as i32).to_ne_bytes())?;
        }
        Ok(Kinds { kinds, unseen: Map::new(MapKind::Array, "bp_unseen", 4, 8, 2)? })
    }

    pub(super) fn unseen(&self, calls: Unseen) -> u64 {
        let count = self.unseen.get(&(calls as u32).to_ne_bytes()).ok().flatten();
        count.map_or(0, |count| super::tasks::wide(&count, 0))
    }

    /// When a traced thread calls: its record gets the call's kind and the descriptors that it reads
    /// and writes. R7 is the record; calls that do nothing to descriptors go to `end`.
    pub(super) fn entered(
        &self,
        hook: &Hook<'_>,
        tasks: &Tasks,
        asm: &mut Asm,
        end: Label,
    ) -> Result<(), Unknown> {
        let (known, other_table, count, done) =
            (asm.label(), asm.label(), asm.label(), asm.label());
        tasks.running(asm, end);
        asm.store(Size::B4, Reg::R7, task::CALL, 0);
        calls::row_of(hook, asm, Reg::R8, Reg::R9)?;
        asm.store(Size::B4, Reg::R10, SCRATCH, Reg::R8);
        asm.lookup(&self.kinds, SCRATCH, other_table);
        asm.load(Size::B4, Reg::R9, Reg::R0, 0);
        asm.jump_if(Reg::R9, If::Equal, 0, end);
        asm.jump_if(Reg::R9, If::Different, Kind::Ring as i32, known);
        asm.store(Size::B4, Reg::R10, SCRATCH, Unseen::OfRings as i32);
        asm.jump(count);
        asm.place(other_table);
        asm.store(Size::B4, Reg::R10, SCRATCH, Unseen::Of32Bits as i32);
        asm.place(count);
        asm.lookup(&self.unseen, SCRATCH, end);
        asm.mov(Reg::R1, 1);
        asm.atomic_add(Reg::R0, 0, Reg::R1);
        asm.jump(end);
        asm.place(known);
        asm.store(Size::B4, Reg::R7, task::READS, NONE);
        asm.store(Size::B4, Reg::R7, task::WRITES, NONE);
        for (kind, arguments) in ARGUMENTS {
            let other = asm.label();
            asm.jump_if(Reg::R9, If::Different, kind as i32, other);
            for (what, argument) in arguments {
                hook.call_argument(asm, Reg::R8, *argument)?;
                match what {
                    Is::Source => asm.store(Size::B4, Reg::R7, task::READS, Reg::R8),
                    Is::Sink => asm.store(Size::B4, Reg::R7, task::WRITES, Reg::R8),
                    Is::Memory => asm.store(Size::B8, Reg::R7, task::MEMORY, Reg::R8),
                    Is::Flags => {
                        asm.alu(Alu::And, Reg::R8, STAYS);
                        asm.jump_if(Reg::R8, If::Different, 0, end);
                    }
                    Is::NoneYet => {
                        asm.alu(Alu::ShiftRight, Reg::R8, i32::BITS as i32 - 1);
                        asm.alu(Alu::And, Reg::R8, 1);
                        asm.jump_if(Reg::R8, If::Equal, 0, end);
                        asm.mov(Reg::R9, Kind::Open as i32);
                    }
                }
            }
            asm.jump(done);
            asm.place(other);
        }
        asm.place(done);
        asm.store(Size::B4, Reg::R7, task::CALL, Reg::R9);
        Ok(())
    }
}

/// No descriptor.
const NONE: i32 = -1;

/// What an argument is.
#[derive(Debug, Clone, Copy)]
enum Is {
    /// The descriptor of which bytes come, or which the call is about.
    Source,
    /// That to which they go.
    Sink,
    /// Where the call puts what is to be read when it returns.
    Memory,
    /// What may say that the bytes stay.
    Flags,
    /// Below 0 where a new open file is wanted.
    NoneYet,
}

const ARGUMENTS: [(Kind, &[(Is, usize)]); 14] = [
    (Kind::Read, &[(Is::Source, 0)]),
    (Kind::Write, &[(Is::Sink, 0)]),
    (Kind::Copy, &[(Is::Source, 0), (Is::Sink, 2)]),
    (Kind::Send, &[(Is::Source, 1), (Is::Sink, 0)]),
    (Kind::Duplicate, &[(Is::Sink, 1)]),
    (Kind::Receive, &[(Is::Source, 0), (Is::Flags, 3)]),
    (Kind::ReceiveMessage, &[(Is::Source, 0), (Is::Flags, 2)]),
    (Kind::ReceiveMessages, &[(Is::Source, 0), (Is::Memory, 1), (Is::Flags, 3)]),
    (Kind::SendMessages, &[(Is::Sink, 0), (Is::Memory, 1)]),
    (Kind::Pair, &[(Is::Memory, 0)]),
    (Kind::Close, &[(Is::Source, 0)]),
    (Kind::Replace, &[(Is::Source, 1), (Is::Sink, 0)]),
    (Kind::Connect, &[(Is::Source, 0)]),
    (Kind::OpenOrChange, &[(Is::NoneYet, 0)]),
];

/// What is only looked at is received by another call, and errors are no bytes of the connection.
const STAYS: i32 = libc::MSG_PEEK | libc::MSG_ERRQUEUE;

/// What a call has done to a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Does {
    /// Bytes were read from it, as many as are in [`MOVED`].
    Read,
    /// Bytes were written to it.
    Write,
    /// It is new.
    Open,
}

/// The number of bytes that a call moved, on the stack.
pub(super) const MOVED: i16 = -136;
const READS: i16 = -144;
const WRITES: i16 = -152;
/// The stack that `each` of [`returned`] may use begins below this.
pub(super) const BELOW: i16 = -152;

/// When a call of a traced thread returns: `each` makes the code for what was done to one descriptor,
/// whose number is in R9. It may change all but R6, and goes on at the label.
pub(super) fn returned(
    hook: &Hook<'_>,
    tasks: &Tasks,
    asm: &mut Asm,
    opens: &[Kind],
    mut each: impl FnMut(&mut Asm, Does, Label) -> Result<(), Unknown>,
    end: Label,
) -> Result<(), Unknown> {
    let (moves, known) = (asm.label(), asm.label());
    tasks.running(asm, end);
    asm.load(Size::B4, Reg::R8, Reg::R7, task::CALL);
    asm.jump_if(Reg::R8, If::Equal, 0, end);
    asm.store(Size::B4, Reg::R7, task::CALL, 0);
    hook.value(asm, Reg::R9, &RESULT)?;
    asm.store(Size::B8, Reg::R10, MOVED, Reg::R9);
    for (at, field) in [(READS, task::READS), (WRITES, task::WRITES)] {
        asm.load(Size::B4, Reg::R1, Reg::R7, field);
        asm.store(Size::B8, Reg::R10, at, Reg::R1);
    }
    for kind in opens {
        let other = asm.label();
        asm.jump_if(Reg::R8, If::Different, *kind as i32, other);
        if *kind == Kind::Connect {
            // It goes on by itself.
            let connected = asm.label();
            asm.jump_if(Reg::R9, If::Equal, 0, connected);
            asm.jump_if(Reg::R9, If::Different, -libc::EINPROGRESS, end);
            asm.place(connected);
            asm.load(Size::B8, Reg::R9, Reg::R10, READS);
        }
        if *kind == Kind::Pair {
            asm.jump_if(Reg::R9, If::Different, 0, end);
            asm.load(Size::B8, Reg::R8, Reg::R7, task::MEMORY);
            read_user(asm, Reg::R8, 8);
            for (half, at) in [(SCRATCH, READS), (SCRATCH + 4, WRITES)] {
                asm.load(Size::B4, Reg::R1, Reg::R10, half);
                asm.store(Size::B8, Reg::R10, at, Reg::R1);
            }
            each_of(asm, [(READS, Does::Open), (WRITES, Does::Open)], &mut each)?;
            asm.jump(end);
        } else {
            asm.jump(known);
        }
        asm.place(other);
    }
    asm.jump(moves);
    asm.place(known);
    asm.jump_if(Reg::R9, If::SignedBelow, 0, end);
    each(asm, Does::Open, end)?;
    asm.jump(end);

    asm.place(moves);
    asm.jump_if(Reg::R9, If::SignedBelow, 0, end);
    asm.jump_if(Reg::R8, If::Above, Kind::SendMessages as i32, end);
    let bytes = asm.label();
    asm.mov(Reg::R1, Kind::ReceiveMessages as i32);
    asm.jump_if(Reg::R1, If::Above, Reg::R8, bytes);
    bytes_of_messages(asm);
    asm.place(bytes);
    each_of(asm, [(READS, Does::Read), (WRITES, Does::Write)], &mut each)
}

/// What was done to two descriptors.
fn each_of(
    asm: &mut Asm,
    both: [(i16, Does); 2],
    each: &mut impl FnMut(&mut Asm, Does, Label) -> Result<(), Unknown>,
) -> Result<(), Unknown> {
    for (at, does) in both {
        let next = asm.label();
        asm.load(Size::B8, Reg::R9, Reg::R10, at);
        each(asm, does, next)?;
        asm.place(next);
    }
    Ok(())
}

/// What a call of as many messages as are in R9 moved, of the thread whose record is in R7. Changes R7
/// and R8.
fn bytes_of_messages(asm: &mut Asm) {
    /// UIO_MAXIOV
    const MESSAGES_MAX: i32 = 1024;
    let (again, done) = (asm.label(), asm.label());
    asm.load(Size::B8, Reg::R8, Reg::R7, task::MEMORY);
    asm.add(Reg::R8, std::mem::offset_of!(libc::mmsghdr, msg_len) as i32);
    asm.store(Size::B8, Reg::R10, MOVED, 0);
    asm.mov(Reg::R7, 0);
    asm.place(again);
    asm.jump_if(Reg::R7, If::AtLeast, Reg::R9, done);
    read_user(asm, Reg::R8, 4);
    asm.load(Size::B4, Reg::R1, Reg::R10, SCRATCH);
    asm.load(Size::B8, Reg::R2, Reg::R10, MOVED);
    asm.add(Reg::R1, Reg::R2);
    asm.store(Size::B8, Reg::R10, MOVED, Reg::R1);
    asm.add(Reg::R8, size_of::<libc::mmsghdr>() as i32);
    asm.add(Reg::R7, 1);
    asm.jump_if(Reg::R7, If::Different, MESSAGES_MAX, again);
    asm.place(done);
}

/// [`SCRATCH`] = as many bytes of the program's memory at `from`, zeroes where there are none.
fn read_user(asm: &mut Asm, from: Reg, bytes: i32) {
    asm.address(Reg::R1, Reg::R10, SCRATCH.into());
    asm.mov(Reg::R2, bytes);
    asm.mov(Reg::R3, from);
    asm.call(Helper::ReadUser);
}

/// `file` = the address of the open file behind the descriptor in `number`, of the thread that runs;
/// goes to `none` where there is none. Neither is of R0 to R5.
pub(super) fn file(
    hook: &Hook<'_>,
    asm: &mut Asm,
    file: Reg,
    number: Reg,
    none: Label,
) -> Result<(), Unknown> {
    let kernel = hook.kernel;
    let most = kernel.member("fdtable", &["max_fds"])?;
    asm.call(Helper::Task);
    asm.mov(file, Reg::R0);
    chase(asm, file, kernel.offset("task_struct", "files")?, Size::B8);
    asm.jump_if(file, If::Equal, 0, none);
    chase(asm, file, kernel.offset("files_struct", "fdt")?, Size::B8);
    asm.jump_if(file, If::Equal, 0, none);
    // Its length first. No descriptor at all (-1) is beyond it.
    asm.store(Size::B8, Reg::R10, FD_TABLE, file);
    chase(asm, file, most.offset as i32, Size::B4);
    asm.alu(Alu::ShiftLeft, number, 32);
    asm.alu(Alu::ShiftRight, number, 32);
    asm.jump_if(number, If::AtLeast, file, none);
    asm.load(Size::B8, file, Reg::R10, FD_TABLE);
    chase(asm, file, kernel.offset("fdtable", "fd")?, Size::B8);
    asm.alu(Alu::ShiftLeft, number, 3);
    asm.add(file, number);
    chase(asm, file, 0, Size::B8);
    asm.jump_if(file, If::Equal, 0, none);
    Ok(())
}

/// Where the table's address is kept meanwhile.
pub(super) const FD_TABLE: i16 = -128;
