//! The ways from this process's memory into a descriptor, one file each, and the list of them.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::endpoint::{self, Endpoint, Kind};
use crate::error::{Failed, Refusal, Side, Stop};
use crate::meter::Meter;
use crate::pages::Pages;
use crate::routes::Aliasing;
use crate::seal::Sealed;
use crate::wait::{Cancel, Ends, Wait, Waiter};

mod gift;
mod lend;
mod ranked;
mod reservoir;
mod vmsplice;
mod write;

pub use gift::Fresh;
pub use ranked::{Choice, Ranked};

/// Every outlet. The help, the tests and the experiments go through this list.
pub const OUTLETS: &[&dyn Outlet] = &[
    &write::WRITE,
    &write::WRITEV,
    &vmsplice::Vmsplice,
    &gift::Gift,
    &reservoir::TEE,
    &reservoir::WIDE_TEE,
];

/// The outlet of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Outlet> {
    OUTLETS.iter().copied().find(|outlet| outlet.name() == name)
}

/// Bytes per call where nothing else is set: the buffer of the published pipe ladder.
pub const BUF_BYTES: usize = 256 << 10;

/// The pipe size that outlets without one of their own ask for: what fs.pipe-max-size allows
/// everybody by default.
const LARGE_PIPE_BYTES: usize = 1 << 20;

/// What an outlet sends over and over when it repeats.
#[derive(Debug, Clone, Copy)]
pub enum Contents<'a> {
    /// Whatever fresh memory holds (zeros), which is not even touched.
    Untouched,
    /// These bytes, again and again; not empty.
    Repeat(&'a [u8]),
}

impl Contents<'_> {
    /// Writes the contents as they stand at `offset` of the stream.
    pub(crate) fn fill(&self, offset: u64, into: &mut [u8]) {
        let Contents::Repeat(bytes) = self else { return };
        let phase = usize::try_from(offset % bytes.len() as u64).unwrap_or(0);
        // The first period by hand, the rest by copying what is there, twice as much each time.
        let first = into.len().min(bytes.len());
        let tail = first.min(bytes.len() - phase);
        into[..tail].copy_from_slice(&bytes[phase..phase + tail]);
        into[tail..first].copy_from_slice(&bytes[..first - tail]);
        let mut filled = first;
        while filled < into.len() {
            let count = filled.min(into.len() - filled);
            into.copy_within(..count, filled);
            filled += count;
        }
    }

    /// The period in bytes: the stream repeats itself after so many.
    fn period(&self) -> Result<usize, Stop> {
        match self {
            Contents::Untouched => Ok(1),
            Contents::Repeat([]) => Err(Stop::Declined(
                Refusal::because("contents of no bytes cannot be repeated")
                    .remedy("give at least one, or leave the contents untouched"),
            )),
            Contents::Repeat(bytes) => Ok(bytes.len()),
        }
    }
}

/// Whether the buffers that an outlet alternates between share a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Buffers {
    /// Each has a mapping of its own, so that they share no page table.
    #[default]
    Apart,
    /// Halves of one mapping: the published ladder shows it to cost about 20%.
    Together,
}

/// What an outlet is opened with.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// What is sent when repeating.
    pub contents: Contents<'a>,
    /// Bytes per buffer, and per call at most.
    pub buf_bytes: usize,
    /// The size of the pipe; `None` leaves it to the outlet.
    pub pipe_bytes: Option<usize>,
    /// The pages of the buffers.
    pub pages: Pages,
    /// Whether two buffers share a mapping.
    pub buffers: Buffers,
    /// SPLICE_F_GIFT on vmsplice.
    pub gift_flag: bool,
    /// How the `gift` outlet comes by fresh pages.
    pub fresh: Fresh,
    /// What to do when the sink is full.
    pub wait: Wait,
    /// Whom to tell.
    pub meter: &'a Meter,
    /// Who may stop it.
    pub cancel: Option<&'a Cancel>,
}

impl<'a> Setup<'a> {
    /// The defaults: untouched 256 KiB buffers of base pages, blocking.
    pub fn new(meter: &'a Meter) -> Self {
        Setup {
            contents: Contents::Untouched,
            buf_bytes: BUF_BYTES,
            pipe_bytes: None,
            pages: Pages::default(),
            buffers: Buffers::Apart,
            gift_flag: false,
            fresh: Fresh::Discard,
            wait: Wait::Block,
            meter,
            cancel: None,
        }
    }
}

/// Whether an outlet takes new bytes all the time, or sends the same ones over and over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Use {
    /// It can do both.
    Streams,
    /// It can only repeat.
    Repeats,
}

/// One way from memory into a descriptor. Made here only: what it needs to wait and to count is
/// private to this crate.
pub trait Outlet: Sync + Sealed {
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// What it does, in one line.
    fn summary(&self) -> &'static str;

    /// Whether the sink holds pages of our memory.
    fn aliasing(&self) -> Aliasing;

    /// What it can be used for.
    fn used_for(&self) -> Use;

    /// Whether it works into this kind of sink. Asks nothing of the kernel.
    ///
    /// # Errors
    /// The rule that the sink breaks.
    fn suits(&self, sink: &Endpoint<'_>) -> Result<(), Refusal>;

    /// Makes its buffers, sets the pipe.
    ///
    /// # Errors
    /// Declined, with the reason.
    fn open<'a>(
        &self,
        sink: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Producer + 'a>, Stop>;
}

/// What an open outlet turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shape {
    /// Bytes per call at most.
    pub chunk_bytes: usize,
    /// The size that the pipe has (as F_GETPIPE_SZ tells it); 0 where the sink is none.
    pub pipe_bytes: usize,
    /// Bytes that one slot of the pipe holds at most.
    pub slot_bytes: usize,
    /// Bytes after which the stream repeats itself when repeating.
    pub period_bytes: usize,
}

/// An outlet at work on a sink. Made by [`Outlet::open`] only.
pub trait Producer: Send + Sealed {
    /// What it turned out to be.
    fn shape(&self) -> Shape;

    /// Why a pipe, the sink or one of its own, is smaller than the outlet wishes for, where one is.
    /// It works with what it has; a measurement of it is one of something else.
    fn pipe_refused(&self) -> Option<Refusal> {
        None
    }

    /// Sends the next piece of the contents, at most `most` bytes, in one call, and says how many
    /// went.
    ///
    /// # Errors
    /// The sink is gone or failed, or the mechanism is refused; do not go on after one, since
    /// part of the piece may have gone. The meter tells how much.
    fn repeat_some(&mut self, most: u64) -> Result<u64, Stop>;

    /// Sends the next `bytes` of the contents. The loop is here, and not with the caller, so that
    /// it is compiled into each producer: where the kernel guards against return predictions
    /// being trained (retbleed, SRSO), every return after a system call is mispredicted.
    ///
    /// # Errors
    /// The sink is gone or failed, or the mechanism is refused; the meter tells what went.
    fn repeat(&mut self, bytes: u64) -> Result<(), Stop> {
        let mut left = bytes;
        while left > 0 {
            left -= self.repeat_some(left)?;
        }
        Ok(())
    }

    /// Memory to fill with the next bytes of a stream; `None` where the outlet only repeats. To be
    /// asked for before each [`Producer::send`].
    ///
    /// # Errors
    /// There is no memory.
    fn room(&mut self) -> Result<Option<&mut [u8]>, Stop>;

    /// Sends the first `len` bytes of the room, all of them.
    ///
    /// # Errors
    /// The sink is gone or failed, and bytes of the room that did not go are in the error; or the mechanism
    /// is refused, and they were written.
    ///
    /// # Panics
    /// There is not so much room: [`Producer::room`] gave less, or was not asked since the last send.
    fn send(&mut self, len: usize) -> Result<(), Stop>;
}

/// How much room a producer has given that is not sent yet: what nobody can have filled is not sent.
#[derive(Default)]
pub(crate) struct Given(usize);

impl Given {
    pub(crate) fn room<'r>(&mut self, room: &'r mut [u8]) -> &'r mut [u8] {
        self.0 = room.len();
        room
    }

    pub(crate) fn sends(&mut self, len: usize) {
        let given = std::mem::take(&mut self.0);
        assert!(
            len <= given,
            "{len} bytes are sent of a room of {given}: ask for room before each send"
        );
    }
}

/// The sink as producers see it: a descriptor that is waited for.
pub(crate) struct Sink<'a> {
    pub(crate) end: &'a Endpoint<'a>,
    waiter: Waiter<'a>,
    meter: &'a Meter,
    /// What the meter told at first.
    began_at: u64,
    name: &'static str,
    nonblocking: bool,
}

impl<'a> Sink<'a> {
    pub(crate) fn new(name: &'static str, end: &'a Endpoint<'a>, setup: &Setup<'a>) -> Self {
        let waiter = Waiter::new(setup.wait, setup.cancel, setup.meter);
        let (nonblocking, began_at) = (waiter.nonblocking(), setup.meter.bytes());
        Sink { end, waiter, meter: setup.meter, began_at, name, nonblocking }
    }

    pub(crate) fn nonblocking(&self) -> bool {
        self.nonblocking
    }

    /// Whether it waits in no other way than sleeping in the call that moves bytes.
    pub(crate) fn sleeps_in_calls(&self) -> bool {
        self.waiter.sleeps_in_calls()
    }

    /// Makes `call` until it moves bytes, waiting in between as the setup says.
    #[inline(always)]
    pub(crate) fn until_moved(
        &mut self,
        call_name: &'static str,
        mut call: impl FnMut(&Endpoint<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Stop> {
        let ends = Ends::sink(self.end.as_fd());
        loop {
            self.waiter.before(ends)?;
            match call(self.end) {
                Ok(count) if count > 0 => {
                    self.meter.moved(count as u64);
                    self.waiter.progressed();
                    return Ok(count);
                }
                Err(Errno::INTR) => self.meter.called(),
                Err(Errno::AGAIN) => self.waiter.stalled(ends)?,
                Ok(_) => return Err(self.failed(call_name, Errno::NOSPC)),
                Err(errno) => return Err(self.failed(call_name, errno)),
            }
        }
    }

    fn failed(&self, call: &'static str, errno: Errno) -> Stop {
        match errno {
            // write is the last resort: what refuses it is a fault of the sink, such as a seal.
            Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::BADF
                if !call.starts_with("write") =>
            {
                Stop::Declined(Refusal::errno(format!("{call} refuses this sink"), errno))
            }
            _ => {
                let offset = self.meter.bytes().saturating_sub(self.began_at);
                Stop::Failed(Failed { offset, ..Failed::new(self.name, Side::Sink, call, errno) })
            }
        }
    }
}

/// The refusal of outlets that need a pipe.
pub(crate) fn pipe_only(name: &str, sink: &Endpoint<'_>) -> Result<(), Refusal> {
    if sink.kind() == Kind::Pipe {
        return Ok(());
    }
    Err(Refusal::because(format!("{name} needs a pipe, not a {}", sink.kind()))
        .remedy("pipe the output into a program, or use the outlet write"))
}

/// Sets the sink's pipe to the size that was asked for, which has to be had, or to the one that
/// the outlet wishes for, which need not; the size that it has then.
pub(crate) fn size_pipe(
    sink: &Endpoint<'_>,
    asked: Option<usize>,
    wished: Option<usize>,
) -> Result<usize, Stop> {
    if let Some(bytes) = asked {
        return sink.set_pipe_bytes(bytes).map_err(Stop::Declined);
    }
    let set = wished.and_then(|bytes| sink.set_pipe_bytes(bytes).ok());
    Ok(set.unwrap_or_else(|| pipe_bytes(sink.as_fd())))
}

/// `bytes` (at least 1) rounded up to whole units; too many to be mapped where there is no such
/// number, so that mapping them says so.
pub(crate) fn whole(bytes: usize, unit: usize) -> usize {
    bytes.max(1).checked_next_multiple_of(unit).unwrap_or(usize::MAX)
}

/// The size of a pipe; 0 for what is none.
pub(crate) fn pipe_bytes(pipe: BorrowedFd<'_>) -> usize {
    rustix::pipe::fcntl_getpipe_size(pipe).unwrap_or(0)
}

/// Why a pipe is smaller than `bytes`, if it is: the kernel is asked again.
pub(crate) fn refused_size(pipe: BorrowedFd<'_>, bytes: usize) -> Option<Refusal> {
    if pipe_bytes(pipe) >= bytes {
        return None;
    }
    endpoint::set_pipe_bytes(pipe, bytes).err()
}

/// A new pipe of our own of about `bytes`, or of what the kernel leaves us: where it is read and written, and
/// how many bytes it holds.
pub(crate) fn own_pipe(bytes: usize) -> Result<(OwnedFd, OwnedFd, usize), Stop> {
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
        .map_err(|errno| Stop::Declined(Refusal::errno("no pipe of our own", errno)))?;
    // A refusal (fs.pipe-user-pages-soft used up) leaves the size it has, which also works.
    let bytes = endpoint::set_pipe_bytes(writer.as_fd(), bytes)
        .or_else(|_| rustix::pipe::fcntl_getpipe_size(&writer))
        .unwrap_or(rustix::pipe::PIPE_BUF);
    Ok((reader, writer, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_repeat_from_any_offset() {
        for (offset, wanted) in [(4, &b"bcabcabc"[..]), (0, b"a"), (5, b"ca"), (3, b"")] {
            let mut buffer = vec![0; wanted.len()];
            Contents::Repeat(b"abc").fill(offset, &mut buffer);
            assert_eq!(buffer, wanted, "from {offset}");
        }
    }
}
