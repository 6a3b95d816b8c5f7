//! Operations by one system call each (two for those that are two).

use std::os::fd::OwnedFd;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{AtFlags, CWD, FallocateFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use rustix::thread::{ClockId, NanosleepRelativeResult, clock_nanosleep_relative};

use super::stage::{FILE_BYTES, MESSAGE_BYTES, READ_BYTES, ROOM_BYTES, Stage};
use super::{CallError, Doer, Operation};

/// No time at all.
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Does operations one by one.
pub(super) struct Syscalls {
    operation: Operation,
    epoll: OwnedFd,
    done: u64,
}

impl Syscalls {
    pub(super) fn new(operation: Operation) -> Result<Syscalls, CallError> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)
            .map_err(|errno| CallError::stage("an epoll instance")(errno.into()))?;
        Ok(Syscalls { operation, epoll, done: 0 })
    }

    /// The answer of one operation, as a count.
    #[inline]
    fn one(&mut self, stage: &Stage) -> Result<u64, Errno> {
        self.done += 1;
        match self.operation {
            Operation::Nop => {
                std::hint::black_box(rustix::process::getpid());
                Ok(0)
            }
            Operation::OpenClose => {
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = rustix::fs::openat(CWD, stage.path.as_c_str(), flags, Mode::empty())?;
                drop(file);
                Ok(0)
            }
            Operation::Statx => {
                let (path, none) = (stage.path.as_c_str(), AtFlags::empty());
                Ok(rustix::fs::statx(CWD, path, none, StatxFlags::BASIC_STATS)?.stx_size)
            }
            Operation::Read => {
                let mut bytes = [0_u8; READ_BYTES];
                let at = self.done * READ_BYTES as u64 % FILE_BYTES;
                let count = rustix::io::pread(stage.opened(), &mut bytes, at)?;
                std::hint::black_box(bytes);
                Ok(count as u64)
            }
            Operation::Fallocate => {
                let at = self.done * ROOM_BYTES % FILE_BYTES;
                let none = FallocateFlags::empty();
                rustix::fs::fallocate(stage.opened(), none, at, ROOM_BYTES).map(|()| 0)
            }
            _ => self.one_of_waiting(stage),
        }
    }

    /// Operations of sockets, time and readiness.
    fn one_of_waiting(&self, stage: &Stage) -> Result<u64, Errno> {
        match self.operation {
            Operation::Accept => {
                let taken = rustix::net::accept_with(&stage.listener, SocketFlags::CLOEXEC)?;
                stage.taken.borrow_mut().push(taken);
                Ok(0)
            }
            Operation::Send => {
                let message = [b'X'; MESSAGE_BYTES];
                Ok(rustix::net::send(&stage.near, &message, SendFlags::NOSIGNAL)? as u64)
            }
            Operation::Receive => {
                let mut message = [0_u8; MESSAGE_BYTES];
                let (count, _) = rustix::net::recv(&stage.near, &mut message, RecvFlags::empty())?;
                std::hint::black_box(message);
                Ok(count as u64)
            }
            Operation::Timeout => {
                let time = rustix::time::Timespec { tv_sec: 0, tv_nsec: 1000 };
                match clock_nanosleep_relative(ClockId::Monotonic, &time) {
                    NanosleepRelativeResult::Ok => Ok(0),
                    NanosleepRelativeResult::Interrupted(_) => Err(Errno::INTR),
                    NanosleepRelativeResult::Err(errno) => Err(errno),
                }
            }
            Operation::Poll => {
                let mut asked = [PollFd::new(&stage.ready, PollFlags::IN)];
                poll(&mut asked, Some(&AT_ONCE))?;
                Ok(u64::from(asked[0].revents().bits()))
            }
            _ => {
                let data = EventData::new_u64(0);
                epoll::add(&self.epoll, &stage.quiet, data, EventFlags::IN)?;
                epoll::delete(&self.epoll, &stage.quiet).map(|()| 0)
            }
        }
    }
}

/// What an operation answers when all is well.
pub(super) fn right(operation: Operation) -> u64 {
    match operation {
        Operation::Statx => FILE_BYTES,
        Operation::Read => READ_BYTES as u64,
        Operation::Send | Operation::Receive => MESSAGE_BYTES as u64,
        Operation::Poll => u64::from(PollFlags::IN.bits()),
        _ => 0,
    }
}

impl Doer for Syscalls {
    fn round(&mut self, stage: &Stage, operations: u32) -> Result<u64, CallError> {
        let (operation, wanted) = (self.operation.name(), right(self.operation));
        for _ in 0..operations {
            match self.one(stage) {
                Ok(found) if found == wanted => {}
                Ok(found) => return Err(CallError::Wrong { operation, found, wanted }),
                Err(errno) => return Err(CallError::Failed { operation, errno }),
            }
        }
        let each = match self.operation {
            Operation::OpenClose | Operation::Cancel => 2,
            _ => 1,
        };
        Ok(u64::from(operations) * each)
    }
}
