//! A request in flight: the kernel's words for its steps, and the memory that they point to.

#![allow(unsafe_code)]

use std::ffi::CString;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

use io_uring::squeue::{Entry, Flags};
use io_uring::{opcode, types};
use rustix::fs::{Statx, StatxFlags};
use rustix::io::Errno;

use crate::endpoint::place;
use crate::ring::{Answer, Buffer, Completion, Completions, FilePlace, Operation, Request, Target};

/// The user data of what nobody waits for.
pub(super) const UNANSWERED: u64 = u64::MAX;

/// A step of a flight, as user data tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// Tells the flight, by its last 31 bits, from those that had the index before.
    pub(super) number: u32,
    pub(super) index: u32,
    pub(super) step: u8,
}

impl Place {
    pub(super) fn user_data(self) -> u64 {
        u64::from(self.number) << 33 | u64::from(self.index) << 1 | u64::from(self.step)
    }

    pub(super) fn of_user_data(data: u64) -> Option<Place> {
        let place = Place {
            number: (data >> 33) as u32,
            index: (data >> 1) as u32,
            step: (data & 1) as u8,
        };
        (data != UNANSWERED).then_some(place)
    }
}

/// A request in flight. Nothing in it is looked at before its last step is answered.
pub(super) struct Flight {
    token: u64,
    /// Of its first step.
    place: Place,
    buffer: Option<Buffer>,
    steps: [Option<Step>; 2],
}

/// What one step keeps alive, and its answer.
struct Step {
    held: Held,
    answer: Option<Answer>,
}

/// What the kernel reads or writes beside the buffer. Boxed, so that it stays where it is when the
/// flight moves.
enum Held {
    Nothing,
    Time(#[allow(dead_code, reason = "the kernel reads it")] Box<types::Timespec>),
    Stat(#[allow(dead_code, reason = "the kernel reads it")] CString, Box<MaybeUninit<Statx>>),
    /// The step's answer is a descriptor: of a file opened by path, or of a connection.
    Opens,
    OpensPath(#[allow(dead_code, reason = "the kernel reads it")] CString),
    /// The step's answer is a place among the ring's files.
    TakesIn {
        ring: u64,
    },
    /// Closed by the step, unless that is never made.
    Closes(OwnedFd),
    Cancels,
}

impl Held {
    fn opens(&self) -> bool {
        matches!(self, Held::Opens | Held::OpensPath(_))
    }
}

/// The kernel's words for a request, of which the first `steps()` count, and what it owns from
/// here on.
pub(super) fn prepare(
    request: Request<'_>,
    place: Place,
    ring: u64,
    of_token: impl Fn(u64) -> Option<Place>,
) -> ([Entry; 2], Flight) {
    let Request { token, first, then, buffer, personality, offloaded } = request;
    let maker = Maker { buffer: buffer.as_ref(), ring, of_token: &of_token };
    let personality = personality.map_or(0, |personality| {
        assert_eq!(personality.ring, ring, "credentials are the ring's that registered them");
        personality.id
    });
    let mut flags = if offloaded { Flags::ASYNC } else { Flags::empty() };
    let finish = |entry: Entry, step: u8, flags: Flags| {
        let entry = entry.user_data(Place { step, ..place }.user_data());
        entry.personality(personality).flags(flags)
    };
    let second = then.map(|step| maker.made(step));
    let last = flags;
    if second.is_some() {
        flags |= Flags::IO_LINK;
    }
    let (entry, held) = maker.made(first);
    let first = (finish(entry, 0, flags), Step { held, answer: None });
    let second = second.map(|(entry, held)| (finish(entry, 1, last), Step { held, answer: None }));
    let (second_entry, second_step) = second.unzip();
    let entries = [first.0, second_entry.unwrap_or_else(|| opcode::Nop::new().build())];
    (entries, Flight { token, place, buffer, steps: [Some(first.1), second_step] })
}

/// Makes entries that point into one buffer.
struct Maker<'a> {
    buffer: Option<&'a Buffer>,
    ring: u64,
    of_token: &'a dyn Fn(u64) -> Option<Place>,
}

impl Maker<'_> {
    /// Makes an entry for either kind of target.
    fn on(
        &self,
        target: Target<'_>,
        borrowed: impl FnOnce(types::Fd) -> Entry,
        registered: impl FnOnce(types::Fixed) -> Entry,
    ) -> Entry {
        match target {
            Target::Borrowed(fd) => borrowed(types::Fd(fd.as_raw_fd())),
            Target::Registered(FilePlace { ring, index }) => {
                assert_eq!(ring, self.ring, "files are the ring's that registered them");
                registered(types::Fixed(index))
            }
        }
    }

    fn made(&self, operation: Operation<'_>) -> (Entry, Held) {
        match operation {
            Operation::Nop => (opcode::Nop::new().build(), Held::Nothing),
            Operation::Read { file, at, bytes } => (self.read(file, at, bytes), Held::Nothing),
            Operation::Write { file, at, bytes } => (self.write(file, at, bytes), Held::Nothing),
            Operation::Receive { socket, bytes } => {
                let (to, len) = self.piece(bytes);
                let entry = self.on(
                    socket,
                    |fd| opcode::Recv::new(fd, to, len).build(),
                    |fd| opcode::Recv::new(fd, to, len).build(),
                );
                (entry, Held::Nothing)
            }
            Operation::ReceiveEach { socket } => {
                let store = super::provided::GROUP;
                let entry = self.on(
                    socket,
                    |fd| opcode::RecvMulti::new(fd, store).build(),
                    |fd| opcode::RecvMulti::new(fd, store).build(),
                );
                (entry, Held::Nothing)
            }
            Operation::Send { socket, bytes } => {
                let (from, len) = self.piece(bytes);
                // A peer that is gone is told by EPIPE alone.
                let flags = libc::MSG_NOSIGNAL;
                let entry = self.on(
                    socket,
                    |fd| opcode::Send::new(fd, from, len).flags(flags).build(),
                    |fd| opcode::Send::new(fd, from, len).flags(flags).build(),
                );
                (entry, Held::Nothing)
            }
            Operation::Accept { listener } => {
                let (none, flags) = (std::ptr::null_mut(), libc::SOCK_CLOEXEC);
                let entry = self.on(
                    listener,
                    |fd| opcode::Accept::new(fd, none, none.cast()).flags(flags).build(),
                    |fd| opcode::Accept::new(fd, none, none.cast()).flags(flags).build(),
                );
                (entry, Held::Opens)
            }
            Operation::AcceptRegistered { listener } => {
                (self.accept_registered(listener), Held::TakesIn { ring: self.ring })
            }
            operation => self.made_without_data(operation),
        }
    }

    /// The operations that move no bytes of the buffer.
    fn made_without_data(&self, operation: Operation<'_>) -> (Entry, Held) {
        match operation {
            Operation::Open { path } => {
                let open = opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), path.as_ptr());
                (open.flags(libc::O_RDONLY | libc::O_CLOEXEC).build(), Held::OpensPath(path))
            }
            Operation::Close { file } => {
                (opcode::Close::new(types::Fd(file.as_raw_fd())).build(), Held::Closes(file))
            }
            Operation::Statx { path } => stat(path),
            Operation::Fallocate { file, at, len } => {
                let entry = self.on(
                    file,
                    |fd| opcode::Fallocate::new(fd, len).offset(at).build(),
                    |fd| opcode::Fallocate::new(fd, len).offset(at).build(),
                );
                (entry, Held::Nothing)
            }
            Operation::Shutdown { socket } => {
                let entry = self.on(
                    socket,
                    |fd| opcode::Shutdown::new(fd, libc::SHUT_RDWR).build(),
                    |fd| opcode::Shutdown::new(fd, libc::SHUT_RDWR).build(),
                );
                (entry, Held::Nothing)
            }
            Operation::Poll { file, interest } => {
                let events = u32::from(interest.bits());
                let entry = self.on(
                    file,
                    |fd| opcode::PollAdd::new(fd, events).build(),
                    |fd| opcode::PollAdd::new(fd, events).build(),
                );
                (entry, Held::Nothing)
            }
            Operation::Timeout(after) => {
                let time = super::timespec(after);
                (opcode::Timeout::new(&*time).build(), Held::Time(time))
            }
            Operation::Deadline(after) => {
                let time = super::timespec(after);
                (opcode::LinkTimeout::new(&*time).build(), Held::Time(time))
            }
            Operation::Cancel(token) => {
                // Where there is none, a number that none has makes the kernel say so.
                let place = (self.of_token)(token).map_or(UNANSWERED, Place::user_data);
                (opcode::AsyncCancel::new(place).build(), Held::Cancels)
            }
            _ => unreachable!("made by `made`"),
        }
    }

    fn read(&self, file: Target<'_>, at: u64, bytes: Range<usize>) -> Entry {
        let ((to, len), at) = (self.piece(bytes), place(at));
        match self.registered() {
            Some(index) => self.on(
                file,
                |fd| opcode::ReadFixed::new(fd, to, len, index).offset(at).build(),
                |fd| opcode::ReadFixed::new(fd, to, len, index).offset(at).build(),
            ),
            None => self.on(
                file,
                |fd| opcode::Read::new(fd, to, len).offset(at).build(),
                |fd| opcode::Read::new(fd, to, len).offset(at).build(),
            ),
        }
    }

    fn write(&self, file: Target<'_>, at: u64, bytes: Range<usize>) -> Entry {
        let ((from, len), at) = (self.piece(bytes), place(at));
        match self.registered() {
            Some(index) => self.on(
                file,
                |fd| opcode::WriteFixed::new(fd, from, len, index).offset(at).build(),
                |fd| opcode::WriteFixed::new(fd, from, len, index).offset(at).build(),
            ),
            None => self.on(
                file,
                |fd| opcode::Write::new(fd, from, len).offset(at).build(),
                |fd| opcode::Write::new(fd, from, len).offset(at).build(),
            ),
        }
    }

    /// Where a range of the buffer starts, and how long it is.
    fn piece(&self, bytes: Range<usize>) -> (*mut u8, u32) {
        let buffer = self.buffer.expect("a step that moves bytes has a buffer");
        let len = u32::try_from(bytes.len()).expect("a step moves less than 4 GiB");
        assert!(bytes.end <= buffer.len(), "the buffer has the range");
        (buffer.memory.mapping().pointer_to(bytes), len)
    }

    /// The connection stays in the ring's table, and ends with it.
    fn accept_registered(&self, listener: Target<'_>) -> Entry {
        let none: *mut libc::sockaddr = std::ptr::null_mut();
        let place = Some(types::DestinationSlot::auto_target());
        self.on(
            listener,
            |fd| opcode::Accept::new(fd, none, none.cast()).file_index(place).build(),
            |fd| opcode::Accept::new(fd, none, none.cast()).file_index(place).build(),
        )
    }

    /// The buffer's place among those registered with this ring.
    fn registered(&self) -> Option<u16> {
        let registered = self.buffer.and_then(|buffer| buffer.registered)?;
        (registered.ring == self.ring).then_some(registered.index)
    }
}

fn stat(path: CString) -> (Entry, Held) {
    let mut stat = Box::new(MaybeUninit::<Statx>::uninit());
    let to = stat.as_mut_ptr().cast::<types::statx>();
    let entry = opcode::Statx::new(types::Fd(libc::AT_FDCWD), path.as_ptr(), to);
    (entry.mask(StatxFlags::BASIC_STATS.bits()).build(), Held::Stat(path, stat))
}

/// What a number of the kernel's means.
fn answer_of(result: i32) -> Answer {
    u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result))
}

/// Whether a close with this answer was never made: cancelled, or not for a ring whose answers are
/// polled for. Others are of close(2) itself, as of a file system that could not write (EIO, ENOSPC)
/// or whatever one in user space (FUSE) says, EINVAL too: the number is free by then, and may be
/// somebody else's.
fn never_made(errno: Errno, completions: Completions) -> bool {
    errno == Errno::CANCELED || errno == Errno::INVAL && completions == Completions::Polled
}

impl Flight {
    /// One answer of several, while it stays in flight.
    pub(super) fn answer_so_far(&self, result: i32) -> Completion {
        Completion {
            token: self.token,
            first: answer_of(result),
            then: None,
            buffer: None,
            opened: None,
            taken_in: None,
            bytes_of_file: None,
            piece: None,
            more: true,
        }
    }

    pub(super) fn token(&self) -> u64 {
        self.token
    }

    /// Its first step that has no answer.
    pub(super) fn unanswered(&self) -> Place {
        let begun = self.steps[0].as_ref().is_some_and(|step| step.answer.is_some());
        Place { step: u8::from(begun), ..self.place }
    }

    /// Whether it is itself the cancelling of another.
    pub(super) fn cancels(&self) -> bool {
        self.steps.iter().flatten().any(|step| matches!(step.held, Held::Cancels))
    }

    /// Notes what a step answered; whether that was the last.
    pub(super) fn answered(&mut self, step: u8, result: i32) -> bool {
        let step = self.steps[usize::from(step)].as_mut().expect("only steps are answered");
        step.answer = Some(answer_of(result));
        self.steps.iter().flatten().all(|step| step.answer.is_some())
    }

    /// What the caller gets once the kernel is done with it.
    pub(super) fn landed(self, completions: Completions) -> Completion {
        let Flight { token, buffer, steps: [first, then], .. } = self;
        let mut done = Completion {
            token,
            first: Ok(0),
            then: None,
            buffer,
            opened: None,
            taken_in: None,
            bytes_of_file: None,
            piece: None,
            more: false,
        };
        if let Some(step) = first {
            done.first = step.landed(&mut done, completions);
        }
        done.then = then.map(|step| step.landed(&mut done, completions));
        done
    }
}

impl Step {
    fn landed(self, done: &mut Completion, completions: Completions) -> Answer {
        let answer = self.answer.expect("it was answered");
        match (&self.held, answer) {
            (held, Ok(number)) if held.opens() => {
                // SAFETY: the kernel opened it for this request, and nobody else knows its number.
                done.opened = Some(unsafe { OwnedFd::from_raw_fd(number as RawFd) });
            }
            (&Held::TakesIn { ring }, Ok(index)) => {
                done.taken_in = Some(FilePlace { ring, index });
            }
            (Held::Stat(_, stat), Ok(_)) => {
                // SAFETY: the kernel has filled it, all of it, when it answers without an error.
                done.bytes_of_file = Some(unsafe { stat.assume_init_ref() }.stx_size);
            }
            _ => {}
        }
        if let Held::Closes(file) = self.held
            && !answer.is_err_and(|errno| never_made(errno, completions))
        {
            let _closed_by_the_kernel = file.into_raw_fd();
        }
        answer
    }
}
