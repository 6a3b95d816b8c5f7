//! linux-aio (io_setup, io_submit, io_getevents) as a type that owns what is in flight: memory
//! that the kernel may still read or write can be neither freed nor touched.
//!
//! The counterpart of the ring for kernels and sandboxes without one. It takes requests of one step
//! that read or write; descriptors are borrowed for `'fd`, which outlives the queue.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::counted;
use super::deadly::survived;
use crate::error::Refusal;
use crate::ring::{Buffer, Completion, Operation, Request, Target};
use crate::routes::Queue;

/// struct iocb of linux/aio_abi.h, on machines of either byte order that bytepath runs on (both
/// little-endian).
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    eventfd: u32,
}

/// struct io_event of linux/aio_abi.h.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

const IOCB_CMD_PREAD: u16 = 0;
const IOCB_CMD_PWRITE: u16 = 1;

/// A request in flight, or still to be submitted.
struct Flight {
    token: u64,
    buffer: Option<Buffer>,
}

/// A context of linux-aio, and everything that is in flight in it.
pub(crate) struct Aio<'fd> {
    /// 0 once it is destroyed.
    context: libc::c_ulong,
    flights: Vec<Option<Flight>>,
    /// One for each flight; never resized, so that each stays where it is.
    controls: Vec<Control>,
    /// Where those are that are to be submitted, made anew for each call.
    pointers: Vec<*mut Control>,
    free: Vec<usize>,
    /// Places whose requests are to be submitted.
    queued: Vec<usize>,
    submitted: usize,
    done: Vec<Completion>,
    calls: u64,
    _files: PhantomData<BorrowedFd<'fd>>,
}

impl Aio<'_> {
    /// A context for `depth` requests in flight.
    ///
    /// # Errors
    /// The kernel's word: EAGAIN above fs.aio-max-nr, ENOSYS where it has none or a filter hides
    /// it, EPERM where one forbids it.
    pub(crate) fn open(depth: usize) -> Result<Self, Refusal> {
        survived(libc::SYS_io_setup).map_err(refused)?;
        let mut context: libc::c_ulong = 0;
        let most = libc::c_long::try_from(depth.max(1)).unwrap_or(libc::c_long::MAX);
        // SAFETY: the kernel writes one number to `context`, which has to be 0 before.
        let answer = unsafe { libc::syscall(libc::SYS_io_setup, most, &raw mut context) };
        counted(answer).map_err(refused)?;
        Ok(Aio {
            context,
            flights: (0..depth).map(|_| None).collect(),
            controls: vec![Control::default(); depth],
            pointers: Vec::with_capacity(depth),
            free: (0..depth).rev().collect(),
            queued: Vec::with_capacity(depth),
            submitted: 0,
            done: Vec::with_capacity(depth),
            calls: 1,
            _files: PhantomData,
        })
    }

    /// Hands over what is queued; what the kernel refuses is done, with its word.
    pub(crate) fn submit(&mut self) {
        while !self.queued.is_empty() {
            let start = self.controls.as_mut_ptr();
            self.pointers.clear();
            self.pointers.extend(self.queued.iter().map(|&place| start.wrapping_add(place)));
            self.calls += 1;
            let many = self.pointers.len() as libc::c_long;
            let first = self.pointers.as_ptr();
            // SAFETY: the kernel reads the control blocks, and marks them, during the call only.
            // The memory that each points to is owned by its flight until the kernel is done with
            // it (`next`, `Drop`). Descriptors live for `'fd`.
            let answer = unsafe { libc::syscall(libc::SYS_io_submit, self.context, many, first) };
            match counted(answer) {
                Ok(count) if count > 0 => {
                    self.queued.drain(..count);
                    self.submitted += count;
                }
                // As many as there may be are in flight: some have to come back first.
                Err(Errno::AGAIN) if self.submitted > 0 => return,
                Err(Errno::INTR) => {}
                Ok(_) => self.refuse_first(Errno::AGAIN),
                Err(errno) => self.refuse_first(errno),
            }
        }
    }

    /// The next request that is already done, without a system call.
    pub(crate) fn take(&mut self) -> Option<Completion> {
        self.done.pop()
    }

    /// The kernel's word is about the first of those that were to be submitted.
    fn refuse_first(&mut self, errno: Errno) {
        let place = self.queued.remove(0);
        self.land(place, Err(errno));
    }

    fn land(&mut self, place: usize, answer: Result<u32, Errno>) {
        let flight = self.flights[place].take().expect("only flights land");
        self.free.push(place);
        self.done.push(Completion {
            token: flight.token,
            first: answer,
            then: None,
            buffer: flight.buffer,
            opened: None,
            taken_in: None,
            bytes_of_file: None,
            piece: None,
            more: false,
        });
    }

    /// Waits for at least one request.
    fn wait(&mut self) -> Result<(), Errno> {
        const EVENTS: usize = 32;
        let mut events = [Event::default(); EVENTS];
        let (least, most, none): (libc::c_long, libc::c_long, _) =
            (1, EVENTS as libc::c_long, std::ptr::null::<libc::timespec>());
        let to = events.as_mut_ptr();
        self.calls += 1;
        // SAFETY: the kernel writes at most EVENTS events, for which there is room.
        let answer =
            unsafe { libc::syscall(libc::SYS_io_getevents, self.context, least, most, to, none) };
        let count = match counted(answer) {
            Err(Errno::INTR) => 0,
            answer => answer?,
        };
        for event in &events[..count] {
            self.submitted -= 1;
            let place = usize::try_from(event.data).expect("it is one of ours");
            let answer = match u32::try_from(event.result) {
                Ok(bytes) => Ok(bytes),
                Err(_) => Err(Errno::from_raw_os_error(-event.result as i32)),
            };
            self.land(place, answer);
        }
        Ok(())
    }
}

impl<'fd> Queue<'fd> for Aio<'fd> {
    fn push(&mut self, request: Request<'fd>) {
        let place = self.free.pop().expect("there is room for each chunk");
        let Request { token, first, buffer, .. } = request;
        let (opcode, file, at, bytes) = match first {
            Operation::Read { file, at, bytes } => (IOCB_CMD_PREAD, file, at, bytes),
            Operation::Write { file, at, bytes } => (IOCB_CMD_PWRITE, file, at, bytes),
            other => unreachable!("linux-aio reads and writes: {other:?}"),
        };
        let Target::Borrowed(file) = file else { unreachable!("it registers no files") };
        let memory = buffer.as_ref().expect("a request that moves bytes has a buffer");
        let len = bytes.len() as u64;
        self.controls[place] = Control {
            data: place as u64,
            opcode,
            file: file.as_raw_fd() as u32,
            buffer: memory.memory.mapping().pointer_to(bytes) as u64,
            bytes: len,
            offset: at as i64,
            ..Control::default()
        };
        self.flights[place] = Some(Flight { token, buffer });
        self.queued.push(place);
    }

    fn next(&mut self) -> Result<Option<Completion>, Errno> {
        loop {
            if let Some(done) = self.done.pop() {
                return Ok(Some(done));
            }
            self.submit();
            if self.done.is_empty() {
                if self.submitted == 0 {
                    return Ok(None);
                }
                self.wait()?;
            }
        }
    }

    fn settle(&mut self) {
        let context = std::mem::take(&mut self.context);
        if context == 0 {
            return;
        }
        self.calls += 1;
        // io_destroy(2) waits for everything in flight; memory is freed after that only.
        // SAFETY: the context is this one's own, and nobody uses it any more.
        let answer = unsafe { libc::syscall(libc::SYS_io_destroy, context) };
        if counted(answer).is_err() && self.submitted > 0 {
            std::mem::forget(std::mem::take(&mut self.flights));
        }
    }

    fn calls(&self) -> u64 {
        self.calls
    }

    fn call(&self) -> &'static str {
        "io_getevents"
    }
}

impl Drop for Aio<'_> {
    fn drop(&mut self) {
        self.settle();
    }
}

fn refused(errno: Errno) -> Refusal {
    match errno {
        Errno::AGAIN => Refusal::errno("the requests pass fs.aio-max-nr", errno)
            .remedy("take a smaller queue depth, or raise it as root"),
        Errno::NOSYS => Refusal::errno("linux-aio is not known here", errno)
            .remedy("use a kernel with CONFIG_AIO, or a filter that allows io_setup"),
        Errno::PERM | Errno::ACCESS => Refusal::errno("linux-aio is not permitted", errno)
            .remedy("allow io_setup, io_submit and io_getevents in the seccomp filter"),
        _ => Refusal::errno("no context of linux-aio is to be had", errno),
    }
}
