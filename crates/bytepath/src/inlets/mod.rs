//! The ways from a descriptor into this process's memory, or away, one file each, and the list.

use std::os::fd::AsFd;

use rustix::io::Errno;

use crate::endpoint::Endpoint;
use crate::error::{Failed, Refusal, Side, Stop};
use crate::meter::Meter;
use crate::pages::Pages;
use crate::seal::Sealed;
use crate::wait::{Cancel, Ends, Wait, Waiter};

mod read;
mod splice_null;

pub use read::byte_sum;

/// Every inlet. The help, the tests and the experiments go through this list.
pub const INLETS: &[&dyn Inlet] = &[&read::READ, &splice_null::SpliceNull, &read::READ_TOUCH];

/// The inlet of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Inlet> {
    INLETS.iter().copied().find(|inlet| inlet.name() == name)
}

/// What an inlet is opened with.
#[derive(Debug, Clone, Copy)]
pub struct Setup<'a> {
    /// Bytes per call at most.
    pub buf_bytes: usize,
    /// The size of the pipe; `None` leaves it as it is.
    pub pipe_bytes: Option<usize>,
    /// The pages of the buffer.
    pub pages: Pages,
    /// Whether the buffer is left untouched before the first read.
    pub untouched: bool,
    /// SPLICE_F_MOVE on splice.
    pub move_flag: bool,
    /// What to do when the source is empty.
    pub wait: Wait,
    /// Whom to tell.
    pub meter: &'a Meter,
    /// Who may stop it.
    pub cancel: Option<&'a Cancel>,
}

impl<'a> Setup<'a> {
    /// The defaults: a 256 KiB buffer of base pages, blocking.
    pub fn new(meter: &'a Meter) -> Self {
        Setup {
            buf_bytes: crate::outlets::BUF_BYTES,
            pipe_bytes: None,
            pages: Pages::default(),
            untouched: false,
            move_flag: false,
            wait: Wait::Block,
            meter,
            cancel: None,
        }
    }
}

/// One way out of a descriptor. Made here only, as outlets are.
pub trait Inlet: Sync + Sealed {
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// What it does, in one line.
    fn summary(&self) -> &'static str;

    /// Whether it looks at the bytes; else it only takes them away.
    fn touches(&self) -> bool;

    /// Whether it works out of this kind of source. Asks nothing of the kernel.
    ///
    /// # Errors
    /// The rule that the source breaks.
    fn suits(&self, source: &Endpoint<'_>) -> Result<(), Refusal>;

    /// Makes its buffer, sets the pipe.
    ///
    /// # Errors
    /// Declined, with the reason.
    fn open<'a>(
        &self,
        source: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Consumer + 'a>, Stop>;
}

/// An inlet at work on a source. Made by [`Inlet::open`] only.
pub trait Consumer: Send + Sealed {
    /// Takes what is there, at most `most` bytes (above 0), in one call; 0 is the end.
    ///
    /// # Errors
    /// The source failed, or the mechanism is refused.
    fn take(&mut self, most: u64) -> Result<u64, Stop>;

    /// Takes `bytes`, or all until the end; how many came. The loop is here so that it is compiled
    /// into each consumer; see [`Producer::repeat`](crate::outlets::Producer::repeat).
    ///
    /// # Errors
    /// The source failed, or the mechanism is refused; the meter tells what came.
    fn take_all(&mut self, bytes: u64) -> Result<u64, Stop> {
        let mut left = bytes;
        while left > 0 {
            match self.take(left)? {
                0 => break,
                count => left -= count,
            }
        }
        Ok(bytes - left)
    }

    /// The bytes that the last call took; empty where they never enter this process's memory.
    fn bytes(&self) -> &[u8];

    /// The sum of all bytes taken, for inlets that touch them.
    fn checksum(&self) -> Option<u64>;
}

/// The source as consumers see it: a descriptor that is waited for.
pub(crate) struct Source<'a> {
    pub(crate) end: &'a Endpoint<'a>,
    waiter: Waiter<'a>,
    meter: &'a Meter,
    /// What the meter told at first.
    began_at: u64,
    name: &'static str,
    nonblocking: bool,
}

impl<'a> Source<'a> {
    pub(crate) fn open(
        name: &'static str,
        end: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Self, Stop> {
        if let Some(bytes) = setup.pipe_bytes {
            end.set_pipe_bytes(bytes).map_err(Stop::Declined)?;
        }
        let waiter = Waiter::new(setup.wait, setup.cancel, setup.meter);
        let (nonblocking, began_at) = (waiter.nonblocking(), setup.meter.bytes());
        Ok(Source { end, waiter, meter: setup.meter, began_at, name, nonblocking })
    }

    pub(crate) fn nonblocking(&self) -> bool {
        self.nonblocking
    }

    /// Makes `call` until it takes bytes or the source has ended, waiting in between as the setup
    /// says.
    #[inline(always)]
    pub(crate) fn until_moved(
        &mut self,
        call_name: &'static str,
        mut call: impl FnMut(&Endpoint<'_>) -> Result<usize, Errno>,
    ) -> Result<usize, Stop> {
        let ends = Ends::source(self.end.as_fd());
        loop {
            self.waiter.before(ends)?;
            match call(self.end) {
                Ok(count) => {
                    self.meter.moved(count as u64);
                    self.waiter.progressed();
                    return Ok(count);
                }
                Err(Errno::INTR) => self.meter.called(),
                Err(Errno::AGAIN) => self.waiter.stalled(ends)?,
                Err(errno) => return Err(self.failed(call_name, errno)),
            }
        }
    }

    fn failed(&self, call: &'static str, errno: Errno) -> Stop {
        match errno {
            Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM if call != "read" => {
                Stop::Declined(Refusal::errno(format!("{call} refuses this source"), errno))
            }
            _ => {
                let offset = self.meter.bytes().saturating_sub(self.began_at);
                Stop::Failed(Failed { offset, ..Failed::new(self.name, Side::Source, call, errno) })
            }
        }
    }
}
