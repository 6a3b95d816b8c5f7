//! `vmsplice`: lends our pages to the pipe, and uses them again.
//!
//! Costs per chunk: one system call; per page a walk of the page table and one reference
//! (get_user_pages), no copy. The scheme is that of the pipe ladder published by Francesco
//! Mazzoli in 2022 (after FizzBuzz programs of 2020): the buffers hold more than the pipe does, so
//! that a page which comes round again has been taken out of the pipe. It does not prove that
//! nobody holds it: a reader that splices onward does. So this outlet is only ever named, never
//! chosen; `gift` is the sound one.

use std::os::fd::AsFd;

use rustix::pipe::SpliceFlags;

use crate::endpoint::Endpoint;
use crate::error::{Refusal, Stop};
use crate::outlets::write::with_rest;
use crate::outlets::{
    Buffers, Outlet, Producer, Setup, Shape, Sink, Use, pipe_bytes, pipe_only, size_pipe, whole,
};
use crate::pages::{Memory, PageSize, Pages, page_bytes};
use crate::routes::Aliasing;

/// See the module.
pub(super) struct Vmsplice;

const NAME: &str = "vmsplice";

/// Buffers that take turns when repeating.
const TURNS: usize = 2;

impl Outlet for Vmsplice {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "vmsplice(2): lends pages and uses them again; unsound if the reader splices onward"
    }

    fn aliasing(&self) -> Aliasing {
        Aliasing::Memory
    }

    fn used_for(&self) -> Use {
        Use::Streams
    }

    fn suits(&self, sink: &Endpoint<'_>) -> Result<(), Refusal> {
        pipe_only(NAME, sink)
    }

    fn open<'a>(
        &self,
        sink: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Producer + 'a>, Stop> {
        self.suits(sink).map_err(Stop::Declined)?;
        // Half a buffer, as published: then a page comes round when the pipe has let go of it.
        let pipe_bytes = size_pipe(sink, setup.pipe_bytes, Some(setup.buf_bytes / TURNS))?;
        let period = setup.contents.period();
        let turn_bytes = match setup.buffers {
            Buffers::Apart => setup.buf_bytes,
            Buffers::Together => setup.buf_bytes / TURNS,
        };
        let turn_bytes = whole(turn_bytes, period);
        let shape = Shape {
            chunk_bytes: turn_bytes,
            pipe_bytes,
            slot_bytes: page_bytes(PageSize::Base),
            period_bytes: period,
        };
        Ok(Box::new(Lending {
            sink: Sink::new(NAME, sink, setup),
            turns: turns(setup, turn_bytes)?,
            turn: 0,
            at: 0,
            ring: None,
            pages: setup.pages,
            flags: flags(setup),
            shape,
        }))
    }
}

/// The flags of each vmsplice.
pub(super) fn flags(setup: &Setup<'_>) -> SpliceFlags {
    let nonblock = setup.wait.spins() || setup.cancel.is_some();
    let mut flags = SpliceFlags::empty();
    flags.set(SpliceFlags::NONBLOCK, nonblock);
    flags.set(SpliceFlags::GIFT, setup.gift_flag);
    flags
}

fn turns(setup: &Setup<'_>, turn_bytes: usize) -> Result<Vec<Turn>, Stop> {
    let declined =
        |error: crate::pages::PagesError| Stop::Declined(Refusal::because(error.to_string()));
    let mapped = |bytes| -> Result<Memory, Stop> {
        let mut memory = Memory::allocate(bytes, &setup.pages).map_err(declined)?;
        setup.contents.fill(0, memory.as_mut_slice());
        Ok(memory)
    };
    Ok(match setup.buffers {
        Buffers::Apart => {
            vec![Turn::new(mapped(turn_bytes)?, 1), Turn::new(mapped(turn_bytes)?, 1)]
        }
        Buffers::Together => vec![Turn::new(mapped(turn_bytes.saturating_mul(TURNS))?, TURNS)],
    })
}

/// A mapping that serves one or more turns.
struct Turn {
    memory: Memory,
    parts: usize,
}

impl Turn {
    fn new(memory: Memory, parts: usize) -> Self {
        Turn { memory, parts }
    }
}

struct Lending<'a> {
    sink: Sink<'a>,
    turns: Vec<Turn>,
    turn: usize,
    /// Where in the turn's mapping the next piece starts.
    at: usize,
    ring: Option<Ring>,
    pages: Pages,
    flags: SpliceFlags,
    shape: Shape,
}

impl Producer for Lending<'_> {
    fn shape(&self) -> Shape {
        self.shape
    }

    #[inline(always)]
    fn repeat_some(&mut self, most: u64) -> Result<u64, Stop> {
        let chunk = self.shape.chunk_bytes;
        let turn = &self.turns[self.turn];
        let part_end = (self.at / chunk + 1) * chunk;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let range = self.at..part_end.min(self.at.saturating_add(most));
        let (mapping, flags) = (turn.memory.mapping(), self.flags);
        let count = self
            .sink
            .until_moved("vmsplice", |sink| mapping.lend(sink.as_fd(), range.clone(), flags))?;
        self.at += count;
        if self.at == chunk * turn.parts {
            self.at = 0;
            self.turn = (self.turn + 1) % self.turns.len();
        }
        Ok(count as u64)
    }

    fn room(&mut self) -> Result<Option<&mut [u8]>, Stop> {
        let fits =
            |ring: &Ring| !ring.at_end() || pipe_bytes(self.sink.end.as_fd()) <= ring.pipe_bytes;
        if !self.ring.as_ref().is_some_and(fits) {
            self.shape.pipe_bytes = pipe_bytes(self.sink.end.as_fd());
            self.ring = Some(Ring::new(&self.shape, &self.pages)?);
        }
        Ok(self.ring.as_mut().map(Ring::room))
    }

    fn send(&mut self, len: usize) -> Result<(), Stop> {
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let (start, end) = (ring.at, ring.at + len);
        let mut at = start;
        while at < end {
            let (mapping, flags, range) = (ring.memory.mapping(), self.flags, at..end);
            let moved = self
                .sink
                .until_moved("vmsplice", |sink| mapping.lend(sink.as_fd(), range.clone(), flags));
            match moved {
                Ok(count) => at += count,
                Err(stop) => {
                    let stop = with_rest(stop, &ring.memory.as_slice()[at..end]);
                    // What was lent is not to be written now either.
                    ring.advance(at - start);
                    return Err(stop);
                }
            }
        }
        ring.advance(len);
        Ok(())
    }
}

/// Memory for a stream: pages are used in turn, and come round after the pipe has let go of them.
///
/// Every page sent takes a slot of the pipe at least, so a page is out of the pipe once as many
/// pages were sent after it as the pipe has slots. The ring holds the pipe's slots and two chunks
/// (one being filled, one lost at the wrap at most). Whoever holds the pipe may enlarge it: that is
/// looked at whenever the ring comes round, and the next lap is made in a larger one.
struct Ring {
    memory: Memory,
    at: usize,
    chunk_bytes: usize,
    pipe_bytes: usize,
}

impl Ring {
    fn new(shape: &Shape, pages: &Pages) -> Result<Ring, Stop> {
        let page = page_bytes(PageSize::Base);
        let chunk_bytes = shape.chunk_bytes.next_multiple_of(page);
        let bytes = shape.pipe_bytes.next_multiple_of(page) + 2 * chunk_bytes;
        let memory = Memory::allocate(bytes, pages)
            .map_err(|error| Stop::Declined(Refusal::because(error.to_string())))?;
        Ok(Ring { memory, at: 0, chunk_bytes, pipe_bytes: shape.pipe_bytes })
    }

    /// Whether the next room is at the start again.
    fn at_end(&self) -> bool {
        self.at + self.chunk_bytes > self.memory.len()
    }

    fn room(&mut self) -> &mut [u8] {
        if self.at_end() {
            self.at = 0;
        }
        &mut self.memory.as_mut_slice()[self.at..self.at + self.chunk_bytes]
    }

    fn advance(&mut self, len: usize) {
        self.at += len.next_multiple_of(page_bytes(PageSize::Base));
    }
}
