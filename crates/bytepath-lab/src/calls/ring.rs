//! Operations in batches on a ring: all of a batch are queued, handed over by one call, which also
//! waits until all are answered.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use bytepath::pages::Pages;
use bytepath::ring::Operation as Step;
use bytepath::ring::{Buffer, Completion, Request, Ring, Setup, Target};
use rustix::event::PollFlags;
use rustix::io::Errno;

use super::stage::{FILE_BYTES, MESSAGE_BYTES, READ_BYTES, ROOM_BYTES, Stage};
use super::syscalls::right;
use super::{CallError, Doer, Operation};

/// The token of what calls another off; the one that it calls off has it with this bit clear.
const CALLS_OFF: u64 = 1 << 63;

/// Does operations in batches.
pub(super) struct Batches<'fd> {
    ring: Ring<'fd>,
    stage: &'fd Stage,
    operation: Operation,
    batch: u32,
    target: Target<'fd>,
    /// The memory that operations read into or send from.
    buffers: Vec<Buffer>,
    opened: Vec<OwnedFd>,
    done: u64,
}

impl<'fd> Batches<'fd> {
    pub(super) fn open(
        stage: &'fd Stage,
        operation: Operation,
        batch: u32,
        registered: bool,
    ) -> Result<Batches<'fd>, CallError> {
        // Calling off takes two requests.
        let mut ring = Ring::open(&Setup::with_entries(batch * 2))?;
        let file = match operation {
            Operation::Accept => stage.listener.as_fd(),
            Operation::Send | Operation::Receive => stage.near.as_fd(),
            Operation::Poll => stage.ready.as_fd(),
            Operation::Cancel => stage.quiet.as_fd(),
            _ => stage.opened().as_fd(),
        };
        let target = match registered {
            true => ring.register_files(&[file])?[0],
            false => Target::Borrowed(file),
        };
        let buffers = match operation {
            Operation::Read | Operation::Send | Operation::Receive => batch,
            _ => 0,
        };
        let buffer = |_| Buffer::allocate(READ_BYTES, &Pages::default());
        let buffers = (0..buffers).map(buffer).collect::<Result<_, _>>().map_err(|error| {
            CallError::stage("buffers")(std::io::Error::other(error.to_string()))
        })?;
        let opened = Vec::with_capacity(batch as usize);
        Ok(Batches { ring, stage, operation, batch, target, buffers, opened, done: 0 })
    }

    /// The next operation as a request.
    fn request(&mut self) -> Request<'fd> {
        let (target, number) = (self.target, self.done);
        self.done += 1;
        let step = match self.operation {
            Operation::Nop => Step::Nop,
            Operation::OpenClose => Step::Open { path: self.stage.path.clone() },
            Operation::Statx => Step::Statx { path: self.stage.path.clone() },
            Operation::Read => {
                let at = number * READ_BYTES as u64 % FILE_BYTES;
                Step::Read { file: target, at, bytes: 0..READ_BYTES }
            }
            Operation::Fallocate => {
                let at = number * ROOM_BYTES % FILE_BYTES;
                Step::Fallocate { file: target, at, len: ROOM_BYTES }
            }
            Operation::Accept => Step::Accept { listener: target },
            Operation::Send => Step::Send { socket: target, bytes: 0..MESSAGE_BYTES },
            Operation::Receive => Step::Receive { socket: target, bytes: 0..MESSAGE_BYTES },
            Operation::Timeout => Step::Timeout(Duration::from_micros(1)),
            Operation::Poll | Operation::Cancel => {
                Step::Poll { file: target, interest: PollFlags::IN }
            }
        };
        let request = Request::new(number, step);
        match self.buffers.pop() {
            Some(buffer) => request.buffer(buffer),
            None => request,
        }
    }

    /// One batch from its first request to its last answer.
    fn batch(&mut self) -> Result<(), CallError> {
        for _ in 0..self.batch {
            let request = self.request();
            self.ring.push(request);
        }
        if self.operation == Operation::Cancel {
            let last = self.done;
            for token in last - u64::from(self.batch)..last {
                self.ring.push(Request::new(token | CALLS_OFF, Step::Cancel(token)));
            }
        }
        self.answers()?;
        if self.operation == Operation::OpenClose {
            for file in self.opened.drain(..) {
                self.ring.push(Request::new(0, Step::Close { file }));
            }
            return self.answers();
        }
        Ok(())
    }

    /// Hands over what is queued, and looks at every answer.
    fn answers(&mut self) -> Result<(), CallError> {
        let operation = self.operation.name();
        let failed = |errno| CallError::Failed { operation, errno };
        let mut left = self.ring.steps_in_flight();
        while left > 0 {
            self.ring.submit_and_wait(left).map_err(failed)?;
            while let Some(done) = self.ring.take() {
                left -= 1;
                self.answered(done)?;
            }
        }
        Ok(())
    }

    fn answered(&mut self, done: Completion) -> Result<(), CallError> {
        let operation = self.operation.name();
        let found = match self.expected(&done) {
            Ok(found) => found,
            Err(errno) => return Err(CallError::Failed { operation, errno }),
        };
        let wanted = right(self.operation);
        if found != wanted {
            return Err(CallError::Wrong { operation, found, wanted });
        }
        self.buffers.extend(done.buffer);
        match self.operation {
            Operation::Accept => self.stage.taken.borrow_mut().extend(done.opened),
            Operation::OpenClose => self.opened.extend(done.opened),
            _ => {}
        }
        Ok(())
    }

    /// What was answered, as the system call would have said it.
    fn expected(&self, done: &Completion) -> Result<u64, Errno> {
        match (self.operation, done.first) {
            (Operation::Timeout, Err(Errno::TIME)) => Ok(0),
            // A timeout that ends otherwise did not wait.
            (Operation::Timeout, Ok(_)) => Err(Errno::CANCELED),
            (Operation::Cancel, Err(Errno::CANCELED)) if done.token & CALLS_OFF == 0 => Ok(0),
            // Older kernels count what they called off.
            (Operation::Cancel, Ok(_)) if done.token & CALLS_OFF != 0 => Ok(0),
            (Operation::Cancel, Ok(_)) => Err(Errno::INVAL),
            (Operation::Statx, Ok(_)) => Ok(done.bytes_of_file.unwrap_or(0)),
            (Operation::OpenClose | Operation::Accept, Ok(_)) => Ok(0),
            (_, answer) => answer.map(u64::from),
        }
    }
}

impl Doer for Batches<'_> {
    fn round(&mut self, _: &Stage, operations: u32) -> Result<u64, CallError> {
        let before = self.ring.calls();
        for _ in 0..operations / self.batch {
            self.batch()?;
        }
        Ok(self.ring.calls() - before)
    }
}
