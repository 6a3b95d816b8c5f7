//! `vmsplice`: lends our pages to the pipe, and uses them again.
//!
//! Costs per chunk: one system call, and in a stream another one that asks how large the pipe is; per
//! page a walk of the page table and one reference (get_user_pages), no copy. The scheme is that of the pipe ladder published by Francesco
//! Mazzoli in 2022 (after FizzBuzz programs of 2020): the buffers hold more than the pipe does, so
//! that a page which comes round again has been taken out of the pipe. It does not prove that
//! nobody holds it: a reader that splices onward does. So this outlet is only ever named, never
//! chosen; `gift` is the sound one.

use std::ops::Range;
use std::os::fd::AsFd;

use crate::endpoint::Endpoint;
use crate::error::{Refusal, Stop};
use crate::outlets::lend::Lender;
use crate::outlets::{
    Buffers, Given, Outlet, Producer, Setup, Shape, Use, pipe_only, refused_size, size_pipe, whole,
};
use crate::pages::{Memory, PageSize, Pages, page_bytes};
use crate::routes::Aliasing;
use crate::seal::Sealed;
use crate::sys::memory::Loan;

/// See the module.
pub(super) struct Vmsplice;

const NAME: &str = "vmsplice";

/// Buffers that take turns when repeating.
const TURNS: usize = 2;

impl Sealed for Vmsplice {}

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
        let period = setup.contents.period()?;
        // Half a buffer, as published: then a page comes round when the pipe has let go of it.
        let wished_bytes = setup.buf_bytes / TURNS;
        let pipe_bytes = size_pipe(sink, setup.pipe_bytes, Some(wished_bytes))?;
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
            lender: Lender::new(NAME, sink, setup),
            turns: Turns::new(setup, turn_bytes)?,
            turn: 0,
            at: 0,
            ring: None,
            given: Given::default(),
            pages: setup.pages,
            shape,
            wished_bytes: setup.pipe_bytes.unwrap_or(wished_bytes),
        }))
    }
}

/// The buffers that take turns when repeating: in a mapping each, or in one.
struct Turns {
    mappings: Vec<Memory>,
    buffer_bytes: usize,
}

impl Turns {
    fn new(setup: &Setup<'_>, buffer_bytes: usize) -> Result<Turns, Stop> {
        let (mappings, bytes) = match setup.buffers {
            Buffers::Apart => (TURNS, buffer_bytes),
            Buffers::Together => (1, buffer_bytes.saturating_mul(TURNS)),
        };
        let mapped = |_| -> Result<Memory, Stop> {
            let mut memory = Memory::allocate(bytes, &setup.pages)
                .map_err(|error| Stop::Declined(Refusal::because(error.to_string())))?;
            setup.contents.fill(0, memory.as_mut_slice());
            Ok(memory)
        };
        let mappings = (0..mappings).map(mapped).collect::<Result<_, Stop>>()?;
        Ok(Turns { mappings, buffer_bytes })
    }

    /// A range of the buffer of this turn.
    #[inline(always)]
    fn loan(&self, turn: usize, range: Range<usize>) -> Loan<'_> {
        let (mapping, before) = match self.mappings.len() {
            1 => (0, turn * self.buffer_bytes),
            _ => (turn, 0),
        };
        self.mappings[mapping].mapping().loan(before + range.start..before + range.end)
    }
}

struct Lending<'a> {
    lender: Lender<'a>,
    turns: Turns,
    /// Whose turn it is, and where in that buffer the next piece starts.
    turn: usize,
    at: usize,
    ring: Option<Ring>,
    given: Given,
    pages: Pages,
    shape: Shape,
    /// The size that the pipe should have.
    wished_bytes: usize,
}

impl Sealed for Lending<'_> {}

impl Producer for Lending<'_> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn pipe_refused(&self) -> Option<Refusal> {
        refused_size(self.lender.end().as_fd(), self.wished_bytes)
    }

    #[inline(always)]
    fn repeat_some(&mut self, most: u64) -> Result<u64, Stop> {
        let chunk = self.shape.chunk_bytes;
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(chunk - self.at);
        if len == 0 {
            return Ok(0);
        }
        let count = self.lender.some(self.turns.loan(self.turn, self.at..self.at + len))?;
        self.at += count;
        if self.at == chunk {
            (self.at, self.turn) = (0, (self.turn + 1) % TURNS);
        }
        Ok(count as u64)
    }

    fn room(&mut self) -> Result<Option<&mut [u8]>, Stop> {
        let pipe_bytes = self.lender.pipe_bytes();
        if self.ring.as_ref().is_none_or(|ring| ring.pipe_bytes < pipe_bytes) {
            self.shape.pipe_bytes = pipe_bytes;
            self.ring = Some(Ring::new(&self.shape, &self.pages)?);
        }
        Ok(self.ring.as_mut().map(|ring| self.given.room(ring.room())))
    }

    fn send(&mut self, len: usize) -> Result<(), Stop> {
        self.given.sends(len);
        let Some(ring) = &mut self.ring else { return Ok(()) };
        let (lent, outcome) = self.lender.all(&ring.memory, ring.at..ring.at + len);
        // After a failure too: what was lent is not to be written now.
        ring.advance(lent);
        outcome
    }
}

/// Memory for a stream: pages are used in turn, and come round after the pipe has let go of them.
///
/// Every page sent takes a slot of the pipe at least, so a page is out of the pipe once as many
/// pages were sent after it as the pipe has slots. The ring holds the pipe's slots and two chunks
/// (one being filled, one lost at the wrap at most). Whoever holds the pipe may enlarge it at any time,
/// and what was out of it before still is: so its size is asked for before each chunk, and the next one
/// begins a larger ring.
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
