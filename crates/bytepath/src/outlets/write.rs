//! `write` and `writev`: the kernel copies from our memory. Works into every kind of sink.
//!
//! Costs per chunk: one system call; into a pipe one copy and one page allocated and freed per
//! 4 KiB.

use std::io::IoSlice;
use std::os::fd::AsFd;

use crate::endpoint::{Blocking, Endpoint, Kind, write_now};
use crate::error::{Failed, Refusal, Stop};
use crate::outlets::{Given, Outlet, Producer, Setup, Shape, Sink, Use, size_pipe, whole};
use crate::pages::{Memory, PageSize, page_bytes};
use crate::routes::Aliasing;
use crate::seal::Sealed;

/// One buffer, written again and again.
pub(super) const WRITE: Write = Write {
    name: "write",
    summary: "write(2): copies from one buffer; works into every sink",
    slices: Slices::One,
};

/// Two half buffers in one call.
pub(super) const WRITEV: Write = Write {
    name: "writev",
    summary: "writev(2): copies from two halves of a buffer in one call; works into every sink",
    slices: Slices::Two,
};

/// See the module.
pub(super) struct Write {
    name: &'static str,
    summary: &'static str,
    slices: Slices,
}

impl Sealed for Write {}

impl Outlet for Write {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn aliasing(&self) -> Aliasing {
        Aliasing::None
    }

    fn used_for(&self) -> Use {
        Use::Streams
    }

    fn suits(&self, _: &Endpoint<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn open<'a>(
        &self,
        sink: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Producer + 'a>, Stop> {
        open(self.name, sink, setup, self.slices)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Slices {
    One,
    Two,
}

fn open<'a>(
    name: &'static str,
    sink: &'a Endpoint<'a>,
    setup: &Setup<'a>,
    slices: Slices,
) -> Result<Box<dyn Producer + 'a>, Stop> {
    let period = setup.contents.period()?;
    let pipe_bytes = size_pipe(sink, setup.pipe_bytes, None)?;
    // Whole periods, so that going round the buffer goes round the contents.
    let bytes = whole(setup.buf_bytes, period);
    let mut buffer = Memory::allocate(bytes, &setup.pages)
        .map_err(|error| Stop::Declined(Refusal::because(error.to_string())))?;
    setup.contents.fill(0, buffer.as_mut_slice());
    let shape = Shape {
        chunk_bytes: setup.buf_bytes.max(1),
        pipe_bytes,
        slot_bytes: page_bytes(PageSize::Base),
        period_bytes: period,
    };
    let (sink, given) = (Sink::new(name, sink, setup), Given::default());
    Ok(Box::new(Writing { sink, buffer, given, at: 0, shape, slices }))
}

struct Writing<'a> {
    sink: Sink<'a>,
    buffer: Memory,
    given: Given,
    at: usize,
    shape: Shape,
    slices: Slices,
}

impl Writing<'_> {
    fn write(&mut self, range: std::ops::Range<usize>) -> Result<usize, Stop> {
        let bytes = &self.buffer.as_slice()[range];
        let block = Blocking::unless(self.sink.nonblocking());
        match self.slices {
            Slices::One => self.sink.until_moved("write", |sink| sink.write_some(bytes, block)),
            Slices::Two => {
                let (first, second) = bytes.split_at(bytes.len() / 2);
                let slices = [IoSlice::new(first), IoSlice::new(second)];
                self.sink.until_moved("writev", |sink| match (block, sink.kind()) {
                    (Blocking::Yes, kind) if !kind.is_socket() => rustix::io::writev(sink, &slices),
                    (Blocking::No, Kind::Pipe) => write_now(sink.as_fd(), &slices),
                    _ => sink.write_some(bytes, block),
                })
            }
        }
    }
}

impl Sealed for Writing<'_> {}

impl Producer for Writing<'_> {
    fn shape(&self) -> Shape {
        self.shape
    }

    #[inline(always)]
    fn repeat_some(&mut self, most: u64) -> Result<u64, Stop> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.shape.chunk_bytes);
        if most == 0 {
            return Ok(0);
        }
        let end = self.buffer.len().min(self.at + most);
        let count = self.write(self.at..end)?;
        self.at = (self.at + count) % self.buffer.len();
        Ok(count as u64)
    }

    fn room(&mut self) -> Result<Option<&mut [u8]>, Stop> {
        let chunk = self.shape.chunk_bytes;
        Ok(Some(self.given.room(&mut self.buffer.as_mut_slice()[..chunk])))
    }

    fn send(&mut self, len: usize) -> Result<(), Stop> {
        self.given.sends(len);
        let mut at = 0;
        while at < len {
            match self.write(at..len) {
                Ok(count) => at += count,
                Err(stop) => return Err(with_rest(stop, &self.buffer.as_slice()[at..len])),
            }
        }
        Ok(())
    }
}

/// The stop with the bytes of the room that did not go.
pub(super) fn with_rest(stop: Stop, rest: &[u8]) -> Stop {
    match stop {
        Stop::Failed(failed) => Stop::Failed(Failed { stranded: rest.into(), ..failed }),
        Stop::Cancelled { .. } => Stop::Cancelled { stranded: rest.into() },
        stop => stop,
    }
}
