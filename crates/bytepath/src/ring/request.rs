//! What is asked of a ring, what it answers, and the memory that travels with both.

use std::ffi::CString;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::io::Errno;

use crate::pages::{Memory, Pages, PagesError};

/// Memory for a request to read into or write from, in whole pages.
///
/// A request takes it by value, and its completion gives it back.
#[derive(Debug)]
pub struct Buffer {
    pub(crate) memory: Memory,
    pub(crate) registered: Option<Registered>,
}

/// The place of a buffer among those registered with one ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Registered {
    pub(crate) ring: u64,
    pub(crate) index: u16,
}

impl Buffer {
    /// Maps at least `bytes`, aligned to a page, zero until written.
    ///
    /// # Errors
    /// The kernel has no such memory to give.
    pub fn allocate(bytes: usize, pages: &Pages) -> Result<Buffer, PagesError> {
        Ok(Buffer { memory: Memory::allocate(bytes, pages)?, registered: None })
    }

    /// The bytes asked for.
    pub fn len(&self) -> usize {
        self.memory.len()
    }

    /// Whether it holds nothing; it never does.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// Whether a ring has its pages pinned, which saves looking them up for each request to that
    /// ring.
    pub fn is_registered(&self) -> bool {
        self.registered.is_some()
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        self.memory.as_slice()
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.memory.as_mut_slice()
    }
}

/// The descriptor that a step is about.
#[derive(Debug, Clone, Copy)]
pub enum Target<'fd> {
    /// Looked up by its number for each request.
    Borrowed(BorrowedFd<'fd>),
    /// By its place among the files of one ring: see
    /// [`Ring::register_files`](super::Ring::register_files) and [`Operation::AcceptRegistered`].
    Registered(FilePlace),
}

/// The place of a file among those registered with one ring. It is that ring's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FilePlace {
    pub(crate) ring: u64,
    pub(crate) index: u32,
}

/// Credentials registered with a ring: a request that carries them is carried out with the rights
/// that the thread had when it registered them. They are that ring's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Personality {
    pub(crate) ring: u64,
    pub(crate) id: u16,
}

/// One step of a request. Offsets and ranges are in bytes; a range is one of the request's buffer.
#[derive(Debug)]
pub enum Operation<'fd> {
    /// Nothing; answers 0.
    Nop,
    /// Reads at an offset of the file; answers how many bytes, 0 at its end.
    Read {
        /// What is read.
        file: Target<'fd>,
        /// From where in it.
        at: u64,
        /// Where to in the buffer.
        bytes: Range<usize>,
    },
    /// Writes at an offset of the file; answers how many bytes.
    Write {
        /// What is written.
        file: Target<'fd>,
        /// Where in it.
        at: u64,
        /// What of the buffer.
        bytes: Range<usize>,
    },
    /// Receives from a socket; answers how many bytes, 0 where the peer has ended.
    Receive {
        /// The socket.
        socket: Target<'fd>,
        /// Where to in the buffer.
        bytes: Range<usize>,
    },
    /// Receives from a socket again and again, each time into one of the buffers that the ring has in
    /// store ([`Ring::provide`](super::Ring::provide)), and answers each time how many bytes came; 0
    /// where the peer has ended. Goes on for as long as [`Completion::more`] says so: ENOBUFS ends it
    /// where no buffer is left. EINVAL before Linux 6.0.
    ReceiveEach {
        /// The socket.
        socket: Target<'fd>,
    },
    /// Sends to a socket; answers how many bytes.
    Send {
        /// The socket.
        socket: Target<'fd>,
        /// What of the buffer.
        bytes: Range<usize>,
    },
    /// Ends a connection in both directions, as shutdown(2) does. EINVAL before Linux 5.11.
    Shutdown {
        /// The socket.
        socket: Target<'fd>,
    },
    /// Takes one connection, which the completion then owns.
    Accept {
        /// The listening socket.
        listener: Target<'fd>,
    },
    /// Takes one connection into the ring's own files, so that it never has a descriptor: its place
    /// among them is the completion's [`Completion::taken_in`]. Needs room made by
    /// [`Ring::register_room`](super::Ring::register_room); ENFILE where there is no more, EINVAL
    /// before Linux 5.19.
    AcceptRegistered {
        /// The listening socket.
        listener: Target<'fd>,
    },
    /// Opens a file for reading, which the completion then owns.
    Open {
        /// Its path.
        path: CString,
    },
    /// Closes a descriptor.
    Close {
        /// It.
        file: OwnedFd,
    },
    /// Asks for everything that statx(2) tells about a path; the answer's size is in
    /// [`Completion::bytes_of_file`].
    Statx {
        /// The path.
        path: CString,
    },
    /// Makes room in a file, which grows if it is shorter.
    Fallocate {
        /// The file.
        file: Target<'fd>,
        /// From where.
        at: u64,
        /// How much.
        len: u64,
    },
    /// Waits until the descriptor is ready; answers the events as poll(2) does.
    Poll {
        /// The descriptor.
        file: Target<'fd>,
        /// For what.
        interest: PollFlags,
    },
    /// Completes after so long, with ETIME.
    Timeout(Duration),
    /// As a second step: cancels the first if it takes longer than this. Answers ETIME if it did,
    /// ECANCELED if not.
    Deadline(Duration),
    /// Cancels the request that has this token when this is pushed; answers ENOENT where there is none
    /// in flight, or none any more, and EALREADY where it could not be stopped any more. Of two steps it
    /// stops the first of which no answer was [taken](super::Ring::take) by then.
    Cancel(u64),
}

/// What a step answered: a count, or the kernel's word.
pub type Answer = Result<u32, Errno>;

/// One or two steps, the second to start when the first has done all that it was asked, and the
/// buffer that they read and write.
#[derive(Debug)]
pub struct Request<'fd> {
    pub(crate) token: u64,
    pub(crate) first: Operation<'fd>,
    pub(crate) then: Option<Operation<'fd>>,
    pub(crate) buffer: Option<Buffer>,
    pub(crate) personality: Option<Personality>,
    pub(crate) offloaded: bool,
}

impl<'fd> Request<'fd> {
    /// A request of one step. `token` is the caller's: the completion carries it.
    pub fn new(token: u64, first: Operation<'fd>) -> Self {
        Request { token, first, then: None, buffer: None, personality: None, offloaded: false }
    }

    /// With a second step, linked to the first: a first step that fails or comes up short cancels
    /// it (ECANCELED).
    #[must_use]
    pub fn then(self, step: Operation<'fd>) -> Self {
        Request { then: Some(step), ..self }
    }

    /// With the memory that its steps name ranges of.
    #[must_use]
    pub fn buffer(self, buffer: Buffer) -> Self {
        Request { buffer: Some(buffer), ..self }
    }

    /// With the rights of these credentials.
    #[must_use]
    pub fn personality(self, personality: Personality) -> Self {
        Request { personality: Some(personality), ..self }
    }

    /// Carried out by a thread of the kernel's that may sleep, instead of being tried at once:
    /// for files that answer EAGAIN.
    #[must_use]
    pub fn offloaded(self) -> Self {
        Request { offloaded: true, ..self }
    }

    /// How many steps it has.
    pub fn steps(&self) -> usize {
        1 + usize::from(self.then.is_some())
    }
}

/// A request that the kernel is done with.
#[derive(Debug)]
pub struct Completion {
    /// The request's token.
    pub token: u64,
    /// What the first step answered.
    pub first: Answer,
    /// What the second did, where there was one.
    pub then: Option<Answer>,
    /// The request's memory.
    pub buffer: Option<Buffer>,
    /// What [`Operation::Open`] or [`Operation::Accept`] opened.
    pub opened: Option<OwnedFd>,
    /// Where [`Operation::AcceptRegistered`] put a connection, for [`Target::Registered`].
    pub taken_in: Option<FilePlace>,
    /// What [`Operation::Statx`] gave as the file's size.
    pub bytes_of_file: Option<u64>,
    /// What [`Operation::ReceiveEach`] received.
    pub piece: Option<Piece>,
    /// Whether the request is still in flight, to be answered again.
    pub more: bool,
}

/// Bytes that were received into a buffer of the ring's store: [`Ring::piece`](super::Ring::piece)
/// shows them, and [`Ring::give_back`](super::Ring::give_back) lets the buffer be used again. Until
/// then the ring has one less.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    pub(crate) ring: u64,
    pub(crate) index: u16,
    pub(crate) len: usize,
}
